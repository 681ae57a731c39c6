//! `util/validation`, `api/validate/content` and the names of `api/validation`: validation of names, labels and values, with
//! upstream's messages.
//!
//! Upstream has two messages for excessive length: `util/validation` counts characters, `content` bytes. Both measure
//! bytes.

use std::borrow::Cow;

/// `DNS1123LabelMaxLength` in bytes; other labels have the same limit.
pub const LABEL_MAX_LENGTH: usize = 63;
/// `DNS1123SubdomainMaxLength`, in bytes.
pub const SUBDOMAIN_MAX_LENGTH: usize = 253;
/// `IsNegativeErrorMsg`.
pub const IS_NEGATIVE_ERROR_MSG: &str = "must be greater than or equal to 0";

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const WILDCARD_SUBDOMAIN: &str = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_KEY_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                                 character";
const LABEL_KEY_EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];

/// `MaxLenError` of `util/validation`.
pub fn max_len_error(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// `MaxLenError` of `content`.
fn max_bytes_error(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

/// `EmptyError`.
pub fn empty_error() -> &'static str {
    "must be non-empty"
}

/// `RegexError`.
pub fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    let mut text = format!("{message} (");
    for (index, example) in examples.iter().enumerate() {
        text.push_str(if index == 0 { "e.g. '" } else { " or '" });
        text.push_str(example);
        text.push_str("', ");
    }
    text + "regex used for validation is '" + pattern + "')"
}

/// `InclusiveRangeError`.
pub fn inclusive_range_error(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Matches `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
fn is_label(value: &[u8]) -> bool {
    value
        .first()
        .zip(value.last())
        .is_some_and(|(first, last)| is_lower_alphanumeric(*first) && is_lower_alphanumeric(*last))
        && value.iter().all(|byte| is_lower_alphanumeric(*byte) || *byte == b'-')
}

fn is_subdomain(value: &[u8]) -> bool {
    value.split(|byte| *byte == b'.').all(is_label)
}

/// Matches the pattern of the name part of label keys.
fn is_key(value: &[u8]) -> bool {
    value.first().is_some_and(u8::is_ascii_alphanumeric)
        && value.last().is_some_and(u8::is_ascii_alphanumeric)
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// `IsDNS1123Label`.
///
/// ```
/// use settled_apimachinery::validation::is_dns1123_label;
///
/// assert!(is_dns1123_label("web-1").is_empty());
/// assert_eq!(is_dns1123_label("web.shop"), ["must not contain dots"]);
/// ```
#[must_use]
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    dns1123_label(value.as_bytes())
}

fn dns1123_label(value: &[u8]) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX_LENGTH {
        errors.push(max_len_error(LABEL_MAX_LENGTH));
    }
    if is_label(value) {
        return errors;
    }
    errors.push(if is_subdomain(value) {
        "must not contain dots".to_owned()
    } else {
        let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                       start and end with an alphanumeric character";
        regex_error(message, DNS1123_LABEL, &["my-name", "123-abc"])
    });
    errors
}

/// `IsDNS1123Subdomain`. Its labels may exceed 63 bytes.
#[must_use]
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    dns1123_subdomain(value.as_bytes(), max_len_error)
}

fn dns1123_subdomain(value: &[u8], max_len_error: fn(usize) -> String) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        errors.push(max_len_error(SUBDOMAIN_MAX_LENGTH));
    }
    if !is_subdomain(value) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                       and must start and end with an alphanumeric character";
        errors.push(regex_error(message, DNS1123_SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// `IsDNS1035Label`.
#[must_use]
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    dns1035_label(value.as_bytes())
}

fn dns1035_label(value: &[u8]) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX_LENGTH {
        errors.push(max_len_error(LABEL_MAX_LENGTH));
    }
    if !is_label(value) || !value.first().is_some_and(u8::is_ascii_lowercase) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                       alphabetic character, and end with an alphanumeric character";
        errors.push(regex_error(message, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    errors
}

/// `IsWildcardDNS1123Subdomain`.
#[must_use]
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        errors.push(max_len_error(SUBDOMAIN_MAX_LENGTH));
    }
    if !value.strip_prefix("*.").is_some_and(|rest| is_subdomain(rest.as_bytes())) {
        let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
                       must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
                       character";
        errors.push(regex_error(message, WILDCARD_SUBDOMAIN, &["*.example.com"]));
    }
    errors
}

