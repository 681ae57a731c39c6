//! Embedded profile files. A new profile is a file in `profiles/` and a line here.

/// Names and texts.
pub(super) const FILES: &[(&str, &str)] = &[];
