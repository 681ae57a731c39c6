//! PEM blocks, as Go's `encoding/pem` decodes them, and the certificates in them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use x509_parser::prelude::{FromDer as _, X509Certificate};

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// A PEM block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// `CERTIFICATE` for instance.
    pub(crate) label: String,
    pub(crate) has_headers: bool,
    pub(crate) bytes: Vec<u8>,
}

/// A line without its end, and what follows.
fn line(data: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match memchr::memchr(b'\n', data) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &data[data.len()..]),
    };
    (line.trim_ascii_end(), rest)
}

/// The first block and what follows it. What comes before a block, or is none, is skipped.
pub(crate) fn decode(data: &[u8]) -> Option<(Block, &[u8])> {
    let mut rest = data;
    loop {
        // An empty block has its BEGIN line right before its END line.
        let end = memchr::memmem::find(rest, END)?;
        let begin = memchr::memmem::rfind(&rest[..end], BEGIN);
        let after_end = &rest[end + END.len()..];
        let begin = begin.filter(|begin| *begin == 0 || rest[begin - 1] == b'\n');
        if let Some(found) = begin.and_then(|begin| block(&rest[begin + BEGIN.len()..=end], after_end)) {
            return Some(found);
        }
        rest = after_end;
    }
}

/// The block whose text begins after `BEGIN` and ends with a newline, and whose end line has `trailer` after `END`.
fn block<'a>(text: &[u8], trailer: &'a [u8]) -> Option<(Block, &'a [u8])> {
    let (label, mut body) = line(text);
    let label = label.strip_suffix(DASHES)?;
    let mut has_headers = false;
    loop {
        let (header, rest) = line(body);
        if memchr::memchr(b':', header).is_none() {
            break;
        }
        (has_headers, body) = (true, rest);
    }
    let (end, rest) = line(trailer);
    if end.strip_suffix(DASHES)? != label {
        return None;
    }
    let letters: Vec<u8> = body.iter().copied().filter(|byte| !b" \t\r\n".contains(byte)).collect();
    let bytes = BASE64_STANDARD.decode(letters).ok()?;
    Some((Block { label: String::from_utf8_lossy(label).into_owned(), has_headers, bytes }, rest))
}

/// Why bytes are not a row of DER certificates, as `x509.ParseCertificates` says it; otherwise how many there are.
pub(crate) fn certificates(mut der: &[u8]) -> Result<usize, String> {
    let mut count = 0;
    while !der.is_empty() {
        let (rest, _) =
            X509Certificate::from_der(der).map_err(|_| "x509: malformed certificate".to_owned())?;
        (der, count) = (rest, count + 1);
    }
    Ok(count)
}

/// Why a bundle has no certificates to trust, as `createErrorParsingCAData` of client-go's `transport` says it.
///
/// # Errors
/// None of its blocks is a plain certificate that can be parsed.
pub(crate) fn check_roots(bundle: &[u8]) -> Result<(), String> {
    let mut problem = None;
    let mut rest = bundle;
    while !rest.is_empty() {
        let Some((block, after)) = decode(rest) else {
            problem.get_or_insert_with(|| "unable to parse bytes as PEM block".to_owned());
            break;
        };
        rest = after;
        if block.label != "CERTIFICATE" || block.has_headers {
            continue;
        }
        let why = match certificates(&block.bytes) {
            Ok(1) => return Ok(()),
            Ok(_) => "x509: trailing data".to_owned(),
            Err(error) => error,
        };
        problem.get_or_insert_with(|| format!("failed to parse certificate: {why}"));
    }
    Err(problem.unwrap_or_else(|| "no valid certificate authority data seen".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_as_go_finds_them() {
        /// Label, headers and bytes.
        type Expected<'a> = (&'a str, bool, &'a [u8]);
        let cases: &[(&str, &[Expected<'_>])] = &[
            ("", &[]),
            ("x", &[]),
            ("-----BEGIN A-----\nYQ==\n-----END A-----\n", &[("A", false, b"a")]),
            ("-----BEGIN A-----\nYQ==\n-----END A-----", &[("A", false, b"a")]),
            ("-----BEGIN A-----\r\nYQ==\r\n-----END A-----\r\n", &[("A", false, b"a")]),
            ("-----BEGIN A-----\n-----END A-----\n", &[("A", false, b"")]),
            ("-----BEGIN A-----\nk: v\n\nYQ==\n-----END A-----\n", &[("A", true, b"a")]),
            ("text\n-----BEGIN A B-----\nY Q\t==\n-----END A B-----\n", &[("A B", false, b"a")]),
            ("text-----BEGIN A-----\nYQ==\n-----END A-----\n", &[]),
            ("-----BEGIN A-----\nYQ==\n-----END B-----\n", &[]),
            ("-----BEGIN A-----\nYQ==\n-----END A----- x\n", &[]),
            ("-----BEGIN A-----\n?\n-----END A-----\n", &[]),
            (
                "-----BEGIN A-----\n-----BEGIN B-----\nYg==\n-----END B-----\n-----BEGIN C-----\nYw==\n-----END C-----\n",
                &[("B", false, b"b"), ("C", false, b"c")],
            ),
        ];
        for (text, expected) in cases {
            let (mut rest, mut found) = (text.as_bytes(), Vec::new());
            while let Some((block, after)) = decode(rest) {
                found.push(block);
                rest = after;
            }
            let found: Vec<_> = found
                .iter()
                .map(|block| (block.label.as_str(), block.has_headers, block.bytes.as_slice()))
                .collect();
            assert_eq!(found, *expected, "{text:?}");
        }
    }
}
