//! The formats of texts that upstream checks, each as the function of Go that it calls.

use std::net::IpAddr;
use std::sync::OnceLock;

use regex::Regex;
use settled_apimachinery::{net, validation};
use settled_go::{base64, duration as go_duration, mail, url};

/// A format that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
}

const NAMES: [(&str, Format); 26] = [
    ("bsonobjectid", Format::BsonObjectId),
    ("byte", Format::Byte),
    ("cidr", Format::Cidr),
    ("creditcard", Format::CreditCard),
    ("date", Format::Date),
    ("datetime", Format::DateTime),
    ("duration", Format::Duration),
    ("email", Format::Email),
    ("hexcolor", Format::HexColor),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("isbn", Format::Isbn),
    ("isbn10", Format::Isbn10),
    ("isbn13", Format::Isbn13),
    ("k8slongname", Format::LongName),
    ("mac", Format::Mac),
    ("password", Format::Password),
    ("rgbcolor", Format::RgbColor),
    ("k8sshortname", Format::ShortName),
    ("ssn", Format::Ssn),
    ("uri", Format::Uri),
    ("uuid", Format::Uuid),
    ("uuid3", Format::Uuid3),
    ("uuid4", Format::Uuid4),
    ("uuid5", Format::Uuid5),
];

impl Format {
    /// Dashes in a name do not count.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let bare = name.replace('-', "");
        NAMES.iter().find(|(name, _)| *name == bare).map(|(_, format)| *format)
    }

    /// Whether a text has the format.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::Byte => base64::is_base64(text),
            Self::Cidr => net::parse_cidr_sloppy(text).is_some(),
            Self::CreditCard => credit_card(text),
            Self::Date => date(text),
            Self::DateTime => date_time(text),
            Self::Duration => duration(text),
            Self::Email => mail::is_address(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Self::Hostname => hostname(text),
            Self::Ipv4 => text.contains('.') && net::parse_ip_sloppy(text).is_some(),
            Self::Ipv6 => text.contains(':') && text.parse::<IpAddr>().is_ok(),
            Self::Isbn => isbn10(text) || isbn13(text),
            Self::Isbn10 => isbn10(text),
            Self::Isbn13 => isbn13(text),
            Self::LongName => validation::is_dns1123_subdomain(text).is_empty(),
            Self::Mac => mac(text),
            Self::Password => true,
            Self::RgbColor => rgb_color(text),
            Self::ShortName => validation::is_dns1123_label(text).is_empty(),
            Self::Ssn => text.len() == 11 && ssn(text),
            Self::Uri => url::parse_request_uri(text).is_ok(),
            Self::Uuid => uuid(text, None, false),
            Self::Uuid3 => uuid(text, Some(b'3'), false),
            Self::Uuid4 => uuid(text, Some(b'4'), true),
            Self::Uuid5 => uuid(text, Some(b'5'), true),
        }
    }
}

fn credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let starts = |prefix: &str| digits.starts_with(prefix.as_bytes());
    let within = |first: usize, set: &[u8]| digits.get(first).is_some_and(|byte| set.contains(byte));
    let known = match digits.len() {
        13 => starts("4"),
        14 => (starts("30") && within(2, b"012345")) || starts("36") || starts("38"),
        15 => starts("34") || starts("37") || starts("2131") || starts("1800"),
        16 => {
            starts("4")
                || (starts("5") && within(1, b"12345"))
                || starts("6011")
                || starts("65")
                || starts("35")
        }
        _ => false,
    };
    let mut sum = 0;
    for (at, digit) in digits.iter().rev().enumerate() {
        let digit = u32::from(digit - b'0');
        sum += match (at % 2, digit * 2) {
            (0, _) => digit,
            (_, twice @ 10..) => twice % 10 + 1,
            (_, twice) => twice,
        };
    }
    known && sum % 10 == 0
}

/// `2006-01-02` of Go's `time.Parse`.
pub(crate) fn date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let part = bytes.get(range)?;
        part.iter()
            .all(u8::is_ascii_digit)
            .then(|| part.iter().fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0')))
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    (1..=12).contains(&month) && day >= 1 && day <= days_in(year, month)
}

