//! Secrets.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use settled_apimachinery::unstructured::{entries, field, given, string};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::core::data::{MAX_DATA_BYTES, decoded_len, validate_immutable};
use crate::kinds::core::key_pair;
use crate::kinds::fields::Fields;
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::quota::Quota;
use crate::kinds::strategy::Strategy;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { whole_metadata: true, ..Behavior::BUILTIN },
    field_selectors: FieldSelectors::of(&[("type", Source::Text(&["/type"]))]),
    validate: validate_secret,
    validate_update: Some(validate_secret_update),
    warnings: |secret| certificate_warning(secret).into_iter().collect(),
    print: Some(print_secret),
    quota: Quota::Named("secrets"),
    ..Strategy::DEFAULT
};

/// Texts of `stringData` become base64 in `data`.
pub(crate) fn set_string_data(secret: &mut Fields) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    if let Value::Object(data) = data {
        for (name, text) in texts {
            data.insert(name, encode_base64(text.as_str().unwrap_or_default().as_bytes()).into());
        }
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) & 63;
            let letter = ALPHABET.get(index as usize).copied().unwrap_or(b'=');
            out.push(char::from(if place <= chunk.len() { letter } else { b'=' }));
        }
    }
    out
}

fn validate_secret(check: &mut Check, new: &Value) {
    let mut size = 0;
    for (key, value) in entries(new, "data") {
        check.form(&format!("data[{key}]"), key, validation::is_config_map_key);
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MAX_DATA_BYTES {
        check.too_long("data", MAX_DATA_BYTES);
    }
    let has = |key: &str| field(new, "data").get(key).is_some();
    let mut needs = |keys: &[&str]| {
        for key in keys {
            if !has(key) {
                check.required(format!("data[{key}]"), "");
            }
        }
    };
    match string(new, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = field(field(new, "metadata"), "annotations");
            let key = "kubernetes.io/service-account.name";
            if string(annotations, key).is_empty() {
                check.required(format!("metadata.annotations[{key}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => {
            needs(&[".dockercfg"]);
            validate_docker_config(check, new, ".dockercfg");
        }
        "kubernetes.io/dockerconfigjson" => {
            needs(&[".dockerconfigjson"]);
            validate_docker_config(check, new, ".dockerconfigjson");
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            needs(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" => needs(&["ssh-privatekey"]),
        "kubernetes.io/tls" => needs(&["tls.crt", "tls.key"]),
        _ => {}
    }
}

fn validate_secret_update(check: &mut Check, new: &Value, old: &Value) {
    check.immutable("type", given(new, "type"), given(old, "type"));
    validate_immutable(check, new, old, &["data"]);
    validate_secret(check, new);
}

/// What a Secret holds under a key.
fn held(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let text = field(secret, "data").get(key)?.as_str()?;
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD.decode(text).ok()
}

/// Credentials of registries are a JSON object.
fn validate_docker_config(check: &mut Check, secret: &Value, key: &str) {
    let Some(bytes) = held(secret, key) else { return };
    if let Some(why) = crate::decode::no_object(&bytes) {
        check.invalid(format!("data[{key}]"), &"<secret contents redacted>".into(), &why);
    }
}

/// What a Secret for TLS holds that cannot be used.
fn certificate_warning(secret: &Value) -> Option<String> {
    if string(secret, "type") != "kubernetes.io/tls" {
        return None;
    }
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| held(secret, name).unwrap_or_default());
    key_pair::mismatch(&certificate, &key)
}

fn print_secret(row: Row<'_>) -> Vec<Value> {
    cells![row.name(), row.text("/type"), row.entries("/data"), row.age()]
}
