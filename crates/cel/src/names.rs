//! The named formats of Kubernetes: what a name or a label may be.

use settled_go::{base64, url};

use crate::time;

/// A format that texts may be checked against.
#[derive(Debug)]
pub struct Format {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    /// How long upstream takes its pattern to be, for costs.
    pub(crate) pattern: u64,
    check: fn(&str) -> Vec<String>,
}

macro_rules! format {
    ($id:literal, $name:literal, $pattern:literal, $check:expr) => {
        Format { id: $id, name: $name, pattern: $pattern, check: $check }
    };
}

static FORMATS: &[Format] = &[
    format!("dns1123Label", "DNS1123Label", 30, label),
    format!("dns1123Subdomain", "DNS1123Subdomain", 60, subdomain),
    format!("dns1035Label", "DNS1035Label", 30, old_label),
    format!("qualifiedName", "QualifiedName", 60, qualified),
    format!("dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| label(&prefix(text))),
    format!("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60, |text| subdomain(&prefix(text))),
    format!("dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| old_label(&prefix(text))),
    format!("labelValue", "LabelValue", 40, label_value),
    format!("uri", "URI", 1103, uri_errors),
    format!("uuid", "uuid", 70, |text| one(is_uuid(text), "does not match the UUID format")),
    format!("byte", "byte", 84, |text| one(base64::is_base64(text), "invalid base64")),
    format!("date", "date", 71, |text| one(time::parse_date(text).is_some(), "invalid date")),
    format!("datetime", "datetime", 71, |text| one(is_date_time(text), "invalid datetime")),
];

pub(crate) fn named(id: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.id == id)
}

impl Format {
    /// What is wrong with a text.
    pub(crate) fn check(&self, text: &str) -> Vec<String> {
        (self.check)(text)
    }
}

fn one(is_valid: bool, message: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![message.to_owned()] }
}

fn prefix(text: &str) -> String {
    // Upstream cuts two characters and appends one.
    match text.strip_suffix('-') {
        Some(rest) if text.len() > 1 => {
            let mut rest = rest.to_owned();
            rest.pop();
            rest.push('a');
            rest
        }
        _ => text.to_owned(),
    }
}

fn too_long(length: usize, most: usize) -> Vec<String> {
    one(length <= most, &["must be no more than ", &most.to_string(), " characters"].concat())
}

fn with_pattern(message: &str, examples: &str, pattern: &str) -> String {
    [message, " (e.g. ", examples, ", regex used for validation is '", pattern, "')"].concat()
}

fn is_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().copied().zip(bytes.last().copied());
    ends.is_some_and(|(first, last)| is_alnum(first) && is_alnum(last))
        && bytes.iter().all(|byte| is_alnum(*byte) || *byte == b'-')
}

fn label(text: &str) -> Vec<String> {
    let mut errors = too_long(text.len(), 63);
    if !is_label(text) {
        let is_subdomain = text.split('.').all(is_label);
        errors.push(if is_subdomain {
            "must not contain dots".to_owned()
        } else {
            with_pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character",
                "'my-name',  or '123-abc'",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            )
        });
    }
    errors
}

fn subdomain(text: &str) -> Vec<String> {
    let mut errors = too_long(text.len(), 253);
    if !text.split('.').all(is_label) {
        errors.push(with_pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            "'example.com'",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        ));
    }
    errors
}

fn old_label(text: &str) -> Vec<String> {
    let mut errors = too_long(text.len(), 63);
    if !is_label(text) || !text.starts_with(|char: char| char.is_ascii_lowercase()) {
        errors.push(with_pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "'my-name',  or 'abc-123'",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
        ));
    }
    errors
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().copied().zip(bytes.last().copied());
    ends.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn qualified(text: &str) -> Vec<String> {
    const MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                           alphanumeric character";
    const PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    const EXAMPLES: &str = "'MyName',  or 'my.name',  or '123-abc'";
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(prefix).into_iter().map(|error| ["prefix part ", &error].concat()));
            }
            *name
        }
        _ => {
            let message = ["a qualified name ", MESSAGE].concat();
            let message = with_pattern(&message, EXAMPLES, PATTERN);
            let more = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![[message.as_str(), more].concat()];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_name_part(name) {
        errors.push(["name part ", &with_pattern(MESSAGE, EXAMPLES, PATTERN)].concat());
    }
    errors
}

fn label_value(text: &str) -> Vec<String> {
    let mut errors = too_long(text.len(), 63);
    if !text.is_empty() && !is_name_part(text) {
        errors.push(with_pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            "'MyValue',  or 'my_value',  or '12345'",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
        ));
    }
    errors
}

fn uri_errors(text: &str) -> Vec<String> {
    url::parse_request_uri(text).err().map(|error| error.to_string()).into_iter().collect()
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|char| *char != '-').collect();
    let places = [8, 4, 4, 4, 12];
    let mut rest = text;
    for (at, length) in places.into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((part, tail)) = rest.split_at_checked(length) else { return false };
        if !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = tail;
    }
    rest.is_empty() && digits.len() == 32
}

fn is_date_time(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    text.len() >= 4 && time::parse_date_time(&upper).is_some_and(|_| upper.contains('T'))
}
