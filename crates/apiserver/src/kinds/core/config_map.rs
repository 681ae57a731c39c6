//! ConfigMaps.

use serde_json::Value;
use settled_apimachinery::unstructured::{entries, field};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::core::data::{MAX_DATA_BYTES, decoded_len, validate_immutable};
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::quota::Quota;
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { whole_metadata: true, ..Behavior::BUILTIN },
    validate: validate_config_map,
    validate_update: Some(validate_config_map_update),
    print: Some(print_config_map),
    quota: Quota::Named("configmaps"),
    ..Strategy::DEFAULT
};

fn validate_config_map(check: &mut Check, map: &Value) {
    let mut size = 0;
    for (key, value) in entries(map, "data") {
        let at = format!("data[{key}]");
        check.form(&at, key, validation::is_config_map_key);
        if field(map, "binaryData").get(key).is_some() {
            check.invalid(at, &key.as_str().into(), "duplicate of key present in binaryData");
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(map, "binaryData") {
        check.form(&format!("binaryData[{key}]"), key, validation::is_config_map_key);
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MAX_DATA_BYTES {
        check.too_long("", MAX_DATA_BYTES);
    }
}

fn validate_config_map_update(check: &mut Check, new: &Value, old: &Value) {
    validate_immutable(check, new, old, &["data", "binaryData"]);
    validate_config_map(check, new);
}

fn print_config_map(row: Row<'_>) -> Vec<Value> {
    cells![row.name(), row.entries("/data") + row.entries("/binaryData"), row.age()]
}
