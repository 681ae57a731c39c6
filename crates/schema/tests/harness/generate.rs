//! Made-up schemas, objects and texts.

use serde_json::{Map, Value, json};

use super::definitions;
use super::random::Random;

const NAMES: [&str; 6] = ["a", "b", "c", "spec", "x y", ""];
const TEXTS: [&str; 14] = [
    "",
    "a",
    "ab",
    "abc",
    "é",
    "<b>\"&",
    "12",
    "2020-01-01",
    "10.0.0.1",
    "A",
    "user@example.com",
    "1h",
    "a b\n",
    "fff",
];
const PATTERNS: [&str; 5] = ["^a", "^[a-z]+$", r"^\d+$", "b|c", r"^\w{1,2}$"];
const FORMATS: [&str; 12] = [
    "date",
    "date-time",
    "ipv4",
    "uri",
    "email",
    "byte",
    "unknown",
    "int32",
    "int64",
    "float",
    "double",
    "duration",
];

/// A question.
pub fn question(random: &mut Random) -> Value {
    match random.below(100) {
        0..12 => {
            json!({"op": "prune", "schema": schema(random), "object": object(random), "root": random.percent(50)})
                .with_fitting_object(random)
        }
        12..24 => json!({"op": "default", "schema": schema(random)}).with_fitting_object(random),
        24..34 => {
            let (root, drop) = (random.percent(70), random.percent(40));
            json!({"op": "coerce", "schema": schema(random), "root": root, "drop": drop})
                .with_fitting_object(random)
        }
        34..64 => validation(random),
        64..74 => {
            let mut schema = schema(random);
            for _ in 0..random.below(3) {
                spoil(random, &mut schema);
            }
            json!({"op": "parse", "schema": schema})
        }
        74..92 => definitions::question(random),
        92..97 => format(random),
        _ => pattern(random),
    }
}

trait Fitting {
    fn with_fitting_object(self, random: &mut Random) -> Self;
}

impl Fitting for Value {
    fn with_fitting_object(mut self, random: &mut Random) -> Self {
        self["object"] = value(random, &self["schema"].clone(), 25);
        with_metadata(random, &mut self["object"]);
        self
    }
}

fn object(random: &mut Random) -> Value {
    anything(random, 2)
}

fn validation(random: &mut Random) -> Value {
    let schema = schema(random);
    let mut object = value(random, &schema, 12);
    if random.percent(15) {
        with_metadata(random, &mut object);
    }
    if random.percent(45) {
        // Much stays as it was, right or wrong.
        let mut old = object.clone();
        for _ in 0..random.below(3) {
            change(random, &mut old, &schema);
        }
        return json!({"op": "validate", "schema": schema, "object": object, "old": old});
    }
    json!({"op": "validate", "schema": schema, "object": object})
}

