//! Generator of the data of built-in kinds for `crates/apiserver`, from files published by Kubernetes.
//!
//! Output: the table of kinds (from the recorded discovery documents), the schemas per Go package (from the OpenAPI
//! documents, with descriptions in separate files, and enum values from a running server), the Go zero values and
//! protobuf numbers of fields (from the Go source, since no document has them), and the bootstrap roles (from the
//! recorded bootstrap policy).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::DeflateEncoder};
use serde_json::{Map, Value, json};
use settled_conformance::{Request, Target as _};

use crate::oracle::{Module, Oracle};
use crate::{Outcome, corpora, oracle, server};

const KUBERNETES: Module = Module {
    path: "k8s.io/kubernetes",
    version: "v1.36.3",
    sum: "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=",
};

/// Modules with the Go types, each with the prefix of its packages' names in the schemas.
const TYPES: [(Module, &str); 4] = [
    (
        Module {
            path: "k8s.io/api",
            version: "v0.36.3",
            sum: "h1:NxB+05W2UGqXWFXcLO0RB5cnqnUPP5v5sVlaOH0Iz4w=",
        },
        "io.k8s.api.",
    ),
    (
        Module {
            path: "k8s.io/apimachinery",
            version: "v0.36.3",
            sum: "h1:PkzMRBRG8joFD8EhCuQAtNPvJlxb82FwplP26HIzvAM=",
        },
        "io.k8s.apimachinery.",
    ),
    (
        Module {
            path: "k8s.io/apiextensions-apiserver",
            version: "v0.36.3",
            sum: "h1:dPmOAPhwTtqb1bTxbFPsy18KHPhktQeO3WUPXunZIB0=",
        },
        "io.k8s.apiextensions-apiserver.",
    ),
    (
        Module {
            path: "k8s.io/kube-aggregator",
            version: "v0.36.3",
            sum: "h1:eypRCZKyGx3u9TLdnLva47l6R/67Zs9h9FQI+uMruaY=",
        },
        "io.k8s.kube-aggregator.",
    ),
];

/// Served group versions, in the order of upstream's `/apis`, and by preference within a group.
const SERVED: [(&str, &[&str]); 21] = [
    ("", &["v1"]),
    ("apiregistration.k8s.io", &["v1"]),
    ("apps", &["v1"]),
    ("events.k8s.io", &["v1"]),
    ("authentication.k8s.io", &["v1"]),
    ("authorization.k8s.io", &["v1"]),
    ("autoscaling", &["v2", "v1"]),
    ("batch", &["v1"]),
    ("certificates.k8s.io", &["v1"]),
    ("networking.k8s.io", &["v1"]),
    ("policy", &["v1"]),
    ("rbac.authorization.k8s.io", &["v1"]),
    ("storage.k8s.io", &["v1"]),
    ("admissionregistration.k8s.io", &["v1"]),
    ("apiextensions.k8s.io", &["v1"]),
    ("scheduling.k8s.io", &["v1"]),
    ("coordination.k8s.io", &["v1"]),
    ("node.k8s.io", &["v1"]),
    ("discovery.k8s.io", &["v1"]),
    // Scheduler and controller manager wait for the informers of these.
    ("resource.k8s.io", &["v1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1"]),
];

/// Subresources that connect to a running container or a node: nothing runs here.
const UNSERVED: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The files of the bootstrap policy.
const POLICY: [&str; 6] = [
    "cluster-roles.yaml",
    "cluster-role-bindings.yaml",
    "controller-roles.yaml",
    "controller-role-bindings.yaml",
    "namespace-roles.yaml",
    "namespace-role-bindings.yaml",
];

