//! Hashes for ETags and names, not for secrets.

use std::fmt::Write;

use ring::digest::{Context, SHA256, SHA512, digest};

pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

/// In capital letters, as upstream's tags are.
pub(crate) fn sha512_hex(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA512);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().iter().fold(String::with_capacity(128), |mut text, byte| {
        // Writing to a text can't fail.
        let _infallible = write!(text, "{byte:02X}");
        text
    })
}
