//! `try`: the life of one claim as a demo, call by call, as a consumer makes it.

use clap::Args;
use prost::Message;

use super::client::{Client, ConsumerClient};
use super::enums;
use super::problem::{Exit, Problem};
use super::retry;
use crate::proto::{self, EntryKey, claim_response::Verdict};

/// The result that is stored.
const RESULT: &[u8] = b"paid";

/// What is claimed.
#[derive(Args)]
pub(super) struct Demo {
    /// The consumer in whose name the message is claimed; the message has a new id each time
    #[arg(long, default_value = "quickstart", value_name = "NAME")]
    consumer: String,
}

impl Demo {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        let mut ledger = client.connect_ledger().await?;
        let id = format!("order-{}", retry::id());
        let key =
            EntryKey { consumer: self.consumer.clone(), source: "try".to_owned(), id, ..EntryKey::default() };
        let first = claim(&client, &mut ledger, &key).await?;
        let Some(Verdict::Acquired(acquired)) = &first.verdict else { return unexpected(&client, &first) };
        say(&client, &first, "Claim", "acquired", "the first delivery")?;
        let token = acquired.token;
        let done = self.goes_on(&client, &mut ledger, &key, token).await;
        if done.is_err() {
            // The message is not processed: its claim is released, as far as that is possible.
            let request = proto::ReleaseRequest {
                key: Some(key),
                token,
                delay: None,
                unpin_fingerprint: false,
                event_type: String::new(),
            };
            let _given_back = ledger.release(client.request(request)).await.is_ok();
        }
        done
    }

    /// The steps after the grant.
    async fn goes_on(
        &self,
        client: &Client,
        ledger: &mut ConsumerClient,
        key: &EntryKey,
        token: i64,
    ) -> Result<Exit, Problem> {
        let second = claim(client, ledger, key).await?;
        let Some(Verdict::InProgress(_)) = &second.verdict else { return unexpected(client, &second) };
        say(client, &second, "Claim", "in_progress", "the same message again, meanwhile")?;
        let request = proto::CompleteRequest {
            key: Some(key.clone()),
            token,
            result: RESULT.into(),
            result_left_out: false,
            event_type: String::new(),
        };
        let done = retry::until_known(|| {
            let (mut ledger, request) = (ledger.clone(), client.request(request.clone()));
            async move { ledger.complete(request).await }
        });
        let done = done.await.map_err(|status| Problem::of(&status))?.answer;
        line(client, "CompleteResponse", &done, "Complete", "OK", done.advice, "its effect is done")?;
        let third = claim(client, ledger, key).await?;
        let Some(Verdict::Completed(completed)) = &third.verdict else { return unexpected(client, &third) };
        let result = String::from_utf8_lossy(&completed.result);
        say(client, &third, "Claim", "completed", &format!("delivered again; its result: {result}"))?;
        client.output.note(&format!(
            "See what the ledger holds now: {} entries list --consumer {}",
            client.program(),
            super::text::quoted(&self.consumer)
        ));
        Ok(Exit::Done)
    }
}

/// A delivery of the message: each has its own claim id.
async fn claim(
    client: &Client,
    ledger: &mut ConsumerClient,
    key: &EntryKey,
) -> Result<proto::ClaimResponse, Problem> {
    let request = proto::ClaimRequest {
        key: Some(key.clone()),
        claim_id: retry::id(),
        owner: "try".to_owned(),
        ..proto::ClaimRequest::default()
    };
    let answer = retry::until_known(|| {
        let (mut ledger, request) = (ledger.clone(), client.request(request.clone()));
        async move { ledger.claim(request).await }
    });
    Ok(answer.await.map_err(|status| Problem::of(&status))?.answer)
}

fn say(
    client: &Client,
    answer: &proto::ClaimResponse,
    call: &str,
    verdict: &str,
    why: &str,
) -> Result<(), Problem> {
    line(client, "ClaimResponse", answer, call, verdict, answer.advice, why)
}

fn line<M: Message>(
    client: &Client,
    message: &str,
    answer: &M,
    call: &str,
    verdict: &str,
    advice: i32,
    why: &str,
) -> Result<(), Problem> {
    if client.output.json() {
        return client.output.message(message, answer);
    }
    client.output.line(&format!("{call:<9} -> {verdict:<12} {:<13} {why}", enums::advice(advice)))
}

/// Reports a verdict that is not the expected one, for example because of the consumer's policy or quota.
fn unexpected(client: &Client, answer: &proto::ClaimResponse) -> Result<Exit, Problem> {
    let text = super::json::text("ClaimResponse", answer)?;
    let problem =
        Problem::failed(format!("{}: the answer to Claim was another one: {text}", client.server()));
    Err(problem.next("try a consumer without its own policy: --consumer NAME"))
}
