//! What holds for all objects and streams.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use settled_manifest::{Limits, minify, write_yaml, yaml_to_json};

use crate::{Trickle, read_all};

/// Strings with everything that means something to YAML or JSON.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,6}",
        "[ \\-?:,\\[\\]{}#&*!|>'\"%@`~=<\\\\/\n\r\t.0-9a-eyn+_]{0,12}",
        "\\PC{0,8}",
        any::<String>().prop_map(|text| text.chars().take(10).collect()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Few digits: serde_json reads longer ones only nearly right.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 64.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((text(), inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Objects, as a cluster has them.
fn object() -> impl Strategy<Value = Value> {
    (value(), text()).prop_map(|(spec, name)| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "spec": spec})
    })
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json:?} is no JSON: {error}"))
}

/// Floats without a fraction become integers in Go's hands.
fn normal(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            json!(format!("{:e}", if float == 0.0 { 0.0 } else { float }))
        }
        Value::Number(number) => {
            // An integer that is exactly a float is the same as that float.
            let float = number.as_f64().unwrap_or_default();
            if float as i128 == number.as_i128().unwrap_or_default() {
                json!(format!("{float:e}"))
            } else {
                Value::Number(number)
            }
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(normal).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (key, normal(value))).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn yaml(json: &str) -> String {
    let mut out = Vec::new();
    write_yaml(json.as_bytes(), &mut out).unwrap_or_else(|error| panic!("{json}: {error}"));
    String::from_utf8(out).expect("YAML is UTF-8")
}

proptest! {
    #[test]
    fn yaml_reads_back_as_the_same_json(value in value()) {
        let written = yaml(&value.to_string());
        let mut read = Vec::new();
        if let Err(error) = yaml_to_json(written.as_bytes(), &mut read) {
            panic!("{written}\n{error}");
        }
        let read = parse(&String::from_utf8_lossy(&read));
        prop_assert_eq!(normal(read), normal(value), "{}", written);
    }

    #[test]
    fn the_form_of_the_stream_does_not_matter(objects in vec(object(), 0..6), batch_bytes in 1..200_usize) {
        let limits = Limits { batch_bytes, ..Limits::default() };
        let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
        let pretty: String = objects.iter().map(|object| format!("{object:#}\n")).collect();
        let list = json!({"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {}});
        let reversed = format!("{{\"metadata\":{{}},\"kind\":\"List\",\"items\":{}}}", Value::from(objects.clone()));
        let documents: String = objects.iter().map(|object| format!("---\n{}", yaml(&object.to_string()))).collect();
        let expected: Vec<Value> = objects.into_iter().map(normal).collect();
        for stream in [lines, pretty, list.to_string(), format!("{list:#}"), reversed, yaml(&list.to_string()), documents] {
            let found: Vec<Value> = read_all(stream.as_bytes(), limits).iter().map(|json| normal(parse(json))).collect();
            prop_assert_eq!(&found, &expected, "{}", stream);
        }
    }

    #[test]
    fn how_the_bytes_arrive_does_not_matter(
        pieces in vec(prop_oneof![
            object().prop_map(|object| object.to_string()),
            object().prop_map(|object| yaml(&object.to_string())),
            "[\\-\\[\\]{}\":,ab \n#.]{0,10}",
            Just("\n---\n".to_owned()),
            Just("{\"kind\":\"List\",\"items\":[".to_owned()),
            Just("]}".to_owned()),
        ], 0..8),
        batch_bytes in 1..300_usize,
        step in 1..100_usize,
    ) {
        let stream = pieces.concat();
        let small = Limits { batch_bytes, object_bytes: 200, depth: 10 };
        for limits in [Limits::default(), small] {
            let whole = read_all(stream.as_bytes(), Limits { batch_bytes: 1 << 20, ..limits });
            let trickled = read_all(Trickle { text: stream.as_bytes(), step }, Limits { batch_bytes, ..limits });
            prop_assert_eq!(whole, trickled, "{}", stream);
        }
    }

    #[test]
    fn minified_json_is_the_same_json(value in value()) {
        let mut out = Vec::new();
        minify(format!("{value:#}").as_bytes(), &mut out);
        prop_assert_eq!(String::from_utf8_lossy(&out), value.to_string());
    }

    #[test]
    fn nothing_panics(bytes in vec(any::<u8>(), 0..200)) {
        let mut out = Vec::new();
        drop(yaml_to_json(&bytes, &mut out));
        drop(write_yaml(&bytes, &mut out));
        minify(&bytes, &mut out);
    }
}
