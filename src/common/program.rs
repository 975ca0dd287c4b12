//! The name of this program, for commands that people paste.

use std::path::Path;

/// The program as it was started, quoted for a shell: its name if the shell found it by name, otherwise its whole path, which
/// is right in every folder.
pub(crate) fn program() -> String {
    let typed = std::env::args_os().next().unwrap_or_default();
    as_pasted(Path::new(&typed), std::env::current_exe().ok().as_deref())
}

fn as_pasted(typed: &Path, running: Option<&Path>) -> String {
    let by_name = typed.components().count() == 1 && !typed.as_os_str().is_empty();
    let whole = std::path::absolute(typed).ok().filter(|path| path.is_file());
    let path = match (by_name, whole.as_deref(), running) {
        (true, ..) => typed,
        (false, Some(whole), _) => whole,
        (false, None, running) => running.unwrap_or(Path::new(env!("CARGO_PKG_NAME"))),
    };
    let text = path.to_string_lossy();
    shlex::try_quote(&text).map_or_else(|_| env!("CARGO_PKG_NAME").to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_command_starts_this_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it's the ledger");
        std::fs::write(&file, "").unwrap();
        let running = Some(Path::new("/opt/ledger"));
        assert_eq!(as_pasted(Path::new("idempotency-ledger"), running), "idempotency-ledger");
        assert_eq!(as_pasted(&file, running), format!("\"{}\"", file.display()));
        assert_eq!(as_pasted(Path::new("./Cargo.toml"), running), {
            let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
            whole.display().to_string()
        });
        for typed in ["", "/gone/ledger", "./gone"] {
            assert_eq!(as_pasted(Path::new(typed), running), "/opt/ledger", "{typed:?}");
        }
        assert_eq!(as_pasted(Path::new(""), None), "idempotency-ledger");
    }
}
