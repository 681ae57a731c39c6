//! Archives of initial file systems: cpio, format `newc`. The kernel unpacks several ones in a row.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;

/// An archive.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    count: u32,
}

impl Archive {
    /// Adds a file, and the directories above it.
    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            self.directory(&path[..end]);
        }
        self.entry(path, FILE | mode, content);
    }

    /// Adds a directory.
    pub(super) fn directory(&mut self, path: &str) {
        if self.directories.insert(path.to_owned()) {
            self.entry(path, DIRECTORY, &[]);
        }
    }

    /// The archive with its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        let rest = self.bytes.len().next_multiple_of(512);
        self.bytes.resize(rest, 0);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.count += 1;
        let links = if mode & 0o170_000 == DIRECTORY & 0o170_000 { 2 } else { 1 };
        let fields = [
            self.count,
            mode,
            0,
            0,
            links,
            0,
            u32::try_from(content.len()).unwrap_or(u32::MAX),
            0,
            0,
            0,
            0,
            u32::try_from(path.len() + 1).unwrap_or(u32::MAX),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_directories_come_first() {
        let mut archive = Archive::default();
        archive.file("/a/b", 0o755, b"12345");
        archive.file("/a/c", 0o644, b"");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 512, 0);
        let text = String::from_utf8(bytes).expect("text");
        let heads: Vec<usize> = text.match_indices("070701").map(|(start, _)| start).collect();
        assert_eq!(heads.len(), 4, "a, a/b, a/c and the end");
        assert!(heads.iter().all(|start| start % 4 == 0), "{heads:?}");
        assert!(text[heads[0]..].starts_with("07070100000001000041ED"));
        assert!(text[heads[1]..].starts_with("07070100000002000081ED"));
        assert!(text.contains("a/b\0"));
    }
}
