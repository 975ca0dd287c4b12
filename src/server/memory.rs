//! The memory of this process, in which secrets are.

/// Nobody but the system's administrator may read it, or get it in a dump. The process works without that, too.
pub(super) fn keep_to_itself() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(%error, "whoever runs as this user can read the memory of this process");
    }
}
