//! Makes up cases.

use serde_json::{Map, Value, json};

use super::merge::State;
use super::random::Random;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const STRINGS: [&str; 6] = ["x", "y", "z", "", "<&>\"\\\n", "é\u{2028}"];

/// A case of a mode.
pub fn case(mode: &str, random: &mut Random) -> Value {
    match mode {
        "merge" => merge(random),
        "kubernetes" => kubernetes(random),
        "schema" => {
            json!({"mode": "schema", "preserve": random.percent(20), "schemas": [components(random)]})
        }
        _ => panic!("there is no mode {mode}"),
    }
}

/// A case of the merge itself.
pub fn merge(random: &mut Random) -> Value {
    let named = random.below(3);
    let mut types: Vec<Value> = (0..named)
        .map(|index| {
            let mut atom = atom(random, 2, named, true);
            atom["name"] = format!("t{index}").into();
            atom
        })
        .collect();
    let mut root = json!({"map": map(random, 3, named)});
    root["name"] = "v1".into();
    let renamed = random.percent(30);
    if renamed {
        // Else a name could be both an old and a new one.
        root["map"].as_object_mut().unwrap().remove("elementType");
    }
    if random.percent(95) {
        root["map"].as_object_mut().unwrap().remove("elementRelationship");
    }
    types.push(root.clone());
    let mut versions = vec!["v1".to_owned()];
    let mut renames = Map::new();
    if renamed {
        // The same fields under other names.
        let mut other = root;
        other["name"] = "v2".into();
        let mut renamed = Map::new();
        for field in other["map"]["fields"].as_array_mut().into_iter().flatten() {
            if random.percent(60) {
                let name = field["name"].as_str().unwrap().to_owned();
                let new = format!("new-{name}");
                field["name"] = new.clone().into();
                renamed.insert(name, new.into());
            }
        }
        renames.insert("v2".to_owned(), Value::Object(renamed));
        types.push(other);
        versions.push("v2".to_owned());
    }
    if random.percent(8) {
        versions = vec!["deduced".to_owned()];
    }
    let mut schemas = vec![json!({"types": types})];
    if random.percent(25) {
        let mut other = schemas[0].clone();
        change_schema(random, &mut other);
        schemas.push(other);
    }
    let mut case = json!({"mode": "merge", "schemas": schemas, "renames": renames});
    let deduced = json!({"namedType": "__untyped_deduced_"});
    let root_of = |schema: usize, version: &str| match version {
        "deduced" => deduced.clone(),
        _ => schemas[schema]["types"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == *version)
            .unwrap()
            .clone(),
    };
    if random.percent(20) {
        let root = root_of(0, &versions[0]);
        let mut ignored = Map::new();
        for name in NAMES {
            if root["map"]["fields"].to_string().contains(&format!("\"{name}\"")) && random.percent(30) {
                ignored.insert(format!("f:{name}"), json!({}));
            }
        }
        if !ignored.is_empty() {
            case["ignored"] = json!({versions[0].clone(): ignored});
        }
    }
    case["live"] =
        if random.percent(60) { json!({}) } else { value(random, &schemas[0], &root_of(0, &versions[0]), 0) };
    if random.percent(10) {
        case["managers"] = json!({"old": {"version": if random.percent(50) { "gone" } else { "v1" },
            "applied": true, "fields": random_fields(random, 0)}});
        if versions[0] == "deduced" {
            case["managers"]["old"]["version"] = "deduced".into();
        }
    }

    let mut state = State::new(&case);
    let mut operations = Vec::new();
    let mut schema = 0;
    let mut last: Map<String, Value> = Map::new();
    for place in 0..2 + random.below(8) {
        if schemas.len() > 1 && random.percent(20) {
            schema = 1 - schema;
        }
        let version = if place == 0 { &versions[0] } else { random.pick(&versions) };
        let root = root_of(schema, version);
        let manager = format!("m{}", random.below(3));
        let apply = random.percent(70);
        let base = if apply { last.get(&format!("{manager}/{version}")) } else { Some(&state.live) };
        let mut object = match base {
            Some(base) if random.percent(85) => {
                let mut object = base.clone();
                for _ in 0..=random.below(2) {
                    mutate(random, &schemas[schema], &root, &mut object, 0);
                }
                object
            }
            _ => value(random, &schemas[schema], &root, 0),
        };
        if object.is_null() {
            object = json!({});
        }
        if apply {
            last.insert(format!("{manager}/{version}"), object.clone());
        }
        let operation = json!({"apply": apply, "force": random.percent(40), "manager": manager,
            "version": version, "schema": schema, "object": object});
        state.run(&operation);
        operations.push(operation);
    }
    case["operations"] = operations.into();
    case
}

