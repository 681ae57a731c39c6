//! Bytes that no recorded case can hold, since cases are JSON themselves.

use serde_json::json;
use settled_patch::{decode_merge_patch, decode_strategic_patch, json_patch};

#[test]
fn broken_text_is_replaced_as_go_does() {
    for (bytes, text) in [
        (&b"{\"a\":\"\xff\"}"[..], "\u{fffd}"),
        (b"{\"a\":\"\xe2\x82x\"}", "\u{fffd}\u{fffd}x"),
        (b"{\"a\":\"\\ud800\"}", "\u{fffd}"),
        (b"{\"a\":\"\\ud800\\u0041\"}", "\u{fffd}A"),
        (b"{\"a\":\"\\ud83d\\ude00\"}", "😀"),
    ] {
        assert_eq!(decode_merge_patch(bytes).unwrap().patch, json!({"a": text}));
    }
}

#[test]
fn null_is_an_empty_strategic_patch_and_no_merge_patch() {
    assert_eq!(decode_strategic_patch(b"null").unwrap().patch, json!(null));
    let error = settled_patch::merge_patch(&json!({}), &json!(null)).unwrap_err();
    assert_eq!((error.status(), error.to_string().as_str()), (400, "Invalid JSON Patch"));
    assert_eq!(json_patch(&json!({"a": 1}), b"null").unwrap(), json!({"a": 1}));
}

#[test]
fn a_copied_text_is_another_one_to_a_test() {
    let patch = br#"[
        {"op": "add", "path": "/a", "value": "<"},
        {"op": "test", "path": "/a", "value": "<"},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "test", "path": "/b", "value": "\u003c"},
        {"op": "test", "path": "/b", "value": "<"}
    ]"#;
    let error = json_patch(&json!({}), patch).unwrap_err();
    assert_eq!(error.to_string(), "testing value /b failed: test failed");
    let object = json!({"a": "<"});
    assert!(json_patch(&object, br#"[{"op": "test", "path": "/a", "value": "<"}]"#).is_err());
    assert!(json_patch(&object, br#"[{"op": "test", "path": "/a", "value": "\u003c"}]"#).is_ok());
}
