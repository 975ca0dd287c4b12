//! What the package returns as errors, and what a handler returns to say what became of its effect.

use std::{any::type_name, error::Error as StdError, fmt, sync::Arc, time::Duration};

/// A field is beyond its bound. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{field}: {bound}")]
pub struct InvalidField {
    /// The field's name, as in the protobuf files where it is there, such as `key.source`.
    pub field: &'static str,
    /// The error, and what is allowed.
    pub bound: String,
}

impl InvalidField {
    pub(crate) fn new(field: &'static str, bound: impl Into<String>) -> Self {
        Self { field, bound: bound.into() }
    }
}

/// Why a delivery was not taken. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The program has given a field beyond its bound.
    #[error(transparent)]
    InvalidField(#[from] InvalidField),
    /// The ledger's client is closed, or closes: let the broker deliver the message again.
    #[error("the ledger's client closes: let the broker deliver the message again")]
    Closed,
}

/// What the methods of a claim return as errors. A handler lets them pass by `?`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The lease has ended, or the ledger has refused to renew it: write nothing more.
    #[error("the claim is lost ({reason}): another attempt may be running")]
    Lost {
        /// `LEASE_OVER` where the lease ended by this process's clock, else the ledger's reason, such as `LEASE_LOST`.
        reason: String,
    },
    /// An announcement was refused before it was sent: the claim's policy would not park the message. Set
    /// `on_expiry = "PARK_IF_STARTED"` (or `PARK`) in the consumer's policy. The claim is given back, with a delay of 5 s.
    #[error(
        "on_expiry of this claim is {on_expiry:?}: an announced effect would not be parked; \
         set on_expiry = PARK_IF_STARTED in the consumer's policy"
    )]
    NotProtected {
        /// What would become of the claim.
        on_expiry: OnExpiry,
    },
    /// The ledger has not confirmed the announcement, so the effect must not start: the attempt is failed as retryable.
    #[error("the announcement is not confirmed: {reason}")]
    AnnouncementFailed {
        /// The ledger's reason, or `NO_ANSWER` with a status.
        reason: String,
    },
    /// The checkpoint is larger than the server's bound (16 KiB by default): the earlier one stays stored.
    #[error("the checkpoint is larger than the server's bound; the earlier one stays")]
    CheckpointDropped,
}

/// What becomes of a claim whose lease ends unsettled: `on_expiry` of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExpiry {
    /// Not given by the server, or a value that this version does not know.
    Unknown,
    /// The next Claim is granted.
    Reclaim,
    /// The message waits for a person.
    Park,
    /// The message waits for a person if its effect was announced, else the next Claim is granted.
    ParkIfStarted,
}

/// How an attempt ended that did not complete. A handler returns one of these, or any other error by `?`.
///
/// A `reason` is sent to the ledger and shown to operators, at most 2,000 characters of it: put no payload and no secret
/// there. Without one the variant's name is sent; of any other error, the name of its type alone.
#[derive(Clone, Debug)]
pub enum Steer {
    /// The effect certainly did not happen, and another attempt may succeed.
    Retry {
        /// Why, for operators.
        reason: Option<String>,
        /// How long until the next attempt is due, at most 30 days (longer is taken as that). `None`: the back-off of the
        /// consumer's policy.
        after: Option<Duration>,
    },
    /// The effect certainly did not happen, and no attempt will ever succeed: the message is dead-lettered.
    Terminal {
        /// Why, for operators.
        reason: Option<String>,
    },
    /// A person must look at the message. Also right where it is unknown whether the effect happened.
    Park {
        /// Why, for operators.
        reason: Option<String>,
    },
    /// It is unknown whether the effect happened, and the next attempt finds out by itself, as with a guard row. Nothing
    /// is settled: the lease ends by itself, and the next attempt finds `effect_unknown`.
    Doubtful {
        /// Why, for the outcome: it is not sent.
        reason: Option<String>,
    },
    /// Nothing was begun: the claim is released, and the attempt does not count.
    GiveBack {
        /// Why, for the outcome: it is not sent.
        reason: Option<String>,
        /// How long until the key is claimable again, at most 30 days (longer is taken as that).
        after: Duration,
        /// A corrected message with another body may use the same key.
        unpin_fingerprint: bool,
    },
    /// An error of the claim's own methods.
    Claim(ClaimError),
    /// Any other error: the options' [`unexpected`](crate::Builder::unexpected) says what it means.
    Unexpected(Unexpected),
}

impl Steer {
    /// [`Steer::Retry`], due after the back-off of the policy.
    #[must_use]
    pub fn retry() -> Self {
        Self::Retry { reason: None, after: None }
    }

    /// [`Steer::Retry`], due after this time.
    #[must_use]
    pub fn retry_after(after: Duration) -> Self {
        Self::Retry { reason: None, after: Some(after) }
    }

    /// [`Steer::Terminal`], with a reason for operators.
    #[must_use]
    pub fn terminal(reason: impl Into<String>) -> Self {
        Self::Terminal { reason: Some(reason.into()) }
    }

    /// [`Steer::Park`], with a reason for operators.
    #[must_use]
    pub fn park(reason: impl Into<String>) -> Self {
        Self::Park { reason: Some(reason.into()) }
    }

    /// [`Steer::Doubtful`].
    #[must_use]
    pub fn doubtful() -> Self {
        Self::Doubtful { reason: None }
    }

    /// [`Steer::GiveBack`], claimable again immediately.
    #[must_use]
    pub fn give_back() -> Self {
        Self::GiveBack { reason: None, after: Duration::ZERO, unpin_fingerprint: false }
    }

    /// An error that `?` cannot convert, such as a boxed one. The ledger is sent the name of its type alone.
    #[must_use]
    pub fn unexpected<E: Into<Box<dyn StdError + Send + Sync>>>(error: E) -> Self {
        Self::from_box(short_name::<E>(), error.into())
    }

    fn from_box(name: String, error: Box<dyn StdError + Send + Sync>) -> Self {
        match error.downcast::<ClaimError>() {
            Ok(own) => Self::Claim(*own),
            Err(error) => Self::Unexpected(Unexpected { name, error: Arc::from(error) }),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Steer {
    fn from(error: E) -> Self {
        Self::from_box(short_name::<E>(), Box::new(error))
    }
}

/// An error of a handler that does not steer, with the name of its type.
#[derive(Clone)]
pub struct Unexpected {
    pub(crate) name: String,
    pub(crate) error: Arc<dyn StdError + Send + Sync>,
}

impl Unexpected {
    /// The name of the error's type: without its path, unless it is `Error`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The error itself, for the application's own log.
    #[must_use]
    pub fn error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.error
    }
}

impl fmt::Debug for Unexpected {
    /// The name alone: what an error says may have a payload.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Unexpected").field(&self.name).finish()
    }
}

/// The name of a type without its parameters, and without its path unless it is `Error`: many crates have one.
pub(crate) fn short_name<T: ?Sized>() -> String {
    let whole = type_name::<T>();
    let bare = whole.split('<').next().unwrap_or(whole);
    let name = bare.rsplit("::").next().unwrap_or(bare);
    if name == "Error" { bare.to_owned() } else { name.to_owned() }
}
