//! Stands for a provider that knows idempotency keys.

use std::io;

use crate::lines::{gone_on, say};

pub(crate) async fn charge(body: &[u8], idempotency_key: &str) -> Result<String, io::Error> {
    let id = String::from_utf8(body.to_vec()).map_err(io::Error::other)?;
    let call = format!("charge-{id}");
    // The provider knows no token; the sink counts the effects by their key.
    say!("effect", call: call, id: id, token: "0", idempotency_key: idempotency_key);
    gone_on(&call).await;
    Ok("paid".to_owned())
}
