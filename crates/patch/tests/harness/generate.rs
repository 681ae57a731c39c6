//! Cases from a seed.

use serde_json::{Map, Value, json};

use super::random::Random;
use super::{COMPONENTS, component};

const KINDS: [&str; 6] = ["Pod", "Service", "Node", "ServiceAccount", "ConfigMap", "Deployment"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A case of a mode: json, merge, value or strategic.
pub fn case(mode: &str, random: &mut Random) -> Value {
    let (kind, object, patch) = match mode {
        "json" => {
            let object = map(random, 3);
            let patch = operations(random, &object);
            ("", object, patch)
        }
        "merge" | "value" => {
            let object = map(random, 3);
            let patch = if mode == "value" && random.percent(10) {
                value(random, 3)
            } else {
                merge_patch(random, &object, 3)
            };
            ("", object, patch)
        }
        _ => {
            let kind = *random.pick(&KINDS);
            let schema = json!({"$ref": component(kind)});
            let object = typed(random, &schema, "", 0);
            let patch = strategic(random, &schema, &object, "", 0);
            (kind, object, patch)
        }
    };
    let text = if mode == "value" { patch.to_string() } else { text(random, &patch) };
    json!({"mode": mode, "kind": kind, "object": object, "patch": text})
}

/// The text of a patch: some with other forms of the same, some broken.
fn text(random: &mut Random, patch: &Value) -> String {
    let mut text = patch.to_string();
    if random.percent(6) {
        for (from, to) in
            [("\"a\"", "\"\\u0061\""), ("1", "1.0"), (",", " ,\n"), ("\"b\"", "\"a\""), ("2", "2e0")]
        {
            if random.percent(30) {
                text = text.replacen(from, to, 1 + random.below(3));
            }
        }
    }
    if random.percent(5) {
        let mut characters: Vec<char> = text.chars().collect();
        for _ in 0..=random.below(2) {
            let place = random.below(characters.len() + 1);
            let other = *random.pick(&[
                '{', '}', '[', ']', ',', ':', '"', '0', '7', '-', '.', 'e', '\\', 'u', 't', 'n', '\'', ' ',
                '\n', 'é', '\u{1}',
            ]);
            match random.below(3) {
                0 if place < characters.len() => {
                    characters.remove(place);
                }
                1 if place < characters.len() => characters[place] = other,
                2 if random.percent(30) => characters.truncate(place),
                _ => characters.insert(place, other),
            }
        }
        text = characters.into_iter().collect();
    }
    text
}

fn name(random: &mut Random) -> String {
    if random.percent(4) {
        return (*random.pick(&["a/b", "m~n", "~1", "", "0", "1", "-", "ü", "<&>"])).to_owned();
    }
    (*random.pick(&NAMES)).to_owned()
}

fn scalar(random: &mut Random) -> Value {
    match random.below(12) {
        0 => json!(true),
        1 => json!(1.5),
        2 => json!(1.0),
        3 => json!(1e21),
        4 => json!(-7),
        5 => json!("x<y&z>\u{2028}"),
        6 => json!("é\n\"\\\u{7f}"),
        7 => json!(u64::MAX),
        8 => json!(0.000_000_12),
        9 => json!(random.below(3)),
        _ => json!(random.pick(&NAMES)),
    }
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 10 }) {
        0 => Value::Null,
        1..5 => scalar(random),
        5 | 6 => Value::Array((0..random.below(4)).map(|_| value(random, depth - 1)).collect()),
        _ => map(random, depth - 1),
    }
}

fn map(random: &mut Random, depth: usize) -> Value {
    Value::Object((0..random.below(5)).map(|_| (name(random), value(random, depth))).collect())
}

fn merge_patch(random: &mut Random, object: &Value, depth: usize) -> Value {
    let mut patch = Map::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match random.below(8) {
            0 => {
                patch.insert(name.clone(), Value::Null);
            }
            1 if value.is_object() => {
                let items = (0..random.below(3)).map(|_| self::value(random, 2));
                patch.insert(name.clone(), Value::Array(items.collect()));
            }
            1..4 if depth > 0 => {
                patch.insert(name.clone(), merge_patch(random, value, depth - 1));
            }
            4 => {
                patch.insert(name.clone(), self::value(random, depth));
            }
            _ => {}
        }
    }
    for _ in 0..random.below(3) {
        patch.insert(name(random), value(random, depth));
    }
    Value::Object(patch)
}

