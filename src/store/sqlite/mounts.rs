//! The mounts that this process sees, from `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

const TABLE: &str = "/proc/self/mountinfo";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The mount point.
    pub(super) point: PathBuf,
    /// The type of its file system.
    pub(super) kind: String,
}

/// The current table, in the order of mounting. Empty if the system does not have such a table.
pub(super) fn now() -> Vec<Mount> {
    std::fs::read(TABLE).map(|table| mounts(&table)).unwrap_or_default()
}

/// The rows of a table.
pub(super) fn mounts(table: &[u8]) -> Vec<Mount> {
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// `36 35 98:0 /root /point options fields… - type source options`
fn mount(row: &[u8]) -> Option<Mount> {
    let mut fields = row.split(|byte| *byte == b' ');
    let point = fields.nth(4)?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let point = PathBuf::from(OsString::from_vec(unescaped(point)));
    Some(Mount { point, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Decodes a path, in which blanks and backslashes are escaped as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten();
        let byte = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    plain
}

/// The mount of a path: the last of those with the longest mount point, which covers the others.
pub(super) fn of<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.as_os_str().as_bytes().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 27 0:21 / / rw,relatime - overlay overlay rw,lowerdir=/a
30 22 8:1 /srv/led\\040ger /data rw shared:7 master:2 - nfs4 host:/srv rw
31 22 8:1 /srv/ledger.db /data/a\\040b\\134c.db rw - ext4 /dev/sda1 rw
32 22 8:1 / /data rw - xfs /dev/sdb rw
cut
";

    #[test]
    fn mounts_parses_mountinfo() {
        let mounts = mounts(TABLE);
        let points: Vec<(&str, &str)> =
            mounts.iter().map(|mount| (mount.point.to_str().expect("a text"), &*mount.kind)).collect();
        let expected = [("/", "overlay"), ("/data", "nfs4"), ("/data/a b\\c.db", "ext4"), ("/data", "xfs")];
        assert_eq!(points, expected);
        for (path, kind) in [("/datas/x", "overlay"), ("/data/ledger.db", "xfs"), ("/data/a b\\c.db", "ext4")]
        {
            assert_eq!(of(&mounts, Path::new(path)).map(|mount| &*mount.kind), Some(kind), "{path}");
        }
    }
}
