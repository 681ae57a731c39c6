//! What must hold for any object and any expression.

use kstatus::Object;
use proptest::prelude::*;
use serde_json::{Map, Value};
use settled_rules::RuleSet;

use crate::engine::{load, opinion_of_crds, options, pack_of, quoted};

/// A small generator of our own keeps the order a function of the seed that a failure prints.
fn next(seed: &mut u64, bound: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize % bound.max(1)
}

/// JSON of a value with the members of every map in an order that `seed` chooses, with white space and escapes.
fn shuffled(value: &Value, seed: &mut u64, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            for i in (1..members.len()).rev() {
                members.swap(i, next(seed, i + 1));
            }
            out.push('{');
            for (i, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                text(key, seed, out);
                out.push_str(if next(seed, 4) == 0 { " :\n  " } else { ":" });
                shuffled(value, seed, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (i, value) in list.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                shuffled(value, seed, out);
            }
            out.push(']');
        }
        Value::String(string) => text(string, seed, out),
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// Now and then an escape stands for a letter.
fn text(string: &str, seed: &mut u64, out: &mut String) {
    let mut escaped = Value::from(string).to_string();
    if let Some(at) =
        escaped.find(|char: char| char.is_ascii_lowercase()).filter(|at| escaped.as_bytes()[at - 1] == b'"')
        && next(seed, 4) == 0
    {
        let letter = u32::from(escaped.as_bytes()[at]);
        escaped.replace_range(at..=at, &format!("\\u{letter:04x}"));
    }
    out.push_str(&escaped);
}

const FIELDS: [&str; 10] = [
    "phase",
    "ready",
    "replicas",
    "conditions",
    "items",
    "nested",
    "observedGeneration",
    "paused",
    "note",
    "x",
];

fn scalar() -> impl Strategy<Value = Value> {
    let words =
        prop::sample::select(vec!["True", "False", "Unknown", "Ready", "Up", "Failed", "3", "", "é\"\\"]);
    prop_oneof![
        3 => (-2..5i64).prop_map(Value::from),
        4 => words.prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => (-8..8i32).prop_map(|quarter| Value::from(f64::from(quarter) / 4.0)),
        1 => any::<i64>().prop_map(Value::from),
    ]
}

fn to_map<K: Into<String>>(members: impl IntoIterator<Item = (K, Value)>) -> Value {
    Value::Object(members.into_iter().map(|(key, value)| (key.into(), value)).collect::<Map<_, _>>())
}

fn value() -> impl Strategy<Value = Value> {
    let condition_keys = vec!["type", "status", "reason", "message", "observedGeneration"];
    let condition =
        prop::collection::btree_map(prop::sample::select(condition_keys), scalar(), 0..6).prop_map(to_map);
    let leaf = prop_oneof![4 => scalar(), 1 => condition];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop::sample::select(FIELDS.to_vec());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(to_map),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    let fields =
        || prop::collection::btree_map(prop::sample::select(FIELDS.to_vec()), value(), 0..6).prop_map(to_map);
    let part = prop_oneof![6 => fields(), 1 => value()];
    (fields(), part.clone(), part, prop::option::of(0..4i64)).prop_map(
        |(metadata, spec, status, generation)| {
            let mut metadata = metadata;
            if let (Some(map), Some(generation)) = (metadata.as_object_mut(), generation) {
                map.insert("generation".to_owned(), generation.into());
            }
            to_map([
                ("apiVersion", "example.com/v1".into()),
                ("kind", "Widget".into()),
                ("metadata", metadata),
                ("spec", spec),
                ("status", status),
            ])
        },
    )
}

/// Expressions that have no type in mind: most of what is in the language, of any values.
fn expression() -> impl Strategy<Value = String> {
    let path = (
        prop::sample::select(vec!["spec", "status", "metadata", "self"]),
        prop::collection::vec(prop::sample::select(FIELDS.to_vec()), 0..3),
    )
        .prop_map(|(root, keys)| keys.iter().fold(root.to_owned(), |path, key| format!("{path}.{key}")));
    let literal = prop::sample::select(vec![
        "1",
        "0",
        "-1",
        "2u",
        "1.5",
        "0.0",
        "true",
        "false",
        "null",
        "'Ready'",
        "'Up'",
        "''",
        "'é'",
        "'3'",
        "[]",
        "[1, 'a']",
        "{}",
        "{'a': 1}",
        "x",
        "9223372036854775807",
        "observed()",
        "optional.none()",
    ])
    .prop_map(str::to_owned);
    let leaf = prop_oneof![3 => path, 2 => literal];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let binary = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&&", "||", "in"]);
        let unary = prop::sample::select(vec![
            "!({})", "-({})", "size({})", "type({})", "string({})", "int({})", "double({})", "isTrue({})", "isFalse({})", "condition({})",
            "reasonOf({})", "worst([{}])", "optional.of({})", "({}).x", "has(({}).ready)", "({}).?phase", "({})[0]", "({})[?'x']", "({}).orValue(1)",
            "secondsSince({})", "({}).lowerAscii()", "({}).split('')", "({}).sum()", "({}).distinct()", "quantity({})", "dyn({})", "[{}]", "{'k': {}}",
            "lists.range({})", "({}).join(',')", "({}).hasValue()", "({}).flatten()", "({}).sort()", "semver({})", "math.abs({})", "({}).reverse()",
        ]);
        let two = prop::sample::select(vec![
            "default({}, {})", "atLeast({}, {})", "ratio({}, {})", "({}).contains({})", "({}).matches({})", "({})[{}]", "({}).all(x, {})", "({}).exists(x, {})",
            "({}).map(x, {})", "({}).filter(x, {})", "({}).exists_one(x, {})", "[{}, {}]", "({}).isTrue({})", "({}).substring({})", "({}).indexOf({})",
            "({}).replace({}, 'b')", "({}).format([{}])", "sets.contains({}, {})", "({}).charAt({})", "({}).slice(0, {}) == 1", "({}).map(x, true, {})",
        ]);
        let filled = |form: &str, with: &[&String]| {
            let mut with = with.iter();
            form.split("{}").enumerate().fold(String::new(), |text, (index, part)| {
                let value = if index == 0 { "" } else { with.next().map_or("", |value| value.as_str()) };
                [&*text, value, part].concat()
            })
        };
        prop_oneof![
            4 => (inner.clone(), binary, inner.clone()).prop_map(|(a, operator, b)| format!("({a}) {operator} ({b})")),
            3 => (unary, inner.clone()).prop_map(move |(form, a)| filled(form, &[&a])),
            3 => (two, inner.clone(), inner.clone()).prop_map(move |(form, a, b)| filled(form, &[&a, &b])),
            1 => (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a}) ? ({b}) : ({c})")),
        ]
    })
}