/// Writes everything in `crates/apiserver/data` except hand-written files. False if Go or its proxy is missing.
pub(crate) fn run() -> Outcome<bool> {
    let Some(kubernetes) = directory(&KUBERNETES)? else { return Ok(false) };
    let mut sources = Vec::new();
    for (module, prefix) in &TYPES {
        let Some(directory) = directory(module)? else { return Ok(false) };
        sources.push((directory, *prefix));
    }
    let data = corpora::root().join("crates/apiserver/data");
    fs::create_dir_all(&data)?;

    let mut pool = components(&kubernetes)?;
    if !enums(&mut pool)? {
        return Ok(false);
    }
    fs::write(data.join("kinds.rs"), kinds(&kubernetes, &pool)?)?;
    println!("kinds.rs");
    packages(&data, &pool, &sources)?;
    policy(&data, &kubernetes)?;
    Ok(true)
}

fn directory(module: &Module) -> Outcome<Option<PathBuf>> {
    match oracle::download(module)? {
        Oracle::Ready(directory) => Ok(Some(directory)),
        Oracle::Skipped(reason) => {
            println!("SKIPPED: {reason}");
            Ok(None)
        }
    }
}

fn json(path: &Path) -> Outcome<Value> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn group_versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    SERVED.iter().flat_map(|(group, versions)| versions.iter().map(|version| (*group, *version)))
}

