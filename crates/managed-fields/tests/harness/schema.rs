//! Runs cases of OpenAPI.

use serde_json::{Map, Value, json};
use settled_managed_fields::{Atom, ListRelationship, MapRelationship, Schema, TypeRef};

pub fn answer(case: &Value) -> Value {
    match Schema::from_open_api(case["schemas"][0].as_object().unwrap(), case["preserve"] == true) {
        Ok(schema) => {
            let types: Map<_, _> =
                schema.types().map(|(name, atom)| (name.to_owned(), print(atom))).collect();
            json!([{"schema": types}])
        }
        Err(error) => json!([{"error": error.to_string()}]),
    }
}

/// The schema in the form from which values are made up: that of upstream.
pub fn plain(components: &Value) -> Value {
    let schema = Schema::from_open_api(components.as_object().unwrap(), false).unwrap();
    let types: Vec<_> = schema
        .types()
        .map(|(name, atom)| {
            let mut atom = print(atom);
            listed(&mut atom);
            atom["name"] = name.into();
            atom
        })
        .collect();
    json!({"types": types})
}

/// Fields as a list, and no element type where there is none.
fn listed(value: &mut Value) {
    match value {
        Value::Object(all) => {
            if let Some(map) = all.get_mut("map") {
                let fields: Vec<_> = map["fields"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(name, field)| {
                        let mut field = field.clone();
                        field["name"] = name.as_str().into();
                        field
                    })
                    .collect();
                map["fields"] = fields.into();
                if map["elementType"] == json!({}) {
                    map.as_object_mut().unwrap().remove("elementType");
                }
            }
            all.values_mut().for_each(listed);
        }
        Value::Array(items) => items.iter_mut().for_each(listed),
        _ => {}
    }
}

fn print(atom: &Atom) -> Value {
    let mut out = json!({});
    if let Some(scalar) = atom.scalar {
        out["scalar"] = format!("{scalar:?}").to_lowercase().into();
    }
    if let Some(list) = &atom.list {
        out["list"] = json!({"elementType": reference(&list.element_type)});
        out["list"]["elementRelationship"] = match &list.relationship {
            ListRelationship::Atomic => "atomic".into(),
            ListRelationship::Set => "associative".into(),
            ListRelationship::Keyed(keys) => {
                out["list"]["keys"] = keys.iter().map(|key| Value::from(&**key)).collect();
                "associative".into()
            }
        };
    }
    if let Some(map) = &atom.map {
        let fields: Map<_, _> = map
            .fields()
            .map(|(name, field)| {
                let mut one = json!({"type": reference(&field.type_ref)});
                if let Some(default) = &field.default {
                    one["default"] = default.clone();
                }
                (name.to_owned(), one)
            })
            .collect();
        out["map"] = json!({"fields": fields, "elementType": reference(&map.element_type),
            "elementRelationship": relationship(map.relationship)});
    }
    out
}

const fn relationship(relationship: MapRelationship) -> &'static str {
    match relationship {
        MapRelationship::Atomic => "atomic",
        MapRelationship::Granular => "separable",
    }
}

fn reference(type_ref: &TypeRef) -> Value {
    match type_ref {
        TypeRef::None => json!({}),
        TypeRef::Inline(atom) => print(atom),
        TypeRef::Named { name, relationship: of } => {
            let mut out = json!({"namedType": **name});
            if let Some(of) = of {
                out["elementRelationship"] = relationship(*of).into();
            }
            out
        }
    }
}
