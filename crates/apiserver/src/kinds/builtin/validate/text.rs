//! Name and value formats (`IsDNS1123Label` and the like), with upstream's messages.

use std::net::IpAddr;

use settled_go::duration;

use crate::metadata::{self, NameRule};

/// What is wrong with a text: nothing, or some messages.
pub(super) type Wrong = Vec<String>;

/// A rule for a text.
pub(super) type Form = fn(&str) -> Wrong;

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn is_subdomain(text: &str) -> bool {
    metadata::is_subdomain(text)
}

/// `a-z`, digits, dashes; 63 of them.
pub(super) fn label(text: &str) -> Wrong {
    NameRule::Label.errors(text, false)
}

/// As a label, with a letter in front.
pub(super) fn label_1035(text: &str) -> Wrong {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    let fits = text.bytes().all(|byte| lower(byte) || byte == b'-')
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-');
    if !fits {
        wrong.push("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    wrong
}

/// Labels with dots between them; 253 characters.
pub(super) fn subdomain(text: &str) -> Wrong {
    NameRule::Subdomain.errors(text, false)
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whatever can be a part of a URL's path: the names of roles.
pub(super) fn path_segment(text: &str) -> Wrong {
    NameRule::Path.errors(text, false)
}

/// `*.` and a subdomain.
pub(super) fn wildcard_subdomain(text: &str) -> Wrong {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        wrong.push("a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    wrong
}

/// A label's key: a name, after a subdomain and a slash if it likes.
pub(super) fn label_key(text: &str) -> Wrong {
    metadata::qualified_name_errors(text)
}

/// A label's value: empty, or a name of 63 characters.
pub(super) fn label_value(text: &str) -> Wrong {
    metadata::label_value_errors(text)
}

/// A key of a ConfigMap or Secret, which becomes a file's name.
pub(super) fn config_key(text: &str) -> Wrong {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        wrong.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned());
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The name of a port.
pub(super) fn port_name(text: &str) -> Wrong {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|byte| lower(byte) || byte == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// The name of an environment variable: printable ASCII without `=`.
pub(super) fn env_name(text: &str) -> Wrong {
    if text.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// `25%`.
pub(super) fn percent(text: &str) -> Wrong {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    vec!["a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')".to_owned()]
}

/// An address as Go has read it once: zeros before a number count for nothing.
pub(super) fn any_address(text: &str) -> Option<IpAddr> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.trim_start_matches('0')).and_then(|rest| match rest {
            "" => Some(0),
            rest => rest.parse::<u8>().ok(),
        })
    };
    text.parse().ok().or_else(|| {
        let parts: Option<Vec<u8>> = text.split('.').map(number).collect();
        <[u8; 4]>::try_from(parts?).ok().map(IpAddr::from)
    })
}

/// An address, and how many of its bits are those of a network.
pub(super) fn any_range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = any_address(address)?;
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits = if digits { bits.trim_start_matches('0') } else { return None };
    let bits = if bits.is_empty() { 0 } else { bits.parse::<u8>().ok()? };
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

/// The bits of an address that are those of its network.
pub(super) fn masked(address: IpAddr, bits: u8) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits.into())?).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits.into())?).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    })
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// An address.
pub(super) fn address(text: &str) -> Wrong {
    let wrong = match any_address(text) {
        None => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        Some(_) if text.parse::<IpAddr>().is_err() => "must not have leading 0s",
        Some(address) if is_mapped(address) => "must not be an IPv4-mapped IPv6 address",
        Some(_) => return Vec::new(),
    };
    vec![wrong.to_owned()]
}

/// A network: an address, and how many of its bits count.
pub(super) fn address_range(text: &str) -> Wrong {
    let Some((address, bits)) = any_range(text) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    };
    let (first, last) = text.split_once('/').unwrap_or_default();
    let zeros = first.parse::<IpAddr>().is_err() || last.len() > 1 && last.starts_with('0');
    let wrong = if zeros {
        "must not have leading 0s in IP or prefix length"
    } else if is_mapped(address) {
        "must not have an IPv4-mapped IPv6 address"
    } else if masked(address, bits) != Some(address) {
        "must not have bits set beyond the prefix length"
    } else {
        return Vec::new();
    };
    vec![wrong.to_owned()]
}

/// A number of a port.
pub(super) fn port(number: i64) -> Wrong {
    range(number, 1, 65535)
}

/// A number within bounds.
pub(super) fn range(number: i64, low: i64, high: i64) -> Wrong {
    if (low..=high).contains(&number) {
        Vec::new()
    } else {
        vec![format!("must be between {low} and {high}, inclusive")]
    }
}

/// Whether a schedule is one to `robfig/cron`'s standard parser: the error is that parser's.
pub(super) fn schedule(text: &str) -> Result<(), String> {
    let mut text = text;
    if let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        text = rest.split_once(' ').map_or("", |(_, rest)| rest).trim();
    }
    if let Some(word) = text.strip_prefix('@') {
        return match word {
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => Ok(()),
            _ => match word.strip_prefix("every ") {
                Some(interval) => match duration::parse(interval) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(format!("failed to parse duration {text}: {error}")),
                },
                None => Err(format!("unrecognized descriptor: {text}")),
            },
        };
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let bounds: [(u32, u32, &[&str]); 5] =
        [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];
    for (field, (low, high, names)) in fields.into_iter().zip(bounds) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            cron_range(part, low, high, names)?;
        }
    }
    Ok(())
}

fn cron_range(text: &str, low: u32, high: u32, names: &[&str]) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let number = |word: &str| -> Result<u32, String> {
        if let Some(at) = names.iter().position(|name| name.eq_ignore_ascii_case(word)) {
            return Ok(low + u32::try_from(at).unwrap_or_default());
        }
        match word.parse::<i64>() {
            Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {word}")),
            Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
            Err(_) => Err(format!(
                "failed to parse int from {word}: strconv.Atoi: parsing {word:?}: invalid syntax"
            )),
        }
    };
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?"] => (low, high),
        [one] => number(one).map(|one| (one, one))?,
        [first, last] if *first != "*" && *first != "?" => (number(first)?, number(last)?),
        ["*" | "?", ..] => (low, high),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let mut step = 1;
    match parts.as_slice() {
        [_] => {}
        [_, every] => {
            step = number(every)?;
            if ends.len() == 1 {
                end = end.max(high);
            }
        }
        _ => return Err(format!("too many slashes: {text}")),
    }
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {text}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

/// What the name of a time zone is made of.
pub(super) fn part_of_zone(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    (1..=14).contains(&part.len())
        && part.bytes().all(fits)
        && !part.starts_with('-')
        && ![".", ".."].contains(&part)
}

/// Whether there is a time zone of this name.
pub(super) fn is_zone(name: &str) -> bool {
    static ZONES: &str = include_str!("../../../../data/timezones.txt");
    ["Local", "UTC"].contains(&name) || ZONES.lines().any(|zone| zone == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_schedules_are_read_as_go_reads_durations() {
        // What robfig/cron v3.0.1 answers.
        let cases = [
            ("@every 1h30m", ""),
            ("@every 5\u{b5}s", ""),
            ("@every 5\u{3bc}s", ""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every ", "failed to parse duration @every : time: invalid duration \"\""),
            (
                "@every 9999999999h",
                "failed to parse duration @every 9999999999h: time: invalid duration \"9999999999h\"",
            ),
            ("@every", "unrecognized descriptor: @every"),
        ];
        for (text, wanted) in cases {
            assert_eq!(schedule(text).err().unwrap_or_default(), wanted, "{text}");
        }
    }
}
