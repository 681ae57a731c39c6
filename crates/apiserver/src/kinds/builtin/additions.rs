//! Fields that this server has beyond Kubernetes: `additions.yaml`, merged into the packed schemas and descriptions.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// `additions.yaml`.
pub(super) static TEXT: &[u8] = include_bytes!("../../../data/additions.yaml");

/// Schemas and descriptions by component, in the form of the packed ones.
#[derive(Default)]
struct Additions {
    schemas: Map<String, Value>,
    descriptions: Map<String, Value>,
}

/// The data is the program's own, and a test reads it: an error cannot be, and adds nothing.
static ADDITIONS: LazyLock<Additions> = LazyLock::new(|| read().unwrap_or_default());

fn read() -> Result<Additions, String> {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(TEXT, &mut json).map_err(|error| error.to_string())?;
    let mut parts: Map<String, Value> = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let mut part = |name: &str| match parts.remove(name) {
        Some(Value::Object(components)) => Ok(components),
        _ => Err(format!("no map of {name}")),
    };
    let additions = Additions { schemas: part("schemas")?, descriptions: part("descriptions")? };
    match parts.keys().next() {
        Some(name) => Err(format!("{name} is neither schemas nor descriptions")),
        None => Ok(additions),
    }
}

/// Adds the schemas of a Go package.
pub(super) fn add_schemas(components: &mut Map<String, Value>, package: &str) {
    add(components, &ADDITIONS.schemas, package);
}

/// Adds the descriptions of a Go package.
pub(super) fn add_descriptions(components: &mut Map<String, Value>, package: &str) {
    add(components, &ADDITIONS.descriptions, package);
}

fn add(components: &mut Map<String, Value>, additions: &Map<String, Value>, package: &str) {
    let is_of_package = |name: &str| name.rsplit_once('.').is_some_and(|(its, _)| its == package);
    for (name, addition) in additions.iter().filter(|(name, _)| is_of_package(name)) {
        merge(components.entry(name.clone()).or_insert(Value::Null), addition);
    }
}

/// Puts the fields of `addition` into `target`. Those that are there stay.
fn merge(target: &mut Value, addition: &Value) {
    match (target, addition) {
        (Value::Object(target), Value::Object(addition)) => {
            for (name, value) in addition {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (target @ Value::Null, addition) => target.clone_from(addition),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pointers of whatever is no map in a tree.
    fn leaves(value: &Value, path: &str, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    leaves(value, &format!("{path}/{name}"), into);
                }
            }
            _ => into.push(path.to_owned()),
        }
    }

    #[test]
    fn additions_are_read_and_kubernetes_has_none_of_them() {
        let additions = read().expect("additions.yaml is well formed");
        for (added, packed) in [
            (&additions.schemas, super::super::packages::packed_schemas as fn(&str) -> Map<String, Value>),
            (&additions.descriptions, super::super::packages::packed_descriptions),
        ] {
            assert!(!added.is_empty());
            for (component, addition) in added {
                let (package, _) = component.rsplit_once('.').expect("a component of a package");
                let components = packed(package);
                assert!(!components.is_empty(), "{package} is no package");
                let mut places = Vec::new();
                leaves(addition, "", &mut places);
                let known = components.get(component).unwrap_or(&Value::Null);
                for place in places {
                    assert_eq!(known.pointer(&place), None, "Kubernetes has {component}{place} itself");
                }
            }
        }
    }

    #[test]
    fn what_is_there_is_not_replaced() {
        let mut target = serde_json::json!({"a": {"b": 1}, "list": [1]});
        merge(&mut target, &serde_json::json!({"a": {"b": 2, "c": {"d": []}}, "list": [2], "e": "f"}));
        assert_eq!(target, serde_json::json!({"a": {"b": 1, "c": {"d": []}}, "list": [1], "e": "f"}));
    }
}
