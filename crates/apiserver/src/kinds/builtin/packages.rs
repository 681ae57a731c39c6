//! Packed data: schemas for each Go package with this server's additions, their descriptions apart, and the bootstrap policy.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use flate2::read::DeflateDecoder;
use serde_json::{Map, Value};

use super::{BuiltinKind, KINDS, additions};

/// A Go package's schemas and their descriptions, both as deflated JSON: an object by component name.
struct Package {
    name: &'static str,
    schemas: &'static [u8],
    descriptions: &'static [u8],
}

static PACKAGES: &[Package] = include!("../../../data/packages.rs");

static BOOTSTRAP: &[u8] = include_bytes!("../../../data/bootstrap-rbac.jsonl.deflate");

/// What Go writes for a field that is absent, or takes for absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// Nothing; and a zero is as good as absent.
    Drop,
    /// The zero of its type; and a zero is as good as absent.
    Zero,
    /// `null`: a list, map or time; an empty one is as good as absent.
    Null,
    /// An object with what its own fields are when absent.
    Object,
    /// `"0"`.
    Quantity,
}

struct Unpacked {
    schemas: Map<String, Value>,
    absent: BTreeMap<String, BTreeMap<String, Absent>>,
    types: BTreeMap<String, Map<String, Value>>,
    numbers: BTreeMap<String, Map<String, Value>>,
}

static UNPACKED: LazyLock<Box<[OnceLock<Unpacked>]>> =
    LazyLock::new(|| PACKAGES.iter().map(|_| OnceLock::new()).collect());

/// The data is the program's own, and a test unpacks all of it: an error cannot be, and gives nothing.
fn inflate(packed: &[u8]) -> String {
    let mut text = String::new();
    match DeflateDecoder::new(packed).read_to_string(&mut text) {
        Ok(_) => text,
        Err(_) => String::new(),
    }
}

fn object(packed: &[u8]) -> Map<String, Value> {
    match serde_json::from_str(&inflate(packed)) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// The schemas of a package without this server's additions.
#[cfg(test)]
pub(super) fn packed_schemas(package: &str) -> Map<String, Value> {
    PACKAGES.iter().find(|row| row.name == package).map(|row| object(row.schemas)).unwrap_or_default()
}

/// The descriptions of a package without this server's additions.
#[cfg(test)]
pub(super) fn packed_descriptions(package: &str) -> Map<String, Value> {
    PACKAGES.iter().find(|row| row.name == package).map(|row| object(row.descriptions)).unwrap_or_default()
}

fn index_of(component: &str) -> Option<usize> {
    let (package, _) = component.rsplit_once('.')?;
    PACKAGES.binary_search_by(|row| row.name.cmp(package)).ok()
}

fn unpacked(component: &str) -> Option<&'static Unpacked> {
    let index = index_of(component)?;
    let (package, slot) = (PACKAGES.get(index)?, UNPACKED.get(index)?);
    Some(slot.get_or_init(|| {
        let mut schemas = object(package.schemas);
        additions::add_schemas(&mut schemas, package.name);
        let mut absent = BTreeMap::new();
        let mut types = BTreeMap::new();
        let mut numbers = BTreeMap::new();
        for (name, schema) in &mut schemas {
            let mut rows = |key: &str| match schema.as_object_mut()?.remove(key)? {
                Value::Object(rows) => Some(rows),
                _ => None,
            };
            if let Some(rows) = rows("x-go-absent") {
                let rows = rows.into_iter().filter_map(|(field, row)| {
                    let row = match row.as_str()? {
                        "drop" => Absent::Drop,
                        "zero" => Absent::Zero,
                        "null" => Absent::Null,
                        "object" => Absent::Object,
                        "quantity" => Absent::Quantity,
                        _ => return None,
                    };
                    Some((field, row))
                });
                absent.insert(name.clone(), rows.collect());
            }
            if let Some(rows) = rows("x-go-type") {
                types.insert(name.clone(), rows);
            }
            if let Some(rows) = rows("x-protobuf") {
                numbers.insert(name.clone(), rows);
            }
        }
        Unpacked { schemas, absent, types, numbers }
    }))
}

/// A component's schema without descriptions. Its package is unpacked once and stays.
pub(crate) fn component(name: &str) -> Option<&'static Value> {
    unpacked(name)?.schemas.get(name)
}

/// What Go makes of the absent fields of a component.
pub(super) fn absent(name: &str) -> Option<&'static BTreeMap<String, Absent>> {
    unpacked(name)?.absent.get(name)
}

/// The name of a field's Go type, where it is a scalar, or a list of scalars, of a type with a name.
pub(super) fn go_type(component: &str, field: &str) -> Option<&'static str> {
    unpacked(component)?.types.get(component)?.get(field)?.as_str()
}

/// The numbers of a component's fields in protobuf: each with the field's name, or with those of a message whose fields
/// are the component's own in JSON.
pub(super) fn numbers(component: &str) -> Option<&'static Map<String, Value>> {
    unpacked(component)?.numbers.get(component)
}

const REFERENCE: &str = "#/components/schemas/";

