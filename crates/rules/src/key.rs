//! What the rules of the built-in pack are found by. The build script computes the same numbers; several groups and kinds may have the same
//! one.

/// Eight bytes at a time: multiplications byte by byte would wait for each other.
fn mix(hash: u64, text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<8>();
    let last = rest.iter().fold(text.len() as u64, |word, byte| (word << 8) | u64::from(*byte));
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).chain([last]);
    words.fold(hash, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    })
}

/// A group, for [`kind_key`].
pub(crate) fn group_key(group: impl AsRef<[u8]>) -> u64 {
    mix(0, group.as_ref())
}

/// A kind of a group.
pub(crate) fn kind_key(group: u64, kind: impl AsRef<[u8]>) -> u32 {
    mix(group, kind.as_ref()) as u32
}