/// Name of a group version in upstream's file names.
fn file_stem(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api__{version}") } else { format!("apis__{group}__{version}") }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// All component schemas of the served group versions, by name.
fn components(kubernetes: &Path) -> Outcome<BTreeMap<String, Value>> {
    let mut pool: BTreeMap<String, Value> = BTreeMap::new();
    for (group, version) in group_versions() {
        let file = format!("api/openapi-spec/v3/{}_openapi.json", file_stem(group, version));
        let mut document = json(&kubernetes.join(file))?;
        let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas").map(Value::take)
        else {
            return Err(format!("{group}/{version}: no components").into());
        };
        for (name, mut schema) in schemas {
            let Some(known) = pool.get_mut(&name) else {
                pool.insert(name, schema);
                continue;
            };
            // DeleteOptions and WatchEvent belong to all group versions, and each document lists a different selection.
            let kinds = "x-kubernetes-group-version-kind";
            if let (Some(Value::Array(known)), Some(Value::Array(more))) =
                (known.get_mut(kinds), schema.get_mut(kinds))
            {
                for gvk in more.iter() {
                    if !known.contains(gvk) {
                        known.push(gvk.clone());
                    }
                }
                more.clone_from(known);
            }
            if *known != schema {
                return Err(format!("{name} differs between documents").into());
            }
        }
    }
    Ok(pool)
}

/// Adds enum values: the published documents omit them, and a server returns them, with a sentence about each in the
/// description. False if kube-apiserver is not available.
fn enums(pool: &mut BTreeMap<String, Value>) -> Outcome<bool> {
    let Some(server) = server::start(server::Kind::Real)? else { return Ok(false) };
    let mut count = 0;
    for (group, version) in group_versions() {
        let place =
            if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let request = Request {
            method: "GET".to_owned(),
            path: format!("/openapi/v3/{place}"),
            user: "admin".to_owned(),
            headers: vec![("Accept".to_owned(), "application/json".to_owned())],
            body: vec![],
        };
        let answer = server.client.send(&request)?;
        let document: Value = serde_json::from_slice(&answer.body)
            .map_err(|why| format!("{}: {}: {why}", request.path, answer.status))?;
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        for (name, served) in schemas.ok_or_else(|| format!("{}: no components", request.path))? {
            if let Some(schema) = pool.get_mut(name) {
                count += add_enums(schema, served);
            }
        }
    }
    println!("{count} fields with a list of values");
    Ok(true)
}

/// Returns the number of added values.
fn add_enums(schema: &mut Value, served: &Value) -> usize {
    let mut count = 0;
    match (schema, served) {
        (Value::Object(schema), Value::Object(served)) => {
            if let Some(values) = served.get("enum").filter(|values| values.is_array()) {
                count += usize::from(!schema.contains_key("enum"));
                schema.insert("enum".to_owned(), values.clone());
                if let Some(description) = served.get("description") {
                    schema.insert("description".to_owned(), description.clone());
                }
            }
            for (name, inner) in schema.iter_mut().filter(|(name, _)| *name != "enum") {
                count += served.get(name).map_or(0, |served| add_enums(inner, served));
            }
        }
        (Value::Array(schemas), Value::Array(served)) => {
            count += schemas
                .iter_mut()
                .zip(served)
                .map(|(schema, served)| add_enums(schema, served))
                .sum::<usize>();
        }
        _ => {}
    }
    count
}

/// The table of kinds, as Rust source.
fn kinds(kubernetes: &Path, pool: &BTreeMap<String, Value>) -> Outcome<String> {
    let component_of: BTreeMap<(String, String, String), &String> = pool
        .iter()
        .flat_map(|(name, schema)| {
            let gvks = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            gvks.into_iter().flatten().map(move |gvk| {
                let [group, version, kind] =
                    ["group", "version", "kind"].map(|field| text(gvk, field).to_owned());
                ((group, version, kind), name)
            })
        })
        .collect();

    let mut out = String::from("// Written by `cargo xtask generate builtins`.\n&[\n");
    for (group, version) in group_versions() {
        let document = json(&kubernetes.join(format!("api/discovery/{}.json", file_stem(group, version))))?;
        let resources =
            document.get("resources").and_then(Value::as_array).ok_or("discovery without resources")?;
        for resource in resources {
            let name = text(resource, "name");
            if name.contains('/') {
                continue;
            }
            let kind = text(resource, "kind");
            let component = component_of
                .get(&(group.to_owned(), version.to_owned(), kind.to_owned()))
                .ok_or_else(|| format!("no schema for {group}/{version} {kind}"))?;
            let mut subresources = Vec::new();
            for other in resources {
                let Some(subresource) =
                    text(other, "name").strip_prefix(name).and_then(|rest| rest.strip_prefix('/'))
                else {
                    continue;
                };
                if UNSERVED.contains(&subresource) {
                    continue;
                }
                let or = |field: &str, fallback: &'static str| {
                    let own = text(other, field).to_owned();
                    if own.is_empty() { fallback.to_owned() } else { own }
                };
                subresources.push(format!(
                    "Subresource {{ name: {subresource:?}, group: {:?}, version: {:?}, kind: {:?}, verbs: &{} }}",
                    or("group", group),
                    or("version", version),
                    text(other, "kind"),
                    list(other, "verbs"),
                ));
            }
            writeln!(
                out,
                "    BuiltinKind {{\n        group: {group:?}, version: {version:?}, kind: {kind:?}, list_kind: \"{kind}List\",\n        \
                 plural: {name:?}, singular: {:?}, short_names: &{}, categories: &{},\n        \
                 namespaced: {}, verbs: &{}, storage_version_hash: {:?},\n        \
                 schema_name: {component:?},\n        subresources: &[{}],\n    }},",
                text(resource, "singularName"),
                list(resource, "shortNames"),
                list(resource, "categories"),
                resource.get("namespaced").and_then(Value::as_bool).unwrap_or_default(),
                list(resource, "verbs"),
                text(resource, "storageVersionHash"),
                subresources.join(", "),
            )?;
        }
    }
    out.push_str("]\n");
    Ok(out)
}

fn list(value: &Value, field: &str) -> String {
    let words = value.get(field).and_then(Value::as_array).into_iter().flatten();
    format!("{:?}", words.filter_map(Value::as_str).collect::<Vec<_>>())
}

