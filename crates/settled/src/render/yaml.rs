//! YAML rows: the same map as JSON's, a document each.

use kstatus::Verdict;

use super::json;
use crate::row::Identity;

pub(super) fn push_head(source: &str, document: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"---\n");
    push_map(out, |map| json::push_head(source, document, map), b"}");
}

pub(super) fn push_body(identity: &Identity<'_>, verdict: &Verdict, out: &mut Vec<u8>) {
    push_map(
        out,
        |map| {
            json::push_body(identity, verdict, map);
            // The comma that joins it to the head.
            if let Some(byte) = map.first_mut() {
                *byte = b'{';
            }
        },
        b"",
    );
}

fn push_map(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>), end: &[u8]) {
    let mut map = Vec::new();
    fill(&mut map);
    map.extend_from_slice(end);
    // Our own JSON is JSON.
    settled_manifest::write_yaml(&map, out).ok();
}
