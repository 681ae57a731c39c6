//! Sets of addresses as sorted disjoint ranges, for questions about ipBlocks without a loop over all addresses.

use std::net::IpAddr;

use crate::model::{Cidr, IpBlock};

/// Sets of addresses of both families.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    v4: Vec<(u128, u128)>,
    v6: Vec<(u128, u128)>,
}

impl Ranges {
    /// The set of these ranges.
    pub(crate) fn new(cidrs: impl IntoIterator<Item = Cidr>) -> Self {
        let mut ranges = Self::default();
        for cidr in cidrs {
            if cidr.network.is_ipv4() { &mut ranges.v4 } else { &mut ranges.v6 }.push(bounds(cidr));
        }
        ranges.v4 = merged(ranges.v4);
        ranges.v6 = merged(ranges.v6);
        ranges
    }

    /// An address that is in the set and in the block, its exceptions left out.
    pub(crate) fn meets(&self, block: &IpBlock) -> bool {
        let except = Self::new(block.except.iter().copied());
        let is_v4 = block.cidr.network.is_ipv4();
        let (own, except) = if is_v4 { (&self.v4, &except.v4) } else { (&self.v6, &except.v6) };
        let (mut from, last) = bounds(block.cidr);
        // Each round leaves one of the exceptions behind.
        loop {
            let next = own.partition_point(|(_, end)| *end < from);
            let Some((start, _)) = own.get(next) else { return false };
            let address = from.max(*start);
            if address > last {
                return false;
            }
            let hole = except.partition_point(|(_, end)| *end < address);
            match except.get(hole) {
                Some((start, end)) if *start <= address => match end.checked_add(1) {
                    Some(after) => from = after,
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    /// Whether the set has all addresses of a range.
    pub(crate) fn covers(&self, cidr: Cidr) -> bool {
        let own = if cidr.network.is_ipv4() { &self.v4 } else { &self.v6 };
        let (first, last) = bounds(cidr);
        let at = own.partition_point(|(_, end)| *end < first);
        own.get(at).is_some_and(|(start, end)| *start <= first && *end >= last)
    }
}

/// A range of one address.
pub(crate) fn single(address: IpAddr) -> Cidr {
    Cidr { network: address, bits: if address.is_ipv4() { 32 } else { 128 } }
}

fn bounds(cidr: Cidr) -> (u128, u128) {
    let (first, width) = match cidr.network {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let hosts = u32::from(width - cidr.bits.min(width));
    let size = 1_u128.checked_shl(hosts).map_or(u128::MAX, |size| size - 1);
    (first, first | size)
}

fn merged(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}
