//! What comes out of streams of all shapes.

use settled_manifest::{Batch, Item, Limits, Scratch, Splitter};

use crate::{Trickle, read_all};

/// The stream gives this, however small the batches and reads are.
#[track_caller]
fn check(stream: &str, expected: &[&str]) {
    check_bytes(stream.as_bytes(), expected);
}

#[track_caller]
fn check_bytes(stream: &[u8], expected: &[&str]) {
    for (batch_bytes, step) in [(512 << 10, usize::MAX), (1, 1), (7, 3), (64, 64), (100, 1)] {
        let limits = Limits { batch_bytes, ..Limits::default() };
        let found = read_all(Trickle { text: stream, step }, limits);
        assert_eq!(found, expected, "with batches of {batch_bytes} and reads of {step} bytes");
    }
}

#[test]
fn json_documents_follow_one_another_in_any_way() {
    check("", &[]);
    check(" \n\t\r\n ", &[]);
    check("{}", &["{}"]);
    check("\u{FEFF}{}", &["{}"]);
    check("{}{}", &["{}", "{}"]);
    check("{}\u{FEFF}{}\n\u{FEFF}---\n{}", &["{}", "{}", "{}"]);
    check("{\"a\":1}\n{\"b\":2}\n", &["{\"a\":1}", "{\"b\":2}"]);
    check("{\n  \"a\": [\n    1\n  ]\n}\n\n{\n}\n", &["{\n  \"a\": [\n    1\n  ]\n}", "{\n}"]);
    check("{\"a\":1}\n---\n{\"b\":2}", &["{\"a\":1}", "{\"b\":2}"]);
    check("---\n{\"a\":1}\n--- # c\n---\n{\"b\":2}\n...\n", &["{\"a\":1}", "{\"b\":2}"]);
    check("{\"a\":1} # it's a comment {\n{\"b\":2}", &["{\"a\":1}", "{\"b\":2}"]);
    check("--- {\"a\":1}\n", &["{\"a\":1}"]);
}

