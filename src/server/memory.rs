//! Protects the memory of this process, which holds secrets.

/// Makes the process non-dumpable: only the administrator may read its memory, and it is left out of core dumps. The process also
/// works without that.
pub(super) fn keep_to_itself() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(%error, "other processes of this user can read the memory of this process");
    }
}
