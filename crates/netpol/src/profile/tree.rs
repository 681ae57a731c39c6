//! YAML document as a tree whose nodes know their line and column.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

/// A node of a document.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) data: Data,
    pub(super) position: Position,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Data {
    Null,
    Bool,
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// Keys with their positions, in the order of the file.
    Map(Vec<(String, Position, Node)>),
}

/// Line and column, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Why a text is no document.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) position: Position,
    pub(super) message: String,
}

/// Parses a text with one document.
pub(super) fn parse(text: &str) -> Result<Node, Malformed> {
    let (mut json, mut places) = (Vec::new(), Vec::new());
    settled_manifest::yaml_to_json_with_places(text.as_bytes(), &mut json, &mut places).map_err(|error| {
        let to_usize = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let position =
            Position { line: to_usize(error.position.line), column: to_usize(error.position.column) };
        Malformed { position, message: error.message }
    })?;
    if json.is_empty() {
        json.extend_from_slice(b"null");
    }
    let positions = positions(text, &places);
    let seed = Seed { positions: &positions, next: &Cell::new(0) };
    let mut deserializer = serde_json::Deserializer::from_slice(&json);
    seed.deserialize(&mut deserializer)
        .map_err(|error| Malformed { position: Position { line: 1, column: 1 }, message: error.to_string() })
}

/// The position of each node in the text. Offsets come in the order of the text, but for aliases.
fn positions(text: &str, places: &[(usize, usize)]) -> Vec<Position> {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1))
        .collect();
    let position = |at: usize| {
        let line = starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|index| starts.get(index)).copied().unwrap_or_default();
        let before = text.get(start..at).unwrap_or_default();
        Position { line, column: 1 + before.chars().count() }
    };
    places.iter().map(|(_, at)| position(*at)).collect()
}

/// Reads a node: nodes come in the order of their positions, keys included.
#[derive(Clone, Copy)]
struct Seed<'p> {
    positions: &'p [Position],
    next: &'p Cell<usize>,
}

impl Seed<'_> {
    fn take(&self) -> Position {
        let index = self.next.replace(self.next.get() + 1);
        // An empty document has a node, and no place.
        self.positions.get(index).copied().unwrap_or(Position { line: 1, column: 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let position = self.take();
        let data = deserializer.deserialize_any(self)?;
        Ok(Node { data, position })
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Data, E> {
        Ok(Data::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Data, E> {
        Ok(Data::Number(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Data, E> {
        Ok(Data::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Data, E> {
        Ok(Data::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Data, E> {
        Ok(Data::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Data, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element_seed(self)? {
            nodes.push(node);
        }
        Ok(Data::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key_seed(self)? {
            let Data::Text(name) = key.data else { return Err(A::Error::custom("a key is no text")) };
            members.push((name, key.position, map.next_value_seed(self)?));
        }
        Ok(Data::Map(members))
    }
}

impl Node {
    /// The type, as an error names it.
    pub(super) fn type_name(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Bool => "true or false",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }
}
