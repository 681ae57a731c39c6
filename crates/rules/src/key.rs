//! What the rules of the built-in pack are found by. The build script computes the same numbers (FNV-1a); several groups and kinds may have
//! the same one.

fn mix(hash: u32, text: &str) -> u32 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A group, for [`kind_key`].
pub(crate) fn group_key(group: &str) -> u32 {
    mix(mix(0x811c_9dc5, group), "/")
}

/// A kind of a group.
pub(crate) fn kind_key(group: u32, kind: &str) -> u32 {
    mix(group, kind)
}