/// A path to something that is there, or nearly.
fn path(random: &mut Random, object: &Value) -> (String, Value) {
    let mut path = String::new();
    let mut at = object;
    loop {
        let key = match at {
            Value::Object(map) if !map.is_empty() && !random.percent(5) => {
                let place = random.below(map.len());
                map.keys().nth(place).unwrap().clone()
            }
            Value::Array(items) if random.percent(88) && !items.is_empty() => {
                random.below(items.len()).to_string()
            }
            Value::Array(items) => (*random.pick(&[
                "-",
                "-1",
                "-2",
                "01",
                "+0",
                "-0",
                "99",
                "-99",
                "x",
                "",
                "1.0",
                "9223372036854775808",
                "é\u{1}",
            ]))
            .replace("-2", &format!("-{}", items.len() + 1)),
            _ => name(random),
        };
        path.push('/');
        path.push_str(&if random.percent(98) {
            key.replace('~', "~0").replace('/', "~1")
        } else {
            key.clone()
        });
        at = match at {
            Value::Object(map) => map.get(&key).unwrap_or(&Value::Null),
            Value::Array(items) => {
                key.parse::<usize>().ok().and_then(|place| items.get(place)).unwrap_or(&Value::Null)
            }
            _ => &Value::Null,
        };
        if (at.is_null() && random.percent(90)) || random.percent(45) {
            break;
        }
    }
    if random.percent(2) {
        path = (*random.pick(&["", "/", "a", "x/a", "//"])).to_owned();
        return (path, object.clone());
    }
    (path, at.clone())
}

fn operations(random: &mut Random, object: &Value) -> Value {
    if random.percent(1) {
        return value(random, 2);
    }
    let mut operations = Vec::new();
    // What is written is read again.
    let mut written: Vec<(String, Value)> = Vec::new();
    for _ in 0..=random.below(4) {
        let kind = *random.pick(&["add", "add", "remove", "replace", "move", "copy", "test", "test"]);
        let (place, found) = if !written.is_empty() && random.percent(35) {
            written[random.below(written.len())].clone()
        } else {
            path(random, object)
        };
        let mut operation = json!({"op": kind, "path": place});
        match kind {
            "test" => operation["value"] = if random.percent(92) { found } else { value(random, 2) },
            "move" | "copy" => {
                operation["from"] = json!(path(random, object).0);
                written.push((place, Value::Null));
            }
            "remove" => {}
            _ => {
                let value = value(random, 2);
                written.push((place, value.clone()));
                operation["value"] = value;
            }
        }
        if random.percent(3) {
            let field = *random.pick(&["op", "path", "from", "value"]);
            match random.below(4) {
                0 => {
                    operation.as_object_mut().unwrap().remove(field);
                }
                1 => operation[field] = Value::Null,
                2 => operation[field] = value(random, 1),
                _ => operation["extra"] = value(random, 1),
            }
        }
        if random.percent(1) {
            operation = value(random, 1);
        }
        operations.push(operation);
    }
    Value::Array(operations)
}

/// What a schema refers to.
fn resolved(schema: &Value) -> Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    match reference {
        Some(name) => COMPONENTS[name.rsplit('/').next().unwrap()].clone(),
        None => schema.clone(),
    }
}

fn is_list(schema: &Value) -> bool {
    schema["type"] == "array"
}

/// Fields to fill: those that strategic merge treats in a special way come more often.
fn fields(random: &mut Random, properties: &Map<String, Value>) -> Vec<(String, Value)> {
    let all: Vec<_> = properties.iter().collect();
    let special: Vec<_> = all
        .iter()
        .copied()
        .filter(|(name, schema)| {
            schema.get("x-kubernetes-patch-strategy").is_some()
                || ["spec", "metadata", "template", "strategy", "selector", "status"].contains(&name.as_str())
        })
        .collect();
    let mut chosen = Vec::new();
    for _ in 0..1 + random.below(3) {
        let from = if !special.is_empty() && random.percent(70) { &special } else { &all };
        let (name, schema) = from[random.below(from.len())];
        chosen.push((name.clone(), schema.clone()));
    }
    chosen
}

