//! The patterns of `matches`, `find` and `findAll`.

use regex::{Regex, RegexBuilder};
use settled_go::regexp;

/// The largest program of a pattern, in bytes.
const MAX_SIZE: usize = 4 << 20;
/// The longest pattern, in bytes.
const MAX_LENGTH: usize = 100_000;

/// A pattern, or what Go says is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let too_large = || "error parsing regexp: expression too large".to_owned();
    if pattern.len() > MAX_LENGTH {
        return Err(too_large());
    }
    let translated = regexp::translate(pattern).map_err(|error| error.to_string())?;
    RegexBuilder::new(&translated).size_limit(MAX_SIZE).build().map_err(|_| too_large())
}
