//! What ConfigMaps and Secrets have in common: their size, and that they may be immutable.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given};

use crate::kinds::check::{Check, same};

/// What a ConfigMap or Secret may hold, in bytes (`MaxSecretSize` upstream).
pub(crate) const MAX_DATA_BYTES: usize = 1024 * 1024;

/// How many bytes base64 stands for.
pub(crate) fn decoded_len(text: &str) -> usize {
    let letters = text.bytes().filter(|byte| !matches!(byte, b'=' | b'\r' | b'\n')).count();
    letters * 3 / 4
}

/// What may not change once `immutable` is set.
pub(crate) fn validate_immutable(check: &mut Check, new: &Value, old: &Value, names: &[&str]) {
    if field(old, "immutable") != &Value::Bool(true) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if field(new, "immutable") != &Value::Bool(true) {
        check.forbidden("immutable", detail);
    }
    for name in names {
        if !same(given(new, name), given(old, name)) {
            check.forbidden(*name, detail);
        }
    }
}
