//! The inbox example of the package's README, as it stands there, over a broker and a provider of the scenario.

mod example {
    pub(crate) mod broker;
    pub(crate) mod payments;
}
mod lines;

use example::{broker, payments};

include!(concat!(env!("OUT_DIR"), "/inbox_example.rs"));
