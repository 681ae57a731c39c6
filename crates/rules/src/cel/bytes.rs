//! Untyped expression data, read from the bytes of an object.

use std::borrow::Cow;

use kstatus::{Node, NodeKind};
use serde_json::Value;
use settled_cel::value::{Data, List, Map, Text};
use settled_cel::{Budget, Fault, Plain};

/// A value of an expression.
pub(crate) type Val<'a> = settled_cel::value::Val<'a, Bytes<'a>>;

/// A list or a map of the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) Node<'a>);

/// The elements of a list.
#[derive(Debug)]
pub(crate) struct Elements<'a>(kstatus::Elements<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Val<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|node| Ok(value(node)))
    }
}

/// Type of a value.
pub(crate) fn value(node: Node<'_>) -> Val<'_> {
    if let Some(text) = node.as_str() {
        return self::text(text);
    }
    if let Some(value) = node.as_int() {
        return Val::Int(value);
    }
    match node.kind() {
        NodeKind::Null => Val::Null,
        NodeKind::Bool => Val::Bool(node.as_bool() == Some(true)),
        NodeKind::Int | NodeKind::Float => node.as_float().map_or(Val::Null, Val::Double),
        NodeKind::String => Val::Null,
        NodeKind::List => Val::List(List::of_data(Bytes(node))),
        NodeKind::Map => Val::Map(Map::Data(Bytes(node))),
    }
}

/// Inspects a field in place.
#[inline]
pub(crate) fn plain(node: Option<Node<'_>>) -> Plain<'_> {
    let Some(node) = node.filter(|node| !node.is_null()) else { return Plain::Absent };
    if let Some(text) = node.plain() {
        return Plain::Text(text);
    }
    node.as_bool().map_or(Plain::Other, Plain::Bool)
}

/// A text of the object, or made of it.
pub(crate) fn text(text: Cow<'_, str>) -> Val<'_> {
    Val::Text(shared(text))
}

fn shared(text: Cow<'_, str>) -> Text<'_> {
    match text {
        Cow::Borrowed(text) => Text::Borrowed(text),
        Cow::Owned(text) => Text::Shared(text.into()),
    }
}

impl<'a> Data<'a> for Bytes<'a> {
    const IS_TYPED: bool = false;

    type Items = Elements<'a>;

    fn count(self) -> usize {
        match self.0.kind() {
            NodeKind::List => self.0.elements().count(),
            _ => self.0.members().count(),
        }
    }

    fn items(self) -> Elements<'a> {
        Elements(self.0.elements())
    }

    fn get(self, key: &str) -> Result<Option<Val<'a>>, Fault> {
        Ok(self.0.get(key).map(value))
    }

    fn keys(self) -> Vec<Text<'a>> {
        self.0.members().map(|(key, _)| shared(key)).collect()
    }

    fn members(self) -> Option<Vec<(Text<'a>, Val<'a>)>> {
        let members: Vec<_> = self.0.members().map(|(key, node)| (shared(key), value(node))).collect();
        // Of two members with one key the last counts, for both.
        let mut keys: Vec<&str> = members.iter().map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        keys.windows(2).all(|pair| pair.first() != pair.last()).then_some(members)
    }

    fn steps(self) -> u64 {
        const BYTES: usize = 256;
        const MEMBERS: usize = 16;
        let steps = match self.0 {
            Node::Text(text) => text.len() / BYTES,
            Node::Value(Value::Array(list)) => list.len() / MEMBERS,
            Node::Value(Value::Object(map)) => map.len() / MEMBERS,
            Node::Value(_) => 0,
        };
        steps as u64
    }

    fn equals(self, other: &Map<'a, Self>, budget: &Budget, depth: usize) -> Result<bool, Fault> {
        for (key, mine) in self.0.members() {
            budget.step(1 + self.steps() + other.steps())?;
            let Some(found) = other.get(&key)? else { return Ok(false) };
            if !value(mine).equals_at(&found, budget, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
