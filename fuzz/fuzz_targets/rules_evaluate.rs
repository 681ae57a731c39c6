//! Any expression on any object: no panic, and an end within the budget; the object's bytes and its parsed value give
//! the same verdict; an explanation changes nothing.
//!
//! The seeds are the expressions of the built-in pack and the objects of its cases.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use kstatus::{Object, Options};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use serde_json::Value;
use settled_manifest::yaml_to_json;
use settled_rules::RuleSet;

/// The expression decides, and is written into the message.
fn rules(expression: &str) -> Option<RuleSet> {
    let quoted = |text: &str| serde_json::to_string(text).expect("text is JSON");
    let (when, shown) = (quoted(expression), quoted(&["${", expression, "}"].concat()));
    let pack = format!(
        "apiVersion: settled.dev/v1alpha1\nkind: RulePack\nrules:\n- match: {{group: example.com, kind: Widget}}\n  \
         checks: {{generation: {when}}}\n  suspended: {{when: {when}, message: {shown}}}\n  \
         current: {{when: 'true', from: {shown}, message: {shown}}}\n"
    );
    RuleSet::builder()
        .builtin(false)
        .annotations(false)
        .add("fuzz.yaml", &pack)
        .ok()
        .map(|rules| rules.build())
}

/// An object of the kind that the rule is for.
fn object(members: &[u8]) -> Option<Value> {
    let mut object: Value = serde_json::from_slice(members).ok()?;
    let map = object.as_object_mut()?;
    map.insert("apiVersion".to_owned(), "example.com/v1".into());
    map.insert("kind".to_owned(), "Widget".into());
    Some(object)
}

// Expression and object are parted by a zero byte.
fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let (Some(expression), members) = (parts.next(), parts.next().unwrap_or(b"{}")) else { return };
    let Ok(expression) = std::str::from_utf8(expression) else { return };
    let (Some(rules), Some(value)) = (rules(expression), object(members)) else { return };
    let options = Options::new("2026-01-01T00:00:00Z".parse().expect("a time"));
    let json = value.to_string();
    let from_bytes = rules.compute(json.as_bytes(), &options);
    let parsed = Object::parse(json.as_bytes()).expect("what is a value is an object");
    let object = Object::from_value(&value).expect("a map is an object");
    let from_value = rules.verdict(&object, &options);
    assert_eq!(from_bytes, from_value, "bytes, then value: {expression}\n{json}");
    assert_eq!(rules.explain(&parsed, &options).verdict, from_bytes, "explained: {expression}\n{json}");
});

struct Seeds {
    expressions: Vec<String>,
    objects: Vec<String>,
}

static SEEDS: LazyLock<Seeds> = LazyLock::new(|| {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/rules/rules"));
    let mut files: Vec<_> =
        directory.read_dir().expect("the pack").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut seeds = Seeds { expressions: Vec::new(), objects: Vec::new() };
    for file in files {
        let mut json = Vec::new();
        let yaml = std::fs::read(&file).expect("a file");
        if yaml_to_json(&yaml, &mut json).is_err() {
            continue;
        }
        let Ok(document) = serde_json::from_slice::<Value>(&json) else { continue };
        for case in document["cases"].as_array().into_iter().flatten() {
            seeds.objects.push(case["object"].to_string());
        }
        for rule in document["rules"].as_array().into_iter().flatten() {
            for branch in ["suspended", "failed", "inProgress", "unknown", "current"] {
                expressions(&rule[branch], &mut seeds.expressions);
            }
        }
    }
    seeds.expressions.extend(
        include_str!("../../crates/rules/tests/cases/expressions.txt").lines().filter_map(expression_of),
    );
    seeds
});

/// The expression of a line of the cases.
fn expression_of(line: &str) -> Option<String> {
    line.rsplit_once(" => ").map(|(expression, _)| expression.trim().to_owned())
}

fn expressions(branch: &Value, found: &mut Vec<String>) {
    match branch {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|branch| expressions(branch, found)),
        branch => found.extend(branch["when"].as_str().map(str::to_owned)),
    }
}

struct Random(u32);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % bound.max(1)
    }

    fn of<'s>(&mut self, texts: &'s [String]) -> &'s [u8] {
        let at = self.below(texts.len());
        texts.get(at).map_or(b"", |text| text.as_bytes())
    }

    /// A piece between two places where a word or an operator begins.
    fn piece(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
        let mut cuts: Vec<usize> =
            (1..text.len()).filter(|&at| !is_word(&text[at]) || !is_word(&text[at - 1])).collect();
        cuts.extend([0, text.len()]);
        let (from, to) = (cuts[self.below(cuts.len())], cuts[self.below(cuts.len())]);
        from.min(to)..from.max(to)
    }
}

// Often a piece of the expression gives way to a piece of another one, or the object to one of a case.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random(seed);
    let input = &data[..size];
    let at = input.iter().position(|byte| *byte == 0).unwrap_or(size);
    let (expression, object) = (&input[..at], input.get(at + 1..).unwrap_or(b"{}"));
    let mutated = match random.below(64) {
        0 => [random.of(&SEEDS.expressions), b"\0", object].concat(),
        1..6 => [expression, b"\0", random.of(&SEEDS.objects)].concat(),
        6..28 => {
            let from = random.of(&SEEDS.expressions);
            let (new, old) = (random.piece(from), random.piece(expression));
            [&expression[..old.start], &from[new], &expression[old.end..], b"\0", object].concat()
        }
        28..32 => {
            let piece = random.piece(expression);
            let times = 1 << random.below(8);
            let again = expression[piece.clone()].repeat(times);
            [&expression[..piece.end], &again[..], &expression[piece.end..], b"\0", object].concat()
        }
        32..36 => {
            let other = random.of(&SEEDS.expressions);
            let between = [&b" && "[..], b" || ", b" == ", b" + ", b" in "][random.below(5)];
            [b"(", expression, b")", between, b"(", other, b")\0", object].concat()
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    if mutated.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..mutated.len()].copy_from_slice(&mutated);
    mutated.len()
});
