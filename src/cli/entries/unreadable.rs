//! `entries delete --hash`: deletes an entry that cannot be read, so that its content cannot be shown before.

use crate::cli::client::Client;
use crate::cli::confirm::confirm;
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry;
use crate::cli::text::{clean, quoted};
use crate::proto;

/// What to delete, and why.
pub(super) struct DeleteByHash {
    /// The hash of the entry's key.
    pub(super) hash: String,
    /// Why, for the audit.
    pub(super) reason: String,
    /// The operator's own id; `None` for a random one.
    pub(super) request_id: Option<String>,
    /// Skip the confirmation prompt.
    pub(super) yes: bool,
}

pub(super) async fn delete(client: &Client, asked: DeleteByHash) -> Result<Exit, Problem> {
    let DeleteByHash { hash, reason, request_id, yes } = asked;
    let admin = client.connect().await?;
    let what = "forget an entry that cannot be read: a later delivery of its message is new, and may have its effect again";
    confirm(client, &format!("{what}?"), yes)?;
    let request_id = request_id.unwrap_or_else(retry::id);
    let request = proto::DeleteEntryRequest {
        key: None,
        request_id: request_id.clone(),
        expected_version: 0,
        reason,
        force: true,
        key_hash: hash.clone(),
    };
    let call = || {
        let (mut admin, request) = (admin.clone(), client.request(request.clone()));
        async move { admin.delete_entry(request).await }
    };
    let known = retry::until_known(call).await.map_err(|status| {
        let problem = Problem::of(&status);
        if retry::unknown(&status) {
            let again = quoted(&request_id);
            return problem
                .next(format!("it may have been done: repeat the same command with --request-id {again}"));
        }
        problem
    })?;
    if client.output.json() {
        client.output.message("DeleteEntryResponse", &known.answer)?;
        return Ok(Exit::Done);
    }
    let repeat = if known.answer.replayed && !known.repeated {
        " (it had been done before; this repeat changed nothing)"
    } else {
        ""
    };
    client.output.line(&format!("the entry with key hash {} is gone now{repeat}", clean(&hash)))?;
    Ok(Exit::Done)
}
