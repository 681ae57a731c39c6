//! Allocation from pools: a pure function of the pool, the existing grants and the request.
//!
//! The same grants and request yield the same value, so a controller that crashed before its answer was stored repeats
//! its decision. There is no counter or free list that could be lost: grants are read from the statuses of the objects.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::{Decision, Denial};

/// A set of values, each granted to at most one object.
pub trait Pool {
    /// The granted value.
    type Value: Ord + Clone;

    /// The number of values.
    fn size(&self) -> u128;

    /// The value with this index, from 0.
    fn nth(&self, index: u128) -> Option<Self::Value>;

    /// Whether the pool contains a value.
    fn contains(&self, value: &Self::Value) -> bool;
}

/// A range of IP addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRange(RangeInclusive<IpAddr>);

impl AddressRange {
    /// The inclusive range of addresses. `None` if the families differ, or the order is wrong.
    #[must_use]
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self(first..=last))
    }
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

impl Pool for AddressRange {
    type Value = IpAddr;

    fn size(&self) -> u128 {
        // The number of all IPv6 addresses overflows.
        (to_number(*self.0.end()) - to_number(*self.0.start())).saturating_add(1)
    }

    fn nth(&self, index: u128) -> Option<IpAddr> {
        let number = to_number(*self.0.start()).checked_add(index)?;
        let address = match self.0.start() {
            IpAddr::V4(_) => Ipv4Addr::from(u32::try_from(number).ok()?).into(),
            IpAddr::V6(_) => Ipv6Addr::from(number).into(),
        };
        self.contains(&address).then_some(address)
    }

    fn contains(&self, value: &IpAddr) -> bool {
        // `IpAddr` orders all of IPv4 before IPv6.
        value.is_ipv4() == self.0.start().is_ipv4() && self.0.contains(value)
    }
}

/// A range of ports.
impl Pool for RangeInclusive<u16> {
    type Value = u16;

    fn size(&self) -> u128 {
        if self.is_empty() { 0 } else { u128::from(*self.end() - *self.start()) + 1 }
    }

    fn nth(&self, index: u128) -> Option<u16> {
        let port = self.start().checked_add(u16::try_from(index).ok()?)?;
        Self::contains(self, &port).then_some(port)
    }

    fn contains(&self, value: &u16) -> bool {
        Self::contains(self, value)
    }
}

/// A list of unique names.
impl Pool for [String] {
    type Value = String;

    fn size(&self) -> u128 {
        self.len() as u128
    }

    fn nth(&self, index: u128) -> Option<String> {
        self.get(usize::try_from(index).ok()?).cloned()
    }

    fn contains(&self, value: &String) -> bool {
        <[String]>::contains(self, value)
    }
}

/// The existing grants, read from the statuses of all objects.
#[derive(Clone, Debug)]
pub struct Grants<K, V> {
    by_holder: BTreeMap<K, V>,
    by_value: BTreeMap<V, K>,
}

/// A value with two holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubleGrant<K, V> {
    /// The value.
    pub value: V,
    /// The holder that keeps it: the first one passed to [`Grants::new`].
    pub keeps: K,
    /// The holder that needs another one.
    pub loses: K,
}

impl<K: Ord + Clone, V: Ord + Clone> Grants<K, V> {
    /// The grants by their holders (UIDs), oldest holder first, and the conflicts among them. A controller that uses
    /// this module causes none, but statuses may be restored from a backup.
    pub fn new(grants: impl IntoIterator<Item = (K, V)>) -> (Self, Vec<DoubleGrant<K, V>>) {
        let mut all = Self { by_holder: BTreeMap::new(), by_value: BTreeMap::new() };
        let mut contradictions = Vec::new();
        for (holder, value) in grants {
            match all.by_value.get(&value) {
                Some(keeps) if *keeps != holder => {
                    contradictions.push(DoubleGrant { value, keeps: keeps.clone(), loses: holder });
                }
                _ => all.insert(holder, value),
            }
        }
        (all, contradictions)
    }

    fn insert(&mut self, holder: K, value: V) {
        self.by_holder.insert(holder.clone(), value.clone());
        self.by_value.insert(value, holder);
    }