/// The component that a schema stands for: by `$ref`, or by the `allOf` that a default needs around it.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    let target = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    target.as_str()?.strip_prefix(REFERENCE)
}

/// Every `$ref` in a schema.
fn references<'a>(schema: &'a Value, into: &mut Vec<&'a str>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().and_then(|target| target.strip_prefix(REFERENCE)) {
                    Some(target) if name == "$ref" => into.push(target),
                    _ => references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

/// What every group version's document also has.
const COMMON: [&str; 7] =
    ["APIGroup", "APIResourceList", "DeleteOptions", "Patch", "Status", "WatchEvent", "ObjectMeta"];

/// The names of a group version's components: its kinds, their lists, and whatever they refer to.
fn closure(api_version: &str) -> BTreeSet<&'static str> {
    let members: Vec<&BuiltinKind> = KINDS.iter().filter(|row| row.api_version() == api_version).collect();
    if members.is_empty() {
        return BTreeSet::new();
    }
    let mut names: Vec<String> =
        COMMON.iter().map(|name| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")).collect();
    for row in members {
        names.push(row.schema_name.to_owned());
        names.push(format!("{}List", row.schema_name));
        for subresource in row.subresources.iter().filter(|subresource| subresource.kind != row.kind) {
            // A subresource's kind may be of another group: its own kinds' packages are those of the group's schemas.
            let group =
                subresource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            names.push(format!("io.k8s.api.{group}.{}.{}", subresource.version, subresource.kind));
        }
    }
    with_references(names)
}

/// Components, and whatever they refer to. Names that are none are left out.
fn with_references(mut names: Vec<String>) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    while let Some(name) = names.pop() {
        let Some((own, schema)) = unpacked(&name).and_then(|package| package.schemas.get_key_value(&name))
        else {
            continue;
        };
        if found.insert(own.as_str()) {
            let mut more = Vec::new();
            references(schema, &mut more);
            names.extend(more.into_iter().map(str::to_owned));
        }
    }
    found
}

/// What stands under `components.schemas` in a group version's OpenAPI document, without descriptions: kept once made.
/// An empty object for a group version that is not built in. `api_version` is `v1` or `apps/v1`.
pub(crate) fn schemas(api_version: &str) -> Arc<Value> {
    static MADE: Mutex<BTreeMap<String, Arc<Value>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = made.get(api_version) {
        return Arc::clone(known);
    }
    let names = closure(api_version);
    let fields = names.into_iter().filter_map(|name| Some((name.to_owned(), component(name)?.clone())));
    let value = Arc::new(Value::Object(fields.collect()));
    if KINDS.iter().any(|row| row.api_version() == api_version) {
        made.insert(api_version.to_owned(), Arc::clone(&value));
    }
    value
}

/// A component and whatever it refers to, without descriptions.
pub(crate) fn schemas_of(name: &str) -> Map<String, Value> {
    let names = with_references(vec![name.to_owned()]).into_iter();
    names.filter_map(|name| Some((name.to_owned(), component(name)?.clone()))).collect()
}

/// As [`schemas`], with descriptions: what `kubectl explain` reads. Made anew at each call, since it is large and rarely
/// asked for; the handler keeps the bytes.
pub(crate) fn document(api_version: &str) -> Value {
    Value::Object(described(closure(api_version)))
}

/// Components by name with descriptions, and whatever they refer to: what custom resources share with built-in kinds.
pub(crate) fn components(names: &[&str]) -> Map<String, Value> {
    described(with_references(names.iter().map(|name| (*name).to_owned()).collect()))
}

fn described(names: BTreeSet<&'static str>) -> Map<String, Value> {
    let mut words_of: BTreeMap<usize, Map<String, Value>> = BTreeMap::new();
    let mut out = Map::new();
    for name in names {
        let (Some(index), Some(schema)) = (index_of(name), component(name)) else { continue };
        let Some(package) = PACKAGES.get(index) else { continue };
        let words = words_of.entry(index).or_insert_with(|| {
            let mut words = object(package.descriptions);
            additions::add_descriptions(&mut words, package.name);
            words
        });
        let mut schema = schema.clone();
        if let Some(words) = words.remove(name) {
            describe(&mut schema, words);
        }
        out.insert(name.to_owned(), schema);
    }
    out
}

/// All that is packed: it changes when a document of a built-in kind may.
pub(crate) fn packed() -> impl Iterator<Item = &'static [u8]> {
    PACKAGES.iter().flat_map(|package| [package.schemas, package.descriptions]).chain([additions::TEXT])
}

/// Puts descriptions into a schema: both are trees of the same form.
fn describe(schema: &mut Value, words: Value) {
    let (Value::Object(schema), Value::Object(words)) = (schema, words) else { return };
    for (name, word) in words {
        match schema.get_mut(&name) {
            Some(nested) => describe(nested, word),
            None => drop(schema.insert(name, word)),
        }
    }
}

/// The roles and bindings that a cluster starts with, as Kubernetes' own policy has them: ClusterRoles, then their
/// bindings, those of the controllers, then the namespaced ones (in `kube-system` and `kube-public`).
pub(crate) fn bootstrap_rbac() -> Vec<Value> {
    inflate(BOOTSTRAP).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
