//! A consumer of Kafka. The package for Rust has no adapter: this is what a program does itself with the outcomes.
//!
//! It takes a few messages at a time, processes them concurrently, and commits each partition up to its first message that is not
//! done. A message that comes later stops its partition: the position goes back to that message, and the partition is paused until
//! the message is due. The messages after it are delivered again, and the ledger answers that they are completed.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use handler::{Consumer, GRACE};
use idempotency_ledger_client::{Advice, Error as LedgerError, Key};
use krafka::{
    CloseOptions, Kafka, Record,
    consumer::{
        AutoOffsetReset, Consumer as Group, ConsumerRecord, IsolationLevel, OffsetAndMetadata,
        PartitionAssignmentStrategy, TopicPartition,
    },
    error::KrafkaError,
    producer::{Acks, Producer},
};
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

const TOPIC: &str = "orders";
const DEAD_LETTERS: &str = "orders.dead";
const CONCURRENCY: i32 = 4;
const LEAVE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(100);
/// Until a message is processed again whose copy was not confirmed, and until the broker is asked again.
const AGAIN: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let consumer = Consumer::start()?;
    let kafka = Kafka::builder(&*consumer.broker).connect().await?;
    let group = kafka
        .consumer("payments")
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .enable_auto_commit(false)
        .isolation_level(IsolationLevel::ReadCommitted)
        .max_poll_records(CONCURRENCY)
        .session_timeout(Consumer::wait()?)
        .heartbeat_interval(Duration::from_millis(250))
        // Consumers in other languages are members of the same group.
        .partition_assignment_strategies([
            PartitionAssignmentStrategy::Range,
            PartitionAssignmentStrategy::RoundRobin,
        ])
        .build()
        .await?;
    let producer = Arc::new(kafka.producer().acks(Acks::All).build().await?);
    group.subscribe([TOPIC]).await?;
    let mut paused: HashMap<i32, Instant> = HashMap::new();
    while !consumer.stop.is_requested() {
        for (partition, _) in paused.extract_if(|_, due| *due <= Instant::now()) {
            group.resume(TOPIC, &[partition]).await;
        }
        match group.poll(POLL).await {
            Ok(records) => paused.extend(settle(&consumer, &group, &producer, records).await?),
            Err(error) => refused("messages cannot be read for now", error).await?,
        }
    }
    // While the group rebalances the coordinator may not answer: then it waits for the end of the session.
    if let Err(error) = group.close_with(CloseOptions::new().timeout(LEAVE)).await {
        eprintln!("the group was not left: {error}");
    }
    producer.close().await?;
    consumer.ledger.close(GRACE).await;
    Ok(())
}

/// Processes messages, and commits what is done; the partitions that are paused, and until when.
async fn settle(
    consumer: &Consumer,
    group: &Group,
    producer: &Arc<Producer>,
    records: Vec<ConsumerRecord>,
) -> Result<HashMap<i32, Instant>, Box<dyn Error>> {
    let mut running = JoinSet::new();
    let mut ends: BTreeMap<i32, i64> = BTreeMap::new();
    for record in records {
        let end = ends.entry(record.partition).or_default();
        *end = (*end).max(record.offset + 1);
        let (consumer, producer) = (consumer.clone(), Arc::clone(producer));
        running.spawn(async move {
            (record.partition, record.offset, processed(consumer, producer, record).await)
        });
    }
    let mut holes: BTreeMap<i32, (i64, Instant)> = BTreeMap::new();
    while let Some(settled) = running.join_next().await {
        let (partition, offset, later) = settled?;
        let Some(delay) = later? else { continue };
        let hole = holes.entry(partition).or_insert((offset, Instant::now() + delay));
        if offset < hole.0 {
            *hole = (offset, Instant::now() + delay);
        }
    }
    for (partition, (hole, _)) in &holes {
        ends.insert(*partition, *hole);
        // Refused where the partition belongs to another consumer by now: that one has the message again.
        if group.seek(TOPIC, *partition, *hole).await.is_ok() {
            group.pause(TOPIC, &[*partition]).await;
        }
    }
    let done = ends
        .into_iter()
        .map(|(partition, end)| (TopicPartition::new(TOPIC, partition), OffsetAndMetadata::new(end)));
    if let Err(error) = group.commit_offsets(done).await {
        // The messages are delivered again.
        refused("offsets are not committed", error).await?;
    }
    Ok(holes.into_iter().map(|(partition, (_, due))| (partition, due)).collect())
}

/// After which time the message comes again. `None` if it is done.
async fn processed(
    consumer: Consumer,
    producer: Arc<Producer>,
    record: ConsumerRecord,
) -> Result<Option<Duration>, LedgerError> {
    let body = record.value.clone().unwrap_or_default();
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    let key = Key::from_cloud_event(|name| event.get(name)?.as_str().map(str::to_owned));
    let ledger = consumer.ledger.clone();
    let outcome = ledger.process(key.body(&body), |claim| consumer.pay(claim, event)).await?;
    Ok(match outcome.advice {
        Advice::Ack => None,
        // The ledger names the end of the lease, but the partition's former owner may end the attempt before.
        Advice::RetryLater { after } if outcome.reason.as_deref() == Some("in_progress") => Some(after.min(AGAIN)),
        Advice::RetryLater { after } => Some(after),
        Advice::DeadLetter => {
            let mut copy = Record::new(DEAD_LETTERS, body);
            (copy.key, copy.headers) = (record.key, record.headers);
            let copy = copy.header("dead-letter-reason", outcome.reason.unwrap_or_default());
            producer.send(copy).await.err().map(|error| {
                eprintln!("a dead letter is not stored: {error}");
                AGAIN
            })
        }
    })
}

/// Waits where a repeat may succeed.
async fn refused(what: &str, error: KrafkaError) -> Result<(), KrafkaError> {
    if error.is_fatal() {
        return Err(error);
    }
    eprintln!("{what}: {error}");
    sleep(AGAIN).await;
    Ok(())
}
