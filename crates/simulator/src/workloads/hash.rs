//! Hashes of Pod templates, for labels and names.

use serde::Serialize;

/// Letters of names without vowels, as `rand.SafeEncodeString` has them: no name is a word.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A hash of a template, with `collisions` that other templates had. Upstream hashes Go's dump of the struct: the values differ, their
/// form does not.
pub(crate) fn template_hash(template: &impl Serialize, collisions: Option<i32>) -> String {
    // FNV-1a with 32 bits. Maps of Kubernetes' types are sorted.
    let mut hash: u32 = 0x811c_9dc5;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    add(&serde_json::to_vec(template).unwrap_or_default());
    if let Some(collisions) = collisions {
        add(&collisions.to_le_bytes());
    }
    safe_encode(&hash.to_string())
}

fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_encoding_has_no_vowels() {
        // "0" is 48, and 48 % 27 is 21.
        assert_eq!(safe_encode("0"), "4");
        assert!(template_hash(&"a", None).bytes().all(|byte| LETTERS.contains(&byte)));
        assert_ne!(template_hash(&"a", None), template_hash(&"a", Some(1)));
    }
}
