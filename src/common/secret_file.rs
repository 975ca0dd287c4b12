//! Files that hold a secret: an error has the path of the file, and never its content.

use std::fs::{File, metadata};
use std::io::Read as _;
use std::path::Path;

/// Maximum length of such a file.
const BYTES_MAX: u64 = 64 * 1_024;

/// The text of the file, without the line end that editors append.
///
/// # Errors
/// The path, and what is wrong with the file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let wrong = |why: &str| format!("{}: {why}", path.display());
    let bytes = bytes(path, BYTES_MAX).map_err(|why| wrong(&why))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8"))?;
    let line = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    match line {
        "" => Err(wrong("is empty")),
        _ if line.starts_with('\u{feff}') => Err(wrong("begins with a byte order mark: save it without one")),
        _ if line.contains('\0') => Err(wrong("has a byte of zero")),
        _ => Ok(line.to_owned()),
    }
}

/// The content of a file of at most `max` bytes.
///
/// # Errors
/// The fault of the file, without its path.
pub(crate) fn bytes(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    // Opening a pipe would wait for a writer.
    if !metadata(path).map_err(failed)?.is_file() {
        return Err("is not a regular file".into());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max { Err(format!("has more than {max} bytes")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_without_its_last_line_end_and_errors_have_only_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let most = "s".repeat(65_536);
        for (bytes, expected) in [
            (b"s3cret".as_slice(), Ok("s3cret")),
            (b"s3cret\n", Ok("s3cret")),
            (b"s3cret\r\n", Ok("s3cret")),
            (b"s3cret\n\n", Ok("s3cret\n")),
            (b" s3 cret ", Ok(" s3 cret ")),
            (most.as_bytes(), Ok(most.as_str())),
            (b"", Err("is empty")),
            (b"\n", Err("is empty")),
            (b"\xEF\xBB\xBFs3cret", Err("begins with a byte order mark: save it without one")),
            (b"s3cret\0", Err("has a byte of zero")),
            (b"s3cret\xff", Err("is not UTF-8")),
            (format!("s3cret{most}").as_bytes(), Err("has more than 65536 bytes")),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let expected = expected.map(str::to_owned).map_err(|why| format!("{}: {why}", path.display()));
            assert_eq!(read(&path), expected);
        }
        for (path, why) in
            [(folder.path().to_owned(), "is not a regular file"), (path.join("gone"), "os error")]
        {
            let said = read(&path).unwrap_err();
            assert!(said.starts_with(&path.display().to_string()) && said.contains(why), "{said}");
        }
    }

    /// A mounted secret is rotated by changing a link to another folder.
    #[test]
    fn a_link_is_followed_with_each_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["one", "two"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("password"), name).unwrap();
            std::os::unix::fs::symlink(at(name), at("next")).unwrap();
            std::fs::rename(at("next"), at("now")).unwrap();
            assert_eq!(read(&at("now").join("password")), Ok(name.to_owned()));
        }
    }
}
