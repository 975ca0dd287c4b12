//! The findings of `policy lint` before a change is made.

use super::mistakes::warnings;
use super::observed::look;
use crate::cli::client::{Admin, Client};
use crate::cli::output::TextStyle;
use crate::cli::text::clean;
use crate::proto;

/// Prints the known mistakes of a policy that is about to be set. The change does not depend on them: where
/// they cannot be determined, the command prints a note and continues.
pub(super) async fn warn(client: &Client, admin: &mut Admin, consumer: &str, policy: &proto::Policy) {
    let output = client.output;
    if output.json() {
        return;
    }
    let observed = look(client, admin, consumer).await.unwrap_or_else(|problem| {
        output.note(&format!("note: the lease is not compared with what handlers take: {}", problem.text));
        None
    });
    for (field, text) in warnings(policy, observed) {
        let warning = output.styled("warning:", TextStyle::Doubtful);
        output.note(&format!("{warning} {}: {field}: {}", clean(consumer), clean(&text)));
    }
}
