//! Equivalence classes of ports and addresses: everything in a class is treated alike by every policy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::view::View;
use crate::cluster::{Cluster, Pod};
use crate::model::{Cidr, Family, PeerKind, Peers, PortNumbers, Ports, Protocol, Rule};

/// Protocols with ports, in the order of answers.
pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// Ranges of ports, both ends included, in order.
pub type PortRanges = Vec<(u16, u16)>;

/// Ports of a protocol that every policy treats alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortClass {
    pub(crate) protocol: Protocol,
    pub(crate) ranges: PortRanges,
}

/// Addresses of a family that every policy treats alike, as long as they are no pod's and no node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressClass {
    pub(crate) family: Family,
    /// Ranges, both ends included, in order.
    pub(crate) ranges: Vec<(u128, u128)>,
}

impl AddressClass {
    /// An address of the class.
    pub(crate) fn representative(&self) -> IpAddr {
        to_address(self.family, self.ranges.first().map_or(0, |range| range.0))
    }
}

pub(crate) fn all_rules<'v>(views: &'v [&View<'_>]) -> impl Iterator<Item = &'v Rule> {
    views.iter().flat_map(|view| &view.entries).flat_map(|entry| {
        let directions = [&entry.policy.ingress, &entry.policy.egress];
        directions.into_iter().flatten().flatten()
    })
}

/// Cuts `first..=last` at the starts and after the ends of ranges, and merges what is covered by the same ranges.
fn partition<T: Bound>(first: T, last: T, ranges: &BTreeSet<(T, T)>) -> Vec<Vec<(T, T)>> {
    // At each boundary, the ranges that begin and end there, by index.
    let mut events: BTreeMap<T, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    events.entry(first).or_default();
    for (index, (start, end)) in ranges.iter().enumerate() {
        if *start > last || *end < first {
            continue;
        }
        events.entry((*start).max(first)).or_default().0.push(index);
        if let Some(after) = end.after().filter(|after| *after <= last) {
            events.entry(after).or_default().1.push(index);
        }
    }
    let mut classes: Vec<Vec<(T, T)>> = Vec::new();
    let mut by_cover: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut active: BTreeSet<usize> = BTreeSet::new();
    let mut events = events.into_iter().peekable();
    while let Some((start, (begins, ends))) = events.next() {
        for index in ends {
            active.remove(&index);
        }
        active.extend(begins);
        let end = events.peek().map_or(last, |(next, _)| next.before());
        let cover: Vec<usize> = active.iter().copied().collect();
        let class = *by_cover.entry(cover).or_insert_with(|| {
            classes.push(Vec::new());
            classes.len() - 1
        });
        classes[class].push((start, end));
    }
    classes
}

/// Integers of ranges.
pub(crate) trait Bound: Copy + Ord {
    /// The one before.
    fn before(self) -> Self;
    /// The one after, if there is one.
    fn after(self) -> Option<Self>;
}

impl Bound for u16 {
    fn before(self) -> Self {
        self.saturating_sub(1)
    }
    fn after(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Bound for u128 {
    fn before(self) -> Self {
        self.saturating_sub(1)
    }
    fn after(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// Joins ranges that overlap or touch.
pub(crate) fn join<T: Bound>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut joined: Vec<(T, T)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(previous) if previous.1.after().is_none_or(|after| first <= after) => {
                previous.1 = previous.1.max(last);
            }
            _ => joined.push((first, last)),
        }
    }
    joined
}

/// The classes of ports for these policies and the named ports of these pods.
pub(crate) fn port_classes(views: &[&View<'_>], pods: &[Pod]) -> Vec<PortClass> {
    let mut ranges: HashMap<Protocol, BTreeSet<(u16, u16)>> = HashMap::new();
    let mut names = BTreeSet::new();
    for rule in all_rules(views) {
        let Ports::Of(ports) = &rule.ports else { continue };
        for port in ports {
            match &port.numbers {
                PortNumbers::Any => {}
                PortNumbers::Range { first, last } => {
                    ranges.entry(port.protocol).or_default().insert((*first, *last));
                }
                PortNumbers::Named(name) => {
                    names.insert((port.protocol, name));
                }
            }
        }
    }
    // A named port is each number that it has in some pod. Two numbers are two classes, as different pods have them.
    for port in pods.iter().flat_map(|pod| &pod.ports) {
        if port.name.as_ref().is_some_and(|name| names.contains(&(port.protocol, name))) {
            ranges.entry(port.protocol).or_default().insert((port.number, port.number));
        }
    }
    let none = BTreeSet::new();
    let classes = PROTOCOLS.into_iter().flat_map(|protocol| {
        let classes = partition(1, u16::MAX, ranges.get(&protocol).unwrap_or(&none));
        classes.into_iter().map(move |ranges| PortClass { protocol, ranges })
    });
    classes.collect()
}

/// The classes of addresses of a family for these policies, within the given ranges.
pub(crate) fn address_classes(
    views: &[&View<'_>],
    family: Family,
    within: &[(u128, u128)],
) -> Vec<AddressClass> {
    let mut ranges = BTreeSet::new();
    for rule in all_rules(views) {
        let Peers::Of(peers) = &rule.peers else { continue };
        for peer in peers {
            let PeerKind::Block(block) = &peer.kind else { continue };
            for cidr in std::iter::once(&block.cidr).chain(&block.except) {
                if Family::of(cidr.network) == family {
                    ranges.insert(to_range(cidr));
                }
            }
        }
    }
    let (first, last) = whole(family);
    let classes = partition(first, last, &ranges).into_iter().filter_map(|class| {
        let ranges = intersect(&class, within);
        (!ranges.is_empty()).then_some(AddressClass { family, ranges })
    });
    classes.collect()
}

/// What two ordered lists of ranges have in common.
fn intersect(left: &[(u128, u128)], right: &[(u128, u128)]) -> Vec<(u128, u128)> {
    let common = left.iter().flat_map(|one| {
        right.iter().filter_map(|other| {
            let (first, last) = (one.0.max(other.0), one.1.min(other.1));
            (first <= last).then_some((first, last))
        })
    });
    join(common.collect())
}

/// All addresses of a family.
pub(crate) const fn whole(family: Family) -> (u128, u128) {
    match family {
        Family::V4 => (0, u32::MAX as u128),
        Family::V6 => (0, u128::MAX),
    }
}

/// The addresses of the internet: globally reachable unicast addresses (RFC 6890 and its registry).
pub(crate) fn internet(family: Family) -> Vec<(u128, u128)> {
    const RESERVED: [&str; 16] = [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "255.255.255.255/32",
    ];
    match family {
        Family::V4 => {
            let mut next = 0;
            let mut ranges = Vec::new();
            for (first, last) in
                RESERVED.iter().filter_map(|text| Cidr::parse(text)).map(|cidr| to_range(&cidr))
            {
                if next < first {
                    ranges.push((next, first - 1));
                }
                next = next.max(last + 1);
            }
            ranges
        }
        // Global unicast without the range for documentation.
        Family::V6 => {
            let unicast = Cidr::parse("2000::/3").map(|cidr| to_range(&cidr));
            let documentation = Cidr::parse("2001:db8::/32").map(|cidr| to_range(&cidr));
            match (unicast, documentation) {
                (Some(unicast), Some(documentation)) => {
                    vec![(unicast.0, documentation.0 - 1), (documentation.1 + 1, unicast.1)]
                }
                _ => Vec::new(),
            }
        }
    }
}

/// The families in which the cluster has pods; IPv4 if no pod has an address.
pub(crate) fn families(cluster: &Cluster) -> Vec<Family> {
    let pods = cluster.pods.read().unwrap_or_default();
    let seen: BTreeSet<Family> =
        pods.iter().flat_map(|pod| &pod.addresses).map(|address| Family::of(*address)).collect();
    if seen.is_empty() { vec![Family::V4] } else { seen.into_iter().collect() }
}

pub(crate) fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn to_address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        Family::V6 => Ipv6Addr::from(number).into(),
    }
}

/// The first and the last address of a range in CIDR notation.
pub(crate) fn to_range(cidr: &Cidr) -> (u128, u128) {
    let first = to_number(cidr.network);
    let width: u32 = if cidr.network.is_ipv4() { 32 } else { 128 };
    let hosts = u128::MAX.checked_shr(128 - width.saturating_sub(cidr.bits.into())).unwrap_or(0);
    (first, first | hosts)
}

/// The fewest ranges in CIDR notation that are exactly these addresses.
pub(crate) fn to_cidrs(family: Family, ranges: &[(u128, u128)]) -> Vec<Cidr> {
    let width: u32 = if family == Family::V4 { 32 } else { 128 };
    let mut cidrs = Vec::new();
    for &(first, last) in ranges {
        let mut start = first;
        loop {
            // As large as the alignment of the start and the rest of the range permit.
            let mut bits = start.trailing_zeros().min(width);
            while bits > 0 && span(bits).is_none_or(|span| span > last - start) {
                bits -= 1;
            }
            let network = to_address(family, start);
            cidrs.push(Cidr { network, bits: u8::try_from(width - bits).unwrap_or(0) });
            let Some(next) = span(bits).and_then(|span| (start + span).checked_add(1)) else { break };
            if next > last {
                break;
            }
            start = next;
        }
    }
    cidrs
}

/// How far the last address of a range with this many host bits is from the first.
fn span(bits: u32) -> Option<u128> {
    if bits == 128 { Some(u128::MAX) } else { 1_u128.checked_shl(bits).map(|size| size - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidrs(family: Family, ranges: &[(u128, u128)]) -> Vec<String> {
        to_cidrs(family, ranges).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn partition_merges_what_the_same_ranges_cover() {
        let ranges = BTreeSet::from([(80_u16, 80), (8000, 9000)]);
        let classes = partition(1, u16::MAX, &ranges);
        assert_eq!(classes, [vec![(1, 79), (81, 7999), (9001, 65535)], vec![(80, 80)], vec![(8000, 9000)]]);
    }

    #[test]
    fn partition_separates_overlapping_ranges() {
        let ranges = BTreeSet::from([(1_u16, 100), (50, 65535)]);
        assert_eq!(partition(1, u16::MAX, &ranges), [vec![(1, 49)], vec![(50, 100)], vec![(101, 65535)]]);
    }

    #[test]
    fn ranges_become_the_fewest_cidrs() {
        assert_eq!(cidrs(Family::V4, &[whole(Family::V4)]), ["0.0.0.0/0"]);
        assert_eq!(cidrs(Family::V6, &[whole(Family::V6)]), ["::/0"]);
        assert_eq!(cidrs(Family::V4, &[(1, 6)]), ["0.0.0.1/32", "0.0.0.2/31", "0.0.0.4/31", "0.0.0.6/32"]);
        let last = u128::from(u32::MAX);
        assert_eq!(cidrs(Family::V4, &[(last, last)]), ["255.255.255.255/32"]);
        assert_eq!(
            cidrs(Family::V6, &[(u128::MAX - 1, u128::MAX)]),
            ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"]
        );
    }

    #[test]
    fn cidrs_become_ranges() {
        let range = |text: &str| Cidr::parse(text).map(|cidr| to_range(&cidr));
        assert_eq!(range("0.0.0.0/0"), Some(whole(Family::V4)));
        assert_eq!(range("::/0"), Some(whole(Family::V6)));
        assert_eq!(range("0.0.1.0/24"), Some((256, 511)));
        assert_eq!(range("::5/128"), Some((5, 5)));
    }

    #[test]
    fn the_internet_has_no_private_addresses() {
        let within = |text: &str| {
            let address: IpAddr = text.parse().unwrap();
            let number = to_number(address);
            internet(Family::of(address)).iter().any(|(first, last)| (*first..=*last).contains(&number))
        };
        assert!(within("8.8.8.8") && within("172.32.0.1") && within("2600::1"));
        assert!(!within("10.0.0.1") && !within("172.31.255.255") && !within("255.255.255.255"));
        assert!(!within("fd00::1") && !within("2001:db8::1"));
    }
}
