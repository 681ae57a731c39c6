//! Addresses, networks and URLs, as Go reads them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// An address; none with a zone, and none of IPv4 in IPv6.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let wrong = |what: &str| {
        Err(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {what}"
        ))
    };
    if text.contains('%') && text.contains(':') {
        let bare = text.split('%').next().unwrap_or_default();
        return match bare.parse::<Ipv6Addr>() {
            Ok(_) if text.ends_with('%') => wrong("zone must be a non-empty string"),
            Ok(_) => Err(format!("IP address {text:?} with zone value is not allowed")),
            Err(_) => wrong("unable to parse IP"),
        };
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => wrong(&ip_error(text)),
    }
}

fn ip_error(text: &str) -> String {
    let Some(first) = text.find(['.', ':', '%']) else { return "unable to parse IP".to_owned() };
    if text.get(first..=first) == Some(".") {
        let mut fields = 0;
        let mut field = String::new();
        for (at, char) in text.char_indices() {
            match char {
                '0'..='9' => {
                    if field == "0" {
                        return "IPv4 field has octet with leading zero".to_owned();
                    }
                    field.push(char);
                    if field.parse::<u32>().is_ok_and(|value| value > 255) {
                        return "IPv4 field has value >255".to_owned();
                    }
                }
                '.' => {
                    let rest = text.get(at..).unwrap_or_default();
                    if field.is_empty() || rest.len() == 1 {
                        return format!("IPv4 field must have at least one digit (at {rest:?})");
                    }
                    if fields == 3 {
                        return "IPv4 address too long".to_owned();
                    }
                    fields += 1;
                    field.clear();
                }
                _ => return format!("unexpected character (at {:?})", text.get(at..).unwrap_or_default()),
            }
        }
        return "IPv4 address too short".to_owned();
    }
    "unable to parse IP".to_owned()
}

/// As Go writes addresses: IPv6 in its shortest form.
pub(crate) fn ip_text(address: IpAddr) -> String {
    match address {
        IpAddr::V6(address)
            if address.to_ipv4().is_some() && address.segments().get(6).copied() != Some(0) =>
        {
            let [.., a, b] = address.segments();
            format!("::{a:x}:{b:x}")
        }
        address => address.to_string(),
    }
}

/// A network, with the address as it was given.
pub(crate) fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = |what: &str| {
        let message = format!("netip.ParsePrefix({text:?}): {what}");
        Err(format!("network address parse error during conversion from string: {message}"))
    };
    let Some((address, bits)) = text.rsplit_once('/') else { return wrong("no '/'") };
    if address.contains('%') {
        return wrong("IPv6 zones cannot be present in a prefix");
    }
    let Ok(parsed) = address.parse::<IpAddr>() else {
        let what = format!("ParseAddr({address:?}): {}", ip_error(address));
        return wrong(&what);
    };
    let is_plain = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain || (bits.len() > 1 && bits.starts_with('0')) {
        return wrong(&format!("bad bits after slash: {bits:?}"));
    }
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    let Some(bits) = bits.parse::<u8>().ok().filter(|bits| *bits <= most) else {
        return wrong("prefix length out of range");
    };
    if let IpAddr::V6(address) = parsed
        && address.to_ipv4_mapped().is_some()
    {
        let shown = text.rsplit_once('/').map_or(text, |(address, _)| address);
        let _ = shown;
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok((parsed, bits))
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u8) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - u32::from(bits.min(128))) }
}

/// The network's first address.
pub(crate) fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4((((bits_of(address) & mask(bits)) >> 96) as u32).into()),
        IpAddr::V6(_) => IpAddr::V6((bits_of(address) & mask(bits)).into()),
    }
}

pub(crate) fn contains(network: (IpAddr, u8), address: IpAddr) -> bool {
    network.0.is_ipv4() == address.is_ipv4() && masked(network.0, network.1) == masked(address, network.1)
}

