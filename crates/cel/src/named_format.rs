//! Kubernetes' named formats: syntax of names and labels.

use settled_apimachinery::validation;
use settled_go::{base64, url};

use crate::time;

/// A format to validate strings against.
#[derive(Debug)]
pub struct Format {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    /// Length of upstream's pattern, for costs.
    pub(crate) pattern: u64,
    check: fn(&str) -> Vec<String>,
}

macro_rules! format {
    ($id:literal, $name:literal, $pattern:literal, $check:expr) => {
        Format { id: $id, name: $name, pattern: $pattern, check: $check }
    };
}

static FORMATS: &[Format] = &[
    format!("dns1123Label", "DNS1123Label", 30, validation::is_dns1123_label),
    format!("dns1123Subdomain", "DNS1123Subdomain", 60, validation::is_dns1123_subdomain),
    format!("dns1035Label", "DNS1035Label", 30, validation::is_dns1035_label),
    format!("qualifiedName", "QualifiedName", 60, validation::is_qualified_name),
    format!("dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| validation::name_is_dns_label(text, true)),
    format!(
        "dns1123SubdomainPrefix",
        "DNS1123SubdomainPrefix",
        60,
        |text| validation::name_is_dns_subdomain(text, true)
    ),
    format!("dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| validation::name_is_dns1035_label(
        text, true
    )),
    format!("labelValue", "LabelValue", 40, validation::is_valid_label_value),
    format!("uri", "URI", 1103, uri_errors),
    format!("uuid", "uuid", 70, |text| unless(is_uuid(text), "does not match the UUID format")),
    format!("byte", "byte", 84, |text| unless(base64::is_base64(text), "invalid base64")),
    format!("date", "date", 71, |text| unless(time::parse_date(text).is_some(), "invalid date")),
    format!("datetime", "datetime", 71, |text| unless(is_date_time(text), "invalid datetime")),
];

pub(crate) fn named(id: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.id == id)
}

impl Format {
    /// Validation errors of a string.
    pub(crate) fn check(&self, text: &str) -> Vec<String> {
        (self.check)(text)
    }
}

fn unless(is_valid: bool, message: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![message.to_owned()] }
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
