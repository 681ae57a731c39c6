//! Texts of bounded length.

const ELLIPSIS: &str = "...";

/// Truncates a text to a size in bytes, including an ellipsis.
pub(crate) fn truncate(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

/// Joins the first texts with a separator, and appends the number of the others.
pub(crate) fn join(texts: impl IntoIterator<Item = String>, separator: &str, max: usize) -> String {
    let mut texts = texts.into_iter();
    let mut joined = String::new();
    for (index, text) in texts.by_ref().take(max).enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&text);
    }
    match texts.count() {
        0 => joined,
        more => format!("{joined} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(truncate("short", 5), "short");
        assert_eq!(truncate("longer", 5), "lo...");
        assert_eq!(truncate("éééé", 7), "éé...");
        assert_eq!(truncate("éééé", 6), "é...");
    }

    #[test]
    fn a_list_names_the_first_and_counts_the_rest() {
        let names = |count: usize| (0..count).map(|index| format!("web-{index}"));
        assert_eq!(join(names(0), ", ", 2), "");
        assert_eq!(join(names(2), ", ", 2), "web-0, web-1");
        assert_eq!(join(names(5), ", ", 2), "web-0, web-1 and 3 more");
    }
}