/// What a method of an address says.
pub(crate) fn is(address: IpAddr, what: &str) -> bool {
    let link_local_unicast = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    match what {
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => match address {
            IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
            IpAddr::V6(address) => address.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
        },
        "isLinkLocalUnicast" => link_local_unicast,
        _ => {
            let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            !broadcast
                && !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !link_local_unicast
        }
    }
}

/// An absolute URL.
#[derive(Debug, Default)]
pub(crate) struct Url {
    pub(crate) text: String,
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) path: String,
    query: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("parse {text:?}: {what}"));
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return wrong("net/url: invalid control character in URL");
        }
        if text.is_empty() {
            return wrong("empty url");
        }
        let mut url = Self { text: text.to_owned(), ..Self::default() };
        let before_fragment = text.split('#').next().unwrap_or_default();
        let mut rest = before_fragment;
        if let Some(at) = rest.find(|char: char| !(char.is_ascii_alphanumeric() || "+-.".contains(char)))
            && rest.get(at..=at) == Some(":")
        {
            if at == 0 {
                return wrong("missing protocol scheme");
            }
            if rest.starts_with(|char: char| char.is_ascii_alphabetic()) {
                url.scheme = rest.get(..at).unwrap_or_default().to_ascii_lowercase();
                rest = rest.get(at + 1..).unwrap_or_default();
            }
        }
        if let Some((before, query)) = rest.split_once('?') {
            rest = before;
            url.query = query.to_owned();
        }
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                return Ok(url);
            }
            return wrong("invalid URI for request");
        }
        if (!url.scheme.is_empty() || !rest.starts_with("///"))
            && let Some(tail) = rest.strip_prefix("//")
        {
            let end = tail.find('/').unwrap_or(tail.len());
            let (authority, path) = tail.split_at(end);
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            if let Some(what) = host_error(host) {
                return wrong(&what);
            }
            url.host = host.to_owned();
            rest = path;
        }
        if let Some(at) = bad_escape(rest) {
            return wrong(&format!("invalid URL escape {at:?}"));
        }
        url.path = escaped_path(rest);
        Ok(url)
    }

    pub(crate) fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[') {
            return rest.split(']').next().unwrap_or_default();
        }
        self.host.rsplit_once(':').map_or(&*self.host, |(name, _)| name)
    }

    pub(crate) fn port(&self) -> &str {
        let after = self.host.rsplit_once(']').map_or(&*self.host, |(_, after)| after);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    pub(crate) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape_query(key), unescape_query(value)) {
                found.entry(key).or_default().push(value);
            }
        }
        found
    }
}

fn bad_escape(text: &str) -> Option<&str> {
    for (at, _) in text.match_indices('%') {
        let escape = text.get(at + 1..at + 3);
        if !escape.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let end = (at + 3).min(text.len());
            return Some(text.get(at..end).unwrap_or("%"));
        }
    }
    None
}

fn host_error(host: &str) -> Option<String> {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        let Some((_, after)) = rest.rsplit_once(']') else { return Some("missing ']' in host".to_owned()) };
        let valid = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return (!valid).then(|| format!("invalid port {after:?} after host"));
    }
    if let Some((_, port)) = host.rsplit_once(':')
        && !is_port(port)
    {
        return Some(format!("invalid port {:?} after host", format!(":{port}")));
    }
    if let Some(at) = bad_escape(host) {
        return Some(format!("invalid URL escape {at:?}"));
    }
    let bad = host.chars().find(|char| {
        char.is_ascii() && !char.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*char)
    });
    bad.map(|char| format!("invalid character {:?} in host name", char.to_string()))
}

/// As Go gives a path back: as it was, where that is a valid encoding.
fn escaped_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&byte);
    for byte in path.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn unescape_query(text: &str) -> Option<String> {
    if bad_escape(text).is_some() {
        return None;
    }
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digits = text.get(at + 1..at + 3)?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'+' => out.push(b' '),
            byte => out.push(*byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