/// A structural schema of a whole object.
pub fn schema(random: &mut Random) -> Value {
    let mut schema = properties(random, 3);
    if random.percent(10) {
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    schema
}

fn properties(random: &mut Random, depth: usize) -> Value {
    let mut all = Map::new();
    for _ in 0..=random.below(3) {
        all.insert((*random.pick(&NAMES)).to_owned(), node(random, depth));
    }
    let mut schema = json!({"type": "object", "properties": all});
    if random.percent(30) {
        schema["required"] = json!([random.pick(&NAMES)]);
    }
    schema
}

fn node(random: &mut Random, depth: usize) -> Value {
    let kind = if depth == 0 { random.below(6) } else { random.below(14) };
    let mut schema = match kind {
        0 | 1 => {
            let mut schema = json!({"type": "string"});
            text_limits(random, &mut schema);
            schema
        }
        2 => {
            let mut schema = json!({"type": "integer"});
            number_limits(random, &mut schema);
            schema
        }
        3 => {
            let mut schema = json!({"type": "number"});
            number_limits(random, &mut schema);
            schema
        }
        4 => json!({"type": "boolean"}),
        5 => {
            let mut schema = json!({"x-kubernetes-int-or-string": true});
            if random.percent(50) {
                schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
            } else if random.percent(30) {
                schema["allOf"] =
                    json!([{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maximum": 3}]);
            }
            schema
        }
        6 | 7 => properties(random, depth - 1),
        8 => {
            let mut schema = json!({"type": "object", "additionalProperties": node(random, depth - 1)});
            if random.percent(20) {
                schema["additionalProperties"] = json!(random.percent(50));
            }
            if random.percent(30) {
                schema["maxProperties"] = json!(random.below(3));
            }
            if random.percent(30) {
                schema["minProperties"] = json!(random.below(3));
            }
            schema
        }
        9 => list_map(random, depth - 1),
        10 | 11 => {
            let mut schema = json!({"type": "array", "items": node(random, depth - 1)});
            if random.percent(30) {
                schema["maxItems"] = json!(random.below(3));
            }
            if random.percent(30) {
                schema["minItems"] = json!(random.below(3));
            }
            if random.percent(30) {
                schema["x-kubernetes-list-type"] = json!(random.pick(&["set", "atomic"]));
            }
            if random.percent(10) {
                schema["uniqueItems"] = json!(true);
            }
            schema
        }
        12 => {
            let mut schema = properties(random, depth - 1);
            schema["x-kubernetes-embedded-resource"] = json!(true);
            if random.percent(50) {
                schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
            }
            schema
        }
        _ => {
            let mut schema = if random.percent(50) { json!({}) } else { properties(random, depth - 1) };
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
            schema
        }
    };
    if random.percent(15) {
        schema["nullable"] = json!(true);
    }
    if random.percent(20) {
        schema["default"] = value(random, &schema.clone(), 5);
    }
    if random.percent(10) {
        schema["enum"] = json!([anything(random, 1), anything(random, 0)]);
    }
    if random.percent(18) {
        combine(random, &mut schema, 2);
    }
    schema
}

fn list_map(random: &mut Random, depth: usize) -> Value {
    let mut items = properties(random, depth);
    const KEYS: [&[&str]; 3] = [&["a"], &["b"], &["a", "b"]];
    let keys = *random.pick(&KEYS);
    for key in keys {
        items["properties"][key] = json!({"type": random.pick(&["string", "integer", "number", "boolean"])});
        if random.percent(40) {
            items["properties"][key]["default"] = json!(random.pick(&["a", "b"]));
        }
    }
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items})
}

fn text_limits(random: &mut Random, schema: &mut Value) {
    if random.percent(30) {
        schema["maxLength"] = json!(random.below(4));
    }
    if random.percent(30) {
        schema["minLength"] = json!(random.below(4));
    }
    if random.percent(25) {
        schema["pattern"] = json!(random.pick(&PATTERNS));
    }
    if random.percent(25) {
        schema["format"] = json!(random.pick(&FORMATS));
    }
}

fn number_limits(random: &mut Random, schema: &mut Value) {
    let limits = [
        json!(0),
        json!(2),
        json!(2.5),
        json!(-1),
        json!(1e10),
        json!(5_000_000_000_i64),
        json!(0.5),
        json!(1e20),
    ];
    for name in ["maximum", "minimum", "multipleOf"] {
        if random.percent(20) {
            schema[name] = random.pick(&limits).clone();
        }
    }
    if random.percent(15) {
        schema["exclusiveMaximum"] = json!(true);
    }
    if random.percent(15) {
        schema["exclusiveMinimum"] = json!(true);
    }
    if random.percent(30) {
        schema["format"] = json!(random.pick(&FORMATS));
    }
}

/// Adds `allOf` and its like, which name nothing that the schema does not.
fn combine(random: &mut Random, schema: &mut Value, depth: usize) {
    let name = *random.pick(&["allOf", "anyOf", "oneOf", "not"]);
    if schema.get(name).is_some() {
        return;
    }
    let structure = schema.clone();
    schema[name] = if name == "not" {
        clause(random, &structure, depth)
    } else {
        (0..=random.below(3)).map(|_| clause(random, &structure, depth)).collect()
    };
}

fn clause(random: &mut Random, structure: &Value, depth: usize) -> Value {
    let mut clause = json!({});
    match structure["type"].as_str() {
        Some("string") => text_limits(random, &mut clause),
        Some("integer" | "number") => number_limits(random, &mut clause),
        Some("object") => {
            if random.percent(50) {
                clause["required"] = json!([random.pick(&NAMES)]);
            }
            if let (Some(all), true) = (structure["properties"].as_object(), depth > 0) {
                let mut some = Map::new();
                for (name, one) in all {
                    if name != "metadata" && random.percent(60) {
                        some.insert(name.clone(), self::clause(random, one, depth - 1));
                    }
                }
                clause["properties"] = some.into();
            }
            if random.percent(20) {
                clause["maxProperties"] = json!(random.below(3));
            }
        }
        Some("array") => {
            if random.percent(60) && depth > 0 {
                clause["items"] = self::clause(random, &structure["items"], depth - 1);
            }
            if random.percent(30) {
                clause["maxItems"] = json!(random.below(3));
            }
        }
        _ => {}
    }
    if random.percent(20) {
        clause["enum"] = json!([anything(random, 1)]);
    }
    if random.percent(15) && depth > 0 {
        let inner = json!({"type": structure["type"], "properties": structure["properties"], "items": structure["items"]});
        let name = *random.pick(&["allOf", "anyOf", "oneOf"]);
        clause[name] = (0..=random.below(2)).map(|_| self::clause(random, &inner, depth - 1)).collect();
    }
    clause
}

/// What makes a schema wrong, or different.
fn spoil(random: &mut Random, schema: &mut Value) {
    let mut at = schema;
    let mut map = false;
    for _ in 0..random.below(6) {
        let names: Vec<String> = match &*at {
            Value::Object(members) => members
                .iter()
                .filter(|(_, one)| one.is_object() || one.is_array())
                .map(|(name, _)| name.clone())
                .collect(),
            _ => break,
        };
        if names.is_empty() {
            break;
        }
        let name = random.pick(&names).clone();
        map = !map && name == "properties";
        at = &mut at[name];
        if let Value::Array(items) = at {
            if items.is_empty() || !items[0].is_object() {
                return;
            }
            at = &mut items[0];
        }
    }
    if !at.is_object() || map {
        return;
    }
    let (name, one) = random.pick(&[
        ("type", json!("object")),
        ("type", json!("array")),
        ("type", json!("")),
        ("nullable", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("x-kubernetes-int-or-string", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(false)),
        ("x-kubernetes-list-type", json!("set")),
        ("x-kubernetes-list-map-keys", json!(["a"])),
        ("x-kubernetes-map-type", json!("atomic")),
        ("x-kubernetes-validations", json!([{"rule": "true"}])),
        ("additionalProperties", json!({"type": "string"})),
        ("additionalProperties", json!(false)),
        ("default", json!({})),
        ("description", json!("words")),
        ("title", json!("words")),
        ("pattern", json!("a(b")),
        ("pattern", json!("[z-a]")),
        ("$ref", json!("#/x")),
        ("properties", json!({"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}})),
        ("properties", json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}, "kind": {"type": "integer"}})),
        ("items", json!([{"type": "string"}])),
        ("items", json!({"nullable": true})),
        ("not", json!({"properties": {"q": {"minimum": 1}}})),
        ("anyOf", json!([{"type": "integer"}, {"type": "string"}])),
        ("anyOf", json!([{"items": {"properties": {"q": {}}}}])),
        ("id", json!("x")),
    ])
    .clone();
    at[name] = one;
}

/// A value for a schema; so many of a hundred are anything else.
pub fn value(random: &mut Random, schema: &Value, noise: usize) -> Value {
    if random.percent(noise) {
        return anything(random, 2);
    }
    if schema["nullable"] == true && random.percent(20) {
        return Value::Null;
    }
    if let Some(all) = schema["enum"].as_array()
        && random.percent(50)
    {
        return random.pick(all).clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!(random.pick(&TEXTS)),
        Some("integer") => json!([-1, 0, 1, 2, 3, 3_000_000_000_i64][random.below(6)]),
        Some("number") => number(random),
        Some("boolean") => json!(random.percent(50)),
        Some("object") => {
            let mut members = Map::new();
            if let Some(all) = schema["properties"].as_object() {
                for (name, one) in all {
                    if random.percent(80) {
                        members.insert(name.clone(), value(random, one, noise));
                    }
                }
            }
            if schema["additionalProperties"].is_object() {
                for _ in 0..random.below(3) {
                    let one = value(random, &schema["additionalProperties"], noise);
                    members.insert((*random.pick(&NAMES)).to_owned(), one);
                }
            }
            if random.percent(noise) {
                members.insert((*random.pick(&NAMES)).to_owned(), anything(random, 2));
            }
            if schema["x-kubernetes-embedded-resource"] == true {
                let mut object = Value::Object(members);
                with_metadata(random, &mut object);
                return object;
            }
            Value::Object(members)
        }
        Some("array") => (0..random.below(4)).map(|_| value(random, &schema["items"], noise)).collect(),
        _ if schema["x-kubernetes-int-or-string"] == true => {
            if random.percent(50) {
                json!("a")
            } else {
                json!(2)
            }
        }
        _ => anything(random, 2),
    }
}

fn number(random: &mut Random) -> Value {
    [
        json!(0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(-2),
        json!(2.5e10),
        json!(1e-7),
        json!(1e39),
        json!(3_000_000_000_i64),
        json!(2.0),
    ][random.below(10)]
    .clone()
}

fn anything(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.percent(50)),
        2 => number(random),
        3 | 4 => json!(random.pick(&TEXTS)),
        5 => (0..random.below(3)).map(|_| anything(random, depth - 1)).collect(),
        _ => {
            let mut members = Map::new();
            for _ in 0..random.below(3) {
                members.insert((*random.pick(&NAMES)).to_owned(), anything(random, depth - 1));
            }
            Value::Object(members)
        }
    }
}

/// Replaces something in a value.
fn change(random: &mut Random, at: &mut Value, schema: &Value) {
    match at {
        Value::Object(members) if !members.is_empty() && random.percent(85) => {
            let names: Vec<String> = members.keys().cloned().collect();
            let name = random.pick(&names).clone();
            if random.percent(15) {
                members.remove(&name);
            } else {
                let below = if schema["properties"][&name].is_object() {
                    &schema["properties"][&name]
                } else {
                    &schema["additionalProperties"]
                };
                change(random, &mut members[&name], below);
            }
        }
        Value::Array(items) if !items.is_empty() && random.percent(85) => {
            let index = random.below(items.len());
            match random.below(6) {
                0 => {
                    items.remove(index);
                }
                1 => items.reverse(),
                _ => change(random, &mut items[index], &schema["items"]),
            }
        }
        _ => *at = value(random, schema, 10),
    }
}

/// Adds what a resource has, often somewhat wrong.
fn with_metadata(random: &mut Random, object: &mut Value) {
    let Value::Object(members) = object else { return };
    if random.percent(90) {
        let one =
            if random.percent(90) { json!(random.pick(&["v1", "g/v1", "", "a/b/c"])) } else { json!(1) };
        members.insert("apiVersion".to_owned(), one);
    }
    if random.percent(90) {
        let one = if random.percent(90) { json!(random.pick(&["Kind", "K_", ""])) } else { json!([]) };
        members.insert("kind".to_owned(), one);
    }
    if random.percent(80) {
        let mut metadata = Map::new();
        for _ in 0..random.below(4) {
            let (name, one) = random
                .pick(&[
                    ("name", json!("a")),
                    ("name", json!("a/b%")),
                    ("name", json!("..")),
                    ("name", json!(1)),
                    ("name", Value::Null),
                    ("generateName", json!("a/")),
                    ("namespace", json!("Bad.Name")),
                    ("namespace", json!("a.b")),
                    ("labels", json!({"a": "b", "c/d/e": "-"})),
                    ("labels", json!({"a": "b", "x": 1})),
                    ("labels", json!({})),
                    ("labels", json!({"a": null})),
                    ("labels", json!(["x"])),
                    ("annotations", json!({"UP/a": "b", "/": ""})),
                    ("generation", json!(-1)),
                    ("generation", json!(1.5)),
                    ("generation", json!("1")),
                    ("creationTimestamp", Value::Null),
                    ("creationTimestamp", json!("2020-01-01T23:30:00.5-02:00")),
                    ("creationTimestamp", json!("2020-02-30T00:00:00Z")),
                    ("creationTimestamp", json!("yesterday")),
                    ("creationTimestamp", json!("2020-01-01T25:00:00Z")),
                    ("creationTimestamp", json!("2020-01-01")),
                    ("deletionTimestamp", json!(5)),
                    ("deletionGracePeriodSeconds", json!(0)),
                    ("ownerReferences", json!([{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u", "extra": 1}])),
                    ("ownerReferences", json!([{"apiVersion": "a/v1", "kind": "K", "name": "n", "uid": 1}])),
                    (
                        "ownerReferences",
                        json!([{"controller": true, "kind": "K", "name": "n"}, {"apiVersion": "a/", "controller": true, "kind": "K", "name": "m", "uid": "u"}]),
                    ),
                    ("finalizers", json!(["orphan", "foregroundDeletion"])),
                    ("finalizers", json!(["", "a b", null])),
                    ("finalizers", json!([1])),
                    ("managedFields", json!([{"manager": "m", "operation": "Apply", "fieldsType": "x", "time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:a": {}}}])),
                    ("managedFields", json!([{"operation": "", "extra": {}}])),
                    ("unknown", json!({"a": 1})),
                    ("Name", json!("x")),
                ])
                .clone();
            metadata.insert(name.to_owned(), one);
        }
        let metadata = if random.percent(95) { Value::Object(metadata) } else { anything(random, 0) };
        members.insert("metadata".to_owned(), metadata);
    }
}

const SAMPLES: &[(&str, &[&str])] = &[
    ("bsonobjectid", &["507f1f77bcf86cd799439011"]),
    (
        "uri",
        &[
            "http://example.com/a?b=c#d",
            "https://u:p@[::1]:80/x%20y",
            "mailto:a@b.c",
            "/abs/path",
            "http://a b/",
            "http://[fe80::1%25en0]:8080/",
            "a:b",
            "http://h:port",
            "ftp://a:1,b:2/",
        ],
    ),
    (
        "email",
        &[
            "a@b.c",
            "Full Name <a.b@c.d>",
            "\"q s\"@x.y",
            "a@[127.0.0.1]",
            "x (comment) <a@b>",
            "a..b@c",
            "g: a@b, c@d;",
            "=?utf-8?q?x?= <a@b>",
        ],
    ),
    ("hostname", &["example.com", "a-b.c1", "localhost", "éa.com", "a_b", "1.2.3.4", "-a"]),
    ("ipv4", &["10.0.0.1", "010.1.1.1", "::ffff:1.2.3.4", "256.1.1.1"]),
    ("ipv6", &["::1", "2001:db8::ff00:42:8329", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"]),
    ("cidr", &["10.0.0.0/8", "010.0.0.0/08", "2001:db8::/32", "1.2.3.4/33", "::/0"]),
    (
        "mac",
        &[
            "01:23:45:67:89:ab",
            "01-23-45-67-89-ab",
            "0123.4567.89ab",
            "0123456789ab",
            "01:23:45:67:89:ab:cd:ef",
        ],
    ),
    ("uuid", &["f47ac10b-58cc-4372-a567-0e02b2c3d479", "F47AC10B58CC4372A5670E02B2C3D479"]),
    ("uuid3", &["bcd02e22-68f0-3046-a512-327cca9def8f"]),
    ("uuid4", &["f47ac10b-58cc-4372-a567-0e02b2c3d479"]),
    ("uuid5", &["0a3cf9a8-58cc-5372-a567-0e02b2c3d479"]),
    ("isbn", &["3 401 01319 X", "978-4-87311-368-5"]),
    ("isbn10", &["3836221195", "1-61729-085-8"]),
    ("isbn13", &["9784873113685"]),
    (
        "creditcard",
        &["4220-8554-2622-2389", "374953669708156", "6011464355444102", "3548209662790989", "30569309025904"],
    ),
    ("ssn", &["111-11-1111", "111 11 1111"]),
    ("hexcolor", &["#ff12FG", "CCccCC", "#f00"]),
    ("rgbcolor", &["rgb(0,31,255)", "rgb(0,  31, 255)", "rgb(01,31,255)"]),
    ("byte", &["ZWxpemFiZXRocG9zZXk=", "YQ==", "abcd"]),
    ("password", &["anything"]),
    ("date", &["2006-01-02", "2020-02-29", "2019-02-29"]),
    (
        "duration",
        &[
            "22 ns",
            "1h30m",
            "-1.5h",
            "3 days",
            "1.s",
            ".5s",
            "5",
            "0",
            "2 wk and 1 hour",
            "9223372036854775807ns",
            "1µs",
            "1 μs",
        ],
    ),
    (
        "datetime",
        &[
            "2014-12-15T19:30:20.000Z",
            "2014-12-15T19:30:20+01:00",
            "2014-12-15t23:59:60z",
            "2014-12-15T19:30:20",
        ],
    ),
    ("k8s-short-name", &["my-name", "123-abc"]),
    ("k8s-long-name", &["example.com", "a.b-c.d"]),
];

fn format(random: &mut Random) -> Value {
    let (name, samples) = random.pick(SAMPLES);
    let texts: Vec<String> = (0..20).map(|_| altered(random, samples)).collect();
    json!({"op": "format", "name": name, "texts": texts})
}

fn altered(random: &mut Random, samples: &[&str]) -> String {
    let mut text: Vec<char> = random.pick(samples).chars().collect();
    for _ in 0..random.below(3) {
        let others: Vec<char> = "0159afgzXZ -:./@%+=[]()<>\",;#T\\é".chars().collect();
        let at = random.below(text.len() + 1);
        match random.below(3) {
            0 if at < text.len() => {
                text.remove(at);
            }
            1 if at < text.len() => text[at] = *random.pick(&others),
            _ => text.insert(at, *random.pick(&others)),
        }
    }
    text.into_iter().collect()
}

fn pattern(random: &mut Random) -> Value {
    const PARTS: [&str; 52] = [
        "a",
        "b",
        "é",
        "[a-c]",
        "[^a]",
        r"\d",
        r"\w",
        r"\s",
        r"\D",
        r"\W",
        r"\b",
        r"\B",
        ".",
        "^",
        "$",
        "(",
        ")",
        "(?:",
        "(?i)",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{1,3}",
        "{,3}",
        "{2,}",
        "[",
        "]",
        "[]a]",
        "[[:alpha:]]",
        "[[:foo:]]",
        r"\pL",
        r"\p{Greek}",
        r"\x41",
        r"\x{e9}",
        r"\Q.*\E",
        r"\.",
        r"\-",
        r"\_",
        r"\1",
        r"\0",
        r"\z",
        "[a&&b]",
        "[a--b]",
        "#",
        " ",
        "&",
        "~",
        "(?P<n>",
        "(?i:",
        r"[\d-x]",
    ];
    let parts: String = (0..=random.below(7)).map(|_| *random.pick(&PARTS)).collect();
    let texts: Vec<String> = (0..8)
        .map(|_| {
            (0..random.below(6))
                .map(|_| {
                    *random
                        .pick(&["a", "b", "A", "é", "1", " ", ".", "*", "\n", "k", "-", "&", "{", "_", "x"])
                })
                .collect()
        })
        .collect();
    json!({"op": "pattern", "name": parts, "texts": texts})
}
