//! Comparison without regard to case, as Go's `strings.EqualFold` does it.

/// Whether two texts are the same under Unicode's simple case folding, as Go's `strings.EqualFold`.
pub(super) fn fold_equal(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && a.chars().map(fold).eq(b.chars().map(fold)))
}

/// A character that all of the same folding have in common.
fn fold(char: char) -> char {
    // It has an upper case, and yet folds to itself.
    if char == 'ı' {
        return char;
    }
    let single = |mut chars: &mut dyn Iterator<Item = char>| match (chars.next(), (&mut chars).next()) {
        (Some(mapped), None) => Some(mapped),
        _ => None,
    };
    let upper = single(&mut char.to_uppercase()).unwrap_or(char);
    single(&mut upper.to_lowercase()).unwrap_or(upper)
}
