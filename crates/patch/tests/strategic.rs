//! Strategic merge on kinds of Kubernetes, as people write it.

use serde_json::{Value, json};
use settled_patch::strategic_merge;

use crate::harness::{TYPES, component};

/// What is special, a kind, an object, a patch, and what becomes of it: an object, or a status and a text.
type Case = (&'static str, &'static str, Value, Value, Result<Value, (u16, &'static str)>);

fn cases() -> Vec<Case> {
    vec![
        (
            "an item is merged by its key, another one comes first",
            "Pod",
            json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "b"}]}}),
            Ok(json!({"spec": {"containers": [
                {"name": "a", "image": "1", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
                {"name": "b"},
            ]}})),
        ),
        (
            "retainKeys drops the rest",
            "Deployment",
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            Ok(json!({"spec": {"strategy": {"type": "Recreate"}}})),
        ),
        (
            "a list without a strategy is replaced",
            "Pod",
            json!({"spec": {"tolerations": [{"key": "a"}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}]}}),
            Ok(json!({"spec": {"tolerations": [{"key": "b"}]}})),
        ),
        (
            "a list by key is replaced if it is told to be",
            "Service",
            json!({"spec": {"ports": [{"port": 80}, {"port": 443}]}}),
            json!({"spec": {"ports": [{"$patch": "replace"}, {"port": 8080}]}}),
            Ok(json!({"spec": {"ports": [{"port": 8080}]}})),
        ),
        (
            "an item without its key",
            "Service",
            json!({"spec": {"ports": [{"port": 80}]}}),
            json!({"spec": {"ports": [{"name": "http"}]}}),
            Err((500, "map: map[name:http] does not contain declared merge key: port")),
        ),
        (
            "an unknown directive",
            "Service",
            json!({"spec": {}}),
            json!({"spec": {"$patch": "drop"}}),
            Err((500, "unknown patch type: drop in map: map[$patch:drop]")),
        ),
        (
            "a field that retainKeys does not name",
            "Deployment",
            json!({"spec": {"strategy": {}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
            Err((400, "invalid patch format of retainKeys")),
        ),
        (
            "an order of a field that is not there",
            "Service",
            json!({"spec": {}}),
            json!({"spec": {"$setElementOrder/doors": []}}),
            Err((500, "unable to find api field in struct ServiceSpec for the json field \"doors\"")),
        ),
    ]
}

#[test]
fn patches_merge() {
    for (what, kind, object, patch, expected) in cases() {
        let merged = strategic_merge(&object, &patch, &*TYPES, &component(kind));
        let merged = merged.map_err(|error| (error.status(), error.to_string()));
        assert_eq!(merged, expected.map_err(|(status, text)| (status, text.to_owned())), "{what}");
    }
}