fn random_fields(random: &mut Random, depth: usize) -> Value {
    let mut out = Map::new();
    for _ in 0..random.below(4) {
        let key = match random.below(8) {
            0 => "v:\"x\"".to_owned(),
            1 => "k:{\"a\":\"x\"}".to_owned(),
            2 => "v:1".to_owned(),
            3 => ".".to_owned(),
            _ => format!("f:{}", random.pick(&NAMES)),
        };
        let below =
            if depth < 3 && random.percent(50) { random_fields(random, depth + 1) } else { json!({}) };
        out.insert(key, below);
    }
    Value::Object(out)
}

fn scalar(random: &mut Random) -> &'static str {
    const KINDS: [&str; 5] = ["numeric", "string", "boolean", "untyped", "string"];
    KINDS[random.below(KINDS.len())]
}

fn reference(random: &mut Random, depth: usize, named: usize) -> Value {
    match random.below(12) {
        0 => json!({"namedType": "__untyped_atomic_"}),
        1 => json!({"namedType": "__untyped_deduced_"}),
        2 | 3 if named > 0 => json!({"namedType": format!("t{}", random.below(named))}),
        _ => atom(random, depth, named, false),
    }
}

fn atom(random: &mut Random, depth: usize, named: usize, big: bool) -> Value {
    let depth = depth.saturating_sub(1);
    match random.below(12) {
        0 if depth > 0 => json!({"scalar": scalar(random), "map": map(random, depth, named)}),
        1 if depth > 0 => json!({"scalar": "untyped", "list": list(random, depth, named),
            "map": map(random, depth, named)}),
        2..=5 if depth > 0 => json!({"map": map(random, depth, named)}),
        6..=9 if depth > 0 => json!({"list": list(random, depth, named)}),
        _ if big => json!({"map": map(random, 1, named)}),
        _ => json!({"scalar": scalar(random)}),
    }
}

fn map(random: &mut Random, depth: usize, named: usize) -> Value {
    let mut out = json!({});
    if random.percent(80) {
        let mut fields = Vec::new();
        for name in NAMES {
            if random.percent(50) {
                let mut field = json!({"name": name, "type": reference(random, depth, named)});
                if random.percent(10) {
                    field["default"] = random.pick(&STRINGS).to_owned().into();
                }
                fields.push(field);
            }
        }
        out["fields"] = fields.into();
    }
    if out.get("fields").is_none() || random.percent(20) {
        out["elementType"] = reference(random, depth, named);
    }
    if random.percent(15) {
        out["elementRelationship"] = random.pick(&["atomic", "separable"]).to_owned().into();
    }
    out
}

