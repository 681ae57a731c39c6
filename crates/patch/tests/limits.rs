//! Hostile input ends, soon and without a panic.

use serde_json::{Value, json};
use settled_patch::{
    MAX_DEPTH, MAX_OPERATIONS, PatchError, decode_strategic_patch, json_patch, merge_patch, strategic_merge,
};

use crate::harness::{TYPES, component};

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!({"a": value}))
}

#[test]
fn depth_is_bounded() {
    let (deep, deeper) = (nested(MAX_DEPTH), nested(MAX_DEPTH + 1));
    assert!(merge_patch(&deep, &deep).is_ok());
    assert!(matches!(merge_patch(&json!({}), &deeper), Err(PatchError::BadRequest(_))));
    assert!(matches!(merge_patch(&deeper, &json!({})), Err(PatchError::BadRequest(_))));
    let pod = component("Pod");
    assert!(matches!(strategic_merge(&deeper, &json!({}), &*TYPES, &pod), Err(PatchError::BadRequest(_))));
    assert!(matches!(json_patch(&deeper, b"[]"), Err(PatchError::BadRequest(_))));
    for bytes in [vec![b'['; 1 << 20], b"{\"a\":".repeat(1 << 18)] {
        assert!(matches!(decode_strategic_patch(&bytes), Err(PatchError::BadRequest(_))));
        assert!(matches!(json_patch(&json!({}), &bytes), Err(PatchError::BadRequest(_))));
    }
}

#[test]
fn operations_do_not_build_depth_without_end() {
    // Each round wraps the whole.
    let round = [
        json!({"op": "add", "path": "/wrap", "value": {}}),
        json!({"op": "move", "from": "/a", "path": "/wrap/a"}),
        json!({"op": "move", "from": "/wrap", "path": "/a"}),
    ];
    let rounds =
        |count: usize| Value::Array(round.iter().cycle().take(3 * count).cloned().collect()).to_string();
    assert!(json_patch(&json!({"a": 1}), rounds(100).as_bytes()).is_ok());
    let error = json_patch(&json!({"a": 1}), rounds(3000).as_bytes()).unwrap_err();
    assert_eq!(error, PatchError::BadRequest("nested more than 127 levels deep".to_owned()));
}

#[test]
fn operations_are_counted() {
    let patch =
        |count: usize| Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); count]).to_string();
    assert!(json_patch(&json!({"a": 1}), patch(MAX_OPERATIONS).as_bytes()).is_ok());
    let error = json_patch(&json!({"a": 1}), patch(MAX_OPERATIONS + 1).as_bytes()).unwrap_err();
    let text = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!((error.status(), error.to_string().as_str()), (413, text));
}

#[test]
fn copies_are_counted() {
    let text = "x".repeat(1 << 20);
    let patch = json!([
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "copy", "from": "/a", "path": "/c"},
        {"op": "copy", "from": "/a", "path": "/d"},
    ]);
    let error = json_patch(&json!({"a": text}), patch.to_string().as_bytes()).unwrap_err();
    assert_eq!(
        error,
        PatchError::Invalid(
            "Unable to complete the copy, the accumulated size increase of copy is 3145734, exceeding the limit 3145728"
                .to_owned()
        )
    );
}

#[test]
fn moved_items_are_counted() {
    let object = json!({"a": vec![0; 200_000]});
    let patch =
        Value::Array(vec![json!({"op": "add", "path": "/a/0", "value": 1}); MAX_OPERATIONS]).to_string();
    assert!(matches!(json_patch(&object, patch.as_bytes()), Err(PatchError::TooLarge(_))));
}

#[test]
fn long_lists_are_merged() {
    const ITEMS: usize = 10_000;
    let pod = component("Pod");
    let containers = |from: usize, image: &str| -> Vec<Value> {
        (from..from + ITEMS).map(|number| json!({"name": format!("c{number}"), "image": image})).collect()
    };
    let object = json!({"spec": {"containers": containers(0, "old")}});
    // Half of them are there. The new ones come with an order, backwards.
    let added = containers(ITEMS / 2, "new");
    let order: Vec<Value> = added.iter().map(|item| json!({"name": item["name"]})).collect();
    let patch = json!({"spec": {"$setElementOrder/containers": order, "containers": added}});
    let merged = strategic_merge(&object, &patch, &*TYPES, &pod).unwrap();
    let names: Vec<&str> = merged["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), ITEMS + ITEMS / 2);
    assert!(names.windows(2).all(|two| two[0][1..].parse::<usize>().unwrap() < two[1][1..].parse().unwrap()));

    let deleted: Vec<Value> =
        (0..ITEMS).map(|number| json!({"name": format!("c{number}"), "$patch": "delete"})).collect();
    let patch = json!({"spec": {"containers": deleted}});
    let merged = strategic_merge(&object, &patch, &*TYPES, &pod).unwrap();
    assert_eq!(merged, json!({"spec": {"containers": []}}));

    let finalizers: Vec<String> = (0..ITEMS).map(|number| format!("f{number}")).collect();
    let object = json!({"metadata": {"finalizers": finalizers}});
    let patch =
        json!({"metadata": {"finalizers": finalizers, "$deleteFromPrimitiveList/finalizers": finalizers}});
    assert_eq!(strategic_merge(&object, &patch, &*TYPES, &pod).unwrap(), object);
}

#[test]
fn work_stops_at_the_end_of_its_budget() {
    let pod = component("Pod");
    let list = json!({"list": vec![1; 100_000]});
    let first = Value::Array(vec![json!({"op": "add", "path": "/list/0", "value": 1}); 100]).to_string();
    let containers = |count: usize| -> Value {
        let named = (0..count).map(|number| json!({"name": number.to_string(), "image": "a"}));
        json!({"spec": {"containers": named.collect::<Vec<_>>()}})
    };
    let many = containers(2000);
    for (steps, ends) in [(1_000_000, true), (1000, false)] {
        let budget = settled_budget::Budget::new(steps, 0);
        let _entered = budget.enter();
        assert_eq!(json_patch(&list, first.as_bytes()).is_ok(), ends);
        assert_eq!(strategic_merge(&many, &many, &*TYPES, &pod).is_ok(), ends);
        assert_eq!(budget.exceeded().is_none(), ends);
    }
}
