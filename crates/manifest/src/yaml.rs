//! Conversion of YAML to JSON, as Go's `sigs.k8s.io/yaml` does it.
//!
//! Scanner and parser follow libyaml's, of which Go's `go.yaml.in/yaml/v2` is also a port: both accept the same
//! documents and stop at the same errors. The differences: the document is in memory as a whole, scalars are slices of
//! it where possible, and events are converted to JSON without a tree.

mod parse;
mod resolve;
mod scalar;
mod scan;
mod tag;
mod timestamp;
mod transcode;
mod write;

pub(crate) use transcode::Transcoder;

use crate::item::{Malformed, Position};
use crate::limits::Limits;

/// Appends the JSON of the first document of `text` to `out`: `null` if it is empty, nothing if there is none.
///
/// For a single small text, such as a flag's value. Use [`Splitter`](crate::Splitter) for streams.
///
/// # Errors
///
/// The text is not YAML, or cannot be represented in JSON. `out` is then unchanged.
///
/// # Examples
///
/// ```
/// let mut json = Vec::new();
/// settled_manifest::yaml_to_json(b"mode: 0644\nyes: [on, 1_000]", &mut json)?;
/// assert_eq!(json, br#"{"mode":420,"true":[true,1000]}"#);
/// # Ok::<(), settled_manifest::Malformed>(())
/// ```
pub fn yaml_to_json(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut json = Vec::new();
    Transcoder::default().read(text, &mut json, Limits::default()).map_err(|error| Malformed {
        message: error.message,
        position: Position { line: 1, column: 1 }.advance(&text[..error.at.min(text.len())]),
    })?;
    out.extend_from_slice(&json);
    Ok(())
}

/// As [`yaml_to_json`], but a mapping may have duplicate keys, which the JSON has too. Returns the lines of the later
/// ones, with the key as JSON.
///
/// ```
/// let mut json = Vec::new();
/// let twice = settled_manifest::yaml_to_json_leniently(b"a: 1\na: 2\n", &mut json)?;
/// assert_eq!(json, br#"{"a":1,"a":2}"#);
/// assert_eq!(twice, [(2, r#""a""#.to_owned())]);
/// # Ok::<(), settled_manifest::Malformed>(())
/// ```
///
/// # Errors
///
/// As [`yaml_to_json`].
pub fn yaml_to_json_leniently(text: &[u8], out: &mut Vec<u8>) -> Result<Vec<(u64, String)>, Malformed> {
    let mut json = Vec::new();
    let mut transcoder = Transcoder::default();
    transcoder.duplicates = Some(Vec::new());
    let position = |at: usize| Position { line: 1, column: 1 }.advance(&text[..at.min(text.len())]);
    transcoder
        .read(text, &mut json, Limits::default())
        .map_err(|error| Malformed { message: error.message, position: position(error.at) })?;
    out.extend_from_slice(&json);
    let found = transcoder.duplicates.into_iter().flatten().take(MAX_DUPLICATE_KEYS);
    Ok(found.map(|(at, key)| (position(at).line, key)).collect())
}

/// Maximum number of reported duplicate keys, since finding their lines takes time.
const MAX_DUPLICATE_KEYS: usize = 100;

/// As [`yaml_to_json`]; `places` gets, for each node of the JSON in order, its offset in `out` and its offset in
/// `text`. Nodes from a merge (`<<`) have the offset of the mapping that they are merged into.
///
/// ```
/// let (mut json, mut places) = (Vec::new(), Vec::new());
/// settled_manifest::yaml_to_json_with_places(b"a:\n  b: x", &mut json, &mut places)?;
/// assert_eq!(json, br#"{"a":{"b":"x"}}"#);
/// assert_eq!(places, [(0, 0), (1, 0), (5, 5), (6, 5), (10, 8)]);
/// # Ok::<(), settled_manifest::Malformed>(())
/// ```
///
/// # Errors
///
/// As [`yaml_to_json`].
pub fn yaml_to_json_with_places(
    text: &[u8],
    out: &mut Vec<u8>,
    places: &mut Vec<(usize, usize)>,
) -> Result<(), Malformed> {
    let mut json = Vec::new();
    let mut transcoder = Transcoder::default();
    transcoder.places = Some(Vec::new());
    transcoder.read(text, &mut json, Limits::default()).map_err(|error| Malformed {
        message: error.message,
        position: Position { line: 1, column: 1 }.advance(&text[..error.at.min(text.len())]),
    })?;
    let before = out.len();
    places.extend(transcoder.places.into_iter().flatten().map(|(written, at)| (before + written, at)));
    out.extend_from_slice(&json);
    Ok(())
}

/// Error in a document and its offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlError {
    pub(crate) message: String,
    pub(crate) at: usize,
}

impl YamlError {
    fn new(message: impl Into<String>, at: usize) -> Self {
        Self { message: message.into(), at }
    }
}

/// Checks that a document is UTF-8 without control characters, which the scanner relies on.
fn check_characters(document: &[u8]) -> Result<(), YamlError> {
    // The scanner uses 32-bit offsets, and composed text is at most twice as long.
    if document.len() > 1 << 30 {
        return Err(YamlError::new("the document is larger than 1 GiB", 0));
    }
    // Fast path that the compiler can vectorize: printable ASCII and its whitespace.
    let plain =
        |&byte: &u8| (b' '..0x7F).contains(&byte) | (byte == b'\n') | (byte == b'\t') | (byte == b'\r');
    let mut at = 0;
    for block in document.chunks(256) {
        if !block.iter().fold(true, |all, byte| all & plain(byte)) {
            at += block.iter().position(|byte| !plain(byte)).unwrap_or(0);
            return check_each_character(document, at);
        }
        at += block.len();
    }
    Ok(())
}

fn check_each_character(document: &[u8], from: usize) -> Result<(), YamlError> {
    let text =
        str::from_utf8(document).map_err(|error| YamlError::new("invalid UTF-8", error.valid_up_to()))?;
    let forbidden = |(_, char): &(usize, char)| !matches!(char, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    match text[from..].char_indices().find(forbidden) {
        Some((at, char)) => {
            let message = format!("control characters are not allowed (U+{:04X})", u32::from(char));
            Err(YamlError::new(message, from + at))
        }
        None => Ok(()),
    }
}

/// Whether the plain form of this string would be read as another type.
pub(crate) fn looks_like_other_type(text: &[u8]) -> bool {
    text == b"<<"
        || resolve::resolve(text) != resolve::Resolved::Str
        || timestamp::is_timestamp(text)
        || resolve::is_sexagesimal(text)
}

/// Writes a character as an escape for double quotes.
pub(crate) fn write_escape(char: char, out: &mut Vec<u8>) {
    let code = u32::from(char);
    let text = if code > 0xFFFF { format!("\\U{code:08X}") } else { format!("\\u{code:04X}") };
    out.extend_from_slice(text.as_bytes());
}
