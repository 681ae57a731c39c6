//! Gzip compression of responses, and of lists while they are sent.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderMap};

use crate::http::list_body::ListBody;

/// What is not larger is sent as it is, as upstream has it: on fast networks it is not worth the time.
pub(crate) const THRESHOLD: usize = 128 * 1024;
/// Upstream's, too: half the size for a tenth of the time.
const LEVEL: Compression = Compression::new(1);

/// Does the client take gzip?
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let refused = |part: &str| {
            part.strip_prefix("q=").is_some_and(|quality| quality.parse::<f32>().is_ok_and(|it| it <= 0.0))
        };
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip")) && !parts.any(refused)
    })
}

/// Bytes in one go.
pub(crate) fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), LEVEL);
    // Writing to memory can't fail.
    let _infallible = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// A list that is packed while it is sent.
pub(crate) struct GzipList {
    list: Box<ListBody>,
    /// Nothing once the last byte is out.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl GzipList {
    /// The list goes on after its first chunk.
    pub(crate) fn new(first: &[u8], list: Box<ListBody>) -> Self {
        let mut encoder = GzEncoder::new(Vec::with_capacity(first.len() / 4), LEVEL);
        let _infallible = encoder.write_all(first);
        Self { list, encoder: Some(encoder) }
    }

    pub(crate) fn next_chunk(&mut self) -> Option<Bytes> {
        let mut encoder = self.encoder.take()?;
        while let Some(chunk) = self.list.next_chunk() {
            let _infallible = encoder.write_all(&chunk);
            if !encoder.get_ref().is_empty() {
                let packed = std::mem::take(encoder.get_mut());
                self.encoder = Some(encoder);
                return Some(packed.into());
            }
        }
        Some(encoder.finish().unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    #[test]
    fn gzip_must_be_named() {
        let cases = [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.0, br", false),
            ("*", false),
            ("", false),
        ];
        for (value, wanted) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(is_accepted(&headers), wanted, "{value}");
        }
    }
}