/// The schemas: one file per Go package, and its descriptions beside it.
fn packages(data: &Path, pool: &BTreeMap<String, Value>, sources: &[(PathBuf, &str)]) -> Outcome<()> {
    let directory = data.join("schemas");
    if directory.is_dir() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let mut packages: BTreeMap<&str, Vec<(&String, &Value)>> = BTreeMap::new();
    for (name, schema) in pool {
        let (package, _) = name.rsplit_once('.').ok_or("a component without a package")?;
        packages.entry(package).or_default().push((name, schema));
    }
    let mut table = String::from("// Written by `cargo xtask generate builtins`.\n&[\n");
    let mut written = [0; 2];
    for (package, members) in packages {
        let types = go_types(package, sources)?;
        let mut schemas = Map::new();
        let mut descriptions = Map::new();
        for (name, schema) in members {
            let mut schema = schema.clone();
            let words = split_descriptions(&mut schema);
            let short = name.rsplit('.').next().unwrap_or_default();
            if let Some(GoType { fields, numbers }) = types.get(short) {
                let absent = absent(fields, &schema)
                    .map_err(|property| format!("{name}: no Go field for {property}"))?;
                let named = named_types(fields, &schema, package);
                let numbers = if schema.get("properties").is_some() { numbers.clone() } else { Map::new() };
                for (key, rows) in [("x-go-absent", absent), ("x-go-type", named), ("x-protobuf", numbers)] {
                    if !rows.is_empty() {
                        schema[key] = Value::Object(rows);
                    }
                }
            } else if schema.get("properties").is_some() {
                return Err(format!("no Go type for {name}").into());
            }
            schemas.insert(name.clone(), schema);
            descriptions.insert(name.clone(), words);
        }
        for (slot, (ending, content)) in
            [("schemas", schemas), ("descriptions", descriptions)].into_iter().enumerate()
        {
            let packed = deflate(Value::Object(content).to_string().as_bytes())?;
            written[slot] += packed.len();
            fs::write(directory.join(format!("{package}.{ending}.deflate")), packed)?;
        }
        writeln!(
            table,
            "    Package {{\n        name: {package:?},\n        schemas: include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/data/schemas/{package}.schemas.deflate\")),\n        \
             descriptions: include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/data/schemas/{package}.descriptions.deflate\")),\n    }},"
        )?;
    }
    table.push_str("]\n");
    fs::write(data.join("packages.rs"), table)?;
    println!("packages.rs, schemas: {} KB, descriptions {} KB", written[0] / 1000, written[1] / 1000);
    Ok(())
}

