//! Addresses, networks and URLs, with the messages of Kubernetes' CEL libraries.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;

use settled_go::strconv::quote;
use settled_go::{netip, url};

/// `parseIPAddr`: an address that has no zone and is not IPv4-mapped.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let shown = quote(text);
    let addr = netip::parse_addr(text)
        .map_err(|error| format!("IP Address {shown} parse error during conversion from string: {error}"))?;
    if !addr.zone.is_empty() {
        return Err(format!("IP address {shown} with zone value is not allowed"));
    }
    check_unmapped(addr.ip, text)?;
    Ok(addr.ip)
}

/// `parseCIDR`: a network, with the address unmasked.
pub(crate) fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let prefix = netip::parse_prefix(text)
        .map_err(|error| format!("network address parse error during conversion from string: {error}"))?;
    check_unmapped(prefix.ip, text)?;
    Ok((prefix.ip, prefix.bits))
}

fn check_unmapped(address: IpAddr, text: &str) -> Result<(), String> {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)))
        }
        _ => Ok(()),
    }
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

/// The first address of the network.
pub(crate) fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4((((bits_of(address) & mask(bits)) >> 96) as u32).into()),
        IpAddr::V6(_) => IpAddr::V6((bits_of(address) & mask(bits)).into()),
    }
}

pub(crate) fn contains(network: (IpAddr, u8), address: IpAddr) -> bool {
    network.0.is_ipv4() == address.is_ipv4() && masked(network.0, network.1) == masked(address, network.1)
}

pub(crate) fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

pub(crate) fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

pub(crate) fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}

/// `kubernetes.URL`: equality compares the text.
#[derive(Debug)]
pub struct Url {
    pub(crate) text: String,
    parsed: url::Url,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, url::Error> {
        url::parse_request_uri(text)?;
        Ok(Self { text: text.to_owned(), parsed: url::parse(text)? })
    }

    /// `getQuery`: the values of each key.
    pub(crate) fn query_values(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in self.parsed.query_pairs() {
            values.entry(key).or_default().push(value);
        }
        values
    }
}

impl Deref for Url {
    type Target = url::Url;

    fn deref(&self) -> &url::Url {
        &self.parsed
    }
}
