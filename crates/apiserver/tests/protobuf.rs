//! Bodies in protobuf: a sample of what Go wrote (`cargo xtask conformance protobuf --record`), and what is none.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use serde_json::Value;
use settled_apiserver::testing;

const SAMPLE: &[u8] = include_bytes!("golden/protobuf.tsv.deflate");

/// Each message and the same object in JSON.
fn sample() -> Vec<(Vec<u8>, Value)> {
    let mut text = String::new();
    DeflateDecoder::new(SAMPLE).read_to_string(&mut text).expect("the sample unpacks");
    let read = |line: &str| {
        let (message, json) = line.split_once('\t').expect("two columns");
        (STANDARD.decode(message).expect("base64"), serde_json::from_str(json).expect("JSON"))
    };
    text.lines().map(read).collect()
}

#[test]
fn messages_are_what_go_reads() {
    let sample = sample();
    assert_eq!(sample.len(), 2 * testing::sent_kinds().len());
    for (message, json) in sample {
        let what = format!("{} {}", json["apiVersion"], json["kind"]);
        let ours = testing::protobuf(&message).and_then(testing::canonical);
        assert_eq!(ours, testing::canonical(json), "{what}");
    }
}

#[test]
fn what_is_cut_or_changed_is_no_panic() {
    for (message, _) in sample().iter().filter(|(message, _)| message.len() < 2000) {
        for end in 0..message.len() {
            drop(testing::protobuf(&message[..end]));
            let mut changed = message.clone();
            changed[end] ^= 0x5b;
            drop(testing::protobuf(&changed));
        }
    }
}

fn varint(mut value: usize, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

pub(crate) fn field(number: usize, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3 | 2, &mut out);
    varint(content.len(), &mut out);
    out.extend_from_slice(content);
    out
}

pub(crate) fn body(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, message)].concat()
}

#[test]
fn what_is_no_message_is_refused_as_upstream_does() {
    // `not` within `not`, in the schema of a version in the spec.
    let schemas = |levels: usize| {
        let schema = (0..levels).fold(Vec::new(), |inner, _| field(28, &inner));
        let spec = field(7, &field(4, &field(1, &schema)));
        body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, &spec))
    };
    let raw = |json: String| body("apps/v1", "ControllerRevision", &field(2, &field(1, json.as_bytes())));
    let nested = |levels: usize| raw("[".repeat(levels) + &"]".repeat(levels));
    let cases: &[(Vec<u8>, &str)] = &[
        (Vec::new(), "the object provided is unrecognized (must be of type Pod): empty data (<empty>)"),
        (
            b"k8s\0".to_vec(),
            "the object provided is unrecognized (must be of type Pod): empty body (6b387300)",
        ),
        (
            b"{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}".to_vec(),
            "the object provided is unrecognized (must be of type Pod): provided data does not appear to be a protobuf message, \
             expected prefix [107 56 115 0] ({\"kind\":\"Pod\",\"apiVersion\":\"v1 ...)",
        ),
        (
            body("v1", "Widget", b""),
            "Widget in version \"v1\" cannot be handled as a Pod: no kind \"Widget\" is registered for version \"v1\" in scheme \
             \"pkg/runtime/scheme.go:111\"",
        ),
        (
            body("v1", "Pod", &[0x0a, 0x7f]),
            "Pod in version \"v1\" cannot be handled as a Pod: unexpected EOF",
        ),
        (
            body("v1", "Pod", &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            "Pod in version \"v1\" cannot be handled as a Pod: unexpected EOF",
        ),
        (
            body("v1", "Pod", &[0xff; 11]),
            "Pod in version \"v1\" cannot be handled as a Pod: proto: integer overflow",
        ),
        (
            body("v1", "Pod", &[0x00]),
            "Pod in version \"v1\" cannot be handled as a Pod: proto: Pod: illegal tag 0 (wire type 0)",
        ),
        (
            body("v1", "Pod", &[0x0c]),
            "Pod in version \"v1\" cannot be handled as a Pod: proto: Pod: wiretype end group for non-group",
        ),
        (
            body("v1", "Pod", &[0x08, 0x01]),
            "Pod in version \"v1\" cannot be handled as a Pod: proto: wrong wireType = 0 for field metadata",
        ),
        (nested(124), ""),
        (nested(126), ""),
        (
            nested(127),
            "ControllerRevision in version \"v1\" cannot be handled as a Pod: the object is nested more than 127 levels deep",
        ),
        (
            raw("{".to_owned()),
            "ControllerRevision in version \"v1\" cannot be handled as a Pod: EOF while parsing an object at line 1 column 1",
        ),
        (schemas(121), ""),
        (
            schemas(122),
            "CustomResourceDefinition in version \"v1\" cannot be handled as a Pod: the object is nested more than 127 levels deep",
        ),
        (
            schemas(4000),
            "CustomResourceDefinition in version \"v1\" cannot be handled as a Pod: the object is nested more than 127 levels deep",
        ),
    ];
    for (body, expected) in cases {
        match testing::protobuf(body) {
            Err(error) => assert_eq!(error, *expected),
            Ok(object) => {
                assert_eq!(*expected, "", "{object}");
                // What is accepted can be read again.
                assert!(serde_json::from_str::<Value>(&object.to_string()).is_ok());
            }
        }
    }
}
