//! Continue tokens: base64url without padding, as kube-apiserver encodes them.

use serde_json::Value;
use settled_go::base64;

/// The JSON in a continue token; `None` if it is invalid.
pub(crate) fn decode(token: &str) -> Option<Value> {
    let value: Value = serde_json::from_slice(&base64::URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    value.is_object().then_some(value)
}

#[cfg(test)]
mod tests {
    use ::base64::Engine as _;
    use ::base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_survive() {
        for start in ["", "a", "ab", "ns/abc\u{0}"] {
            let value = json!({"v": "meta.k8s.io/v1", "rv": 12, "start": start});
            assert_eq!(decode(&BASE64_URL_SAFE_NO_PAD.encode(value.to_string())), Some(value));
        }
        assert_eq!(decode("no token"), None);
    }
}
