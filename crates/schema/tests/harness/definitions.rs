//! Made-up definitions, most of them a little wrong.

use serde_json::{Value, json};

use super::generate;
use super::random::Random;

/// A question about a whole definition.
pub fn question(random: &mut Random) -> Value {
    let mut object = definition(random);
    for _ in 0..random.below(4) {
        spoil(random, &mut object);
    }
    if random.percent(15) {
        return json!({"op": "default_definition", "object": object});
    }
    settled_schema::default_definition(&mut object);
    if random.percent(35) {
        let mut old = object.clone();
        for _ in 0..random.below(3) {
            spoil(random, &mut object);
        }
        if random.percent(30) {
            old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        }
        settled_schema::prepare_for_update(&mut object, &old);
        if random.percent(60) {
            object["metadata"]["resourceVersion"] = json!("1");
        }
        return json!({"op": "definition", "object": object, "old": old});
    }
    if random.percent(85) {
        settled_schema::prepare_for_create(&mut object);
    }
    json!({"op": "definition", "object": object})
}

fn definition(random: &mut Random) -> Value {
    let names = ["v1", "v2", "v1beta1"];
    let same = generate::schema(random);
    let many = random.percent(40);
    let versions: Vec<Value> = (0..=usize::from(many) * random.below(3))
        .map(|index| {
            let schema = if random.percent(60) { same.clone() } else { generate::schema(random) };
            let mut version = json!({
                "name": names[index], "served": true, "storage": index == 0, "schema": {"openAPIV3Schema": schema},
            });
            if random.percent(30) {
                version["subresources"] = json!({"status": {}});
            }
            version
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "webs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "webs", "kind": "Web"},
            "versions": versions,
        },
    })
}

