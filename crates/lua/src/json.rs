//! Conversion of JSON to Lua tables, without intermediate values.

use std::fmt;

use mlua::{Lua, Table};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::Error;
use crate::budget::{Budget, Limit};
use crate::lua_error::spent;
use crate::text::bounded;

/// Values between two checks of memory and time.
const VALUES_AT_ONCE: usize = 64;

/// Converts the object as Argo CD does for scripts: null is absent, array items move up to close the gap, numbers are
/// doubles, and the last duplicate key counts.
///
/// Nesting is bounded by the parser, at 128 levels.
pub(crate) fn object(lua: &Lua, json: &[u8], budget: &Budget, most: usize) -> Result<Table, Error> {
    // Serde's message for other values would quote them.
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err(Error::Object { what: "not a JSON object".to_owned() });
    }
    let mut source = serde_json::Deserializer::from_slice(json);
    let mut maker = Maker { lua, budget, most, values: 0 };
    let made = Object(&mut maker).deserialize(&mut source).and_then(|table| source.end().map(|()| table));
    made.map_err(|why| budget.error().unwrap_or_else(|| Error::Object { what: bounded(&why.to_string()) }))
}

struct Maker<'l> {
    lua: &'l Lua,
    budget: &'l Budget,
    /// Maximum memory in use after the conversion.
    most: usize,
    values: usize,
}

impl Maker<'_> {
    /// Lua compares long strings with common prefixes byte by byte, so many of them are slow.
    fn check(&self) -> mlua::Result<()> {
        if self.lua.used_memory() > self.most {
            self.budget.reach(Limit::Memory);
        }
        self.budget.charge(0).map_err(|_| spent())
    }
}

/// The document, which must be an object.
struct Object<'a, 'l>(&'a mut Maker<'l>);

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = Table;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Table, D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = Table;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table, A::Error> {
        let table = fill(self.0, map)?;
        self.0.check().map_err(A::Error::custom)?;
        Ok(table)
    }
}

fn fill<'de, A: MapAccess<'de>>(maker: &mut Maker<'_>, mut map: A) -> Result<Table, A::Error> {
    let table = maker.lua.create_table().map_err(A::Error::custom)?;
    while let Some(key) = map.next_key_seed(Key(maker.lua))? {
        map.next_value_seed(Entry { maker, table: &table, key: Place::Key(&key) })?;
    }
    Ok(table)
}

struct Key<'a>(&'a Lua);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = mlua::LuaString;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = mlua::LuaString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        self.0.create_string(key).map_err(E::custom)
    }
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Key(&'a mlua::LuaString),
    /// Counts from 1.
    Index(usize),
}

/// Converts a value into its table. Returns whether anything was stored.
struct Entry<'a, 'l> {
    maker: &'a mut Maker<'l>,
    table: &'a Table,
    key: Place<'a>,
}

impl Entry<'_, '_> {
    fn put<E: serde::de::Error>(self, value: impl mlua::IntoLua) -> Result<bool, E> {
        let put = match self.key {
            Place::Key(key) => self.table.raw_set(key, value),
            Place::Index(index) => self.table.raw_set(index, value),
        };
        put.map_err(E::custom)?;
        self.maker.values += 1;
        if self.maker.values.is_multiple_of(VALUES_AT_ONCE) {
            self.maker.check().map_err(E::custom)?;
        }
        Ok(true)
    }
}

impl<'de> DeserializeSeed<'de> for Entry<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<bool, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<bool, E> {
        self.put(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<bool, E> {
        self.put(value as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<bool, E> {
        self.put(value as f64)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<bool, E> {
        self.put(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<bool, E> {
        self.put(value)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<bool, E> {
        // The key may exist already.
        if let Place::Key(_) = self.key {
            self.put(mlua::Nil)?;
        }
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let table = self.maker.lua.create_table().map_err(A::Error::custom)?;
        let mut index = 1;
        while let Some(put) =
            items.next_element_seed(Entry { maker: self.maker, table: &table, key: Place::Index(index) })?
        {
            index += usize::from(put);
        }
        self.put(&table)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        let table = fill(self.maker, map)?;
        self.put(&table)
    }
}
