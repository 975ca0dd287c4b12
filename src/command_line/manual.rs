//! The manual pages, generated from the command line itself.

use std::path::Path;

/// Writes a page for the program and one for each command below it: `idempotency-ledger-entries-list.1`.
///
/// # Errors
/// The folder or a page cannot be written.
pub(super) fn write(root: &clap::Command, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut root = root.clone().disable_help_subcommand(true);
    // Gives each command its whole name.
    root.build();
    clap_mangen::generate_to(root, folder).map_err(|error| format!("{}: {error}", folder.display()))
}
