//! Field selectors against kube-apiserver 1.36.3: which of the objects of `golden/tables.jsonl.zst` it listed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use settled_apiserver::{ApiError, LabelSelector, testing};

const OBJECTS: &[u8] = include_bytes!("golden/tables.jsonl.zst");
const SELECTORS: &str = include_str!("golden/field_selectors.jsonl");

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().expect("a text")
}

#[test]
fn field_selectors_select_what_the_real_server_selects() {
    let objects: BTreeMap<(String, String), Value> = lines(&settled_golden::decompress(OBJECTS).unwrap())
        .map(|line| {
            ((text(&line, "group").to_owned(), text(&line, "kind").to_owned()), line["objects"].clone())
        })
        .collect();
    for case in lines(SELECTORS) {
        let [group, kind, selector] = ["group", "kind", "selector"].map(|field| text(&case, field));
        let objects = objects[&(group.to_owned(), kind.to_owned())].as_array().expect("a list");
        let matches = |object: &&Value| {
            testing::field_selector_matches(selector, group, kind, object).expect("a field selector")
        };
        let mut names: Vec<&str> =
            objects.iter().filter(matches).map(|object| text(&object["metadata"], "name")).collect();
        names.sort_unstable();
        // What was not kept among the golden objects, the namespaces of the server itself for instance, is left out.
        let known = |name: &&Value| objects.iter().any(|object| object["metadata"]["name"] == **name);
        let expected: Vec<&Value> = case["names"].as_array().expect("a list").iter().filter(known).collect();
        assert_eq!(json!(names), json!(expected), "{group} {kind} {selector}");
    }
}

#[test]
fn unknown_fields_are_refused_in_upstreams_words() {
    let custom = json!([{"jsonPath": ".spec.color"}]);
    type Case = (&'static str, &'static str, bool, &'static str, Result<&'static str, &'static str>);
    let cases: &[Case] = &[
        ("", "Pod", false, "x=y", Err("field label not supported: x")),
        ("", "Pod", false, "spec.host=n", Ok("spec.host=n")),
        ("", "Pod", false, "a", Err("invalid selector: 'a'; can't understand 'a'")),
        (
            "",
            "Pod",
            false,
            "metadata.name=a=b",
            Err("invalid field selector: unescaped character in value: 61"),
        ),
        ("", "Pod", false, r"metadata.name=a\b", Err(r"invalid field selector: invalid escape sequence: \b")),
        (
            "apps",
            "Deployment",
            false,
            "x=y",
            Err(r#""x" is not a known field selector: only "metadata.name", "metadata.namespace""#),
        ),
        ("batch", "Job", false, "x=y", Err(r#"field label "x" not supported for Job"#)),
        ("", "Node", false, "metadata.namespace=y", Err("field label not supported: metadata.namespace")),
        ("", "Event", false, "regarding.kind=y", Err("field label not supported: regarding.kind")),
        ("events.k8s.io", "Event", false, "source=y", Err("field label not supported: source")),
        (
            "resource.k8s.io",
            "ResourceSlice",
            false,
            "x=y",
            Err("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x"),
        ),
        ("", "", true, "spec.color=y", Ok("spec.color=y")),
        ("", "", true, "spec.x=y", Err("field label not supported: spec.x")),
    ];
    for (group, kind, is_custom, selector, expected) in cases {
        let found = testing::field_selector(selector, group, kind, is_custom.then_some(&custom));
        assert_eq!(found.as_deref().map_err(String::as_str), *expected, "{group} {kind} {selector}");
    }
}

#[test]
fn label_selectors_are_answered_with_400() {
    let error = ApiError::from(LabelSelector::parse("a b").expect_err("no selector"));
    assert_eq!((error.code, error.reason), (400, "BadRequest"));
    assert_eq!(
        error.message,
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
    );
}

#[test]
fn labels_are_found_in_objects_and_in_what_is_kept_of_them() {
    let object = json!({"metadata": {"labels": {"app": "web", "n": "5", "empty": ""}}});
    let cases = [
        ("", true),
        ("app", true),
        ("!app", false),
        ("app=web", true),
        ("app==web,n=5", true),
        ("app!=web", false),
        ("other!=web", true),
        ("app in (a,web)", true),
        ("app notin (a,web)", false),
        ("other notin (a)", true),
        ("other in (a)", false),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("app>1", false),
        ("other<1", false),
        ("empty", true),
        ("empty=", true),
        ("empty in ()", true),
        ("other=", false),
    ];
    for (selector, expected) in cases {
        let found = testing::label_selector_matches(selector, &object);
        assert_eq!(found, Some([expected; 2]), "{selector}");
    }
    assert_eq!(testing::label_selector_matches("a=b", &json!({})), Some([false; 2]));
    assert_eq!(testing::label(&object, "empty").as_deref(), Some(""));
}
