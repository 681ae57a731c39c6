//! Names, as apimachinery checks them, with its texts.

use crate::formats::label;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// `IsDNS1123Subdomain`.
pub(crate) fn subdomain(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > 253 {
        errors.push(too_long(253));
    }
    if !name.split('.').all(label) {
        errors.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{LABEL}(\\.{LABEL})*')"
        ));
    }
    errors
}

/// `IsDNS1123Label`.
pub(crate) fn label_1123(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push(too_long(63));
    }
    if !label(name) {
        errors.push(if name.split('.').all(label) {
            "must not contain dots".to_owned()
        } else {
            format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '{LABEL}')"
            )
        });
    }
    errors
}

/// `IsDNS1035Label`.
pub(crate) fn label_1035(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push(too_long(63));
    }
    if !label(name) || !name.starts_with(|one: char| one.is_ascii_lowercase()) {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn is_key(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|one| one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_' | b'.'))
}

fn key_words() -> String {
    format!(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
         (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{KEY}')"
    )
}

/// `IsQualifiedName`, also that of labels' keys.
pub(crate) fn qualified(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            errors.extend(subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                key_words()
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63)));
    }
    if !is_key(name) {
        errors.push(format!("name part {}", key_words()));
    }
    errors
}

/// `IsValidLabelValue`.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(too_long(63));
    }
    if !value.is_empty() && !is_key(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
             is '({KEY})?')"
        ));
    }
    errors
}

/// `IsPathSegmentName`, or the same of a prefix.
pub(crate) fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let parts = ["/", "%"].into_iter().filter(|part| name.contains(part));
    parts.map(|part| format!("may not contain '{part}'")).collect()
}

/// A name to which a suffix is to come, as upstream checks it: it replaces the last two characters.
pub(crate) fn masked(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(rest) if name.len() > 1 => {
            let mut rest: String = rest.to_owned();
            rest.pop();
            rest.push('a');
            rest
        }
        _ => name.to_owned(),
    }
}
