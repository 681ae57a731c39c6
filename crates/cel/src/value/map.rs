//! Maps: from an object, constant, or computed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::data::{Data, Never};
use super::{Const, Key, Text, Val};
use crate::budget::{Budget, Fault, Result};

/// Members of a map: each value with its original key.
pub type Entries<'a, D> = BTreeMap<Key, (Val<'a, D>, Val<'a, D>)>;

/// A map.
#[derive(Clone, Debug)]
pub enum Map<'a, D> {
    /// From an object.
    Data(D),
    /// Constant.
    Constant(&'a Entries<'static, Never>),
    /// Computed.
    Made(Arc<Entries<'a, D>>),
}

impl<'a, D: Data<'a>> Map<'a, D> {
    pub(crate) fn made(entries: Entries<'a, D>) -> Self {
        Self::Made(Arc::new(entries))
    }

    /// A map with string keys.
    pub fn of_texts(entries: impl IntoIterator<Item = (&'static str, Val<'a, D>)>) -> Self {
        let entries = entries
            .into_iter()
            .map(|(name, value)| (Key::Text(name.into()), (Val::Text(Text::Borrowed(name)), value)));
        Self::made(entries.collect())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.count(),
            Self::Constant(map) => map.len(),
            Self::Made(map) => map.len(),
        }
    }

    /// Steps of looking up a member.
    pub fn steps(&self) -> u64 {
        match self {
            Self::Data(data) => data.steps(),
            _ => 0,
        }
    }

    /// Looks up a member by a string key.
    ///
    /// # Errors
    /// The value does not match the schema.
    pub fn get(&self, key: &str) -> Result<Option<Val<'a, D>>> {
        match self {
            Self::Data(data) => data.get(key),
            made => made.find(&Val::<Never>::Text(Text::Borrowed(key))),
        }
    }

    pub(crate) fn find<'k, K: Data<'k>>(&self, key: &Val<'k, K>) -> Result<Option<Val<'a, D>>> {
        match self {
            Self::Data(data) => match key {
                Val::Text(key) => data.get(key),
                _ if D::IS_TYPED => Err(Fault::no_overload()),
                _ => Ok(None),
            },
            Self::Constant(map) => {
                let Some(key) = Key::of(key) else { return Ok(None) };
                Ok(map.get(&key).map(|(_, value)| value.lift()))
            }
            Self::Made(map) => {
                let Some(key) = Key::of(key) else { return Ok(None) };
                Ok(map.get(&key).map(|(_, value)| value.clone()))
            }
        }
    }

    pub(crate) fn keys(&self) -> Vec<Val<'a, D>> {
        match self {
            Self::Data(data) => data.keys().into_iter().map(Val::Text).collect(),
            Self::Constant(map) => map.values().map(|(key, _)| key.lift()).collect(),
            Self::Made(map) => map.values().map(|(key, _)| key.clone()).collect(),
        }
    }

    /// Iterates over the members.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Val<'a, D>, Val<'a, D>)>> + '_ {
        self.keys().into_iter().filter_map(|key| match self.find(&key) {
            Ok(value) => value.map(|value| Ok((key, value))),
            Err(fault) => Some(Err(fault)),
        })
    }

    pub(crate) fn equals(&self, other: &Self, budget: &Budget, depth: usize) -> Result<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if let Self::Data(data) = self {
            return data.equals(other, budget, depth);
        }
        for key in self.keys() {
            budget.step(other.steps())?;
            let (Some(value), Some(found)) = (self.find(&key)?, other.find(&key)?) else { return Ok(false) };
            match value.equals_at(&found, budget, depth) {
                Ok(true) => {}
                Err(Fault::Error(_)) if D::IS_TYPED => {}
                other => return other,
            }
        }
        Ok(true)
    }
}

/// Adds an entry to a map under construction.
pub(crate) fn insert<'a, D: Data<'a>>(
    map: &mut Entries<'a, D>,
    key: Val<'a, D>,
    value: Val<'a, D>,
    is_optional: bool,
) -> Result<()> {
    let Some(known) = Key::of(&key) else {
        return Err(Fault::error(format!("unsupported key type: {}", key.type_name())));
    };
    let value = match value {
        Val::Optional(None) if is_optional => {
            map.remove(&known);
            return Ok(());
        }
        Val::Optional(Some(inner)) if is_optional => (*inner).clone(),
        other if is_optional => {
            let message = format!("cannot initialize optional entry '{key}' from non-optional value {other}");
            return Err(Fault::error(message));
        }
        value => value,
    };
    map.insert(known, (key, value));
    Ok(())
}

/// Adds an element to a list under construction.
pub(crate) fn push<'a, D: Data<'a>>(
    items: &mut Vec<Val<'a, D>>,
    value: Val<'a, D>,
    is_optional: bool,
) -> Result<()> {
    match value {
        Val::Optional(inner) if is_optional => items.extend(inner.map(|inner| (*inner).clone())),
        other if is_optional => {
            let message = format!("cannot initialize optional list element from non-optional value {other}");
            return Err(Fault::error(message));
        }
        value => items.push(value),
    }
    Ok(())
}

/// A constant of a program, which lives as long as the program.
pub(crate) fn lift<'a, D: Data<'a>>(constant: &'a Const) -> Val<'a, D> {
    use super::list::{Items, List};
    match constant {
        Val::Null => Val::Null,
        Val::Bool(value) => Val::Bool(*value),
        Val::Int(value) => Val::Int(*value),
        Val::Uint(value) => Val::Uint(*value),
        Val::Double(value) => Val::Double(*value),
        Val::Text(text) => Val::Text(Text::Borrowed(text)),
        Val::Bytes(bytes) => Val::Bytes(Arc::clone(bytes)),
        Val::Duration(nanos) => Val::Duration(*nanos),
        Val::Timestamp(time) => Val::Timestamp(*time),
        Val::List(List { items, kind }) => {
            let items = match items {
                Items::Data(never) => match *never {},
                Items::Constant(items) => Items::Constant(items),
                Items::Made(items) => Items::Constant(items),
            };
            Val::List(List { items, kind: *kind })
        }
        Val::Map(Map::Data(never)) => match *never {},
        Val::Map(Map::Constant(map)) => Val::Map(Map::Constant(map)),
        Val::Map(Map::Made(map)) => Val::Map(Map::Constant(map)),
        Val::Optional(value) => Val::Optional(value.as_deref().map(|value| Arc::new(lift(value)))),
        Val::Type(name) => Val::Type(Arc::clone(name)),
        Val::Quantity(amount) => Val::Quantity(Arc::clone(amount)),
        Val::Ip(address) => Val::Ip(*address),
        Val::Cidr(address, bits) => Val::Cidr(*address, *bits),
        Val::Url(url) => Val::Url(Arc::clone(url)),
        Val::Semver(version) => Val::Semver(Arc::clone(version)),
        Val::Format(format) => Val::Format(format),
        Val::Unknown(never) => match *never {},
    }
}