fn deflate(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Moves the descriptions out of a schema, to a tree of the same form.
fn split_descriptions(schema: &mut Value) -> Value {
    let Some(fields) = schema.as_object_mut() else { return Value::Null };
    let mut words = Map::new();
    if let Some(description) = fields.remove("description") {
        words.insert("description".into(), description);
    }
    for (name, nested) in fields {
        match (name.as_str(), nested) {
            ("properties", Value::Object(properties)) => {
                let below: Map<String, Value> = properties
                    .iter_mut()
                    .map(|(property, schema)| (property.clone(), split_descriptions(schema)))
                    .filter(|(_, words)| !words.is_null())
                    .collect();
                words.insert("properties".into(), Value::Object(below));
            }
            ("items" | "additionalProperties", nested) => {
                let below = split_descriptions(nested);
                if !below.is_null() {
                    words.insert(name.clone(), below);
                }
            }
            _ => {}
        }
    }
    if words.is_empty() { Value::Null } else { Value::Object(words) }
}

/// JSON properties of a Go struct field.
struct Field {
    json: String,
    go_type: String,
    omit_empty: bool,
    omit_zero: bool,
    /// Number of the field in the protobuf message.
    number: Option<u32>,
}

/// An embedded type whose fields are inlined in JSON. In protobuf it is a message, if it has a number.
struct Inlined {
    go_type: String,
    number: Option<u32>,
}

/// The structs of a package, as declared.
type Structs = BTreeMap<String, (Vec<Field>, Vec<Inlined>)>;

/// JSON and protobuf properties of a struct.
struct GoType {
    fields: Vec<Field>,
    numbers: Map<String, Value>,
}

/// The structs of a package by name, with inlined structs resolved.
fn go_types(package: &str, sources: &[(PathBuf, &str)]) -> Outcome<BTreeMap<String, GoType>> {
    let Some((root, rest)) =
        sources.iter().find_map(|(root, prefix)| Some((root, package.strip_prefix(prefix)?)))
    else {
        return Err(format!("no Go module for {package}").into());
    };
    let directory = root.join(rest.replace('.', "/"));
    let mut text = String::new();
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".go")
            && !name.ends_with("_test.go")
            && !name.starts_with("zz_")
            && !name.starts_with("generated")
        {
            text.push_str(&fs::read_to_string(&file)?);
            text.push('\n');
        }
    }
    let mut raw = Structs::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
            current = Some(name.to_owned());
            raw.insert(name.to_owned(), (Vec::new(), Vec::new()));
        } else if line == "}" {
            current = None;
        } else if let Some(name) = &current
            && let Some((before, tag)) = line.split_once("`json:\"").or_else(|| split_tag(line))
            && let Some((fields, inlined)) = raw.get_mut(name)
        {
            let number = line
                .split_once("protobuf:\"")
                .and_then(|(_, tag)| tag.split(',').nth(1))
                .and_then(|number| number.parse().ok());
            let tag = tag.split('"').next().unwrap_or_default();
            let mut parts = tag.split(',');
            let json = parts.next().unwrap_or_default().to_owned();
            let options: Vec<&str> = parts.collect();
            let words: Vec<&str> = before.split_whitespace().collect();
            if before.trim_start().starts_with("//") || json == "-" {
                continue;
            }
            if json.is_empty() {
                inlined.extend(words.last().map(|word| Inlined { go_type: (*word).to_owned(), number }));
                continue;
            }
            fields.push(Field {
                json,
                go_type: words.last().map(|word| (*word).to_owned()).unwrap_or_default(),
                omit_empty: options.contains(&"omitempty"),
                omit_zero: options.contains(&"omitzero"),
                number,
            });
        }
    }
    // `type A B`, and types that have the fields of a struct with another name.
    let mut flat = BTreeMap::new();
    let names: Vec<String> = raw.keys().cloned().collect();
    for name in names {
        let mut fields = Vec::new();
        flatten(&raw, &name, &mut fields);
        let numbers = numbers(&raw, &name)?;
        flat.insert(name, GoType { fields, numbers });
    }
    Ok(flat)
}

/// A tag that does not begin with `json`.
fn split_tag(line: &str) -> Option<(&str, &str)> {
    let (before, tag) = line.split_once('`')?;
    Some((before, tag.split_once("json:\"")?.1))
}

/// Protobuf numbers of a struct's fields by JSON name, including those of inlined structs.
fn numbers(raw: &Structs, name: &str) -> Outcome<Map<String, Value>> {
    let mut rows = Map::new();
    let Some((fields, inlined)) = raw.get(name) else {
        return Err(format!("{name} is inlined, and of another package").into());
    };
    for field in fields {
        if let Some(number) = field.number {
            rows.insert(number.to_string(), json!(field.json));
        }
    }
    for other in inlined {
        if let Some(number) = other.number {
            rows.insert(number.to_string(), Value::Object(numbers(raw, &other.go_type)?));
        }
    }
    Ok(rows)
}

fn flatten(raw: &Structs, name: &str, into: &mut Vec<Field>) {
    let Some((fields, inlined)) = raw.get(name) else { return };
    for field in fields {
        into.push(Field {
            json: field.json.clone(),
            go_type: field.go_type.clone(),
            omit_empty: field.omit_empty,
            omit_zero: field.omit_zero,
            number: field.number,
        });
    }
    for other in inlined {
        flatten(raw, &other.go_type, into);
    }
}

