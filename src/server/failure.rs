//! Failures of the server's commands, with their exit codes.

use std::process::ExitCode;

use crate::store::{Fault, StoreError};

/// Exit code: the store needs a newer version of this program, so a restart cannot help.
const OUTDATED: u8 = 8;

/// Why a command failed, as text for people.
pub(super) enum Failure {
    /// The problem, with the setting's name.
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

    /// An error of the store, with its location.
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
