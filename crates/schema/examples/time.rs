//! What a custom resource of 1.3 KB costs: validate, default, prune.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for developers")]

use std::hint::black_box;
use std::time::Instant;

use serde_json::json;
use settled_schema::Schema;

fn main() {
    let schema = Schema::parse(&json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["host"], "properties": {
            "host": {"type": "string", "format": "hostname", "maxLength": 253},
            "port": {"x-kubernetes-int-or-string": true, "default": 80},
            "mode": {"type": "string", "enum": ["fast", "safe"], "default": "safe"},
            "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
            "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}},
            "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
                "type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "pattern": "^[a-z][-a-z0-9]*$"},
                    "path": {"type": "string", "pattern": "^/"},
                    "weight": {"type": "integer", "default": 1},
                    "enabled": {"type": "boolean", "default": true}}}},
        }},
    }})).unwrap();
    let rules: Vec<_> = (0..14)
        .map(|at| json!({"name": format!("rule-{at}"), "path": format!("/some/path/{at}"), "weight": at, "enabled": at % 2 == 0}))
        .collect();
    let object = json!({"apiVersion": "example.com/v1", "kind": "Web", "metadata": {"name": "a", "namespace": "b"}, "spec": {
        "host": "www.example.com", "replicas": 3, "labels": {"a": "b", "c": "d"}, "rules": rules}});
    println!("{} bytes", object.to_string().len());
    let rounds = 20_000;
    let time = |name: &str, work: &dyn Fn()| {
        work();
        let start = Instant::now();
        for _ in 0..rounds {
            work();
        }
        println!("{name}: {:.2} µs", start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
    };
    time("copy alone", &|| drop(black_box(object.clone())));
    time("copy, prune, default, validate", &|| {
        let mut object = object.clone();
        black_box(schema.prune(&mut object, true));
        schema.default(&mut object);
        assert!(black_box(schema.validate(&object, None)).is_empty());
    });
    time("validate", &|| assert!(black_box(schema.validate(&object, None)).is_empty()));
    time("validate an update", &|| assert!(black_box(schema.validate(&object, Some(&object))).is_empty()));
}
