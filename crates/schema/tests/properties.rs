//! What holds for any schema and object.

use serde_json::json;
use settled_schema::Schema;

use super::harness::{generate, random::Random};

#[test]
fn doing_it_twice_changes_nothing() {
    let mut random = Random::new(3);
    for _ in 0..2000 {
        let schema = generate::schema(&mut random);
        let mut object = generate::value(&mut random, &schema, 20);
        let schema = Schema::parse(&schema).unwrap();
        schema.prune(&mut object, true);
        schema.default(&mut object);
        schema.prune(&mut object, true);
        let once = object.clone();
        assert_eq!(schema.prune(&mut object, true), Vec::<String>::new());
        assert_eq!(object, once);
    }
}

#[test]
fn what_has_not_changed_passes() {
    let mut random = Random::new(4);
    for _ in 0..2000 {
        let schema = generate::schema(&mut random);
        let object = generate::value(&mut random, &schema, 20);
        let schema = Schema::parse(&schema).unwrap();
        // Members without a schema are taken as changed, so those go first.
        let mut object = object;
        schema.prune(&mut object, false);
        if object.is_object() {
            let _errors = schema.validate_values("", &object, Some(&object));
        }
    }
}

#[test]
fn rules_are_found_where_they_are() {
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "true"}],
        "properties": {"spec": {"type": "object", "properties": {"list": {
            "type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]},
        }, "map": {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a'"}]}}}}},
    });
    let schema = Schema::parse(&schema).unwrap();
    let mut found = Vec::new();
    schema.walk_rules(&mut |at, node| found.push((at.to_owned(), node.rules()[0].rule.clone())));
    let expected = [("", "true"), ("spec.list[*]", "self != ''"), ("spec.map[*]", "self != 'a'")];
    assert_eq!(found, expected.map(|(at, rule)| (at.to_owned(), rule.to_owned())));
}
