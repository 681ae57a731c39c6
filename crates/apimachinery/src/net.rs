//! `k8s.io/utils/net` and the IP validation of `util/validation`: parses addresses as Go before 1.17, with leading
//! zeros.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use settled_go::netip;

/// Upper bound of parsed numbers.
const BIG: u32 = 0xff_ffff;

/// `ParseIPSloppy`. IPv4-mapped IPv6 addresses stay IPv6.
///
/// ```
/// use settled_apimachinery::net::parse_ip_sloppy;
///
/// assert_eq!(parse_ip_sloppy("010.0.0.01"), "10.0.0.1".parse().ok());
/// assert_eq!(parse_ip_sloppy("10.0.0"), None);
/// ```
#[must_use]
pub fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    match text.bytes().find(|byte| matches!(byte, b'.' | b':'))? {
        b'.' => parse_ipv4(text).map(IpAddr::V4),
        _ => parse_ipv6(text).map(IpAddr::V6),
    }
}

/// `ParseCIDRSloppy`: the address and the prefix length.
#[must_use]
pub fn parse_cidr_sloppy(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse_ipv4(address).map(IpAddr::V4).or_else(|| parse_ipv6(address).map(IpAddr::V6))?;
    let (count, rest) = number(bits, 10)?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(count).ok().filter(|bits| rest.is_empty() && *bits <= max)?;
    Some((address, bits))
}

/// Masks an address to its network.
#[must_use]
pub fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits.into())).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits.into())).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

/// `IsValidIPForLegacyField`, strict.
#[must_use]
pub fn is_valid_ip_for_legacy_field(value: &str) -> Vec<String> {
    let Some(address) = parse_ip_sloppy(value) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    if netip::parse_addr(value).is_err() {
        return vec!["must not have leading 0s".to_owned()];
    }
    if is_mapped(address) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    Vec::new()
}

/// `IsValidCIDRForLegacyField`, strict.
#[must_use]
pub fn is_valid_cidr_for_legacy_field(value: &str) -> Vec<String> {
    let Some((address, bits)) = parse_cidr_sloppy(value) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    };
    let error = if netip::parse_prefix(value).is_err() {
        "must not have leading 0s in IP or prefix length"
    } else if is_mapped(address) {
        "must not have an IPv4-mapped IPv6 address"
    } else if masked(address, bits) != address {
        "must not have bits set beyond the prefix length"
    } else {
        return Vec::new();
    };
    vec![error.to_owned()]
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Parses a leading number, and returns the remaining text.
fn number(text: &str, radix: u32) -> Option<(u32, &str)> {
    let length = text.bytes().take_while(|byte| char::from(*byte).is_digit(radix)).count();
    let (digits, rest) = text.split_at(length);
    let mut value = 0;
    for digit in digits.chars() {
        value = value * radix + digit.to_digit(radix)?;
        if value >= BIG {
            return None;
        }
    }
    (length > 0).then_some((value, rest))
}

fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0; 4];
    let mut rest = text;
    for (index, byte) in bytes.iter_mut().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('.')?;
        }
        let (value, after) = number(rest, 10)?;
        *byte = u8::try_from(value).ok()?;
        rest = after;
    }
    rest.is_empty().then(|| Ipv4Addr::from(bytes))
}

fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    let mut bytes = [0; 16];
    let (mut ellipsis, mut rest) = match text.strip_prefix("::") {
        Some("") => return Some(Ipv6Addr::UNSPECIFIED),
        Some(rest) => (Some(0), rest),
        None => (None, text),
    };
    let mut filled = 0;
    while filled < 16 {
        let (value, after) = number(rest, 16)?;
        let group = u16::try_from(value).ok()?;
        if after.starts_with('.') {
            if ellipsis.is_none() && filled != 12 || filled > 12 {
                return None;
            }
            bytes[filled..filled + 4].copy_from_slice(&parse_ipv4(rest)?.octets());
            (filled, rest) = (filled + 4, "");
            break;
        }
        bytes[filled..filled + 2].copy_from_slice(&group.to_be_bytes());
        filled += 2;
        rest = after;
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(':').filter(|rest| !rest.is_empty())?;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return None;
            }
            (ellipsis, rest) = (Some(filled), after);
            if rest.is_empty() {
                break;
            }
        }
    }
    match ellipsis {
        _ if !rest.is_empty() => None,
        None => (filled == 16).then(|| bytes.into()),
        Some(_) if filled == 16 => None,
        Some(start) => {
            // The groups after the ellipsis are right-aligned.
            bytes[start..].rotate_right(16 - filled);
            Some(bytes.into())
        }
    }
}
