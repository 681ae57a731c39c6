//! Patterns that are alternatives of literal texts, such as `^(Error|Failed)$`, matched without a regular expression.

/// Alternatives of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alternatives(Vec<Anchored>);

/// A text, and where it must stand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Anchored {
    at_start: bool,
    at_end: bool,
    text: Box<str>,
}

impl Alternatives {
    /// `None` if the pattern is anything else.
    pub(crate) fn parse(pattern: &str) -> Option<Self> {
        let (anchored, inner) = Anchored::split(pattern);
        let group = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
        let alternatives = match group {
            // Anchors outside of the group are those of all alternatives.
            Some(group) => group.split('|').map(|text| anchored.with(text)).collect::<Option<_>>()?,
            None => {
                let each = pattern.split('|').map(|text| {
                    let (anchored, inner) = Anchored::split(text);
                    anchored.with(inner)
                });
                each.collect::<Option<_>>()?
            }
        };
        Some(Self(alternatives))
    }

    /// Whether one of them stands in a text.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.iter().any(|alternative| match (alternative.at_start, alternative.at_end) {
            (false, false) => text.contains(&*alternative.text),
            (true, false) => text.starts_with(&*alternative.text),
            (false, true) => text.ends_with(&*alternative.text),
            (true, true) => *text == *alternative.text,
        })
    }
}

impl Anchored {
    /// The anchors of a pattern, and what is between them.
    fn split(pattern: &str) -> (Self, &str) {
        let (at_start, rest) = match pattern.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (at_end, inner) = match rest.strip_suffix('$') {
            Some(inner) => (true, inner),
            None => (false, rest),
        };
        (Self { at_start, at_end, text: Box::default() }, inner)
    }

    /// `None` if the text has characters with a meaning.
    fn with(&self, text: &str) -> Option<Self> {
        let is_literal = !text.contains(|char| "\\.+*?()|[]{}^$".contains(char));
        is_literal.then(|| Self { text: text.into(), ..*self })
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn simple_patterns_are_recognized() {
        for (pattern, is_simple) in [
            ("Error", true),
            ("(Error|Failed)$", true),
            ("^(Error|Failed)$", true),
            ("^Invalid|Error$|Failed", true),
            ("^$", true),
            ("", true),
            ("not (ready|healthy)", false),
            ("(a|b)(c|d)", false),
            ("(?i)error", false),
            ("Errors?", false),
            ("a\\$", false),
            ("^^a", false),
            ("(a$|b)", false),
        ] {
            assert_eq!(Alternatives::parse(pattern).is_some(), is_simple, "{pattern}");
        }
    }

    /// All texts of up to four of these letters.
    fn texts() -> Vec<String> {
        let mut texts = vec![String::new()];
        for length in 0..4 {
            let longest: Vec<String> = texts.iter().filter(|text| text.len() == length).cloned().collect();
            texts.extend(
                longest.iter().flat_map(|text| ["a", "b", " "].map(|letter| format!("{text}{letter}"))),
            );
        }
        texts
    }

    #[test]
    fn they_match_as_regular_expressions_do() {
        let texts = texts();
        let parts = ["", "a", "b", "ab", "a b", "ba"];
        let mut patterns: Vec<String> = Vec::new();
        for (first, second) in parts.iter().flat_map(|first| parts.map(|second| (first, second))) {
            for (before, after) in [("", ""), ("^", ""), ("", "$"), ("^", "$")] {
                patterns.push(format!("{before}({first}|{second}){after}"));
                patterns.push(format!("{before}{first}|{second}{after}"));
                patterns.push(format!("{before}{first}{after}"));
            }
        }
        for pattern in patterns {
            let simple = Alternatives::parse(&pattern).expect("a simple pattern");
            let regex = Regex::new(&pattern).expect("a pattern");
            for text in &texts {
                assert_eq!(simple.is_match(text), regex.is_match(text), "{pattern} {text:?}");
            }
        }
    }
}