/// How Go encodes absent fields of a struct:
///
/// - `"drop"`: a zero value is omitted (a scalar with `omitempty`)
/// - `"zero"`: `0`, `""` or `false` (a scalar without it)
/// - `"null"`: a list or map without `omitempty`, a time that is not a pointer
/// - `"object"`: a struct that is not a pointer, with its own fields
/// - `"quantity"`: a quantity that is not a pointer, `"0"`
///
/// Other fields, which are pointers, are omitted.
fn absent(fields: &[Field], schema: &Value) -> Result<Map<String, Value>, String> {
    let mut rows = Map::new();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(rows) };
    // Fields of `TypeMeta`, of another package, which encoding fills in.
    let inherited = ["apiVersion", "kind"];
    let known =
        |name: &String| fields.iter().any(|field| field.json == *name) || inherited.contains(&name.as_str());
    if let Some(unknown) = properties.keys().find(|name| !known(name)) {
        return Err(unknown.clone());
    }
    for field in fields {
        let Some(property) = properties.get(&field.json) else { continue };
        if field.go_type.starts_with('*') {
            continue;
        }
        let reference = property
            .pointer("/allOf/0/$ref")
            .or_else(|| property.get("$ref"))
            .and_then(Value::as_str)
            .and_then(|path| path.rsplit('/').next());
        let row = match (text(property, "type"), reference) {
            ("array", _) => (!field.omit_empty).then_some("null"),
            ("object", None) => (!field.omit_empty).then_some("null"),
            ("string", _) if text(property, "format") == "byte" => {
                Some(if field.omit_empty { "drop" } else { "null" })
            }
            ("string" | "integer" | "number" | "boolean", _) => {
                Some(if field.omit_empty { "drop" } else { "zero" })
            }
            (_, Some(name))
                if name.ends_with(".Time")
                    || name.ends_with(".MicroTime")
                    || name.ends_with(".RawExtension") =>
            {
                (!field.omit_zero).then_some("null")
            }
            (_, Some(name)) if name.ends_with(".Quantity") => Some("quantity"),
            (_, Some(name)) if name.ends_with(".IntOrString") => Some("zero"),
            (_, Some(_)) => (!field.omit_zero).then_some("object"),
            _ => None,
        };
        if let Some(row) = row {
            rows.insert(field.json.clone(), json!(row));
        }
    }
    Ok(rows)
}

/// Named scalar types of fields and list items, which Go's errors mention.
fn named_types(fields: &[Field], schema: &Value, package: &str) -> Map<String, Value> {
    let mut rows = Map::new();
    let version = package.rsplit('.').next().unwrap_or_default();
    for field in fields {
        let property = schema.get("properties").and_then(|properties| properties.get(&field.json));
        let Some(property) = property else { continue };
        let scalar =
            |schema: &Value| ["string", "integer", "boolean", "number"].contains(&text(schema, "type"));
        let (list, name) = match field.go_type.trim_start_matches('*').strip_prefix("[]") {
            Some(name) if property.get("items").is_some_and(scalar) => ("[]", name),
            None if scalar(property) => ("", field.go_type.trim_start_matches('*')),
            _ => continue,
        };
        let shown = match name.rsplit_once('.') {
            // Package aliases end with the version, or are the package's name.
            Some((package, name)) => {
                let version = if package.ends_with(version) { version } else { package };
                format!("{list}{version}.{name}")
            }
            None if name.starts_with(|c: char| c.is_ascii_uppercase()) => format!("{list}{version}.{name}"),
            None => continue,
        };
        rows.insert(field.json.clone(), json!(shown));
    }
    rows
}

/// The bootstrap policy, one object per line.
fn policy(data: &Path, kubernetes: &Path) -> Outcome<()> {
    let directory = kubernetes.join("plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata");
    let mut lines = String::new();
    let mut count = 0;
    for file in POLICY {
        let mut bytes = Vec::new();
        settled_manifest::yaml_to_json(&fs::read(directory.join(file))?, &mut bytes)
            .map_err(|error| format!("{file}: {error}"))?;
        let read: Value = serde_json::from_slice(&bytes)?;
        for object in read.get("items").and_then(Value::as_array).into_iter().flatten() {
            writeln!(lines, "{object}")?;
            count += 1;
        }
    }
    let packed = deflate(lines.as_bytes())?;
    println!("bootstrap-rbac: {count} objects, {} KB", packed.len() / 1000);
    fs::write(data.join("bootstrap-rbac.jsonl.deflate"), packed)?;
    Ok(())
}