/// `IsQualifiedName`, which is `IsLabelKey`.
///
/// ```
/// use settled_apimachinery::validation::is_qualified_name;
///
/// assert!(is_qualified_name("app.kubernetes.io/name").is_empty());
/// assert_eq!(is_qualified_name("/name"), ["prefix part must be non-empty"]);
/// ```
#[must_use]
pub fn is_qualified_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let (prefix, name) = match value.split_once('/') {
        None => (None, value),
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => {
            let rule = regex_error(LABEL_KEY_MESSAGE, LABEL_KEY, &LABEL_KEY_EXAMPLES);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    match prefix {
        Some("") => errors.push(format!("prefix part {}", empty_error())),
        Some(prefix) => {
            let wrong = dns1123_subdomain(prefix.as_bytes(), max_bytes_error);
            errors.extend(wrong.into_iter().map(|error| format!("prefix part {error}")));
        }
        None => {}
    }
    if name.is_empty() {
        errors.push(format!("name part {}", empty_error()));
    } else if name.len() > LABEL_MAX_LENGTH {
        errors.push(format!("name part {}", max_bytes_error(LABEL_MAX_LENGTH)));
    }
    if !is_key(name.as_bytes()) {
        let rule = regex_error(LABEL_KEY_MESSAGE, LABEL_KEY, &LABEL_KEY_EXAMPLES);
        errors.push(format!("name part {rule}"));
    }
    errors
}

/// `IsValidLabelValue`.
#[must_use]
pub fn is_valid_label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX_LENGTH {
        errors.push(max_bytes_error(LABEL_MAX_LENGTH));
    }
    if !value.is_empty() && !is_key(value.as_bytes()) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                       must start and end with an alphanumeric character";
        errors.push(regex_error(message, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// `IsPathSegmentName`.
#[must_use]
pub fn is_path_segment_name(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    is_path_segment_prefix(name)
}

/// `IsPathSegmentPrefix`.
#[must_use]
pub fn is_path_segment_prefix(name: &str) -> Vec<String> {
    let found = ["/", "%"].into_iter().filter(|part| name.contains(part));
    found.map(|part| format!("may not contain '{part}'")).collect()
}

/// `IsConfigMapKey`.
#[must_use]
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        errors.push(max_len_error(SUBDOMAIN_MAX_LENGTH));
    }
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_error(message, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match value {
        "." | ".." => errors.push(format!("must not be '{value}'")),
        _ if value.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// `IsRelaxedEnvVarName`.
#[must_use]
pub fn is_relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec![format!("environment variable name {}", empty_error())];
    }
    if value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        return Vec::new();
    }
    let message =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![message.to_owned()]
}

/// `IsValidPortName`.
#[must_use]
pub fn is_valid_port_name(port: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if port.len() > 15 {
        errors.push(max_len_error(15));
    }
    if port.is_empty() || !port.bytes().all(|byte| is_lower_alphanumeric(byte) || byte == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !port.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if port.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if port.starts_with('-') || port.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// `IsValidPortNum`.
#[must_use]
pub fn is_valid_port_num(port: i64) -> Vec<String> {
    is_in_range(port, 1, 65535)
}

/// `IsInRange`.
#[must_use]
pub fn is_in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) { Vec::new() } else { vec![inclusive_range_error(low, high)] }
}

/// `IsValidPercent`.
#[must_use]
pub fn is_valid_percent(percent: &str) -> Vec<String> {
    let digits = percent.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(message, "[0-9]+%", &["1%", "93%"])]
}

/// `NameIsDNSSubdomain`; with `prefix`, the name is a `generateName` prefix.
#[must_use]
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&mask_trailing_dash(name, prefix), max_len_error)
}

/// `NameIsDNSLabel`.
#[must_use]
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&mask_trailing_dash(name, prefix))
}

/// `NameIsDNS1035Label`.
#[must_use]
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&mask_trailing_dash(name, prefix))
}

/// `ValidatePathSegmentName`.
#[must_use]
pub fn validate_path_segment_name(name: &str, prefix: bool) -> Vec<String> {
    if prefix { is_path_segment_prefix(name) } else { is_path_segment_name(name) }
}

/// `maskTrailingDash`: removes two bytes and appends one, so the byte before the dash is masked, too.
fn mask_trailing_dash(name: &str, prefix: bool) -> Cow<'_, [u8]> {
    match name.as_bytes() {
        [kept @ .., _, b'-'] if prefix => Cow::Owned([kept, b"a"].concat()),
        name => Cow::Borrowed(name),
    }
}