fn typed_scalar(random: &mut Random, schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("integer") => json!(1 + random.below(3)),
        Some("number") => json!(1.5),
        Some("boolean") => json!(random.percent(50)),
        _ => json!(random.pick(&NAMES)),
    }
}

/// A value of a type. If it is an object in a list by key, it has its key.
fn typed(random: &mut Random, schema: &Value, key: &str, depth: usize) -> Value {
    let full = resolved(schema);
    if let Some(properties) = full["properties"].as_object() {
        let mut map = Map::new();
        if let Some(schema) = properties.get(key).filter(|_| !random.percent(1)) {
            map.insert(key.to_owned(), typed_scalar(random, schema));
        }
        if depth < 8 {
            for (name, schema) in fields(random, properties) {
                let inner = schema["x-kubernetes-patch-merge-key"].as_str().unwrap_or_default().to_owned();
                if name != key {
                    map.insert(name, typed(random, &schema, &inner, depth + 1));
                }
            }
        }
        return Value::Object(map);
    }
    if is_list(&full) {
        let items: Vec<_> =
            (0..random.below(5)).map(|_| typed(random, &full["items"], key, depth + 1)).collect();
        return Value::Array(if random.percent(5) { items } else { unique(items, key) });
    }
    if let Some(values) = full.get("additionalProperties") {
        let names: Vec<_> = (0..random.below(3)).map(|_| (*random.pick(&NAMES)).to_owned()).collect();
        return Value::Object(
            names.into_iter().map(|name| (name, typed(random, values, "", depth + 1))).collect(),
        );
    }
    if full["type"] == "object" {
        return json!({});
    }
    typed_scalar(random, &full)
}

fn unique(items: Vec<Value>, key: &str) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !kept.iter().any(|other| key_of(other, key) == key_of(&item, key)) {
            kept.push(item);
        }
    }
    kept
}

fn key_of<'v>(item: &'v Value, key: &str) -> &'v Value {
    if key.is_empty() { item } else { &item[key] }
}

fn garbage(random: &mut Random) -> Value {
    match random.below(6) {
        0 => Value::Null,
        1 => json!([[1]]),
        2 => json!({"a": [1.5, null, true]}),
        3 => json!({}),
        _ => value(random, 2),
    }
}

fn directive(random: &mut Random) -> Value {
    match random.below(12) {
        0..5 => json!("replace"),
        5..9 => json!("delete"),
        9 => json!("merge"),
        10 => json!("other"),
        _ => garbage(random),
    }
}

/// A patch for a value of a type.
fn strategic(random: &mut Random, schema: &Value, object: &Value, key: &str, depth: usize) -> Value {
    if depth > 0 && random.percent(1) {
        return garbage(random);
    }
    let full = resolved(schema);
    if let Some(properties) = full["properties"].as_object() {
        return strategic_struct(random, properties, object, depth);
    }
    if is_list(&full) {
        return strategic_list(random, &full["items"], object, key, depth);
    }
    if full.get("additionalProperties").is_some() || full["type"] == "object" {
        let mut patch = Map::new();
        for name in object.as_object().into_iter().flatten().map(|(name, _)| name) {
            if random.percent(40) {
                patch.insert(name.clone(), if random.percent(30) { Value::Null } else { json!("new") });
            }
        }
        if random.percent(50) {
            patch.insert((*random.pick(&NAMES)).to_owned(), json!("new"));
        }
        if random.percent(3) {
            patch.insert("$patch".to_owned(), directive(random));
        }
        if random.percent(3) {
            patch.insert("$retainKeys".to_owned(), json!(patch.keys().collect::<Vec<_>>()));
        }
        return Value::Object(patch);
    }
    typed_scalar(random, &full)
}

