//! Embedded pack: the rules in a compact form, and, compressed, their files and sources, which only inspection reads.

use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;

/// Position of a rule.
struct Place {
    /// Index of its file.
    file: u16,
    /// The line it begins on, counted from 0.
    line: u32,
    /// Ranges in [`RULES`] and in the decompressed [`SOURCES`].
    rule: (u32, u32),
    source: (u32, u32),
    /// Whether it was checked against the source of the kind's controller.
    is_verified: bool,
}

// COUNT: number of rules; NAMES: files, sorted by group: `builtin:cert-manager.io.yaml`, `_.` stands for `*.`; ENDS: where the text of each
// file ends in the decompressed TEXTS; SUFFIXES: file groups that begin with `_`; PLACES: one per rule; INDEX: sorted pairs of key (see
// `kind_key`) and rule; PART_ENDS: where the keys with each value of the bits from PART_SHIFT on end in INDEX; RULES: all rules, see
// `unpack`, without their sources.
include!(concat!(env!("OUT_DIR"), "/pack.rs"));

static TEXTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/texts.deflate"));
static SOURCES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sources.deflate"));

static EXAMPLES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/examples.deflate"));

/// Lines of group, kind and status.
pub(crate) fn examples() -> String {
    decompress(EXAMPLES)
}

fn decompress(packed: &[u8]) -> String {
    let mut text = String::new();
    // The build script wrote them: they are not damaged.
    drop(DeflateDecoder::new(packed).read_to_string(&mut text));
    text
}

/// Group of a file, as it is named.
pub(crate) fn group(file: usize) -> &'static str {
    let name = NAMES.get(file).copied().unwrap_or_default();
    name.strip_prefix("builtin:").and_then(|name| name.strip_suffix(".yaml")).unwrap_or_default()
}

/// Text of a file.
pub(crate) fn text(file: usize) -> &'static str {
    static ALL: OnceLock<String> = OnceLock::new();
    let all = ALL.get_or_init(|| decompress(TEXTS));
    let end = |file: usize| ENDS.get(file).map_or(0, |end| *end as usize);
    all.get(file.checked_sub(1).map_or(0, end)..end(file)).unwrap_or_default()
}

/// Names of all files.
pub(crate) fn files() -> &'static [&'static str] {
    &NAMES
}

/// Index of the file of a rule.
pub(crate) fn file_of(rule: usize) -> usize {
    PLACES.get(rule).map_or(usize::MAX, |place| usize::from(place.file))
}

/// A rule without its source, and its line in its file, counted from 0.
pub(crate) fn packed(rule: usize) -> Option<(&'static [u8], usize)> {
    let Place { rule: (start, end), line, .. } = PLACES.get(rule)?;
    Some((RULES.get(*start as usize..*end as usize)?, *line as usize))
}

/// JSON of the source of a rule.
pub(crate) fn source(rule: usize) -> Option<&'static str> {
    static ALL: OnceLock<String> = OnceLock::new();
    let Place { source: (start, end), .. } = PLACES.get(rule)?;
    if start == end {
        return None;
    }
    ALL.get_or_init(|| decompress(SOURCES)).get(*start as usize..*end as usize)
}

/// Whether a rule was checked against the source of the kind's controller.
pub(crate) fn is_verified(rule: usize) -> bool {
    PLACES.get(rule).is_some_and(|place| place.is_verified)
}

/// Rules with a key.
pub(crate) fn of_key(key: u32) -> impl Iterator<Item = usize> {
    let end = |part: usize| PART_ENDS.get(part).map_or(0, |end| usize::from(*end));
    let part = (key >> PART_SHIFT) as usize;
    let start = part.checked_sub(1).map_or(0, end);
    let found =
        INDEX.get(start..end(part)).unwrap_or_default().iter().filter(move |(known, _)| *known == key);
    found.map(|(_, rule)| usize::from(*rule))
}

/// Keys of a rule.
pub(crate) fn keys_of(rule: usize) -> impl Iterator<Item = u32> {
    INDEX.iter().filter(move |(_, found)| usize::from(*found) == rule).map(|(key, _)| *key)
}
