//! Any bytes as a body in protobuf, whole or as the message of a kind: no panic, no hang; what is read can be written as
//! JSON and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use settled_apiserver::testing;

fn field(number: u8, content: &[u8], into: &mut Vec<u8>) {
    into.push(number << 3 | 2);
    let mut length = content.len();
    while length >= 0x80 {
        into.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    into.push(length as u8);
    into.extend_from_slice(content);
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The first byte chooses the kind of which the rest is a message.
    let Some((choice, message)) = bytes.split_first() else { return };
    let kinds = testing::sent_kinds();
    let (api_version, kind) = &kinds[usize::from(*choice) % kinds.len()];
    let mut type_meta = Vec::new();
    field(1, api_version.as_bytes(), &mut type_meta);
    field(2, kind.as_bytes(), &mut type_meta);
    let mut body = b"k8s\0".to_vec();
    field(1, &type_meta, &mut body);
    field(2, message, &mut body);
    check(&body);
});

fn check(body: &[u8]) {
    let Ok(object) = testing::protobuf(body) else { return };
    let again: Value = serde_json::from_str(&object.to_string()).expect("it can be read again");
    assert_eq!(again, object);
    if let Ok(canonical) = testing::canonical(object) {
        assert_eq!(testing::canonical(canonical.clone()), Ok(canonical));
    }
}
