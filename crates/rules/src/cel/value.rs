//! Values of an expression: pieces of the object where they lie, and what an expression makes of them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::rc::Rc;

use kstatus::{Node, NodeKind};
use kube_cel::cel;
use serde_json::Value;

use super::fuel::{Fault, Fuel};

/// No further down are values compared, copied or written out.
const DEEP: usize = 64;

/// No more elements of a list or map are written out.
const MANY: usize = 32;

/// A value, for as long as the object and the program live.
#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    /// A part of the object, not null.
    Node(Node<'a>),
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Rc<Vec<Self>>),
    Map(Rc<Vec<(Self, Self)>>),
    Optional(Option<Rc<Self>>),
    /// A type of the Kubernetes libraries: a quantity, a time, an address.
    Foreign(cel::Value),
}

impl<'a> Val<'a> {
    /// A scalar of the object as what it is; lists and maps stay where they are.
    pub(crate) fn plain(self) -> Self {
        match self {
            Self::Node(node) => match node.kind() {
                NodeKind::Null => Self::Null,
                NodeKind::Bool => Self::Bool(node.as_bool() == Some(true)),
                NodeKind::Int => node.as_int().map_or(Self::Null, Self::Int),
                NodeKind::Float => node.as_float().map_or(Self::Null, Self::Float),
                NodeKind::String => Self::Text(node.as_str().unwrap_or_default()),
                NodeKind::List | NodeKind::Map => Self::Node(node),
            },
            value => value,
        }
    }