/// Conditions as rules have them, most of which need no evaluation.
fn condition() -> impl Strategy<Value = String> {
    let field = (
        prop::sample::select(vec!["spec", "status", "status.nested"]),
        prop::sample::select(FIELDS.to_vec()),
    )
        .prop_map(|(parent, key)| format!("{parent}.{key}"));
    let operand = prop_oneof![
        3 => field.clone(),
        1 => (field.clone(), prop::sample::select(vec!["'Up'", "''", "false", "true", "0"]))
            .prop_map(|(field, fallback)| format!("default({field}, {fallback})")),
    ];
    let test = prop::sample::select(vec![
        "{}",
        "{} == 'Up'",
        "{} != 'Failed'",
        "{} in ['Up', 'True', '']",
        "{} in ['3', 3]",
        "{} == true",
        "{} != false",
        "{} == 3",
        "{} > 1",
        "size({}) > 0",
        "{}.exists(x, x == 'Up')",
        "'Up' in {}",
        "{}.matches('^U')",
        "atLeast({}, spec.replicas)",
        "{}.x == 'Up'",
        "{}.?x.hasValue()",
    ]);
    let leaf = prop_oneof![
        5 => (operand, test).prop_map(|(operand, test)| test.replace("{}", &operand)),
        1 => field.prop_map(|field| format!("has({field})")),
        2 => (prop::sample::select(vec!["isTrue", "isFalse", "isUnknown"]), prop::sample::select(vec!["Ready", "True", "Up"]))
            .prop_map(|(function, type_)| format!("{function}('{type_}')")),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), prop::sample::select(vec!["&&", "||"]), inner.clone()).prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            1 => inner.prop_map(|a| format!("!({a})")),
        ]
    })
}

