//! Any order, any number: what people write in a list, and what is listed on pages, does not depend on the order in which it
//! was written or made, nor on where its pages end. Commands are in `tests/it/cli/any_order.rs`.

mod certificates;
pub(crate) mod filled;
pub(crate) mod orders;
mod paged;
pub(crate) mod small_pages;
mod written;
