//! Format detection: YAML or JSON, from the bytes of a stream and of each document.

use memchr::memchr;

/// Format of a stream, by its first bytes.
pub(crate) enum Start {
    /// Text, after a byte order mark of this length.
    Text { skip: usize },
    /// Not text, with the remedy.
    Foreign(&'static str),
}

/// Maximum offset at which a NUL byte makes the stream binary; later ones are errors of their documents.
pub(crate) const SNIFF_BYTES: usize = 512;

pub(crate) fn start_of_stream(data: &[u8]) -> Start {
    match data {
        [0xEF, 0xBB, 0xBF, ..] => Start::Text { skip: 3 },
        [0x1F, 0x8B, ..] => Start::Foreign("the input is gzip-compressed; run gunzip first"),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => Start::Foreign("the input is zstd-compressed; run unzstd first"),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => {
            Start::Foreign("the input is bzip2-compressed; run bunzip2 first")
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Start::Foreign("the input is xz-compressed; run unxz first"),
        [b'P', b'K', 3, 4, ..] => Start::Foreign("the input is a zip archive; unpack it first"),
        [b'k', b'8', b's', 0, ..] => Start::Foreign(
            "the input is in Kubernetes' binary encoding; ask the server for JSON or YAML instead",
        ),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Start::Foreign(
            "the input is UTF-16; convert it to UTF-8 first, for example with iconv -f UTF-16 -t UTF-8",
        ),
        _ if memchr(0, &data[..data.len().min(SNIFF_BYTES)]).is_some() => Start::Foreign(
            "the input has NUL bytes: it is binary, or UTF-16 without its mark (then iconv -f UTF-16LE -t UTF-8 helps)",
        ),
        _ => Start::Text { skip: 0 },
    }
}

/// Result of looking for the next document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More data is needed.
    More,
    /// The end of the data.
    End,
    /// A JSON document at `at`.
    Json,
    /// A YAML document at `line_start`.
    Yaml,
    /// Invalid text at `at`.
    Neither,
}

/// State between two documents.
pub(crate) struct Place {
    pub(crate) at: usize,
    /// Start of the line of `at`: indentation is part of a YAML document.
    pub(crate) line_start: usize,
    /// YAML may begin here.
    pub(crate) yaml: bool,
    /// Within a comment, which may continue beyond the data.
    pub(crate) comment: bool,
}

pub(crate) fn next_document(data: &[u8], place: &mut Place, at_end: bool) -> Next {
    loop {
        let rest = &data[place.at..];
        if place.comment {
            let length = memchr(b'\n', rest);
            place.comment = length.is_none();
            place.at += length.unwrap_or(rest.len());
            if place.comment {
                place.line_start = place.at;
                return if at_end { Next::End } else { Next::More };
            }
            continue;
        }
        let Some(&byte) = rest.first() else { return if at_end { Next::End } else { Next::More } };
        let line_begins = place.at == place.line_start;
        match byte {
            b' ' | b'\t' | b'\r' => place.at += 1,
            b'\n' => {
                place.at += 1;
                place.line_start = place.at;
            }
            b'#' => place.comment = true,
            b'-' | b'.' if line_begins => {
                let marker = rest.iter().take(3).take_while(|&&b| b == byte).count();
                match (marker, rest.get(3)) {
                    (3, None | Some(b' ' | b'\t' | b'\r' | b'\n')) if at_end || rest.len() > 3 => {
                        place.at += 3;
                        place.yaml = true;
                    }
                    (_, None) if !at_end && marker == rest.len() => return Next::More,
                    _ => return if place.yaml { Next::Yaml } else { Next::Neither },
                }
            }
            0xEF if line_begins && !at_end && matches!(rest, [_] | [_, 0xBB]) => return Next::More,
            0xEF if line_begins && rest.starts_with(b"\xEF\xBB\xBF") => {
                // Concatenated files with byte order marks.
                place.at += 3;
                place.line_start = place.at;
            }
            b'{' | b'[' => {
                return match looks_like_json(rest) {
                    Some(true) => Next::Json,
                    Some(false) if place.yaml => Next::Yaml,
                    // A JSON error: the parser has the better message.
                    Some(false) => Next::Json,
                    None if at_end || rest.len() > SNIFF_BYTES => Next::Json,
                    None => Next::More,
                };
            }
            _ => return if place.yaml { Next::Yaml } else { Next::Neither },
        }
    }
}

/// Whether it is JSON and not just flow style YAML, by the bytes after the first brackets, if available.
fn looks_like_json(text: &[u8]) -> Option<bool> {
    let mut object = false;
    for &byte in text {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'[' if !object => {}
            b'{' if !object => object = true,
            b'"' => return Some(true),
            b'}' => return Some(object),
            b']' => return Some(!object),
            _ => return Some(false),
        }
    }
    None
}
