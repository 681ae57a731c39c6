//! `net/netip`: addresses and prefixes.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::strconv::quote;

/// `netip.Addr`: an address, optionally with a zone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Addr {
    /// The address. IPv4-mapped IPv6 addresses are IPv6.
    pub ip: IpAddr,
    /// The zone of an IPv6 address, or empty.
    pub zone: String,
}

/// `netip.Prefix`: an address and a prefix length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prefix {
    /// The address, not masked.
    pub ip: IpAddr,
    /// The prefix length.
    pub bits: u8,
}

/// Parse error of an address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseAddrError {
    text: String,
    message: &'static str,
    /// The remaining text at the error.
    rest: String,
}

impl fmt::Display for ParseAddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParseAddr({}): {}", quote(&self.text), self.message)?;
        if self.rest.is_empty() { Ok(()) } else { write!(f, " (at {})", quote(&self.rest)) }
    }
}

impl Error for ParseAddrError {}

/// Parse error of a prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParsePrefixError {
    text: String,
    message: String,
}

impl fmt::Display for ParsePrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "netip.ParsePrefix({}): {}", quote(&self.text), self.message)
    }
}

impl Error for ParsePrefixError {}

/// `netip.ParseAddr`.
///
/// ```
/// use settled_go::netip;
///
/// assert_eq!(netip::parse_addr("fe80::1%eth0").map(|addr| addr.zone).as_deref(), Ok("eth0"));
/// let error = netip::parse_addr("10.0.0.01").unwrap_err();
/// assert_eq!(error.to_string(), r#"ParseAddr("10.0.0.01"): IPv4 field has octet with leading zero"#);
/// ```
///
/// # Errors
/// The text is not an address.
pub fn parse_addr(text: &str) -> Result<Addr, ParseAddrError> {
    let parser = Parser { text };
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => {
            let ip = Ipv4Addr::from(parser.ipv4(text)?).into();
            Ok(Addr { ip, zone: String::new() })
        }
        Some(b':') => parser.ipv6(),
        Some(_) => Err(parser.error("missing IPv6 address", "")),
        None => Err(parser.error("unable to parse IP", "")),
    }
}

/// `netip.ParsePrefix`.
///
/// # Errors
/// The text is not a prefix.
pub fn parse_prefix(text: &str) -> Result<Prefix, ParsePrefixError> {
    let error = |message: String| ParsePrefixError { text: text.to_owned(), message };
    let Some((addr, bits)) = text.rsplit_once('/') else { return Err(error("no '/'".to_owned())) };
    let addr = parse_addr(addr).map_err(|inner| error(inner.to_string()))?;
    if !addr.zone.is_empty() {
        return Err(error("IPv6 zones cannot be present in a prefix".to_owned()));
    }
    let is_plain = bits.len() < 2 || bits.starts_with(|char| matches!(char, '1'..='9'));
    let Some(count) = bits.parse::<i64>().ok().filter(|_| is_plain) else {
        return Err(error(format!("bad bits after slash: {}", quote(bits))));
    };
    let max = if addr.ip.is_ipv4() { 32 } else { 128 };
    match u8::try_from(count) {
        Ok(bits) if bits <= max => Ok(Prefix { ip: addr.ip, bits }),
        _ => Err(error("prefix length out of range".to_owned())),
    }
}

struct Parser<'t> {
    text: &'t str,
}

impl Parser<'_> {
    fn error(&self, message: &'static str, rest: &str) -> ParseAddrError {
        ParseAddrError { text: self.text.to_owned(), message, rest: rest.to_owned() }
    }

    /// `parseIPv4Fields`.
    fn ipv4(&self, part: &str) -> Result<[u8; 4], ParseAddrError> {
        let (mut fields, mut position) = ([0; 4], 0);
        let (mut value, mut digits) = (0_u8, 0);
        for (index, char) in part.char_indices() {
            let rest = &part[index..];
            match char {
                '0'..='9' => {
                    if digits == 1 && value == 0 {
                        return Err(self.error("IPv4 field has octet with leading zero", ""));
                    }
                    let sum = u32::from(value) * 10 + u32::from(char) - u32::from('0');
                    value = u8::try_from(sum).map_err(|_| self.error("IPv4 field has value >255", ""))?;
                    digits += 1;
                }
                '.' => {
                    if digits == 0 || rest.len() == 1 {
                        return Err(self.error("IPv4 field must have at least one digit", rest));
                    }
                    if position == 3 {
                        return Err(self.error("IPv4 address too long", ""));
                    }
                    fields[position] = value;
                    position += 1;
                    (value, digits) = (0, 0);
                }
                _ => return Err(self.error("unexpected character", rest)),
            }
        }
        if position < 3 {
            return Err(self.error("IPv4 address too short", ""));
        }
        fields[3] = value;
        Ok(fields)
    }

    /// `parseIPv6`.
    fn ipv6(&self) -> Result<Addr, ParseAddrError> {
        let (mut rest, zone) = match self.text.split_once('%') {
            Some((_, "")) => return Err(self.error("zone must be a non-empty string", "")),
            Some((address, zone)) => (address, zone),
            None => (self.text, ""),
        };
        let made = |bytes: [u8; 16]| Addr { ip: Ipv6Addr::from(bytes).into(), zone: zone.to_owned() };
        let mut bytes = [0_u8; 16];
        let mut ellipsis = None;
        if let Some(after) = rest.strip_prefix("::") {
            ellipsis = Some(0);
            rest = after;
            if rest.is_empty() {
                return Ok(made(bytes));
            }
        }
        let mut filled = 0;
        while filled < 16 {
            let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
            if digits > 4 {
                return Err(self.error("each group must have 4 or less digits", rest));
            }
            let (group, after) = rest.split_at(digits);
            let Ok(group) = u16::from_str_radix(group, 16) else {
                let message = "each colon-separated field must have at least one digit";
                return Err(self.error(message, rest));
            };
            if after.starts_with('.') {
                if ellipsis.is_none() && filled != 12 {
                    let message = "embedded IPv4 address must replace the final 2 fields of the address";
                    return Err(self.error(message, rest));
                }
                if filled + 4 > 16 {
                    let message = "too many hex fields to fit an embedded IPv4 at the end of the address";
                    return Err(self.error(message, rest));
                }
                bytes[filled..filled + 4].copy_from_slice(&self.ipv4(rest)?);
                filled += 4;
                rest = "";
                break;
            }
            bytes[filled..filled + 2].copy_from_slice(&group.to_be_bytes());
            filled += 2;
            rest = after;
            if rest.is_empty() {
                break;
            }
            match rest.strip_prefix(':') {
                None => return Err(self.error("unexpected character, want colon", rest)),
                Some("") => return Err(self.error("colon must be followed by more characters", rest)),
                Some(after) => rest = after,
            }
            if let Some(after) = rest.strip_prefix(':') {
                if ellipsis.is_some() {
                    return Err(self.error("multiple :: in address", rest));
                }
                ellipsis = Some(filled);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
        }
        if !rest.is_empty() {
            return Err(self.error("trailing garbage after address", rest));
        }
        match ellipsis {
            None if filled < 16 => return Err(self.error("address string too short", "")),
            Some(_) if filled == 16 => {
                return Err(self.error("the :: must expand to at least one field of zeros", ""));
            }
            // The groups after the ellipsis are right-aligned.
            Some(start) => bytes[start..].rotate_right(16 - filled),
            None => {}
        }
        Ok(made(bytes))
    }
}
