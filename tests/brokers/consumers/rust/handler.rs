//! What each consumer in Rust does with a message: an effect in three sinks, or a failure of a poisonous one. The sinks are those
//! of `examples/consumer/sinks.py`.

use std::{
    collections::HashMap,
    env,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use idempotency_ledger_client::{Claim, Connection, Ledger, Shutdown, Steer};
use rusqlite::{Connection as Database, ToSql};
use serde_json::Value;
use tokio::{task::spawn_blocking, time::sleep};

/// Long enough for a kill to hit it.
const EFFECT: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_secs(10);
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS plain (id TEXT);
CREATE TABLE IF NOT EXISTS fenced (id TEXT PRIMARY KEY, token INTEGER);
CREATE TABLE IF NOT EXISTS refused (id TEXT, token INTEGER);
CREATE TABLE IF NOT EXISTS deduplicating (key TEXT PRIMARY KEY, id TEXT);
";

/// How long a stop may take.
pub const GRACE: Duration = Duration::from_secs(10);

/// The process of one consumer.
#[derive(Clone)]
pub struct Consumer {
    /// The broker's address.
    pub broker: String,
    /// Asked to stop by the test.
    pub stop: Shutdown,
    /// The client.
    pub ledger: Ledger,
    sinks: Sinks,
}

impl Consumer {
    /// From then on the test may ask the process to stop.
    ///
    /// # Errors
    /// A missing argument, or a client that cannot be made.
    pub fn start() -> Result<Self, Box<dyn Error>> {
        let stop = Shutdown::new(GRACE)?;
        println!("{} consumes", std::process::id());
        let given: Vec<String> = env::args().skip(1).collect();
        let options: HashMap<&str, &str> =
            given.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let option = |name: &str| options.get(name).copied().ok_or_else(|| format!("{name} is missing"));
        let ledger = Ledger::builder("payments").connection(Connection::to(option("--ledger")?)).build()?;
        Ok(Self {
            broker: option("--broker")?.to_owned(),
            stop,
            ledger,
            sinks: Sinks::open(option("--sinks")?)?,
        })
    }

    /// The time until the broker gives to another consumer what this one holds: the end of its session.
    ///
    /// # Errors
    /// The variable `BROKER_WAIT` is not a number.
    pub fn wait() -> Result<Duration, Box<dyn Error>> {
        Ok(Duration::from_secs_f64(env::var("BROKER_WAIT")?.parse()?))
    }

    /// Has the effect of a message.
    ///
    /// # Errors
    /// A poisonous message, and sinks that cannot be written.
    pub async fn pay(self, claim: Claim, event: Value) -> Result<&'static str, Steer> {
        if event["type"] == "poison" {
            return Err(Steer::Retry {
                reason: Some("this message cannot be processed".to_owned()),
                after: None,
            });
        }
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        self.sinks.write("INSERT INTO plain VALUES (?1)", [text(&id)]).await?;
        sleep(event["takes"].as_u64().filter(|takes| *takes > 0).map_or(EFFECT, Duration::from_millis)).await;
        let fenced = "INSERT INTO fenced VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET token = excluded.token \
                      WHERE excluded.token >= token";
        if self.sinks.write(fenced, [text(&id), Box::new(claim.token())]).await? == 0 {
            let refused = "INSERT INTO refused VALUES (?1, ?2)";
            self.sinks.write(refused, [text(&id), Box::new(claim.token())]).await?;
        }
        let deduplicating = "INSERT OR IGNORE INTO deduplicating VALUES (?1, ?2)";
        self.sinks.write(deduplicating, [text(claim.idempotency_key()), text(&id)]).await?;
        sleep(EFFECT).await;
        Ok("done")
    }
}

type Parameter = Box<dyn ToSql + Send>;

fn text(value: &str) -> Parameter {
    Box::new(value.to_owned())
}

#[derive(Clone)]
struct Sinks(Arc<Mutex<Database>>);

impl Sinks {
    fn open(file: &str) -> Result<Self, rusqlite::Error> {
        let database = Database::open(file)?;
        database.busy_timeout(BUSY)?;
        database.execute_batch(SCHEMA)?;
        Ok(Self(Arc::new(Mutex::new(database))))
    }

    /// The number of rows that the statement has changed.
    async fn write<const N: usize>(
        &self,
        statement: &'static str,
        values: [Parameter; N],
    ) -> Result<usize, Steer> {
        let database = Arc::clone(&self.0);
        let write = move || {
            let values = values.each_ref().map(|value| value.as_ref() as &dyn ToSql);
            database.lock().unwrap_or_else(PoisonError::into_inner).execute(statement, values.as_slice())
        };
        Ok(spawn_blocking(write).await??)
    }
}
