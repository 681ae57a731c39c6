//! The tests, in one binary.

use std::borrow::Cow;

use serde_json::{Value, json};
use settled_jsonpath::{JsonPath, PathError};

fn find(path: &str, object: &Value) -> Result<Value, PathError> {
    let results = JsonPath::parse(path)?.find(object)?;
    Ok(results.into_iter().map(Cow::into_owned).collect())
}

#[test]
fn paths_find_what_upstream_finds() {
    let object = json!({
        "a": {"b": 1, "x.y": 2, "n": null},
        "list": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Done", "status": "False", "n": 2}],
        "numbers": [0, 1, 2, 3, 4],
    });
    let cases = [
        (".a.b", json!([1])),
        ("{.a.b}", json!([1])),
        ("$.a['b']", json!([1])),
        (r".a.x\.y", json!([2])),
        (r".a['x\.y']", json!([2])),
        (".a.n", json!([null])),
        (".a.missing", json!([])),
        (".a.n.more", json!([])),
        (".list[0].type", json!(["Ready"])),
        (".list[-1].type", json!(["Done"])),
        (".list[*].type", json!(["Ready", "Done"])),
        (".list.*.type", json!(["Ready", "Done"])),
        (".numbers[1:3]", json!([1, 2])),
        (".numbers[::2]", json!([0, 2, 4])),
        (".numbers[0,2]", json!([0, 2])),
        (".numbers[-2:]", json!([3, 4])),
        (r#".list[?(@.type=="Ready")].status"#, json!(["True"])),
        (".list[?(@.type=='Done')].status", json!(["False"])),
        (".list[?(@.type!='Done')].status", json!(["True"])),
        (".list[?(@.n>1)].type", json!(["Done"])),
        (".list[?(@.n<=1)].type", json!(["Ready"])),
        (".list[?(@.n)].n", json!([1, 2])),
        (".list[?(@.none)].n", json!([])),
        ("..type", json!(["Ready", "Done"])),
        (".a['b','n']", json!([1, null])),
        ("'text'", json!(["text"])),
        ("range.a", json!([])),
    ];
    for (path, expected) in cases {
        assert_eq!(find(path, &object), Ok(expected), "{path}");
    }
    let misfits = [
        (".list[5]", "array index out of bounds: index 5, length 2"),
        (".list[:5]", "array index out of bounds: index 4, length 2"),
        (".numbers[3:1]", "starting index 3 is greater than ending index 1"),
        (".numbers[0:3:-1]", "step must be > 0"),
        (".a[0]", "map[string]interface {} is not array or slice"),
        (".a[?(@.b)]", "map[b:1 n:<nil> x.y:2] is not array or slice and cannot be filtered"),
        (".list[?(@.n>1.5)].n", "incompatible types for comparison"),
        (".list[?(@.n=='1')].n", "incompatible types for comparison"),
        (".list[?(@.n===1)].n", "unrecognized filter operator ==="),
        ("end", "not in range, nothing to end"),
        ("start", "unrecognized identifier start"),
    ];
    for (path, text) in misfits {
        assert_eq!(find(path, &object), Err(PathError::Mismatch(text.to_owned())), "{path}");
    }
    for path in [".a[", ".a[x]", ".a[?(@.b]", "....a", "'a", ".a[1:2:3:4]", ".a[?(@.b==)]", "("] {
        assert!(matches!(JsonPath::parse(path), Err(PathError::Syntax(_))), "{path}");
    }
}

#[test]
fn hostile_paths_end() {
    let wide = json!(vec![vec![vec![0; 40]; 40]; 40]);
    assert_eq!(find("..[*]..[*]..[*]..[*]", &wide), Err(PathError::TooMuch));
    assert!(JsonPath::parse(&"[?(".repeat(1000)).is_err());
    assert!(JsonPath::parse(&"['".repeat(3000)).is_err());
    assert!(JsonPath::parse(&format!(".a{}", "[?(@.a".repeat(40) + &")]".repeat(40))).is_err());
}

#[test]
fn relaxed_paths_are_those_of_kubectl() {
    let object = json!({"a": {"b": 1}});
    for path in ["a.b", ".a.b", "{a.b}", "{.a.b}", "..b", "{..b}"] {
        let found = JsonPath::relaxed(path).map(|path| path.find(&object).map(|found| found.len()));
        assert_eq!(found, Ok(Ok(1)), "{path}");
    }
    // The first character is part of a key.
    for path in ["$.a.b", "{$.a.b}", "['a'].b"] {
        let found = JsonPath::relaxed(path).map(|path| path.find(&object).map(|found| found.len()));
        assert_eq!(found, Ok(Ok(0)), "{path}");
    }
    for path in ["", "{}", "{.a}{.b}", "{.a", ".a}", "{{.a}}"] {
        assert!(matches!(JsonPath::relaxed(path), Err(PathError::Syntax(_))), "{path}");
    }
    // As upstream: no group of the expression is empty.
    assert!(JsonPath::relaxed(".").is_ok());
}
