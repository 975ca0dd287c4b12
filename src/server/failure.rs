//! Why a command of the server failed, and with which exit code.

use std::process::ExitCode;

use crate::store::{Fault, StoreError};

/// The store needs a newer version of this program: to start this one again cannot help.
const OUTDATED: u8 = 8;

/// Why a command failed, in words for people.
pub(super) enum Failure {
    /// What is wrong, and with which setting.
    Wrong(String),
    /// The store does not serve this binary.
    Outdated(String),
}

impl Failure {
    pub(super) fn text(&self) -> &str {
        match self {
            Failure::Wrong(text) | Failure::Outdated(text) => text,
        }
    }

    pub(super) fn code(&self) -> ExitCode {
        match self {
            Failure::Wrong(_) => ExitCode::FAILURE,
            Failure::Outdated(_) => ExitCode::from(OUTDATED),
        }
    }

    /// An error of the store, and where the store is.
    pub(super) fn of_store(place: &str, error: &StoreError) -> Failure {
        match error {
            StoreError::NotApplied(fault @ Fault::Outdated(_)) => {
                Failure::Outdated(format!("database_url: {place}{fault}"))
            }
            StoreError::NotApplied(fault @ (Fault::Schema(_) | Fault::Permanent(_))) => {
                Failure::Wrong(format!("database_url: {place}{fault}"))
            }
            StoreError::NotApplied(_) | StoreError::Unknown(_) => {
                Failure::Wrong(format!("database_url: {place}{error}"))
            }
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Wrong(text)
    }
}