#[test]
fn brackets_in_strings_are_no_brackets() {
    check(r#"{"a":"}{][\"}","b":"\\"}{"c":"\\\""}"#, &[r#"{"a":"}{][\"}","b":"\\"}"#, r#"{"c":"\\\""}"#]);
    let long = format!(r#"{{"a":"{}\\"}}"#, "\\\"x".repeat(100));
    check(&format!("{long}{long}"), &[&long, &long]);
    check(r#"{"items":"[","x\"items":[{"a":1}]}"#, &[r#"{"items":"[","x\"items":[{"a":1}]}"#]);
}

#[test]
fn lists_become_their_items() {
    check(
        r#"{"kind":"List","apiVersion":"v1","items":[{"a":1}, {"b":2}],"metadata":{}}"#,
        &[r#"{"a":1}"#, r#"{"b":2}"#],
    );
    check(
        r#"{"apiVersion":"v1","items":[{"a":1},{"b":2}],"kind":"List"}{"c":3}"#,
        &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#],
    );
    check(r#"{"kind":"List","items":[]}"#, &[]);
    check(r#"[{"a":1},{"b":[{}]}]"#, &[r#"{"a":1}"#, r#"{"b":[{}]}"#]);
    check(r#"[[{"a":1}],[],[[{"b":2}]]]"#, &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("kind: List\nitems:\n- a: 1\n- b: 2\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("- a: 1\n- b: 2\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
}

#[test]
fn lists_in_lists_are_expanded() {
    let inner = r#"{"kind":"List","items":[{"a":1}]}"#;
    let reversed = r#"{"items":[{"b":2}],"kind":"List"}"#;
    check(
        &format!(r#"{{"kind":"List","items":[{inner},{reversed},[{inner}]]}}"#),
        &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1}"#],
    );
    check(&format!(r#"{{"items":[{inner},{reversed}],"kind":"List"}}"#), &[r#"{"a":1}"#, r#"{"b":2}"#]);
    let mut deep = r#"{"a":1}"#.to_owned();
    for _ in 0..100 {
        deep = format!(r#"{{"items":[{deep}],"kind":"List"}}"#);
    }
    check(&deep, &["! line 1, column 321: lists stand in one another too often"]);
}

#[test]
fn what_only_looks_like_a_list_is_left_alone() {
    for text in [
        r#"{"kind":"ConfigMap","items":[{"a":1}]}"#,
        r#"{"items":[{"a":1}],"kind":"ConfigMap"}"#,
        r#"{"items":[{"a":1}]}"#,
        r#"{"kind":"AllowList","spec":{"items":[{"a":1}]}}"#,
        r#"{"kind":"AllowList","items":{"a":1}}"#,
        r#"{"kind":"Checklist","items":[{"a":1}]}"#,
        r#"{"spec":{"kind":"List"},"items":[{"a":1}],"kind":"X"}"#,
    ] {
        check(text, &[text]);
    }
}

#[test]
fn items_of_typed_lists_get_their_type() {
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#;
    check(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{}}]}"#, &[pod]);
    check(r#"{"items":[{"metadata":{}}],"metadata":{},"apiVersion":"v1","kind":"PodList"}"#, &[pod]);
    check("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {}\n", &[pod]);
    check("items:\n- metadata: {}\napiVersion: v1\nkind: PodList\n", &[pod]);
    check(r#"{"kind":"PodList","apiVersion":"v1","items":[{ }]}"#, &[r#"{"apiVersion":"v1","kind":"Pod" }"#]);
    // Go's rule: an item with one of the two is left as it is.
    check(r#"{"kind":"PodList","apiVersion":"v1","items":[{"kind":"X"}]}"#, &[r#"{"kind":"X"}"#]);
    check(r#"{"kind":"List","apiVersion":"v1","items":[{"a":1}]}"#, &[r#"{"a":1}"#]);
}

#[test]
fn items_that_are_no_objects_are_malformed() {
    let why = "expected an object as the item of a list";
    check(
        r#"[{"a":1}, "b", {"c":2}, 3, 4]"#,
        &[
            r#"{"a":1}"#,
            &format!("! line 1, column 11: {why}"),
            r#"{"c":2}"#,
            &format!("! line 1, column 25: {why}"),
        ],
    );
    check(
        r#"{"items":[null,{"a":1}],"kind":"List"}"#,
        &[&format!("! line 1, column 11: {why}"), r#"{"a":1}"#],
    );
}

#[test]
fn yaml_documents_are_divided_by_markers() {
    check("a: 1", &[r#"{"a":1}"#]);
    check("a: 1\n---\nb: 2\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("---\na: 1\n---\n---\n# nothing\n---\nnull\n---\n~\n---\nb: 2\n---", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("a: 1\n...\nb: 2\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("a: 1\n...\n...\n---\n...\nb: 2\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("a: |\n  ---\n  x\n---\nb: 2\n", &[r#"{"a":"---\nx\n"}"#, r#"{"b":2}"#]);
    check("a: 1\n--- # c\nb: 2\n--- {c: 3}\n", &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#]);
    check("%YAML 1.1\n---\na: 1\n---\nb: 2\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("# c\n%YAML 1.1\n# d\n---\na: 1\n", &[r#"{"a":1}"#]);
    check("a: 1\n---b: 2\n", &[r#"{"a":1,"---b":2}"#]);
    check("a: 1\r\n---\r\nb: 2\r\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
    check("  a: 1\n  b: 2\n---\n \n  c: 3\n", &[r#"{"a":1,"b":2}"#, r#"{"c":3}"#]);
    check("\u{FEFF}a: 1\n---\n\u{FEFF}b: 2\n", &[r#"{"a":1}"#, r#"{"b":2}"#]);
}

#[test]
fn json_and_yaml_mix() {
    check(
        "{\"a\":1}\n---\nb: 2\n---\n{\"c\":3}\n{\"d\":4}\n",
        &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#, r#"{"d":4}"#],
    );
    check(
        "{kind: ConfigMap, a: it's}\n---\n[{a: 1}]\n",
        &[r#"{"kind":"ConfigMap","a":"it's"}"#, r#"{"a":1}"#],
    );
    check("{ # c\n a: 1}\n", &[r#"{"a":1}"#]);
    check("{'a': 1}\n", &[r#"{"a":1}"#]);
}

#[test]
fn json_that_is_none_can_be_read_as_yaml() {
    let text = "{\"a\": b,}\n{\"c\": 1}";
    let mut splitter = Splitter::new(text.as_bytes());
    let batch = splitter.next_batch(Batch::default()).expect("memory").expect("there are objects");
    let mut found = Vec::new();
    batch.objects(&mut Scratch::default(), |item| {
        let Item::Object(object) = item else { panic!("{item:?}") };
        batch.objects_as_yaml(&object, &mut Scratch::default(), |item| match item {
            Item::Object(object) => found.push(String::from_utf8_lossy(object.json).into_owned()),
            Item::Malformed(why) => found.push(why.to_string()),
        });
    });
    assert_eq!(found, [r#"{"a":"b"}"#, r#"{"c":1}"#]);
}

#[test]
fn documents_that_are_no_objects_are_malformed() {
    check("foo\n---\na: 1\n", &["! line 1, column 1: expected an object, found a string", r#"{"a":1}"#]);
    check("1\n", &["! line 1, column 1: expected an object, found a number"]);
    check("true\n", &["! line 1, column 1: expected an object, found a boolean"]);
    check("- 1\n", &["! line 1, column 1: expected an object as the item of a list"]);
}

#[test]
fn errors_name_the_place_in_the_file() {
    check(
        "a: 1\n---\nb: 2\nc: [\n---\nd: 3\n",
        &[r#"{"a":1}"#, "! line 5, column 1: did not find expected node content", r#"{"d":3}"#],
    );
    check("a: é b: c\n", &["! line 1, column 7: mapping values are not allowed in this context"]);
    check("a: 1\nb: 2\na: 3\n", &["! line 3, column 1: key \"a\" already set in map"]);
    check("a: 1\n{", &["! line 2, column 1: could not find expected ':'"]);
    check("[a: [", &["! line 1, column 6: did not find expected node content"]);
    check("a: *x\n", &["! line 1, column 4: unknown anchor 'x' referenced"]);
    check("a:\n\tb: 1\n", &["! line 2, column 1: found character that cannot start any token"]);
}

#[test]
fn a_broken_document_does_not_take_the_others_with_it() {
    // Something that isn't JSON between two documents.
    check(
        "{\"a\":1}\nwhat? is \"this\n{\"b\":2}",
        &[r#"{"a":1}"#, "! line 2, column 1: expected a JSON object, or '---' before YAML", r#"{"b":2}"#],
    );
    check(
        "{\"a\":1}}\n{\"b\":2}",
        &[r#"{"a":1}"#, "! line 1, column 8: expected a JSON object, or '---' before YAML", r#"{"b":2}"#],
    );
    check(
        "{\"a\":1},\n---\nb: 2\n",
        &[r#"{"a":1}"#, "! line 1, column 8: expected a JSON object, or '---' before YAML", r#"{"b":2}"#],
    );
    // A missing quote, a missing bracket.
    check(
        "{\"a\":\"1}\n{\"b\":2}",
        &["! line 1, column 9: the line ends inside of a string: a quote is missing", r#"{"b":2}"#],
    );
    let unclosed = "a new document starts here, but the previous one is not closed";
    check(
        "{\"a\":{\"x\":1}\n{\"b\":2}\n{\"c\":3}",
        &[&format!("! line 2, column 1: {unclosed}"), r#"{"b":2}"#, r#"{"c":3}"#],
    );
    check("{\"a\":[1,2\n---\nb: 2\n", &[&format!("! line 2, column 1: {unclosed}"), r#"{"b":2}"#]);
    check(
        "{\"kind\":\"List\",\"items\":[{\"a\":1},{\"b\":\n---\nc: 3\n",
        &[r#"{"a":1}"#, &format!("! line 2, column 1: {unclosed}"), r#"{"c":3}"#],
    );
    // But brackets at the beginning of a line are fine where a value belongs.
    check("[\n{\"a\":1},\n{\"b\":\n[\n{}]}\n]\n", &[r#"{"a":1}"#, "{\"b\":\n[\n{}]}"]);
    check("{\"a\":1}\n{\"b\":2", &[r#"{"a":1}"#, "! line 2, column 7: unexpected end of input"]);
    check(
        "{\"kind\":\"List\",\"items\":[{\"a\":1}",
        &[r#"{"a":1}"#, "! line 1, column 32: unexpected end of input"],
    );
    check(
        "{\"kind\":\"List\",\"items\":[{\"a\":1}}",
        &[r#"{"a":1}"#, "! line 1, column 32: expected ']' at the end of a list"],
    );
    check("[", &["! line 1, column 2: unexpected end of input"]);
    check("{", &["! line 1, column 2: unexpected end of input"]);
    check("---\n]\n---\na: 1\n", &["! line 2, column 1: did not find expected node content", r#"{"a":1}"#]);
}

#[test]
fn what_is_no_text_says_what_to_do() {
    let gzip = "! line 1, column 1: the input is gzip-compressed; run gunzip first";
    check_bytes(b"\x1F\x8B\x08\0\0", &[gzip]);
    check_bytes(
        b"\x28\xB5\x2F\xFD\0",
        &["! line 1, column 1: the input is zstd-compressed; run unzstd first"],
    );
    let utf16 = "! line 1, column 1: the input is UTF-16; convert it to UTF-8 first, for example with iconv -f UTF-16 -t UTF-8";
    check_bytes(b"\xFF\xFEa\0:\0", &[utf16]);
    check_bytes(b"\xFE\xFF\0a\0:", &[utf16]);
    let nul = "! line 1, column 1: the input has NUL bytes: it is binary, or UTF-16 without its mark (then iconv -f UTF-16LE -t UTF-8 helps)";
    check_bytes(b"a\0:\0", &[nul]);
    check_bytes(b"a: \xFF\n---\nb: 2\n", &["! line 1, column 4: invalid UTF-8", r#"{"b":2}"#]);
    check(
        "a: \u{7}\n---\nb: 2\n",
        &["! line 1, column 4: control characters are not allowed (U+0007)", r#"{"b":2}"#],
    );
}

#[test]
fn an_offset_in_an_object_becomes_a_place_in_the_file() {
    let text = "\n{\"é\":1,\n \"b\":2}\n{\"kind\":\"PodList\",\"items\":[\n {\"x\":1}]}";
    let mut splitter = Splitter::new(text.as_bytes());
    let batch = splitter.next_batch(Batch::default()).expect("memory").expect("there are objects");
    let mut places = Vec::new();
    batch.objects(&mut Scratch::default(), |item| {
        let Item::Object(object) = item else { panic!("{item:?}") };
        for needle in ["1", "b", "x"] {
            if let Some(at) = object.json.iter().position(|&byte| byte == needle.as_bytes()[0]) {
                places.push(format!("{needle}: {}", batch.position(&object, at)));
            }
        }
    });
    assert_eq!(
        places,
        ["1: line 2, column 6", "b: line 3, column 3", "1: line 5, column 7", "x: line 5, column 4"]
    );
}
