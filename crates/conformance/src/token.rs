//! Continue tokens: base64url without padding, as the server makes them.

use serde_json::Value;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The bytes of some base64, of either alphabet, with padding or without; nothing if it is none.
///
/// # Examples
///
/// ```
/// assert_eq!(settled_conformance::base64("YWI="), Some(b"ab".to_vec()));
/// assert_eq!(settled_conformance::base64("a b"), None);
/// ```
#[must_use]
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut bytes) = (0u32, 0u32, Vec::with_capacity(text.len()));
    for byte in text.bytes().filter(|&byte| byte != b'=') {
        let byte = match byte {
            b'+' => b'-',
            b'/' => b'_',
            other => other,
        };
        let digit = ALPHABET.iter().position(|&letter| letter == byte)?;
        bits = (bits << 6 | u32::try_from(digit).ok()?) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

/// The JSON inside of a continue token; nothing if it is none.
pub(crate) fn decode(token: &str) -> Option<Value> {
    let value: Value = serde_json::from_slice(&base64(token)?).ok()?;
    value.is_object().then_some(value)
}

/// The token of some JSON.
#[cfg(test)]
fn encode(value: &Value) -> String {
    let text = value.to_string();
    let mut token = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..=chunk.len() {
            let index = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap_or(0);
            token.push(char::from(ALPHABET[index]));
        }
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_survive() {
        for start in ["", "a", "ab", "ns/abc\u{0}"] {
            let value = json!({"v": "meta.k8s.io/v1", "rv": 12, "start": start});
            assert_eq!(decode(&encode(&value)), Some(value));
        }
        assert_eq!(decode("no token"), None);
    }
}
