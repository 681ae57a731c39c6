//! Golden files of tests: those of more than 200 KB are stored compressed with zstd.
//!
//! `zstd -19 --rm FILE` compresses one best, `zstd -dc FILE.zst` prints it. With `git config diff.zst.textconv 'zstd -dc'`, `git diff` shows their
//! text.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Size from which [`write`] compresses a file.
const COMPRESSED_FROM: usize = 200_000;

/// The text of a compressed file.
///
/// # Errors
///
/// If it is damaged, or not UTF-8.
pub fn decompress(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    StreamingDecoder::new(packed).map_err(io::Error::other)?.read_to_string(&mut text)?;
    Ok(text)
}

/// The content of a file, decompressed if its name ends in `.zst`.
///
/// # Errors
///
/// If it cannot be read, or is damaged. The error names the file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let packed = fs::read(path).map_err(named)?;
    if path.extension().is_none_or(|extension| extension != "zst") {
        return Ok(packed);
    }
    let mut content = Vec::new();
    StreamingDecoder::new(packed.as_slice())
        .map_err(io::Error::other)
        .and_then(|mut decoder| decoder.read_to_end(&mut content))
        .map_err(named)?;
    Ok(content)
}

/// [`read`], as text.
///
/// # Errors
///
/// As [`read`], and if it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display())))
}

/// Writes a file: as `PATH`, or compressed as `PATH.zst` if it is large. Removes the other of the two.
///
/// # Errors
///
/// If a file cannot be written or removed.
pub fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".zst");
    let packed = PathBuf::from(packed);
    let (written, other) = if content.len() < COMPRESSED_FROM { (path, &*packed) } else { (&*packed, path) };
    if written == path {
        fs::write(path, content)?;
    } else {
        fs::write(&packed, compress_to_vec(content.as_bytes(), CompressionLevel::Fastest))?;
    }
    match fs::remove_file(other) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'a line\n' | zstd --no-check`.
    const PACKED: &[u8] = b"\x28\xb5\x2f\xfd\x00\x58\x39\x00\x00\x61\x20\x6c\x69\x6e\x65\x0a";

    #[test]
    fn content_is_decompressed() {
        assert_eq!(decompress(PACKED).unwrap(), "a line\n");
    }

    #[test]
    fn large_files_are_compressed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.json");
        let packed = directory.path().join("file.json.zst");
        for (size, file, other) in
            [(10, &path, &packed), (COMPRESSED_FROM, &packed, &path), (10, &path, &packed)]
        {
            let content = "x".repeat(size);
            write(&path, &content).unwrap();
            assert_eq!(read_to_string(file).unwrap(), content);
            assert!(!other.exists(), "{size}");
        }
    }

    #[test]
    fn damage_is_an_error() {
        assert!(decompress(&PACKED[..PACKED.len() - 3]).is_err());
        assert!(decompress(b"no zstd").is_err());
        let error = read(Path::new("no/such.zst")).unwrap_err();
        assert!(error.to_string().starts_with("no/such.zst: "), "{error}");
    }
}