/// Expressions without an object that have a type: cel's interpreter knows what they are.
/// No more than it and CEL agree on: no numbers of different types are compared, no errors are absorbed by `all`.
fn typed(kind: &'static str, depth: u32) -> BoxedStrategy<String> {
    let leaf = match kind {
        "int" => {
            prop_oneof![(0..4i64).prop_map(|i| i.to_string()), Just("9223372036854775807".to_owned())].boxed()
        }
        "bool" => prop::sample::select(vec!["true", "false"]).prop_map(str::to_owned).boxed(),
        "string" => {
            prop::sample::select(vec!["''", "'a'", "'b'", "'abc'", "'a,b'"]).prop_map(str::to_owned).boxed()
        }
        _ => prop::collection::vec(0..4i64, 0..4).prop_map(|list| format!("{list:?}")).boxed(),
    };
    if depth == 0 {
        return leaf;
    }
    let int = || typed("int", depth - 1);
    let boolean = || typed("bool", depth - 1);
    let string = || typed("string", depth - 1);
    let list = || typed("list", depth - 1);
    let compare = || prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let pair = |a: BoxedStrategy<String>, operator: BoxedStrategy<&'static str>, b: BoxedStrategy<String>| {
        (a, operator, b).prop_map(|(a, operator, b)| format!("({a} {operator} {b})"))
    };
    let inner = match kind {
        "int" => prop_oneof![
            3 => pair(int(), prop::sample::select(vec!["+", "-", "*", "/", "%"]).boxed(), int()),
            1 => (boolean(), int(), int()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => list().prop_map(|a| format!("size({a})")),
            1 => (list(), int()).prop_map(|(a, b)| format!("{a}[{b}]")),
            1 => (string(), string()).prop_map(|(a, b)| format!("{a}.indexOf({b})")),
            1 => list().prop_map(|a| format!("{a}.max()")),
        ]
        .boxed(),
        "bool" => prop_oneof![
            2 => pair(int(), compare().boxed(), int()),
            2 => pair(string(), compare().boxed(), string()),
            1 => pair(list(), prop::sample::select(vec!["==", "!="]).boxed(), list()),
            3 => pair(boolean(), prop::sample::select(vec!["&&", "||"]).boxed(), boolean()),
            1 => boolean().prop_map(|a| format!("!({a})")),
            1 => pair(int(), Just("in").boxed(), list()),
            1 => (string(), prop::sample::select(vec!["contains", "startsWith", "endsWith"]), string()).prop_map(|(a, f, b)| format!("{a}.{f}({b})")),
            1 => (list(), prop::sample::select(vec!["all", "exists", "exists_one"]), compare(), (0..4i64)).prop_map(|(a, f, c, b)| format!("{a}.{f}(x, x {c} {b})")),
        ]
        .boxed(),
        "string" => prop_oneof![
            2 => pair(string(), Just("+").boxed(), string()),
            1 => int().prop_map(|a| format!("string({a})")),
            1 => (string(), int()).prop_map(|(a, b)| format!("{a}.charAt({b})")),
            1 => (string(), string(), string()).prop_map(|(a, b, c)| format!("{a}.replace({b}, {c})")),
            1 => (boolean(), string(), string()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => (string(), string()).prop_map(|(a, b)| format!("{a}.split({b}).join('-')")),
        ]
        .boxed(),
        _ => prop_oneof![
            1 => pair(list(), Just("+").boxed(), list()),
            1 => (list(), int()).prop_map(|(a, b)| format!("{a}.map(x, x + {b})")),
            1 => (list(), compare(), int()).prop_map(|(a, c, b)| format!("{a}.filter(x, x {c} {b})")),
            1 => prop::collection::vec(int(), 0..3).prop_map(|list| format!("[{}]", list.join(", "))),
            1 => list().prop_map(|a| format!("{a}.distinct()")),
            1 => (list(), compare(), int(), int()).prop_map(|(a, c, b, d)| format!("{a}.map(x, x {c} {b}, x - {d})")),
        ]
        .boxed(),
    };
    prop_oneof![1 => leaf, 4 => inner].boxed()
}

/// Many kinds of branches, with words of all sorts.
fn rules() -> RuleSet {
    load(&pack_of(
        "checks: {generation: '!has(spec.x)'}
suspended: default(spec.paused, false)
failed:
  - {when: isFalse('Ready'), from: Ready, class: quota}
  - {when: status.phase == 'Failed', reason: '${status.note}', message: '${status.phase} ${status.x}', terminal: true}
  - status.items.exists(i, i.phase == 'Failed')
inProgress:
  - {when: '!atLeast(status.ready, spec.replicas)', message: 'Ready: ${ratio(status.ready, spec.replicas)}'}
  - {when: status.nested.phase != status.phase, reason: '${status.nested.note}'}
unknown: status.ready in ['Unknown', null, 3]
current:
  - isTrue('Ready')
  - {when: status.phase == 'Up' && size(status) > 1, message: '${status.items} ${spec.nested}'}
  - {when: spec == status, from: \"${status.conditions[0]}\"}
  - {when: 'status.items.all(i, i > 0)', message: '${status.items.map(i, i > 1, string(i)).join(\",\")}'}
otherwise: {from: \"${worst(['Ready', 'True'])}\", reason: '${status.phase}'}",
    ))
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_and_parsed_values_give_the_same(object in object(), seed in any::<u64>()) {
        let rules = rules();
        let from_value = rules.verdict(&Object::from_value(&object).unwrap(), &options());
        let mut json = String::new();
        shuffled(&object, &mut seed.clone(), &mut json);
        let parsed = Object::parse(json.as_bytes()).unwrap();
        let from_bytes = rules.verdict(&parsed, &options());
        // Maps that are written into a text have the order of the bytes.
        prop_assert_eq!(
            (from_bytes.status, from_bytes.reason.len(), from_bytes.basis, from_bytes.failure, &from_bytes.problems, from_bytes.message.len()),
            (from_value.status, from_value.reason.len(), from_value.basis, from_value.failure, &from_value.problems, from_value.message.len()),
            "{}", json
        );
        prop_assert_eq!(&rules.explain(&parsed, &options()).verdict, &from_bytes);
        let compact = object.to_string();
        prop_assert_eq!(rules.compute(compact.as_bytes(), &options()), from_value);
    }

    #[test]
    fn any_expression_has_an_end(expression in expression(), object in object()) {
        let shown = quoted(&format!("${{{expression}}}"));
        let rule = format!("failed: {{when: {}, message: {shown}}}\ncurrent: {{when: 'true', reason: {shown}}}", quoted(&expression));
        let Ok(rules) = load(&pack_of(&rule)) else { return Ok(()) };
        let from_value = rules.verdict(&Object::from_value(&object).unwrap(), &options());
        let json = object.to_string();
        let parsed = Object::parse(json.as_bytes()).unwrap();
        let explained = rules.explain(&parsed, &options());
        prop_assert_eq!(&explained.verdict, &from_value, "{}", expression);
        prop_assert!(from_value.message.len() <= 32 * 1024);
        // A reason is a word, whatever it is made of.
        let reason = &from_value.reason;
        prop_assert!(reason.len() <= 128 && reason.starts_with(|c: char| c.is_ascii_uppercase()), "{}", reason);
        // An explanation shows an expression as it could have been written.
        for tried in explained.rules.iter().flat_map(|rule| &rule.tried) {
            prop_assert!(!tried.outcome.is_empty());
        }
    }

    /// An explanation evaluates all conditions, and asserts that those which were decided without an evaluation are right.
    #[test]
    fn conditions_are_decided_as_they_are_evaluated(conditions in prop::collection::vec(condition(), 5), object in object()) {
        let branches = ["suspended", "failed", "inProgress", "unknown", "current"];
        let rule: Vec<_> = branches.iter().zip(&conditions).map(|(branch, condition)| format!("{branch}: {}", quoted(condition))).collect();
        let rules = load(&pack_of(&rule.join("\n"))).unwrap();
        let json = object.to_string();
        let parsed = Object::parse(json.as_bytes()).unwrap();
        prop_assert_eq!(rules.explain(&parsed, &options()).verdict, rules.compute(json.as_bytes(), &options()));
    }

    #[test]
    fn expressions_mean_what_they_mean_in_crds(expression in typed("bool", 3)) {
        // Upstream takes `x in []` for false without a look at `x`; here what is absent or an error stays so.
        if expression.contains(" in []") {
            return Ok(());
        }
        let Some(wanted) = opinion_of_crds(&expression) else { return Ok(()) };
        let rules = load(&pack_of(&format!("failed: {}\ncurrent: 'true'", quoted(&expression))));
        prop_assert!(rules.is_ok(), "{:?}", rules);
        let verdict = rules.unwrap().compute(br#"{"apiVersion":"example.com/v1","kind":"Widget"}"#, &options());
        let found = match (&*verdict.reason, verdict.problems.is_empty()) {
            ("Failed", true) => Some(true),
            // An index that is not there is absent here, and an error in a CRD.
            ("Current", true) if wanted.is_none() && expression.contains('[') => None,
            ("Current", true) => Some(false),
            _ => None,
        };
        prop_assert_eq!(found, wanted, "{}: {:?}", expression, verdict);
    }

    /// What cannot be read has a place in the text; the same text gives the same.
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z: \\n\"'{}\\[\\]|>$!#-]{0,80}", at in 0..200usize) {
        let pack = pack_of("failed: {when: status.a == 'b', message: 'x ${status.c}', class: image}\ncurrent: [status.d, has(spec.e)]");
        let at = (0..=at.min(pack.len())).rev().find(|at| pack.is_char_boundary(*at)).unwrap();
        let broken = [&pack[..at], &text, &pack[at..]].concat();
        match load(&broken) {
            Ok(rules) => prop_assert!(rules.list().iter().all(|rule| rule.line >= 1 && !rule.text.is_empty())),
            Err(errors) => {
                let lines = broken.lines().count();
                for error in &errors.0 {
                    prop_assert!(error.line >= 1 && error.line <= lines + 1 && error.column >= 1, "{}", error);
                }
                prop_assert_eq!(load(&broken).unwrap_err(), errors);
            }
        }
    }
}