fn list(random: &mut Random, depth: usize, named: usize) -> Value {
    match random.below(5) {
        0 => json!({"elementType": reference(random, depth, named), "elementRelationship": "atomic"}),
        1 | 2 => {
            let of = if random.percent(50) { "string" } else { scalar(random) };
            json!({"elementType": {"scalar": of}, "elementRelationship": "associative"})
        }
        _ => {
            let mut element = map(random, depth.max(1), named);
            let mut keys = vec!["a"];
            if random.percent(40) {
                keys.push("b");
            }
            let mut fields = element["fields"].as_array().cloned().unwrap_or_default();
            fields.retain(|field| !keys.iter().any(|key| field["name"] == **key));
            for key in &keys {
                let mut field = json!({"name": key, "type": {"scalar": "string"}});
                if random.percent(15) {
                    field["type"]["scalar"] = "numeric".into();
                    if random.percent(50) {
                        field["default"] = random.below(3).into();
                    }
                } else if random.percent(25) {
                    field["default"] = "x".into();
                }
                fields.push(field);
            }
            element["fields"] = fields.into();
            if random.percent(90) {
                element.as_object_mut().unwrap().remove("elementRelationship");
            }
            json!({"elementType": {"map": element}, "elementRelationship": "associative", "keys": keys})
        }
    }
}

/// Makes what is granular atomic, and the other way round.
fn change_schema(random: &mut Random, schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| change_schema(random, item)),
        Value::Object(fields) => {
            let is_root = fields.get("name").is_some_and(|name| name == "v1" || name == "v2");
            for (name, field) in fields.iter_mut() {
                if name == "map" && !is_root && random.percent(25) {
                    field["elementRelationship"] = random.pick(&["atomic", "separable"]).to_owned().into();
                }
                if name == "list" && random.percent(25) {
                    field["elementRelationship"] = "atomic".into();
                    field.as_object_mut().unwrap().remove("keys");
                }
                change_schema(random, field);
            }
        }
        _ => {}
    }
}

fn resolve<'a>(schema: &'a Value, of: &'a Value) -> &'a Value {
    match of["namedType"].as_str() {
        Some(name) => {
            schema["types"].as_array().unwrap().iter().find(|one| one["name"] == *name).unwrap_or(of)
        }
        None => of,
    }
}

fn any(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth > 3 { 4 } else { 6 }) {
        0 => random.pick(&STRINGS).to_owned().into(),
        1 => random.below(3).into(),
        2 => number(random),
        3 => random.percent(50).into(),
        4 => (0..random.below(3)).map(|_| any(random, depth + 1)).collect(),
        _ => {
            let mut out = Map::new();
            for _ in 0..random.below(4) {
                out.insert(random.pick(&NAMES).to_string(), any(random, depth + 1));
            }
            Value::Object(out)
        }
    }
}

fn number(random: &mut Random) -> Value {
    match random.below(12) {
        0 => 1.5.into(),
        1 => 1.0.into(),
        2 => 1e21.into(),
        3 => 1e-7.into(),
        4 => i64::MAX.into(),
        5 => (-3).into(),
        6 => 1_234_567.5.into(),
        _ => random.below(3).into(),
    }
}

fn value_of_scalar(random: &mut Random, of: &str) -> Value {
    match of {
        "numeric" => number(random),
        "boolean" => random.percent(50).into(),
        "string" => random.pick(&STRINGS).to_owned().into(),
        _ => match random.below(3) {
            0 => number(random),
            1 => random.percent(50).into(),
            _ => random.pick(&STRINGS).to_owned().into(),
        },
    }
}

