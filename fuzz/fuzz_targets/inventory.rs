//! Any bytes as an object that lists others, as what a Secret of Helm unpacks to, as a manifest in it: an answer, bounded, and no panic.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use settled_tracker::apply::waves;
use settled_tracker::release::{Contents, Revisions, newest_revisions};

fn check(object: &[u8]) {
    match Contents::of(object) {
        Ok(Some(Contents::Objects(inventory))) => {
            assert!(inventory.members.len() <= 50_000);
            assert!(
                inventory
                    .members
                    .iter()
                    .all(|member| !member.id.name.is_empty() && !member.id.kind.is_empty())
            );
            let ids: Vec<_> = inventory.members.into_iter().map(|member| member.id).collect();
            assert_eq!(waves(&ids).iter().map(|wave| wave.objects.len()).sum::<usize>(), ids.len());
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn secret(release: &[u8]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": "a", "labels": {"owner": "helm", "name": "a", "version": "1", "status": "deployed"}},
        "data": {"release": BASE64.encode(BASE64.encode(release))},
    })
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses what the rest is.
    let Some((choice, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match choice {
        b'r' => check(secret(rest).to_string().as_bytes()),
        b'm' => {
            let hook = json!({"kind": "Job", "path": "a", "manifest": text});
            let release = json!({"name": "a", "namespace": "b", "version": 1, "manifest": text, "hooks": [hook]});
            check(secret(release.to_string().as_bytes()).to_string().as_bytes());
        }
        b'i' => check(
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "a"},
                "status": {"inventory": {"entries": text.lines().map(|id| json!({"id": id, "v": "v1"})).collect::<Vec<_>>()}}})
            .to_string()
            .as_bytes(),
        ),
        b'n' => {
            let list: Vec<&[u8]> = rest.split(|byte| *byte == b'\n').collect();
            if let Ok(Revisions { current, failed }) = newest_revisions("a", &list) {
                assert!(current < list.len() && failed.is_none_or(|failed| failed < list.len()));
            }
        }
        _ => check(rest),
    }
});
