//! The names of the actions in the audit: what `ListAuditEventsRequest.actions` may name.

macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident),* $(,)?) => {
        $($(#[$doc])* pub const $action: &str = stringify!($action);)*

        /// All actions, in the order of the manual (`docs/operations.md`).
        pub const ALL: &[&str] = &[$($action),*];
    };
}

actions! {
    /// `RedriveEntry`, and each entry of `RedriveEntries`.
    REDRIVE,
    /// `ParkEntry`, and each entry of `ParkEntries`.
    PARK,
    /// `ResolveEntry` as `COMPLETED`, and each entry of such a `ResolveEntries`.
    RESOLVE_COMPLETED,
    /// `ResolveEntry` as `FAILED_TERMINAL`, and each entry of such a `ResolveEntries`.
    RESOLVE_FAILED_TERMINAL,
    /// `ResolveEntry` as `RECEIVED`, and each entry of such a `ResolveEntries`.
    RESOLVE_RECEIVED,
    /// `DeleteEntry`.
    DELETE,
    /// `GetMessage`.
    READ_MESSAGE,
    /// The start of a `RedriveEntries`.
    REDRIVE_ENTRIES,
    /// The start of a `ParkEntries`.
    PARK_ENTRIES,
    /// The start of a `ResolveEntries`.
    RESOLVE_ENTRIES,
    /// The entries of one consumer that one part of an import stored.
    IMPORT_ENTRIES,
    /// A row of `ReconcileEntries` that completed its entry.
    RECONCILE_COMPLETED,
    /// A row of `ReconcileEntries` that parked its entry.
    RECONCILE_PARKED,
    /// A row of `ReconcileEntries` that reports a second effect.
    RECONCILE_DOUBLED,
    /// `SetPolicy`.
    SET_POLICY,
    /// `DeletePolicy`.
    DELETE_POLICY,
    /// `CreateReplayRun`.
    CREATE_REPLAY_RUN,
    /// `CloseReplayRun`.
    CLOSE_REPLAY_RUN,
    /// `HoldConsumers`.
    HOLD_CONSUMERS,
    /// `ResumeConsumers`.
    RESUME_CONSUMERS,
    /// `RaiseTokenOffset`.
    RAISE_TOKEN_OFFSET,
}