fn value(random: &mut Random, schema: &Value, of: &Value, depth: usize) -> Value {
    if depth > 0 && random.percent(4) {
        return Value::Null;
    }
    if random.percent(1) && depth > 0 {
        return any(random, 3);
    }
    let atom = resolve(schema, of);
    if depth > 6 || atom.get("namedType").is_some() {
        return any(random, depth);
    }
    let kinds: Vec<_> =
        ["scalar", "list", "map"].into_iter().filter(|kind| atom.get(kind).is_some()).collect();
    match *random.pick(&kinds) {
        "scalar" => value_of_scalar(random, atom["scalar"].as_str().unwrap()),
        "list" => {
            let list = &atom["list"];
            let mut items: Vec<Value> = (0..random.below(5))
                .map(|_| value(random, schema, &list["elementType"], depth + 1))
                .collect();
            if list["elementRelationship"] == "associative" {
                if list.get("keys").is_some() {
                    for item in &mut items {
                        if let Some(item) = item.as_object_mut()
                            && !item.contains_key("a")
                            && random.percent(90)
                        {
                            let of = &list["elementType"]["map"]["fields"];
                            let numeric = of.as_array().is_some_and(|fields| {
                                fields.iter().any(|f| f["name"] == "a" && f["type"]["scalar"] == "numeric")
                            });
                            let key = value_of_scalar(random, if numeric { "numeric" } else { "string" });
                            item.insert("a".to_owned(), key);
                        }
                    }
                }
                if random.percent(90) {
                    // Mostly without duplicates and nulls, which are errors when they are applied.
                    let keys = list["keys"].as_array().cloned().unwrap_or_default();
                    let name = |item: &Value| match item {
                        Value::Object(_) => {
                            keys.iter().map(|key| item[key.as_str().unwrap()].to_string()).collect::<String>()
                        }
                        other => other.to_string(),
                    };
                    let mut seen = Vec::new();
                    items.retain(|item| {
                        let name = name(item);
                        let new = !seen.contains(&name) && !item.is_null();
                        seen.push(name);
                        new
                    });
                }
            }
            items.into()
        }
        _ => {
            let map = &atom["map"];
            let mut out = Map::new();
            for field in map["fields"].as_array().into_iter().flatten() {
                if random.percent(if depth == 0 { 60 } else { 50 }) {
                    let name = field["name"].as_str().unwrap().to_owned();
                    out.insert(name, value(random, schema, &field["type"], depth + 1));
                }
            }
            if let Some(of) = map.get("elementType") {
                for _ in 0..random.below(3) {
                    let name = random.pick(&NAMES).to_string();
                    if !map["fields"].to_string().contains(&format!("\"name\":\"{name}\"")) {
                        out.insert(name, value(random, schema, of, depth + 1));
                    }
                }
            } else if random.percent(1) {
                out.insert("unknown".to_owned(), 1.into());
            }
            Value::Object(out)
        }
    }
}