fn strategic_struct(
    random: &mut Random,
    properties: &Map<String, Value>,
    object: &Value,
    depth: usize,
) -> Value {
    let mut patch = Map::new();
    let mut chosen: Vec<(String, Value)> = Vec::new();
    for name in object.as_object().into_iter().flatten().map(|(name, _)| name) {
        if let Some(schema) = properties.get(name)
            && random.percent(75)
        {
            chosen.push((name.clone(), schema.clone()));
        }
    }
    if depth < 8 && random.percent(35) {
        chosen.append(&mut fields(random, properties));
    }
    for (name, schema) in chosen {
        if random.percent(6) {
            patch.insert(name, Value::Null);
            continue;
        }
        let key = schema["x-kubernetes-patch-merge-key"].as_str().unwrap_or_default();
        let part = strategic(random, &schema, &object[&name], key, depth + 1);
        let full = resolved(&schema);
        if is_list(&full) && random.percent(35) {
            let mut order: Vec<Value> = Vec::new();
            for item in part.as_array().into_iter().chain(object[&name].as_array()).flatten() {
                if item.get("$patch").is_none() && !random.percent(15) {
                    let value = key_of(item, key).clone();
                    order.push(if key.is_empty() { value } else { json!({key: value}) });
                }
            }
            order = unique(order, key);
            if random.percent(15) {
                order.reverse();
            }
            if random.percent(4) {
                order.push(garbage(random));
            }
            let order = if random.percent(2) { garbage(random) } else { Value::Array(order) };
            patch.insert(format!("$setElementOrder/{name}"), order);
        }
        if is_list(&full) && random.percent(if key.is_empty() { 40 } else { 3 }) {
            let mut deleted: Vec<Value> = object[&name].as_array().into_iter().flatten().cloned().collect();
            deleted.retain(|_| random.percent(50));
            let deleted = if random.percent(3) { garbage(random) } else { Value::Array(deleted) };
            patch.insert(format!("$deleteFromPrimitiveList/{name}"), deleted);
        }
        if !random.percent(12) {
            patch.insert(name, part);
        }
    }
    if random.percent(4) {
        patch.insert("$patch".to_owned(), directive(random));
    }
    if random.percent(8) {
        let mut retained: Vec<Value> = patch.keys().map(|name| json!(name)).collect();
        retained.extend(object.as_object().into_iter().flatten().map(|(name, _)| json!(name)));
        retained.retain(|_| random.percent(85));
        if random.percent(3) {
            retained.push(garbage(random));
        }
        let retained = if random.percent(3) { garbage(random) } else { Value::Array(retained) };
        patch.insert("$retainKeys".to_owned(), retained);
    }
    if random.percent(2) {
        let name = *random.pick(&[
            "unknown",
            "$setElementOrder/unknown",
            "$deleteFromPrimitiveList/unknown",
            "$setElementOrder",
            "$deleteFromPrimitiveList",
            "$setElementOrderX/a",
            "$setElementOrder/metadata",
            "$setElementOrder/labels",
            "$setElementOrder/Containers",
            "$deleteFromPrimitiveList/",
            "$setElementOrder/",
        ]);
        patch.insert(name.to_owned(), if random.percent(50) { json!(["a", "b"]) } else { garbage(random) });
    }
    Value::Object(patch)
}

fn strategic_list(random: &mut Random, items: &Value, object: &Value, key: &str, depth: usize) -> Value {
    let mut patch = Vec::new();
    for item in object.as_array().into_iter().flatten() {
        if random.percent(45) {
            continue;
        }
        if key.is_empty() {
            patch.push(item.clone());
        } else if random.percent(25) {
            patch.push(json!({key: item[key], "$patch": "delete"}));
        } else {
            let mut change = strategic(random, items, item, "", depth + 1);
            if let Value::Object(change) = &mut change
                && !random.percent(2)
            {
                change.insert(key.to_owned(), item[key].clone());
            }
            patch.push(change);
        }
    }
    for _ in 0..random.below(3) {
        let mut added = typed(random, items, key, depth + 1);
        if let Value::Object(added) = &mut added
            && random.percent(5)
        {
            added.insert(
                "extra".to_owned(),
                if random.percent(50) { Value::Null } else { json!({"$patch": "delete"}) },
            );
        }
        let place = random.below(patch.len() + 1);
        patch.insert(place, added);
    }
    if random.percent(7) {
        let place = random.below(patch.len() + 1);
        patch.insert(place, json!({"$patch": directive(random)}));
    }
    if random.percent(2) {
        let place = random.below(patch.len() + 1);
        patch.insert(place, garbage(random));
    }
    Value::Array(patch)
}