    pub(crate) fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Node(node) => node.as_bool(),
            _ => None,
        }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Uint(value) => i64::try_from(*value).ok(),
            Self::Float(value) => whole(*value),
            Self::Node(node) => node.as_int().or_else(|| node.as_float().and_then(whole)),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Node(node) => node.as_str(),
            _ => None,
        }
    }

    /// The type's name in CEL.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Node(node) => match node.kind() {
                NodeKind::Null => "null_type",
                NodeKind::Bool => "bool",
                NodeKind::Int => "int",
                NodeKind::Float => "double",
                NodeKind::String => "string",
                NodeKind::List => "list",
                NodeKind::Map => "map",
            },
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Float(_) => "double",
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional",
            Self::Foreign(_) => "a type of a library",
        }
    }

    /// How many steps it takes to go over the value: an object's values are looked for in its bytes, each time.
    pub(crate) fn cost(&self) -> usize {
        const BYTES: usize = 256;
        const MEMBERS: usize = 16;
        match self {
            Self::Node(Node::Text(text)) => text.len() / BYTES,
            Self::Node(Node::Value(value)) => match value {
                Value::String(text) => text.len() / BYTES,
                Value::Array(list) => list.len() / MEMBERS,
                Value::Object(map) => map.len() / MEMBERS,
                _ => 0,
            },
            Self::Text(text) => text.len() / BYTES,
            Self::List(list) => list.len() / MEMBERS,
            Self::Map(map) => map.len() / MEMBERS,
            _ => 0,
        }
    }

    /// How many elements, members or characters; none for what has no size.
    pub(crate) fn size(&self) -> Option<usize> {
        Some(match self {
            Self::Text(text) => text.chars().count(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Node(node) => match node.kind() {
                NodeKind::String => node.as_str()?.chars().count(),
                NodeKind::List => node.elements().count(),
                NodeKind::Map => node.members().count(),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// What a comprehension goes over: the elements of a list, the keys of a map.
    pub(crate) fn iterate(&self) -> Option<Iterate<'a>> {
        Some(match self {
            Self::List(list) => Iterate::List(Rc::clone(list), 0),
            Self::Map(map) => Iterate::Keys(Rc::clone(map), 0),
            Self::Node(node) => match node.kind() {
                NodeKind::List => Iterate::Elements(node.elements()),
                NodeKind::Map => Iterate::Members(node.members()),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Equality as CEL has it: numbers of different types compare by value, all else of different types is unequal.
    pub(crate) fn equals(&self, other: &Self, fuel: &Fuel) -> Result<bool, Fault> {
        // The common case without a copy of the text.
        if let (Self::Node(node), Self::Text(text)) | (Self::Text(text), Self::Node(node)) = (self, other)
            && node.is_string()
            && !text.contains('\\')
        {
            fuel.steps(self.cost() + other.cost())?;
            return Ok(node.is(text));
        }
        self.equals_at(other, fuel, 0)
    }

    fn equals_at(&self, other: &Self, fuel: &Fuel, depth: usize) -> Result<bool, Fault> {
        let cost = self.cost() + other.cost();
        fuel.steps(1 + cost)?;
        if depth > DEEP {
            return Err(Fault::error("values nested deeper than 64 levels can't be compared"));
        }
        Ok(match (self.clone().plain(), other.clone().plain()) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => return a.equals_at(&b, fuel, depth + 1),
                _ => false,
            },
            (Self::Foreign(a), Self::Foreign(b)) => a == b,
            (a, b) if a.is_list() && b.is_list() => {
                let (Some(mut a), Some(mut b)) = (a.iterate(), b.iterate()) else { return Ok(false) };
                loop {
                    match (a.next(), b.next()) {
                        (None, None) => return Ok(true),
                        (Some(a), Some(b)) if a.equals_at(&b, fuel, depth + 1)? => {}
                        _ => return Ok(false),
                    }
                }
            }
            (a, b) if a.is_map() && b.is_map() => {
                if a.size() != b.size() {
                    return Ok(false);
                }
                for key in a.iterate().into_iter().flatten() {
                    fuel.steps(1 + cost)?;
                    let (Some(mine), Some(other)) = (a.member(&key), b.member(&key)) else {
                        return Ok(false);
                    };
                    if !mine.equals_at(&other, fuel, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            (a, b) => a.compare(&b) == Some(Ordering::Equal),
        })
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self.type_name(), "int" | "uint" | "double")
    }

    pub(crate) fn is_list(&self) -> bool {
        self.type_name() == "list"
    }

    pub(crate) fn is_map(&self) -> bool {
        self.type_name() == "map"
    }

    /// The member of a map that a key names, null included.
    pub(crate) fn member(&self, key: &Self) -> Option<Self> {
        match self {
            Self::Node(node) => node.get(&key.as_str()?).map(Val::Node),
            Self::Map(map) => {
                let found = map.iter().find(|(known, _)| match (known, key) {
                    (Self::Text(a), Self::Text(b)) => a == b,
                    (a, b) => a.compare(b) == Some(Ordering::Equal),
                });
                found.map(|(_, value)| value.clone())
            }
            _ => None,
        }
    }

    /// The order of two values of one type, or of two numbers.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self.clone().plain(), other.clone().plain()) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(&b)),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(a).cmp(&i128::from(b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(a).cmp(&i128::from(b))),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(&b)),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(&b)),
            (Self::Foreign(a), Self::Foreign(b)) => a.partial_cmp(&b),
            (a, b) => a.float()?.partial_cmp(&b.float()?),
        }
    }

    fn float(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Uint(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// For the libraries of Kubernetes, which have values of their own.
    pub(crate) fn foreign(&self, fuel: &Fuel) -> Result<cel::Value, Fault> {
        self.foreign_at(fuel, 0)
    }

    fn foreign_at(&self, fuel: &Fuel, depth: usize) -> Result<cel::Value, Fault> {
        fuel.allocate(32)?;
        fuel.steps(self.cost())?;
        if depth > DEEP {
            return Err(Fault::error("values nested deeper than 64 levels can't be handed to this function"));
        }
        Ok(match self.clone().plain() {
            Self::Null => cel::Value::Null,
            Self::Bool(value) => cel::Value::Bool(value),
            Self::Int(value) => cel::Value::Int(value),
            Self::Uint(value) => cel::Value::UInt(value),
            Self::Float(value) => cel::Value::Float(value),
            Self::Text(text) => {
                fuel.allocate(text.len())?;
                cel::Value::String(text.into_owned().into())
            }
            Self::Foreign(value) => value,
            Self::Optional(_) => {
                return Err(Fault::error("this function takes no optional value; use orValue()"));
            }
            value if value.is_list() => {
                let list = value.iterate().into_iter().flatten();
                let list: Result<Vec<_>, Fault> =
                    list.map(|element| element.foreign_at(fuel, depth + 1)).collect();
                cel::Value::List(list?.into())
            }
            value => {
                let mut map = std::collections::HashMap::new();
                for key in value.iterate().into_iter().flatten() {
                    let (Some(name), Some(member)) = (key.as_str(), value.member(&key)) else {
                        return Err(Fault::error("this function takes maps with text as keys only"));
                    };
                    fuel.allocate(name.len())?;
                    fuel.steps(value.cost())?;
                    map.insert(name.into_owned(), member.foreign_at(fuel, depth + 1)?);
                }
                map.into()
            }
        })
    }

    /// What a function of the libraries gave. None for a value there is nothing like here.
    pub(crate) fn native(value: cel::Value) -> Option<Val<'static>> {
        Some(match value {
            cel::Value::Null => Val::Null,
            cel::Value::Bool(value) => Val::Bool(value),
            cel::Value::Int(value) => Val::Int(value),
            cel::Value::UInt(value) => Val::Uint(value),
            cel::Value::Float(value) => Val::Float(value),
            cel::Value::String(text) => Val::Text(Cow::Owned(text.to_string())),
            cel::Value::List(list) => {
                let list: Option<Vec<_>> = list.iter().cloned().map(Val::native).collect();
                Val::List(Rc::new(list?))
            }
            cel::Value::Map(map) => {
                let mut members = Vec::new();
                for (key, value) in map.map.iter() {
                    members.push((Val::native(cel::Value::from(key))?, Val::native(value.clone())?));
                }
                // The library's maps have an order that differs from run to run.
                members.sort_by(|(a, _), (b, _)| {
                    let types = a.type_name().cmp(b.type_name());
                    types.then_with(|| a.compare(b).unwrap_or(Ordering::Equal))
                });
                Val::Map(Rc::new(members))
            }
            cel::Value::Function(..) => return None,
            value => Val::Foreign(value),
        })
    }
}

fn whole(number: f64) -> Option<i64> {
    // Every whole number below 2^53 is exact.
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

pub(crate) enum Iterate<'a> {
    List(Rc<Vec<Val<'a>>>, usize),
    Keys(Rc<Vec<(Val<'a>, Val<'a>)>>, usize),
    Elements(kstatus::Elements<'a>),
    Members(kstatus::Members<'a>),
}

impl<'a> Iterator for Iterate<'a> {
    type Item = Val<'a>;

    fn next(&mut self) -> Option<Val<'a>> {
        match self {
            Self::List(list, at) => {
                *at += 1;
                list.get(*at - 1).cloned()
            }
            Self::Keys(map, at) => {
                *at += 1;
                map.get(*at - 1).map(|(key, _)| key.clone())
            }
            Self::Elements(elements) => elements.next().map(Val::Node),
            Self::Members(members) => members.next().map(|(key, _)| Val::Text(key)),
        }
    }
}

/// As in a message: text without quotes, lists with commas, everything else as in an expression.
impl fmt::Display for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clone().plain() {
            Self::Text(text) => f.write_str(&text),
            Self::Optional(None) => Ok(()),
            Self::Optional(Some(value)) => value.fmt(f),
            value if value.is_list() => {
                comma(f, value.iterate().into_iter().flatten(), |f, value| match value.plain() {
                    Val::Text(text) => f.write_str(&text),
                    value => Quoted(&value, 0).fmt(f),
                })
            }
            value => Quoted(&value, 0).fmt(f),
        }
    }
}

fn comma<T>(
    f: &mut fmt::Formatter<'_>,
    values: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (index, value) in values.enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        if index == MANY {
            return f.write_str("...");
        }
        write(f, value)?;
    }
    Ok(())
}

/// As in an explanation: text in quotes, so that it is told apart from a number. With how deep it lies.
pub(crate) struct Quoted<'v, 'a>(pub(crate) &'v Val<'a>, pub(crate) usize);

impl fmt::Display for Quoted<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deeper = self.1 + 1;
        match self.0.clone().plain() {
            Val::Null => f.write_str("null"),
            Val::Bool(value) => value.fmt(f),
            Val::Int(value) => value.fmt(f),
            Val::Uint(value) => write!(f, "{value}u"),
            Val::Float(value) => write!(f, "{value:?}"),
            Val::Text(text) => {
                f.write_char('\'')?;
                for char in text.chars() {
                    match char {
                        '\'' => f.write_str("\\'")?,
                        '\n' => f.write_str("\\n")?,
                        char if char.is_control() => write!(f, "{}", char.escape_unicode())?,
                        char => f.write_char(char)?,
                    }
                }
                f.write_char('\'')
            }
            Val::Optional(None) => f.write_str("optional.none()"),
            Val::Optional(Some(value)) => write!(f, "optional.of({})", Quoted(&value, deeper)),
            Val::Foreign(value) => write!(f, "{value:?}"),
            _ if deeper > DEEP => f.write_str("..."),
            value if value.is_list() => {
                f.write_char('[')?;
                comma(f, value.iterate().into_iter().flatten(), |f, value| Quoted(&value, deeper).fmt(f))?;
                f.write_char(']')
            }
            Val::Map(map) => {
                f.write_char('{')?;
                comma(f, map.iter(), |f, (key, value)| {
                    write!(f, "{}: {}", Quoted(key, deeper), Quoted(value, deeper))
                })?;
                f.write_char('}')
            }
            Val::Node(node) => {
                f.write_char('{')?;
                comma(f, node.members(), |f, (key, value)| {
                    write!(f, "{}: {}", Quoted(&Val::Text(key), deeper), Quoted(&Val::Node(value), deeper))
                })?;
                f.write_char('}')
            }
            Val::List(_) => Ok(()),
        }
    }
}