/// Changes a value somewhere.
fn mutate(random: &mut Random, schema: &Value, of: &Value, object: &mut Value, depth: usize) {
    let atom = resolve(schema, of);
    if depth > 0 && random.percent(15) || object.is_null() {
        *object = value(random, schema, of, depth);
        return;
    }
    match object {
        Value::Object(fields) => {
            let map = &atom["map"];
            let names: Vec<String> = fields.keys().cloned().collect();
            match random.below(4) {
                0 if !names.is_empty() => {
                    fields.remove(random.pick(&names));
                }
                1 => {
                    // Something that was not there.
                    if let Value::Object(more) = value(random, schema, of, depth) {
                        for (name, field) in more {
                            if random.percent(50) {
                                fields.entry(name).or_insert(field);
                            }
                        }
                    }
                }
                _ if !names.is_empty() => {
                    let name = random.pick(&names);
                    let of = map["fields"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .find(|field| field["name"] == **name)
                        .map_or(&map["elementType"], |field| &field["type"]);
                    if of.is_object() {
                        mutate(random, schema, of, &mut fields[name], depth + 1);
                    } else {
                        fields.insert(name.clone(), any(random, depth));
                    }
                }
                _ => {}
            }
        }
        Value::Array(items) => match random.below(5) {
            0 if !items.is_empty() => {
                items.remove(random.below(items.len()));
            }
            1 if items.len() > 1 => {
                let (one, other) = (random.below(items.len()), random.below(items.len()));
                items.swap(one, other);
            }
            2 | 3 => {
                if let Value::Array(more) = value(random, schema, of, depth) {
                    for item in more {
                        if !items.contains(&item) || random.percent(5) {
                            let place = random.below(items.len() + 1);
                            items.insert(place, item);
                        }
                    }
                }
            }
            _ if !items.is_empty() => {
                let place = random.below(items.len());
                let of = &atom["list"]["elementType"];
                if of.is_object() {
                    mutate(random, schema, of, &mut items[place], depth + 1);
                }
            }
            _ => {}
        },
        scalar => *scalar = value(random, schema, of, depth),
    }
}

/// OpenAPI v3 components: `Example` in two versions, and what they refer to.
fn components(random: &mut Random) -> Value {
    let mut out = Map::new();
    for version in ["v1", "v2"] {
        let mut root = json!({"type": "object", "properties": {}});
        if version == "v2" {
            root = out["example.v1"].clone();
        } else {
            root["properties"] = json!({
                "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": "#/x/meta"},
                "spec": open_api(random, 4, true), "status": open_api(random, 2, true),
            });
        }
        root["x-kubernetes-group-version-kind"] =
            json!([{"group": "example.com", "version": version, "kind": "Example"}]);
        out.insert(format!("example.{version}"), root);
    }
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    out.insert(
        "meta".to_owned(),
        json!({"type": "object", "properties": {
            "annotations": texts, "labels": texts, "name": {"type": "string"}, "uid": {"type": "string"},
            "namespace": {"type": "string"},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        }}),
    );
    out.insert("one".to_owned(), open_api(random, 2, true));
    out.insert("two".to_owned(), open_api(random, 2, false));
    out.insert("io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(), json!({"type": "string"}));
    Value::Object(out)
}

fn open_api(random: &mut Random, depth: usize, object: bool) -> Value {
    let scalars = [
        json!({"type": "string"}),
        json!({"type": "string", "default": "x"}),
        json!({"type": "integer"}),
        json!({"type": "number"}),
        json!({"type": "boolean"}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "format": "byte"}),
        json!({"x-kubernetes-int-or-string": true}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        json!({"$ref": "#/components/schemas/one"}),
        json!({"allOf": [{"$ref": "#/components/schemas/two"}], "default": {}}),
        json!({"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}),
    ];
    match random.below(if object { 3 } else { 10 }) {
        0..=2 if depth > 0 || object => {
            let mut out = json!({"type": "object"});
            if random.percent(80) {
                let mut properties = Map::new();
                for name in NAMES {
                    if random.percent(50) {
                        properties.insert(name.to_owned(), open_api(random, depth.saturating_sub(1), false));
                    }
                }
                out["properties"] = properties.into();
            }
            match random.below(10) {
                0 | 1 => out["additionalProperties"] = open_api(random, depth.saturating_sub(1), false),
                2 => out["additionalProperties"] = true.into(),
                3 => out["x-kubernetes-preserve-unknown-fields"] = true.into(),
                _ => {}
            }
            if random.percent(15) {
                out["x-kubernetes-map-type"] = random.pick(&["atomic", "granular"]).to_owned().into();
            }
            out
        }
        3 | 4 if depth > 0 => {
            let items = open_api(random, depth - 1, false);
            match random.below(4) {
                0 => json!({"type": "array", "items": items}),
                1 => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
                2 => json!({"type": "array", "items": {"type": "string"},
                    "x-kubernetes-patch-strategy": "merge"}),
                _ => json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}),
            }
        }
        5 | 6 if depth > 0 => {
            let mut items = open_api(random, depth - 1, true);
            items.as_object_mut().unwrap().remove("x-kubernetes-map-type");
            let mut key = json!({"type": "string"});
            if random.percent(30) {
                key["default"] = "x".into();
            }
            items["properties"]["a"] = key;
            if random.percent(20) {
                json!({"type": "array", "items": items, "x-kubernetes-patch-strategy": "merge",
                    "x-kubernetes-patch-merge-key": "a"})
            } else {
                json!({"type": "array", "items": items, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a"]})
            }
        }
        _ => random.pick(&scalars).clone(),
    }
}

/// A case of whole objects.
fn kubernetes(random: &mut Random) -> Value {
    let deduced = random.percent(15);
    let mut case = json!({"mode": "kubernetes"});
    // What OpenAPI says, in the form from which values are made up.
    let mut schema = json!({"types": [
        {"name": "__untyped_deduced_", "map": {"elementType": {"namedType": "t"}}},
        {"name": "t", "scalar": "string", "list": {"elementType": {"scalar": "string"},
            "elementRelationship": "atomic"}, "map": {"elementType": {"scalar": "string"}}},
    ]});
    let mut root = json!({"namedType": "__untyped_deduced_"});
    if !deduced {
        let components = components(random);
        schema = super::schema::plain(&components);
        root = json!({"namedType": "example.v1"});
        case["schemas"] = json!([components]);
    }
    if random.percent(30) {
        case["ignored"] = json!({"example.com/v1": {"f:status": {}}, "example.com/v2": {"f:status": {}}});
    }
    let mut seconds = 1_400_000_000_u64;
    let mut live = json!({"apiVersion": "example.com/v1", "kind": "Example"});
    let complete = |random: &mut Random, mut object: Value, version: &str, name: bool| {
        if !object.is_object() {
            object = json!({});
        }
        let metadata = object["metadata"].clone();
        object["apiVersion"] = version.into();
        object["kind"] = "Example".into();
        object["metadata"] = json!({});
        for part in ["labels", "annotations", "finalizers"] {
            let wanted =
                if part == "finalizers" { metadata[part].is_array() } else { metadata[part].is_object() };
            if wanted {
                object["metadata"][part] = metadata[part].clone();
            } else if random.percent(20) {
                object["metadata"][part] = if part == "finalizers" {
                    json!([random.pick(&STRINGS)])
                } else {
                    json!({random.pick(&NAMES).to_string(): random.pick(&STRINGS)})
                };
            }
        }
        if name {
            object["metadata"]["name"] = "example".into();
        }
        object
    };
    if random.percent(30) {
        let object = value(random, &schema, &root, 0);
        live = complete(random, object, "example.com/v1", true);
        live["metadata"]["uid"] = "u".into();
    }
    case["live"] = live.clone();
    let mut running = super::kubernetes::State::new(&case);
    let mut operations = Vec::new();
    let many = random.percent(5);
    for place in 0..if many { 14 } else { 2 + random.below(8) } {
        seconds += 1 + random.below(5) as u64;
        let version = if random.percent(85) { "example.com/v1" } else { "example.com/v2" };
        let apply = random.percent(if many { 10 } else { 60 });
        let manager = if many && random.percent(80) {
            format!("many{place}")
        } else {
            random.pick(&["kubectl", "helm", "argo", "kubectl-<x>", ""]).to_string()
        };
        let mut object = running.live.clone();
        if apply && random.percent(80) || random.percent(10) {
            object = value(random, &schema, &root, 0);
        } else {
            for _ in 0..1 + random.below(2) {
                mutate(random, &schema, &root, &mut object, 1);
            }
        }
        let was = running.live["metadata"].clone();
        let with_name = random.percent(70);
        let mut object = complete(random, object, version, with_name);
        if !apply {
            if place > 0 && random.percent(90) {
                object["metadata"]["uid"] = "u".into();
            }
            if random.percent(30) {
                object["metadata"]["managedFields"] = was["managedFields"].clone();
            } else if random.percent(5) {
                object["metadata"]["managedFields"] = random.pick(&[json!([]), json!([{}])]).clone();
            }
            if object["metadata"]["managedFields"].is_null() {
                object["metadata"].as_object_mut().unwrap().remove("managedFields");
            }
            if random.percent(25) {
                let mut last = object.clone();
                last["metadata"] = json!({"name": "example"});
                last.as_object_mut().unwrap().remove("status");
                object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                    last.to_string().into();
            }
        }
        let operation = json!({"apply": apply, "force": random.percent(30), "manager": manager,
            "version": version, "object": object, "time": seconds,
            "subresource": if random.percent(15) { "status" } else { "" }});
        running.run(&operation);
        operations.push(operation);
    }
    case["operations"] = operations.into();
    case
}
