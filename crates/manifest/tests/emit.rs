//! JSON as YAML.

use settled_manifest::{minify, write_yaml};

#[track_caller]
fn check(json: &str, expected: &str) {
    let mut yaml = Vec::new();
    write_yaml(json.as_bytes(), &mut yaml).expect("the tests' JSON is JSON");
    assert_eq!(String::from_utf8(yaml).expect("YAML is UTF-8"), expected);
}

#[test]
fn collections_are_written_as_kubectl_writes_them() {
    check("{}", "{}\n");
    check("[]", "[]\n");
    check(r#"{"a":{},"b":[],"c":{"d":{"e":1}}}"#, "a: {}\nb: []\nc:\n  d:\n    e: 1\n");
    check(
        r#"{"a":[1,{"b":2,"c":[3]},[],{},[4,[5]]]}"#,
        "a:\n- 1\n- b: 2\n  c:\n  - 3\n- []\n- {}\n- - 4\n  - - 5\n",
    );
    check(r#"[{"a":{"b":1},"c":2}]"#, "- a:\n    b: 1\n  c: 2\n");
    check(r#"{"z":1,"a":2}"#, "z: 1\na: 2\n");
    check("1", "1\n");
}

#[test]
fn numbers_keep_their_text() {
    check(
        "[1.50, 12345678901234567890123, -0.0, 1E5, true, null]",
        "- 1.50\n- 12345678901234567890123\n- -0.0\n- 1E5\n- true\n- null\n",
    );
}

#[test]
fn strings_are_quoted_where_they_would_be_something_else() {
    let line = |text: &str, expected: &str| {
        let json = serde_json::to_string(text).expect("a string is JSON");
        check(&json, &format!("{expected}\n"));
        check(&format!("{{{json}:1}}"), &format!("{expected}: 1\n"));
    };
    line("a", "a");
    line("a b", "a b");
    line("", "\"\"");
    for typed in [
        "yes",
        "n",
        "null",
        "~",
        "1",
        "0644",
        "1e3",
        ".5",
        ".inf",
        "2001-01-02",
        "1:30",
        "<<",
        "1_000",
        "2024-01-01T00:00:00Z",
    ] {
        line(typed, &format!("\"{typed}\""));
    }
    for plain in [
        "nginx:1.25",
        "-a",
        "a,b",
        "a: b".trim_end_matches(": b"),
        "http://x",
        "10Mi",
        "1.2.3",
        "a#b",
        "é",
        "😀",
        "=",
        "?a",
        "a'b",
        "08x",
    ] {
        line(plain, plain);
    }
    for quoted in [
        "*/1 * * * *",
        "a: b",
        "a #b",
        "- a",
        "-",
        "?",
        ":",
        "a:",
        " a",
        "a ",
        "[a]",
        "{a}",
        "&a",
        "!a",
        "@a",
        "%a",
        "#a",
        "|",
        ">",
        "--- a",
        "...",
    ] {
        line(quoted, &format!("'{quoted}'"));
    }
    line("'a'", "'''a'''");
    line("a\tb", "\"a\\tb\"");
    line("\u{1b}\u{85}\u{2028}\u{FEFF}\u{7F}", "\"\\u001B\\u0085\\u2028\\uFEFF\\u007F\"");
}

#[test]
fn lines_become_blocks() {
    check(r#"{"a":"b\nc\n"}"#, "a: |\n  b\n  c\n");
    check(r#"{"a":"b\nc"}"#, "a: |-\n  b\n  c\n");
    check(r#"{"a":"b\n\n"}"#, "a: |+\n  b\n\n");
    check(r#"{"a":"\n"}"#, "a: |2+\n\n");
    check(r#"{"a":" b\nc\n"}"#, "a: |2\n   b\n  c\n");
    check(r#"{"a":{"b":["c\n\nd\n"]}}"#, "a:\n  b:\n  - |\n    c\n\n    d\n");
    check(r#"{"a":"b \nc"}"#, "a: \"b \\nc\"\n");
    check(r#"{"a":"b\tc\n"}"#, "a: \"b\\tc\\n\"\n");
    check(r#"{"a\nb":1}"#, "\"a\\nb\": 1\n");
}

#[test]
fn what_is_very_deep_is_written_in_one_line() {
    let (open, close) = ("[".repeat(66), "]".repeat(66));
    check(
        &format!("{open}{{\"a b\":[\"yes\",1]}}{close}"),
        &format!("{}[[{{\"a b\": [\"yes\", 1]}}]]\n", "- ".repeat(64)),
    );
}

#[test]
fn broken_json_leaves_the_output_as_it_was() {
    let mut out = b"before".to_vec();
    let error = write_yaml(b"{\"a\": [1,\n 2}", &mut out).expect_err("a bracket is wrong");
    assert_eq!(error.to_string(), "line 2, column 3: expected ',' or the end of the array or object");
    assert_eq!(out, b"before");
}

#[test]
fn minifying_takes_only_white_space_away() {
    let check = |json: &str, expected: &str| {
        let mut out = Vec::new();
        minify(json.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    };
    check(" { \"a \\\" b\" : [ 1 ,\t2 ]\r\n} ", "{\"a \\\" b\":[1,2]}");
    check("\"unclosed \\", "\"unclosed \\");
}

#[test]
fn invisible_characters_are_spelled_out() {
    for code in [0x61c, 0x200b, 0x200f, 0x2028, 0x202e, 0x2060, 0x2066, 0xfeff] {
        let text = format!("a{}b", char::from_u32(code).expect("it is a character"));
        let json = serde_json::to_string(&text).expect("a string is JSON");
        let mut yaml = Vec::new();
        write_yaml(json.as_bytes(), &mut yaml).expect("the tests' JSON is JSON");
        let yaml = String::from_utf8(yaml).expect("YAML is UTF-8");
        assert!(yaml.is_ascii(), "{yaml:?}");
        let mut back = Vec::new();
        settled_manifest::yaml_to_json(yaml.as_bytes(), &mut back).expect("our YAML is YAML");
        assert_eq!(serde_json::from_slice::<String>(&back).expect("it is a string"), text);
    }
    check("\"grüße 世界 \u{2026}\"", "grüße 世界 \u{2026}\n");
}
