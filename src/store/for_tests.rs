//! An error of a database, for unit tests of both stores: the drivers' own errors cannot be made without a server.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use sqlx::error::{DatabaseError, ErrorKind};

/// The error with this code.
pub(super) fn refused(code: &'static str) -> sqlx::Error {
    sqlx::Error::Database(Box::new(RefusedByDatabase(code)))
}

#[derive(Debug)]
struct RefusedByDatabase(&'static str);

impl fmt::Display for RefusedByDatabase {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.message())
    }
}

impl Error for RefusedByDatabase {}

impl DatabaseError for RefusedByDatabase {
    fn message(&self) -> &'static str {
        "refused"
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.0.into())
    }

    fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}
