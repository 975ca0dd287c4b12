//! What both stores keep of the purge.

use crate::domain::Span;

/// How long a server is told of that was not heard of since.
pub(super) const HEARD_OF: Span = Span::from_days(1);
/// How many servers are told of, at the most.
pub(super) const WORKERS_MAX: i64 = 1_000;
