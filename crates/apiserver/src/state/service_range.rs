//! Service CIDRs (`--service-cluster-ip-range`; `pkg/registry/core/service/ipallocator` upstream).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// As kubeadm has it.
const DEFAULT: Network = Network { family: Family::V4, base: 0x0a60_0000, prefix: 12 };
/// Fewer addresses are refused.
const MIN_SIZE: u128 = 8;
/// At most so many addresses at the beginning are kept for Services that name theirs.
const MAX_RESERVED: u128 = 256;
const MIN_RESERVED: u128 = 16;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// As `ipFamilies` have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// A network that addresses of Services come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) family: Family,
    base: u128,
    prefix: u8,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let family = Family::of(address);
        let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= family.bits())?;
        let bits = number(address);
        let host = 1_u128.checked_shl(u32::from(family.bits() - prefix)).map_or(u128::MAX, |size| size - 1);
        Some(Self { family, base: bits & !host, prefix })
    }

    fn size(&self) -> u128 {
        1_u128.checked_shl(u32::from(self.family.bits() - self.prefix)).unwrap_or(u128::MAX)
    }

    /// The last index that is given: the last address of an IPv4 network is for everybody.
    fn last(&self) -> u128 {
        self.size() - if self.family == Family::V4 { 2 } else { 1 }
    }

    /// The address at an index.
    pub(crate) fn address(&self, index: u128) -> IpAddr {
        let bits = self.base.wrapping_add(index);
        match self.family {
            Family::V4 => Ipv4Addr::from((bits & 0xffff_ffff) as u32).into(),
            Family::V6 => Ipv6Addr::from(bits).into(),
        }
    }

    /// Can a Service have this address?
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let index = number(address).wrapping_sub(self.base);
        Family::of(address) == self.family && (1..=self.last()).contains(&index)
    }

    /// All addresses in the order in which they are tried: from a random one on, those at the beginning last.
    pub(crate) fn candidates(&self, chance: u128) -> impl Iterator<Item = IpAddr> {
        let reserved = self.reserved();
        let around = move |from: u128, size: u128| {
            let start = if size == 0 { 0 } else { chance % size };
            (0..size).map(move |step| from + (start + step) % size)
        };
        let network = *self;
        let upper = around(reserved.max(1), (self.last() + 1).saturating_sub(reserved.max(1)));
        let lower = around(1, reserved.saturating_sub(1));
        upper.chain(lower).map(move |index| network.address(index))
    }

    /// How many addresses at the beginning are given last (`calculateRangeOffset` upstream).
    fn reserved(&self) -> u128 {
        match self.size() {
            ..=MIN_RESERVED => 0,
            size => (size / 16).clamp(MIN_RESERVED, MAX_RESERVED),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(0), self.prefix)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The networks that addresses of Services come from: one, or one of each family. `10.96.0.0/12` unless said otherwise.
///
/// ```
/// use settled_apiserver::ServiceRange;
///
/// let range = ServiceRange::parse("10.0.0.0/24,fd00::/108")?;
/// assert_eq!(range.to_string(), "10.0.0.0/24,fd00::/108");
/// assert!(ServiceRange::parse("10.0.0.0/30").is_err());
/// # Ok::<(), settled_apiserver::ServiceRangeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRange(Vec<Network>);

/// Why a range of addresses cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServiceRangeError(String);

impl ServiceRange {
    /// Reads one network or two with a comma between them, as `--service-cluster-ip-range` of kube-apiserver.
    ///
    /// # Errors
    /// A network is none or too small, or two are of one family.
    pub fn parse(text: &str) -> Result<Self, ServiceRangeError> {
        let refused = |why: String| Err(ServiceRangeError(why));
        let texts: Vec<&str> = text.split(',').collect();
        if texts.len() > 2 {
            return refused("must not contain more than two entries".to_owned());
        }
        let mut networks: Vec<Network> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let Some(network) = Network::parse(text) else {
                return refused(format!("service-cluster-ip-range[{index}] is not a valid cidr: {text:?}"));
            };
            if network.size() < MIN_SIZE {
                return refused(format!("the range must be at least {MIN_SIZE} IP addresses: {text}"));
            }
            networks.push(network);
        }
        if let [first, second] = networks.as_slice()
            && first.family == second.family
        {
            return refused("the two ranges must be of different IP family".to_owned());
        }
        Ok(Self(networks))
    }

    /// The network of a family.
    pub(crate) fn of(&self, family: Family) -> Option<&Network> {
        self.0.iter().find(|network| network.family == family)
    }

    /// The families, the one first that Services get which name none.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.0.iter().map(|network| network.family).collect()
    }

    /// The networks as texts.
    pub(crate) fn cidrs(&self) -> Vec<String> {
        self.0.iter().map(Network::to_string).collect()
    }

    /// The address of the Service `kubernetes`.
    pub(crate) fn first(&self) -> Option<IpAddr> {
        self.0.first().map(|network| network.address(1))
    }
}

impl Default for ServiceRange {
    fn default() -> Self {
        Self(vec![DEFAULT])
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cidrs().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_upstream_does() {
        let cases = [
            ("10.0.0.0/24", Ok("10.0.0.0/24")),
            ("10.0.0.7/24", Ok("10.0.0.0/24")),
            ("fd00::1/64", Ok("fd00::/64")),
            ("::/0", Ok("::/0")),
            ("10.0.0.0/24,fd00::/108", Ok("10.0.0.0/24,fd00::/108")),
            ("10.0.0.0/29", Ok("10.0.0.0/29")),
            ("10.0.0.0/30", Err("the range must be at least 8 IP addresses: 10.0.0.0/30")),
            ("10.0.0.0/24,10.1.0.0/24", Err("the two ranges must be of different IP family")),
            ("10.0.0.0/24,fd00::/108,a", Err("must not contain more than two entries")),
            ("10.0.0.0", Err("service-cluster-ip-range[0] is not a valid cidr: \"10.0.0.0\"")),
            ("10.0.0.0/24,x", Err("service-cluster-ip-range[1] is not a valid cidr: \"x\"")),
            ("10.0.0.0/33", Err("service-cluster-ip-range[0] is not a valid cidr: \"10.0.0.0/33\"")),
        ];
        for (text, wanted) in cases {
            let found =
                ServiceRange::parse(text).map(|range| range.to_string()).map_err(|error| error.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), wanted, "{text}");
        }
    }

    /// The network and, in IPv4, its last address are nobody's; the first sixteenth is given last.
    #[test]
    fn each_address_is_tried_once() {
        for (text, count, lower) in [
            ("10.0.0.0/29", 6, 0),
            ("10.0.0.0/24", 254, 15),
            ("10.0.0.0/16", 65_534, 255),
            ("fd00::/120", 255, 15),
        ] {
            let network = Network::parse(text).unwrap();
            for chance in [0, 1, 77, u128::MAX] {
                let all: Vec<IpAddr> = network.candidates(chance).collect();
                let mut sorted = all.clone();
                sorted.sort();
                sorted.dedup();
                assert_eq!((all.len(), sorted.len()), (count, count), "{text}");
                assert!(all.iter().all(|address| network.contains(*address)), "{text}");
                let mut last = all[count - lower..].to_vec();
                last.sort();
                assert_eq!(last, sorted[..lower], "{text}");
            }
            assert!(!network.contains(network.address(0)));
            assert!(!network.contains(network.address(network.size())));
        }
    }
}