fn spoil(random: &mut Random, crd: &mut Value) {
    // Within a version half of the time, else anywhere.
    let count = crd["spec"]["versions"].as_array().map_or(0, Vec::len);
    if random.percent(50) && count > 0 {
        let version = random.below(count);
        let schema = "schema/openAPIV3Schema";
        let inner = format!("{schema}/properties/spec");
        let (path, value) = random
            .pick(&[
                ("name", json!("V1")),
                ("name", json!("v1")),
                ("storage", json!(true)),
                ("storage", json!(false)),
                ("served", json!(false)),
                ("deprecated", json!(true)),
                ("deprecationWarning", json!("old\u{7}")),
                ("deprecationWarning", json!("")),
                ("schema", Value::Null),
                (schema, Value::Null),
                ("schema/openAPIV3Schema/type", json!("array")),
                ("schema/openAPIV3Schema/nullable", json!(true)),
                ("schema/openAPIV3Schema/minProperties", json!(1)),
                ("schema/openAPIV3Schema/properties/metadata", json!({"type": "object", "default": {"name": "a"}})),
                ("schema/openAPIV3Schema/properties/kind", json!({"type": "string", "default": "A"})),
                (inner.as_str(), json!({"type": "null"})),
                (inner.as_str(), json!({"type": "array"})),
                (inner.as_str(), json!({"type": "wrong", "x-kubernetes-map-type": "atomic"})),
                (inner.as_str(), json!({"type": "object", "x-kubernetes-map-type": "some"})),
                (inner.as_str(), json!({"x-kubernetes-preserve-unknown-fields": false, "type": "object"})),
                (inner.as_str(), json!({"type": "array", "items": {"type": "string", "nullable": true}, "x-kubernetes-list-type": "set"})),
                (inner.as_str(), json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})),
                (inner.as_str(), json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, "x-kubernetes-list-type": "set"})),
                (inner.as_str(), json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"})),
                (inner.as_str(), json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["a"]})),
                (inner.as_str(), json!({"type": "string", "x-kubernetes-list-type": "odd"})),
                (inner.as_str(), json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "a", "b", "c"],
                    "items": {"type": "object", "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "object"}}}})),
                (inner.as_str(), json!({"type": "array", "x-kubernetes-list-type": "map", "items": [{"type": "object"}]})),
                (inner.as_str(), json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}})),
                (inner.as_str(), json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"a": 1, "b": 2}})),
                (inner.as_str(), json!({"type": "string", "default": "a", "maxLength": 0, "format": "date"})),
                (inner.as_str(), json!({"x-kubernetes-int-or-string": true, "default": true})),
                (inner.as_str(), json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                    "default": {"kind": 1}})),
                (inner.as_str(), json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"kind": {"type": "string", "default": "A_"},
                    "metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "a/b"}, "labels": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}}}}}})),
                (inner.as_str(), json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"metadata": {"type": "object", "default": {"labels": {"a": 1}}}}})),
                (inner.as_str(), json!({"type": "string", "uniqueItems": true, "id": "x"})),
                (inner.as_str(), json!({"type": "string", "$ref": "#/a"})),
                (inner.as_str(), json!({"type": "string", "dependencies": {"a": ["b"]}, "definitions": {"d": {"type": "odd"}}, "patternProperties": {"p": {}}, "additionalItems": true})),
                (inner.as_str(), json!({"type": "string", "x-kubernetes-validations": [{"rule": " "}, {"rule": "self == ''\n", "reason": "x", "fieldPath": ".q"},
                    {"rule": "", "message": "a\nb", "messageExpression": " ", "fieldPath": " "}]})),
                (inner.as_str(), json!({"type": "object", "properties": {"a b": {"type": "object", "additionalProperties": {"type": "string"}}},
                    "x-kubernetes-validations": [{"rule": "", "fieldPath": "['a b'].x"}, {"rule": "", "fieldPath": ".a b['c"}, {"rule": "", "fieldPath": ".a\nb"}]})),
                ("subresources", json!({"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b", "labelSelectorPath": ".x"}})),
                ("subresources", json!({"scale": {"specReplicasPath": "spec", "statusReplicasPath": ""}})),
                ("additionalPrinterColumns", json!([{"name": "a", "type": "string", "jsonPath": ".a"}])),
                ("additionalPrinterColumns", json!([{"name": "", "type": "odd", "jsonPath": "a", "format": "f"}, {"name": "b", "jsonPath": "", "type": ""}])),
                ("selectableFields", json!([{"jsonPath": ".spec"}, {"jsonPath": ".spec"}, {"jsonPath": "spec"}, {"jsonPath": ".spec['a']"}, {"jsonPath": ""}])),
                ("selectableFields", json!([{"jsonPath": ".a"}, {"jsonPath": ".b"}, {"jsonPath": ".c"}, {"jsonPath": ".a.b"}, {"jsonPath": ".metadata.name"}, {"jsonPath": ".."}])),
            ])
            .clone();
        set(&mut crd["spec"]["versions"][version], path, value);
        return;
    }
    let (path, value) = random
        .pick(&[
            ("metadata/name", json!("a.example.com")),
            ("metadata/name", json!("")),
            ("metadata/generateName", json!("a-")),
            ("metadata/namespace", json!("n")),
            ("metadata/uid", json!("u")),
            ("metadata/labels", json!({"a b": "c d"})),
            ("metadata/deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            ("metadata/finalizers", json!(["a.b/c", "x y"])),
            ("metadata/annotations", json!({"api-approved.kubernetes.io": "unapproved, test"})),
            ("metadata/annotations", json!({"api-approved.kubernetes.io": "https://a.b/c"})),
            ("metadata/annotations", json!({"api-approved.kubernetes.io": "yes"})),
            ("spec/group", json!("")),
            ("spec/group", json!("example")),
            ("spec/group", json!("Bad_.com")),
            ("spec/group", json!("x.k8s.io")),
            ("spec/scope", json!("")),
            ("spec/scope", json!("Cluster")),
            ("spec/scope", json!("Odd")),
            ("spec/names/plural", json!("Webs")),
            ("spec/names/plural", json!("")),
            ("spec/names/singular", json!("we b")),
            ("spec/names/kind", json!("")),
            ("spec/names/kind", json!("We_b")),
            ("spec/names/listKind", json!("Web")),
            ("spec/names/shortNames", json!(["w", "W", ""])),
            ("spec/names/categories", json!(["all", "A"])),
            ("spec/preserveUnknownFields", json!(true)),
            ("spec/versions", json!([])),
            ("spec/conversion", json!({"strategy": "Odd"})),
            ("spec/conversion", json!({"strategy": "None", "webhook": {"clientConfig": {"url": "x"}, "conversionReviewVersions": ["v1"]}})),
            ("spec/conversion", json!({"strategy": "Webhook"})),
            ("spec/conversion", json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v1", "V"], "clientConfig": {"url": "https://a.b/c?d#e", "caBundle": "AAAA"}}})),
            ("spec/conversion", json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v3"], "clientConfig": {"url": "http://u@/"}}})),
            ("spec/conversion", json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "a", "namespace": "", "path": "/a//B/"}}}})),
            ("spec/conversion", json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "", "namespace": "n", "path": "x", "port": 70000}, "url": "x"}}})),
            ("spec/conversion", json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a b/"}}})),
            ("status", json!({"storedVersions": []})),
            ("status", json!({"storedVersions": ["v0", "v1"]})),
            ("status", json!({"storedVersions": ["v9"], "acceptedNames": {"plural": "A", "kind": "B_"}})),
        ])
        .clone();
    set(crd, path, value);
}

fn set(value: &mut Value, path: &str, new: Value) {
    let mut at = value;
    for name in path.split('/') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name];
    }
    *at = new;
}
