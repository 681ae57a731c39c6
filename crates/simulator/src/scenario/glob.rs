//! Globs: `*` stands for any characters, also none.

/// Does a text match a pattern?
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place is the best one: what follows has the most left to match.
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_match_any_characters() {
        for (pattern, text, expected) in [
            ("web", "web", true),
            ("web", "web2", false),
            ("*", "", true),
            ("web-*", "web-", true),
            ("web-*", "we", false),
            ("*:2", "reg/web:2", true),
            ("*/web:*", "reg/team/web:2", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