pub(crate) fn days_in(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

fn date_time(text: &str) -> bool {
    static TIME: OnceLock<Option<Regex>> = OnceLock::new();
    if text.len() < 4 {
        return false;
    }
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    let pattern = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    date(day)
        && TIME
            .get_or_init(|| Regex::new(pattern).ok())
            .as_ref()
            .and_then(|time_of| time_of.captures(time))
            .is_some_and(|found| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59")
}

/// Go's durations, and Scala's: `2 days`, somewhere in the text.
fn duration(text: &str) -> bool {
    static PART: OnceLock<Option<Regex>> = OnceLock::new();
    if go_duration::parse(text).is_ok() {
        return true;
    }
    let Some(part) = PART.get_or_init(|| Regex::new(r"([0-9]+)[\t\n\x0C\r ]*([A-Za-zµ]+)").ok()).as_ref()
    else {
        return false;
    };
    let mut known = false;
    for found in part.captures_iter(text) {
        if found[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = found[2].to_lowercase();
        const UNITS: [&[&str]; 8] = [
            &["ns", "nano"],
            &["us", "µs", "micro"],
            &["ms", "milli"],
            &["s", "sec"],
            &["m", "min"],
            &["h", "hr", "hour"],
            &["d", "day"],
            &["w", "wk", "week"],
        ];
        // `μ` and `µ` are one letter to Go.
        let unit = unit.replace('μ', "µ");
        known |= UNITS.iter().any(|names| {
            names.contains(&unit.as_str()) || names.last().is_some_and(|last| unit.starts_with(last))
        });
    }
    known
}

fn hostname(text: &str) -> bool {
    static HOST: OnceLock<Option<Regex>> = OnceLock::new();
    const PATTERN: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    text.len() <= 255
        && text.split('.').all(|part| part.len() <= 63)
        && HOST
            .get_or_init(|| Regex::new(&PATTERN.replace("9-\\p", "9\\-\\p")).ok())
            .as_ref()
            .is_some_and(|host| host.is_match(text))
}

fn without_gaps(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | 0xc | b'\r' | b' ' | b'-')).collect()
}

fn isbn10(text: &str) -> bool {
    let digits = without_gaps(text);
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (at, digit) in digits.iter().enumerate() {
        let value = match digit {
            b'X' if at == 9 => 10,
            b'0'..=b'9' => usize::from(digit - b'0'),
            _ => return false,
        };
        sum += (at + 1) * value;
    }
    sum.is_multiple_of(11)
}

fn isbn13(text: &str) -> bool {
    let digits = without_gaps(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let mut sum = 0;
    for (at, digit) in digits[..12].iter().enumerate() {
        sum += u32::from(digit - b'0') * if at % 2 == 0 { 1 } else { 3 };
    }
    u32::from(digits[12] - b'0') == (10 - sum % 10) % 10
}

fn mac(text: &str) -> bool {
    let hex = |part: &[u8]| part.iter().all(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    if bytes.len() < 12 {
        return false;
    }
    let sizes = [6, 8, 20];
    if matches!(bytes[2], b':' | b'-') {
        let separator = bytes[2];
        let parts: Vec<_> = bytes.split(|byte| *byte == separator).collect();
        sizes.contains(&parts.len()) && parts.iter().all(|part| part.len() == 2 && hex(part))
    } else if bytes[4] == b'.' {
        let parts: Vec<_> = bytes.split(|byte| *byte == b'.').collect();
        sizes.contains(&(parts.len() * 2)) && parts.iter().all(|part| part.len() == 4 && hex(part))
    } else {
        sizes.contains(&(bytes.len() / 2)) && bytes.len().is_multiple_of(2) && hex(bytes)
    }
}

fn rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').collect();
    parts.len() == 3
        && parts.iter().all(|part| {
            let part = part.trim_matches(['\t', '\n', '\u{c}', '\r', ' ']);
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits && (part == "0" || !part.starts_with('0')) && part.len() <= 3 && part.parse::<u8>().is_ok()
        })
}

fn ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(second)) = (bytes.get(3), bytes.get(6)) else { return false };
    let mut digits = bytes.iter().enumerate().filter(|(at, _)| *at != 3 && *at != 6).map(|(_, byte)| byte);
    matches!(first, b'-' | b' ') && matches!(second, b'-' | b' ') && digits.all(u8::is_ascii_digit)
}

fn uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        if byte.is_ascii_hexdigit() {
            digits.push(byte.to_ascii_lowercase());
        } else if byte != b'-' || !matches!(digits.len(), 8 | 12 | 16 | 20) {
            return false;
        }
    }
    !text.contains("--")
        && digits.len() == 32
        && version.is_none_or(|version| digits[12] == version)
        && (!variant || matches!(digits[16], b'8' | b'9' | b'a' | b'b'))
}
