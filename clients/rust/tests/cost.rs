//! What a message costs: `process` with a trivial handler, next to bare calls that do Claim and Complete; and what a client
//! takes at rest.
//!
//!     cargo run --release --example cost -- HOST:PORT [MESSAGES]

use std::{env, error::Error, fs, time::Duration};

use idempotency_ledger_client::{Advice, Connection, Key, Ledger};
use prost::Message;
use tokio::task::JoinSet;
use tonic::{
    Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use uuid::Uuid;

#[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
mod pb {
    include!("../src/proto/idempotency.ledger.v1.rs");
}

type Done = Result<(), Box<dyn Error + Send + Sync>>;
const CONSUMER: &str = "cost";
/// As `sysconf(_SC_CLK_TCK)` has it on Linux.
const TICKS: f64 = 100.0;
const LANES: usize = 16;

/// The CPU time of this process so far, in microseconds, to a hundredth of a second.
fn cpu() -> Result<f64, Box<dyn Error + Send + Sync>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, after) = stat.rsplit_once(')').ok_or("no name")?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / TICKS * 1e6)
}

fn at_rest(when: &str) -> Done {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = |name: &str| {
        status.lines().find(|line| line.starts_with(name)).unwrap_or_default().replace('\t', " ")
    };
    println!("{when}: {}, {}", line("Threads"), line("VmRSS"));
    Ok(())
}

async fn call<Q, A>(
    grpc: &mut Grpc<Channel>,
    method: &'static str,
    request: Q,
) -> Result<A, Box<dyn Error + Send + Sync>>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    grpc.ready().await?;
    let mut request = Request::new(request);
    request.set_timeout(Duration::from_secs(5));
    let codec: ProstCodec<Q, A> = ProstCodec::default();
    Ok(grpc.unary(request, PathAndQuery::from_static(method), codec).await?.into_inner())
}

async fn bare(channel: Channel, run: Uuid, from: usize, messages: usize) -> Done {
    let mut grpc = Grpc::new(channel);
    for at in (from..messages).step_by(LANES) {
        let key = pb::EntryKey {
            consumer: CONSUMER.to_owned(),
            source: "bare".to_owned(),
            id: format!("{run}-{at}"),
            replay_run: String::new(),
        };
        let claim_id = Uuid::new_v4().to_string();
        let claim = pb::ClaimRequest { key: Some(key.clone()), claim_id, ..pb::ClaimRequest::default() };
        let method = "/idempotency.ledger.v1.LedgerService/Claim";
        let answer: pb::ClaimResponse = call(&mut grpc, method, claim).await?;
        let Some(pb::claim_response::Verdict::Acquired(granted)) = answer.verdict else {
            return Err("not granted".into());
        };
        let token = granted.token;
        let complete = pb::CompleteRequest { key: Some(key), token, ..pb::CompleteRequest::default() };
        let method = "/idempotency.ledger.v1.LedgerService/Complete";
        let _: pb::CompleteResponse = call(&mut grpc, method, complete).await?;
    }
    Ok(())
}

async fn processed(ledger: Ledger, run: Uuid, from: usize, messages: usize) -> Done {
    for at in (from..messages).step_by(LANES) {
        let outcome = ledger.process(Key::of("process", format!("{run}-{at}")), async |_| Ok(())).await?;
        if outcome.advice != Advice::Ack {
            return Err(format!("{outcome:?}").into());
        }
    }
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Done {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().ok_or("cost HOST:PORT [MESSAGES]")?;
    let messages = arguments.next().map_or(Ok(20_000), |number| number.parse::<usize>())?;
    let run = Uuid::new_v4();
    at_rest("before a client")?;
    let ledger = Ledger::builder(CONSUMER).connection(Connection::to(&address)).build()?;
    ledger.process(Key::of("process", run.to_string()), async |_| Ok(())).await?;
    at_rest("a client at rest")?;
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let each = |cost: f64| cost / f64::from(u32::try_from(messages).unwrap_or(u32::MAX));
    for round in 1..=3 {
        let (first, after) = (round * messages, (round + 1) * messages);
        let began = cpu()?;
        ended((0..LANES).map(|lane| bare(channel.clone(), run, first + lane, after)).collect()).await?;
        let between = cpu()?;
        ended((0..LANES).map(|lane| processed(ledger.clone(), run, first + lane, after)).collect()).await?;
        let end = cpu()?;
        println!(
            "bare {:.1} us, process {:.1} us of CPU a message",
            each(between - began),
            each(end - between)
        );
    }
    at_rest("a client after its messages")?;
    ledger.close(Duration::from_secs(5)).await;
    Ok(())
}

/// Waits for all of them.
async fn ended(mut works: JoinSet<Done>) -> Done {
    while let Some(done) = works.join_next().await {
        done??;
    }
    Ok(())
}