    /// The value of a holder; the newest, if an older one is not released yet.
    #[must_use]
    pub fn held_by(&self, holder: &K) -> Option<&V> {
        self.by_holder.get(holder)
    }

    /// The holder of a value.
    #[must_use]
    pub fn holder_of(&self, value: &V) -> Option<&K> {
        self.by_value.get(value)
    }

    /// Releases all values of a holder.
    pub fn release(&mut self, holder: &K) {
        self.by_holder.remove(holder);
        self.by_value.retain(|_, other| other != holder);
    }

    /// Releases all values of holders that no longer exist.
    pub fn retain(&mut self, is_live: impl Fn(&K) -> bool) {
        self.by_holder.retain(|holder, _| is_live(holder));
        self.by_value.retain(|_, holder| is_live(holder));
    }

    /// Releases a value that its holder has replaced: until then it is not granted to others.
    pub fn release_replaced(&mut self, holder: &K, value: &V) {
        if self.by_holder.get(holder) != Some(value) && self.by_value.get(value) == Some(holder) {
            self.by_value.remove(value);
        }
    }

    /// Decides the request of a holder, and records a granted value.
    ///
    /// The holder's value is granted again as long as it is in the pool and no other value is `requested`. Without a
    /// requested value, the search starts at an index derived from the holder: two controllers with different views of
    /// the grants rarely choose the same value. The holder's previous value stays reserved until
    /// [`release_replaced`](Self::release_replaced).
    ///
    /// ```
    /// use settled_controller::decision::Decision;
    /// use settled_controller::decision::pool::Grants;
    ///
    /// let ports = 8000..=8001_u16;
    /// let (mut grants, _) = Grants::new([("uid-1", 8000)]);
    /// assert_eq!(grants.allocate(&ports, "uid-1", None), Decision::Granted(8000));
    /// assert_eq!(grants.allocate(&ports, "uid-2", None), Decision::Granted(8001));
    /// assert!(matches!(grants.allocate(&ports, "uid-3", None), Decision::Deferred(denial) if denial.reason == "PoolExhausted"));
    /// assert!(matches!(grants.allocate(&ports, "uid-3", Some(&80)), Decision::Refused(denial) if denial.reason == "NotInPool"));
    /// assert!(matches!(grants.allocate(&ports, "uid-3", Some(&8000)), Decision::Deferred(denial) if denial.reason == "InUse"));
    /// ```
    pub fn allocate<P>(&mut self, pool: &P, holder: K, requested: Option<&V>) -> Decision<V>
    where
        P: Pool<Value = V> + ?Sized,
        K: AsRef<str>,
    {
        let value = match requested {
            Some(requested) if !pool.contains(requested) => {
                return Decision::Refused(Denial::new("NotInPool", "the requested value is not in the pool"));
            }
            Some(requested) => match self.holder_of(requested) {
                // The holder is not disclosed to other users.
                Some(other) if *other != holder => {
                    return Decision::Deferred(Denial::new(
                        "InUse",
                        "the requested value is in use by another object",
                    ));
                }
                _ => requested.clone(),
            },
            None => match self.held_by(&holder).filter(|value| pool.contains(value)) {
                Some(held) => held.clone(),
                None => match self.free(pool, holder.as_ref()) {
                    Some(value) => value,
                    None => {
                        let size = pool.size();
                        return Decision::Deferred(Denial::new(
                            "PoolExhausted",
                            format!("all {size} values of the pool are in use"),
                        ));
                    }
                },
            },
        };
        self.insert(holder, value.clone());
        Decision::Granted(value)
    }

    fn free<P: Pool<Value = V> + ?Sized>(&self, pool: &P, holder: &str) -> Option<V> {
        let size = pool.size();
        let start = u128::from(fnv1a(holder)).checked_rem(size)?;
        // One more than the number of grants: one of them is free, unless all are taken.
        let tries = size.min(self.by_value.len() as u128 + 1);
        (0..tries)
            .filter_map(|step| {
                let left = size - start;
                let index = if step < left { start + step } else { step - left };
                pool.nth(index)
            })
            .find(|value| !self.by_value.contains_key(value))
    }
}

/// FNV-1a: stable across machines and versions, unlike the standard library's hasher.
fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
