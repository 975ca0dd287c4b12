//! What `policy lint` finds, before a change is made.

use super::mistakes::warnings;
use super::observed::look;
use crate::cli::client::{Admin, Client};
use crate::cli::screen::Tone;
use crate::cli::text::clean;
use crate::proto;

/// Prints the known mistakes of a policy that is about to be set. The change does not depend on them: where they cannot be
/// looked for, the command says so, and goes on.
pub(super) async fn warn(client: &Client, admin: &mut Admin, consumer: &str, policy: &proto::Policy) {
    let screen = client.screen;
    if screen.json() {
        return;
    }
    let observed = look(client, admin, consumer).await.unwrap_or_else(|problem| {
        screen.note(&format!("note: the lease is not compared with what handlers take: {}", problem.text));
        None
    });
    for (field, text) in warnings(policy, observed) {
        let warning = screen.toned("warning:", Tone::Doubtful);
        screen.note(&format!("{warning} {}: {field}: {}", clean(consumer), clean(&text)));
    }
}
