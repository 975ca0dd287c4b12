//! Whether the ledger knows a consumer: a name that was mistyped is a name like any other.

use super::client::{Admin, Client};
use crate::rpc::proto;

/// Says so when a consumer has neither entries nor a policy of its own. What can not be found out is not said.
pub(super) async fn note_unknown(client: &Client, admin: &mut Admin, consumer: &str) {
    let filter = Some(proto::EntryFilter { consumer: consumer.to_owned(), ..Default::default() });
    let any = proto::ListEntriesRequest { filter, page_size: 1, ..Default::default() };
    let Ok(page) = admin.list_entries(client.request(any)).await else { return };
    if !page.into_inner().entries.is_empty() {
        return;
    }
    let named = proto::GetPolicyRequest { consumer: consumer.to_owned() };
    let Ok(policy) = admin.get_policy(client.request(named)).await else { return };
    if policy.into_inner().policy.unwrap_or_default().source() == proto::PolicySource::Default {
        client.screen.note("note: the ledger knows no consumer of this name yet");
    }
}
