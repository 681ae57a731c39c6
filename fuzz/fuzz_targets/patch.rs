//! Any bytes as a patch of each kind, on any object: the first line is the object, the rest the patch.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use settled_patch::{
    JsonPatch, PatchTypes, decode_merge_patch, decode_strategic_patch, merge_patch, strategic_merge,
};

/// A type of each shape, in itself.
static TYPES: LazyLock<PatchTypes> = LazyLock::new(|| {
    let itself = json!({"default": {}, "allOf": [{"$ref": "#/components/schemas/T"}]});
    let components = json!({"T": {"type": "object", "properties": {
        "a": {"type": "array", "items": itself, "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "k"},
        "b": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "c": itself,
        "d": {"$ref": "#/components/schemas/T", "x-kubernetes-patch-strategy": "replace"},
        "e": {"type": "array", "items": itself},
        "f": {"type": "array", "items": itself, "x-kubernetes-patch-strategy": "merge"},
        "k": {"type": "string"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    }}});
    let mut types = PatchTypes::default();
    if let Value::Object(components) = &components {
        types.add_components(components);
    }
    types
});

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (object, patch) = data.split_at(end);
    let object: Value = serde_json::from_slice(object).unwrap_or_else(|_| json!({"a": [{"k": "x"}], "b": ["x"]}));

    if let Ok(patch) = JsonPatch::decode(patch) {
        readable(patch.apply(&object).ok());
    }
    let merge = decode_merge_patch(patch);
    let strategic = decode_strategic_patch(patch);
    assert_eq!(merge.is_ok(), strategic.is_ok());
    // What serde_json reads as a map is read here, too.
    if let Ok(value @ Value::Object(_)) = serde_json::from_slice::<Value>(patch) {
        assert_eq!(strategic.as_ref().map(|decoded| decoded.patch.is_object()), Ok(true), "{value}");
    }
    if let (Ok(merge), Ok(strategic)) = (merge, strategic) {
        readable(merge_patch(&object, &merge.patch).ok());
        readable(strategic_merge(&object, &strategic.patch, &*TYPES, "T").ok());
    }
});

/// What comes out can be read again.
fn readable(result: Option<Value>) {
    if let Some(result) = result {
        let text = result.to_string();
        serde_json::from_str::<Value>(&text).unwrap();
    }
}
