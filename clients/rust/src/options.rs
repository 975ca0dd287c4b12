//! The options of a client, checked before anything is sent.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    calls::message,
    connection::{Connection, Target},
    error::InvalidField,
    inbox::Message,
    key::{Delivery, Fingerprint, checked_text},
    proto as pb,
};

const LEASE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const OWNER_MAX: usize = 128;

/// What an error of a handler means that is none of [`Steer`](crate::Steer)'s own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    /// A person looks: it is unknown whether the effect happened.
    #[default]
    Park,
    /// The effect did not happen. Only where no error of the handler can follow its effect.
    Retry,
    /// The next attempt finds out. Only with a guard or a fence.
    Doubtful,
}

/// The options of a [`Ledger`](crate::Ledger): [`Ledger::builder`](crate::Ledger::builder) begins, [`build`](Self::build) ends.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    consumer: String,
    connection: Connection,
    lease: Option<Duration>,
    owner: Option<String>,
    unexpected: Meaning,
    repeat_announced: bool,
    handler_budget: Option<Duration>,
    ack_wait: Option<Duration>,
}

impl Builder {
    pub(crate) fn new(consumer: String) -> Self {
        Self {
            consumer,
            connection: Connection::default(),
            lease: None,
            owner: None,
            unexpected: Meaning::default(),
            repeat_announced: false,
            handler_budget: None,
            ack_wait: None,
        }
    }

    /// How the servers are reached. By default the environment says all of it.
    pub fn connection(mut self, connection: Connection) -> Self {
        self.connection = connection;
        self
    }

    /// How long a claim is held unless it is renewed, from 1 s to a day; it is renewed at a third of that. By default the
    /// policy's (30 s), which may bound it further.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Who asks, for people: 1 to 128 bytes. By default host and process.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// What an error of a handler means that does not steer, and a panic. By default [`Meaning::Park`].
    pub fn unexpected(mut self, meaning: Meaning) -> Self {
        self.unexpected = meaning;
        self
    }

    /// Process also where an earlier attempt had announced its effect. By default such a message is parked.
    pub fn repeat_announced(mut self, repeat: bool) -> Self {
        self.repeat_announced = repeat;
        self
    }

    /// The longest time that a handler takes. It is compared with [`ack_wait`](Self::ack_wait), and nothing else.
    pub fn handler_budget(mut self, budget: Duration) -> Self {
        self.handler_budget = Some(budget);
        self
    }

    /// How long the broker waits for an acknowledgement. A handler that may take longer is warned of in the log.
    pub fn ack_wait(mut self, wait: Duration) -> Self {
        self.ack_wait = Some(wait);
        self
    }

    pub(crate) fn checked(self) -> Result<Options, InvalidField> {
        checked_text("key.consumer", &self.consumer, 128)?;
        if let Some(owner) = &self.owner {
            checked_text("owner", owner, OWNER_MAX)?;
        }
        if let Some(lease) = self.lease.filter(|lease| !LEASE.contains(lease)) {
            return Err(InvalidField::new("lease", format!("{lease:?} is not within 1 s and a day")));
        }
        if let (Some(budget), Some(wait)) = (self.handler_budget, self.ack_wait)
            && budget > wait
        {
            tracing::warn!(
                target: "idempotency_ledger",
                "{}: a handler may take {budget:?}, and the broker waits {wait:?} for an acknowledgement: it will \
                 deliver messages again whose handler still runs. Raise its wait.",
                self.consumer
            );
        }
        let target = self.connection.target()?;
        let host = gethostname::gethostname().to_string_lossy().chars().take(100).collect();
        Ok(Options {
            consumer: self.consumer,
            target,
            lease: self.lease,
            owner: self.owner,
            host,
            unexpected: self.unexpected,
            repeat_announced: self.repeat_announced,
        })
    }
}

/// The options, checked.
pub(crate) struct Options {
    pub(crate) consumer: String,
    pub(crate) target: Target,
    pub(crate) lease: Option<Duration>,
    owner: Option<String>,
    host: String,
    pub(crate) unexpected: Meaning,
    pub(crate) repeat_announced: bool,
}

/// The Claim of a delivery, and what is wrong with the message's key.
pub(crate) struct Asked {
    pub(crate) request: pb::ClaimRequest,
    pub(crate) fault: Option<InvalidField>,
}

impl Options {
    /// The Claim of a delivery: with a new `claim_id`, so that it is never taken for another delivery (rule 1).
    pub(crate) fn asked(&self, delivery: Delivery) -> Result<Asked, InvalidField> {
        let Delivery { key, fingerprint, occurred_at, event_type, wait } = delivery;
        if wait > LONGEST_WAIT {
            return Err(InvalidField::new("wait", format!("{wait:?} is more than an hour")));
        }
        let owner = self.owner();
        let fault = key.fault();
        let request = pb::ClaimRequest {
            key: Some(pb::EntryKey {
                consumer: self.consumer.clone(),
                source: key.source,
                id: key.id,
                replay_run: key.replay_run,
            }),
            claim_id: Uuid::new_v4().to_string(),
            owner,
            lease: self.lease.map(message),
            fingerprint: fingerprint.map(|known| known.0.into()).unwrap_or_default(),
            occurred_at: occurred_at.map(Into::into),
            event_type,
            wait: (!wait.is_zero()).then(|| message(wait)),
        };
        Ok(Asked { request, fault })
    }

    fn owner(&self) -> String {
        self.owner.clone().unwrap_or_else(|| format!("{}/{}", self.host, std::process::id()))
    }

    /// The Store of a message; its fingerprint is that of the payload unless the delivery has another one (rule 20).
    pub(crate) fn stored(
        &self,
        delivery: Delivery,
        message: Message,
    ) -> Result<pb::StoreRequest, InvalidField> {
        let Delivery { key, fingerprint, occurred_at, event_type: _, wait: _ } = delivery;
        if !key.replay_run.is_empty() {
            let bound = "must be empty: a message of a replay run is not stored";
            return Err(InvalidField::new("key.replay_run", bound));
        }
        let fingerprint = fingerprint.unwrap_or_else(|| Fingerprint::of(&message.payload));
        Ok(pb::StoreRequest {
            key: Some(pb::EntryKey {
                consumer: self.consumer.clone(),
                source: key.source,
                id: key.id,
                replay_run: String::new(),
            }),
            message: Some(message.into()),
            fingerprint: fingerprint.0.into(),
            occurred_at: occurred_at.map(Into::into),
        })
    }

    /// A `ClaimNext` with a new `claim_id` (rule 1).
    pub(crate) fn next(&self, most: usize, wait: Duration) -> pb::ClaimNextRequest {
        pb::ClaimNextRequest {
            consumer: self.consumer.clone(),
            claim_id: Uuid::new_v4().to_string(),
            owner: self.owner(),
            lease: self.lease.map(message),
            max: i32::try_from(most).unwrap_or(1),
            bytes_max: 0,
            wait: Some(message(wait)),
        }
    }
}
