//! What is too large, and how much is held.

use std::io::{self, Read};

use settled_manifest::{Batch, Item, Limits, Scratch, Splitter};

use crate::read_all;

const SMALL: Limits = Limits { batch_bytes: 256, object_bytes: 1000, depth: 20 };

#[test]
fn an_object_beyond_the_limit_is_malformed_and_the_others_are_read() {
    let large = "x".repeat(2000);
    let why = "the object is larger than the limit of 1000 bytes";
    let check = |stream: &str, expected: &[&str]| assert_eq!(read_all(stream.as_bytes(), SMALL), expected);
    check(
        &format!("{{\"a\":1}}\n{{\"b\":\"{large}\"}}\n{{\"c\":3}}"),
        &[r#"{"a":1}"#, &format!("! line 2, column 1: {why}"), r#"{"c":3}"#],
    );
    check(
        &format!("[{{\"a\":1}},\n{{\"b\":\"{large}\"}},{{\"c\":3}}]"),
        &[r#"{"a":1}"#, &format!("! line 2, column 1: {why}"), r#"{"c":3}"#],
    );
    check(
        &format!("a: 1\n---\nb: {large}\n---\nc: 3\n"),
        &[r#"{"a":1}"#, &format!("! line 3, column 1: {why}"), r#"{"c":3}"#],
    );
    let lines = "  y: 1\n".repeat(400);
    check(&format!("a:\n{lines}---\nc: 3\n"), &[&format!("! line 1, column 1: {why}"), r#"{"c":3}"#]);
    check(
        &format!(
            "kind: List\nitems:\n- a: 1\n{}- b: {large}\n- c: 3\nmetadata: {{}}\n---\nd: 4\n",
            "- q: 1\n".repeat(200)
        ),
        &[
            &["{\"a\":1}"][..],
            &["{\"q\":1}"; 200],
            &[&format!("! line 204, column 1: {why}"), r#"{"c":3}"#, r#"{"d":4}"#],
        ]
        .concat(),
    );
}

#[test]
fn nesting_beyond_the_limit_is_malformed() {
    let json = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    let deep = json(500);
    let why = "the object nests deeper than the limit of 20 levels";
    let stream = format!("{}\n{deep}\n{{\"c\":3}}", json(10));
    assert_eq!(
        read_all(stream.as_bytes(), SMALL),
        [&json(10), &format!("! line 2, column 1: {why}"), r#"{"c":3}"#]
    );
    let yaml = format!("a: {}\n---\nc: 3\n", "[".repeat(21) + &"]".repeat(21));
    assert_eq!(read_all(yaml.as_bytes(), SMALL), [&format!("! line 1, column 23: {why}"), r#"{"c":3}"#]);
}

#[test]
fn aliases_do_not_expand_without_end() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 9].join(", ")));
    }
    let found = read_all(bomb.as_bytes(), Limits::default());
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("excessive aliasing") || found[0].contains("expand to more than"),
        "{}",
        found[0]
    );
}

/// A large list of equal items, made on the way.
struct Endless {
    pending: Vec<u8>,
    item: Vec<u8>,
    end: Vec<u8>,
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.pending.len() < buffer.len() && self.left > 0 {
            self.left -= 1;
            self.pending.extend_from_slice(&self.item);
            if self.left == 0 {
                self.pending.extend_from_slice(&self.end);
            }
        }
        let count = buffer.len().min(self.pending.len());
        buffer[..count].copy_from_slice(&self.pending[..count]);
        self.pending.drain(..count);
        Ok(count)
    }
}

/// Reads 64 MiB of a stream of this form, with so many objects at its end, and never holds much.
#[track_caller]
fn check_flat(begin: &str, item: &str, end: &str, more: usize, held: usize) {
    let limits = Limits::default();
    let items = (64 << 20) / item.len();
    let stream = Endless { pending: begin.into(), item: item.into(), end: end.into(), left: items };
    let mut splitter = Splitter::with_limits(stream, limits);
    let (mut batch, mut scratch, mut objects, mut largest) = (Batch::default(), Scratch::default(), 0, 0);
    while let Some(next) = splitter.next_batch(batch).expect("memory") {
        largest = largest.max(next.size());
        next.objects(&mut scratch, |item| match item {
            Item::Object(_) => objects += 1,
            Item::Malformed(why) => panic!("{why}"),
        });
        batch = next;
    }
    assert_eq!(objects, items + more);
    assert!(largest <= held + 2 * limits.batch_bytes, "a batch of {largest} bytes");
}

#[test]
fn large_streams_are_never_held() {
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"x":[1,2,3]}}"#;
    let rest: String = (0..100).map(|n| format!("      \"key{n}\": \"value {n}\",\n")).collect();
    let pretty = format!(
        "    {{\n      \"apiVersion\": \"v1\",\n      \"kind\": \"Pod\",\n{rest}      \"spec\": []\n    }},\n"
    );
    check_flat("", &format!("{pod}\n"), "", 0, 0);
    check_flat("[", &format!("{pod},"), "{}]", 1, 0);
    check_flat("{\"kind\":\"List\",\"items\":[", &format!("{pod},\n"), "{}]}", 1, 0);
    // The kind isn't known: 2 MiB are held until it is guessed.
    check_flat(
        "{\"apiVersion\":\"v1\",\"items\":[\n",
        &pretty,
        "{\"kind\":\"X\",\"apiVersion\":\"v1\"}]}",
        1,
        3 << 20,
    );
}

#[test]
fn large_yaml_is_never_held() {
    let rest: String = (0..100).map(|n| format!("    key{n}: value {n}\n")).collect();
    let item = format!("- apiVersion: v1\n  kind: Pod\n  # - x\n  text: |\n    - y\n  spec:\n{rest}\n");
    check_flat("apiVersion: v1\nitems:\n", &item, "kind: List\nmetadata: {}\n", 0, 3 << 20);
    check_flat("", &format!("---\n{}", item.replace("- api", "  api")), "", 0, 0);
}

/// What would take hours if anything were done again for each of very many.
#[test]
fn hostile_documents_take_no_longer_than_others() {
    let lines = |line: &str, count: usize| line.repeat(count);
    let anchors: String = (0..60_000).map(|n| format!("- &a{n} {{}}\n")).collect();
    let tags: String = (0..60_000).map(|n| format!("%TAG !{n}! x\n")).collect();
    for stream in [
        lines("{} x\n", 200_000),
        lines("[1]\n", 200_000),
        lines("{\"a\":\"\n", 200_000),
        lines("{\n", 200_000),
        lines("---\n[\n", 200_000),
        lines("[", 1 << 20),
        lines("- ", 1 << 20),
        lines("? ", 1 << 20),
        lines("{a: ", 1 << 20),
        lines("a: &a ", 1 << 20),
        lines("x: y\n\n", 200_000),
        lines("- \"a\n\n\n", 200_000),
        format!("{anchors}{}", lines("- {<<: {}}\n", 60_000)),
        format!("{tags}---\n{}", lines("- !1! x\n", 60_000)),
        format!("kind: List\nitems:\n{}", lines("- 1\n", 600_000)),
        format!("{{\"items\":[{}1],\"kind\":\"List\"}}", lines("1,", 300_000)),
    ] {
        let start = std::time::Instant::now();
        drop(read_all(stream.as_bytes(), Limits::default()));
        let beginning: String = stream.chars().take(20).collect();
        assert!(start.elapsed().as_secs() < 20, "{beginning:?}… took {:?}", start.elapsed());
    }
}
