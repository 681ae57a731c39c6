//! Requests and response heads, for logging requests and printing the server's warnings.

use std::time::Duration;

use http::header::WARNING;
use http::{HeaderMap, StatusCode};

/// What a request asks for, as permissions name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One object.
    Get,
    /// All objects.
    List,
    /// All changes.
    Watch,
    /// To change something.
    Write,
    /// Which kinds there are.
    Discovery,
}

impl Verb {
    pub(crate) const ALL: [Self; 5] = [Self::Get, Self::List, Self::Watch, Self::Write, Self::Discovery];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Write => "write",
            Self::Discovery => "discovery",
        }
    }
}

/// Accepts the metadata of one object, which is enough to know that it is there and who owns it.
pub const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The same of a list.
pub const PARTIAL_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A request, and the head of its answer. Neither has a body here: nothing logs the content of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What was asked for.
    pub verb: Verb,
    /// The HTTP method.
    pub method: String,
    /// The path with its query, after the server's URL.
    pub path: String,
    /// The HTTP status code; none if there was no answer.
    pub status: Option<u16>,
    /// How long the head of the answer took.
    pub elapsed: Duration,
    /// What the server warns of (`Warning` headers of code 299).
    pub warnings: Vec<String>,
}

impl Exchange {
    /// The words for the status code, such as `OK`; empty where there are none.
    #[must_use]
    pub fn status_text(&self) -> &'static str {
        let status = self.status.and_then(|status| StatusCode::from_u16(status).ok());
        status.and_then(|status| status.canonical_reason()).unwrap_or_default()
    }
}

/// The texts of all warnings for users, which have the code 299.
pub(crate) fn warnings(headers: &HeaderMap) -> Vec<String> {
    let mut all = Vec::new();
    for header in headers.get_all(WARNING) {
        let text = String::from_utf8_lossy(header.as_bytes());
        let mut rest = &*text;
        while let Some((warning, after)) = warning(rest) {
            all.extend(warning);
            rest = after;
        }
    }
    all
}

/// `299 - "text" "date", …`: the text, and what follows the comma. As `ParseWarningHeader` of apimachinery.
fn warning(header: &str) -> Option<(Option<String>, &str)> {
    let (code, rest) = header.trim_start().split_once(' ')?;
    let (_agent, rest) = rest.split_once(' ')?;
    if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (text, rest) = quoted(rest)?;
    let rest = quoted(rest.trim_start()).map_or(rest, |(_date, rest)| rest).trim_start();
    let rest = rest.strip_prefix(',').unwrap_or_default();
    Some(((code == "299" && !text.is_empty()).then_some(text), rest))
}

/// A quoted string with its escapes, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let (mut value, mut escaped) = (String::new(), false);
    for (index, char) in inner.char_indices() {
        match char {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some((value, &inner[index + 1..])),
            char => {
                value.push(char);
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_as_upstream_reads_them() {
        let cases: [(&str, &[&str]); 8] = [
            (r#"299 - "plain""#, &["plain"]),
            (r#"299 agent "a \"b\" \\ c" "Wed, 21 Oct 2015 07:28:00 GMT""#, &[r#"a "b" \ c"#]),
            (r#"299 - "first", 299 - "second""#, &["first", "second"]),
            (r#"199 - "not for users", 299 - "for users""#, &["for users"]),
            (r#"299 - """#, &[]),
            (r#"299 - "open"#, &[]),
            ("299 - bare", &[]),
            ("29 - \"short\"", &[]),
        ];
        for (header, expected) in cases {
            let headers = HeaderMap::from_iter([(WARNING, header.parse().unwrap())]);
            assert_eq!(warnings(&headers), expected, "{header}");
        }
    }
}
