//! Selectors, JSON paths, Accept headers and durations: random questions, answered by this workspace and by Go.

#![allow(clippy::print_stdout, reason = "it prints for the process that started it")]

use std::process::ExitCode;

use serde_json::{Map, Value, json};
use settled_apiserver::testing;

use crate::program::{self, Arguments};

/// How often a question is asked again.
const TRIES: usize = 100;

/// A small generator: the same seed gives the same questions everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % bound.max(1)
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Some pieces, one after the other.
    fn soup(&mut self, from: &[&str], most: usize) -> String {
        (0..self.below(most + 1)).map(|_| self.pick(from)).collect()
    }
}

const LONG: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const KEYS: &[&str] = &["a", "b", "app", "x/y", "example.com/name", "in", "notin", "n"];
const ODD_KEYS: &[&str] =
    &["", "-", "a/", "/a", "a/b/c", "A_b.c", "X/y", "é", "a\"b", LONG, "a..b/c", "\u{a0}", "a\\"];
const VALUES: &[&str] = &["", "a", "b", "web", "1", "5", "9223372036854775807", "in", "A_b.c", "v1.2"];
const ODD_VALUES: &[&str] =
    &["-", "a-", "-3", "é", "9223372036854775808", "+4", "1.5", "a/b", LONG, "_", "\"", "0x1"];
const TOKENS: &[&str] = &[
    "a", "b", "in", "notin", "=", "==", "!=", "!", ">", "<", "(", ")", ",", " ", "\t", "\r\n", "\0", "1",
    "-5", "x/y", "é", "-", "a,b",
];

fn key(random: &mut Random) -> &'static str {
    if random.one_in(8) { random.pick(ODD_KEYS) } else { random.pick(KEYS) }
}

fn value(random: &mut Random) -> &'static str {
    if random.one_in(8) { random.pick(ODD_VALUES) } else { random.pick(VALUES) }
}

fn requirement(random: &mut Random) -> String {
    let key = key(random);
    let space = |random: &mut Random| random.pick(&["", "", " ", "  "]);
    match random.below(8) {
        0 => key.to_owned(),
        1 => format!("!{}{key}", space(random)),
        2 | 3 => {
            let values: Vec<&str> = (0..random.below(4)).map(|_| value(random)).collect();
            let operator = random.pick(&["in", "notin", "in", "notin", "IN"]);
            format!(
                "{key} {operator}{}({})",
                space(random),
                values.join(random.pick(&[",", ", ", ",,", " "]))
            )
        }
        _ => {
            let operator = random.pick(&["=", "==", "!=", ">", "<", "===", "=!", "<="]);
            format!("{key}{}{operator}{}{}", space(random), space(random), value(random))
        }
    }
}

fn labels(random: &mut Random) -> Map<String, Value> {
    (0..random.below(4)).map(|_| (random.pick(KEYS).to_owned(), random.pick(VALUES).into())).collect()
}

fn object_selector(random: &mut Random) -> Value {
    let mut selector = json!({});
    if !random.one_in(3) {
        let valid = labels(random);
        // Go's maps have no order: with two errors, upstream may tell of either.
        selector["matchLabels"] =
            if random.one_in(5) { json!({key(random): value(random)}) } else { valid.into() };
    }
    if !random.one_in(3) {
        let expression = |random: &mut Random| {
            let operator = random.pick(&["In", "NotIn", "Exists", "DoesNotExist", "In", "NotIn", "in", ""]);
            let count = if operator.starts_with("In") || operator == "NotIn" { 3 } else { 2 };
            let values: Vec<&str> = (0..random.below(count)).map(|_| value(random)).collect();
            let mut expression = json!({"key": key(random), "operator": operator});
            if !values.is_empty() {
                expression["values"] = json!(values);
            }
            expression
        };
        let expressions: Vec<Value> = (0..random.below(4)).map(|_| expression(random)).collect();
        selector["matchExpressions"] = expressions.into();
    }
    selector
}

fn object(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => random.one_in(2).into(),
        2 => json!(random.below(5)),
        3 => json!([0.5, 1.5, 2.25, -1.5, 1e21][random.below(5)]),
        4 | 5 => random.pick(&["", "a", "b", "True", "x y", "<"]).into(),
        6 => (0..random.below(4)).map(|_| object(random, depth - 1)).collect(),
        _ => fields(random, depth - 1),
    }
}

fn fields(random: &mut Random, depth: usize) -> Value {
    let names = ["a", "b", "c", "a.b", "type"];
    let map: Map<String, Value> =
        (0..random.below(5)).map(|_| (random.pick(&names).to_owned(), object(random, depth))).collect();
    map.into()
}

fn path(random: &mut Random) -> String {
    let steps = [
        ".a",
        ".b",
        ".c",
        ".type",
        "['a']",
        "['b']",
        r"['a\.b']",
        r".a\.b",
        "[0]",
        "[1]",
        "[-1]",
        "[*]",
        "[0:2]",
        "[:1]",
        "[1:]",
        "[::2]",
        "[0,1]",
        ".a",
        ".b",
        ".*",
        "..",
        "..a",
        "['a','b']",
        r#"[?(@.a=="a")]"#,
        "[?(@.a)]",
        "[?(@.a!='b')]",
        "[?(@.b>1)]",
        "[?(@.b<=0.5)]",
        "[?(@.c==true)]",
        "[?(@.a==@.b)]",
        "[?(@.a[0])]",
        "[?(@>1)]",
        "[?(@=='a')]",
    ];
    let odd =
        ["@", "$", " ", "'x'", "1", "-1.5", "true", "range", "[", "]", "[a]", "[?(", "^", "[?(@.a=)]", "."];
    let count = 1 + random.below(4);
    let path: String =
        (0..count).map(|_| if random.one_in(14) { random.pick(&odd) } else { random.pick(&steps) }).collect();
    // Here braces around a path are left away.
    path.trim_start_matches('{').to_owned()
}

fn accept(random: &mut Random) -> String {
    let pieces = [
        "application/json",
        "application/yaml",
        "*/*",
        "*",
        "text/*",
        "a",
        "a/b/c",
        ";",
        ",",
        ",",
        " ",
        "q=0.5",
        "q=0.9",
        "q=x",
        "q=",
        ";q=1",
        ";as=Table",
        ";v=v1",
        ";g=meta.k8s.io",
        "=",
        "a=b=c",
        "/",
        ";stream=watch",
        "; as = x ",
    ];
    if random.one_in(2) {
        return random.soup(&pieces, 12);
    }
    let clause = |random: &mut Random| {
        let media =
            random.pick(&["application/json", "application/yaml", "*/*", "application/*", "a/b", "a/c", "*"]);
        let quality = random.pick(&["", "", ";q=0.5", ";q=0.9", ";q=0", "; q=0.1"]);
        format!("{media}{quality}{}", random.pick(&["", "", ";as=Table;v=v1;g=meta.k8s.io", ";pretty=1"]))
    };
    let clauses: Vec<String> = (0..random.below(9)).map(|_| clause(random)).collect();
    clauses.join(random.pick(&[",", ", "]))
}

fn question(random: &mut Random) -> Value {
    match random.below(10) {
        0..3 => {
            let text = if random.one_in(3) {
                random.soup(TOKENS, 10)
            } else {
                let requirements: Vec<String> = (0..random.below(4)).map(|_| requirement(random)).collect();
                requirements.join(random.pick(&[",", ", ", ",,"]))
            };
            json!({"labels": text, "object": labels(random)})
        }
        3 => json!({"selector": object_selector(random), "object": labels(random)}),
        4 => {
            let pieces = [
                "metadata.name",
                "a",
                "b c",
                "=",
                "==",
                "!=",
                "!",
                ",",
                "\\",
                "\\,",
                "\\=",
                "\\\\",
                "é",
                "x=y,",
            ];
            json!({"fields": random.soup(&pieces, 9)})
        }
        5..8 => json!({"path": path(random), "object": fields(random, 4)}),
        8 => json!({"accept": accept(random)}),
        _ => {
            let scale = random.below(63);
            let nanoseconds = i64::try_from(random.next() >> 1).unwrap_or_default() >> scale;
            json!({"duration": if random.one_in(5) { -nanoseconds } else { nanoseconds }})
        }
    }
}

/// What is said here, in the form of Go's answer.
fn answer(question: &Value) -> Value {
    let with_labels = || json!({"metadata": {"labels": question["object"]}});
    let selected = |text: Result<String, String>, matches: Option<bool>| match text {
        Ok(text) => json!({"text": text, "matches": matches.unwrap_or_default()}),
        Err(error) => json!({"error": error}),
    };
    if let Some(text) = question["labels"].as_str() {
        let matches = testing::label_selector_matches(text, &with_labels());
        assert!(matches.is_none_or(|[a, b]| a == b), "an object and what is kept of it differ for {text}");
        selected(testing::label_selector(text), matches.map(|[matches, _]| matches))
    } else if let Some(text) = question["fields"].as_str() {
        selected(testing::field_terms(text), None)
    } else if question["selector"].is_object() {
        let selector = &question["selector"];
        selected(
            testing::object_selector(selector),
            testing::object_selector_matches(selector, &with_labels()),
        )
    } else if let Some(path) = question["path"].as_str() {
        match testing::json_path(path, &question["object"]) {
            Ok(results) => json!({"results": results}),
            Err(error) if error.starts_with("mismatch: ") => json!({"error": error}),
            Err(error) if error.contains("too much") => json!({"error": "too much"}),
            Err(_) => json!({"error": "syntax"}),
        }
    } else if let Some(header) = question["accept"].as_str() {
        json!({"text": testing::accept_clauses(header)})
    } else {
        json!({"text": testing::duration(question["duration"].as_i64().unwrap_or_default())})
    }
}

/// Whether two answers mean the same. Go's maps have no order, so where a path takes all of a map, neither has its results.
fn same(question: &Value, ours: &Value, theirs: &Value) -> bool {
    if ours["error"] != theirs["error"] {
        // Ours quotes no more than the beginning of a value.
        const QUOTED: usize = 200;
        let mismatch = |answer: &Value| {
            let text = answer["error"].as_str().filter(|error| error.starts_with("mismatch"))?;
            Some(text.chars().take(QUOTED).collect::<String>())
        };
        let (Some(ours), Some(theirs)) = (mismatch(ours), mismatch(theirs)) else { return false };
        let takes_all =
            question["path"].as_str().is_some_and(|path| path.contains('*') || path.contains(".."));
        return takes_all || (ours == theirs && ours.chars().count() == QUOTED);
    }
    if question["path"].is_string() {
        let results = |answer: &Value| {
            let mut results: Vec<String> =
                answer["results"].as_array().into_iter().flatten().map(testing::go_json).collect();
            results.sort_unstable();
            results
        };
        return results(ours) == results(theirs);
    }
    let (ours_text, theirs_text) =
        (ours["text"].as_str().unwrap_or(""), theirs["text"].as_str().unwrap_or(""));
    let (ours_matches, theirs_matches) = (&ours["matches"], &theirs["matches"]);
    ours_text == theirs_text
        && ours_matches.as_bool().unwrap_or(false) == theirs_matches.as_bool().unwrap_or(false)
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let [path, rest @ ..] = arguments else {
        return Err("PROGRAM QUESTIONS [SEED]".to_owned());
    };
    let Arguments { count, seed, .. } = Arguments::parse(rest)?;
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let questions: Vec<Value> = (0..count).map(|_| question(&mut random)).collect();

    let answers = program::answers(path, &questions)?;
    let (mut errors, mut different, mut again) = (0, 0, 0);
    for (question, theirs) in questions.iter().zip(&answers) {
        let ours = answer(question);
        errors += usize::from(!theirs["error"].is_null());
        if same(question, &ours, theirs) {
            continue;
        }
        // Go walks through a map in any order, and may stop at what it finds first: then it has several answers.
        again += 1;
        let several = program::answers(path, &vec![question.clone(); TRIES])?;
        if !several.iter().any(|theirs| same(question, &ours, theirs)) {
            different += 1;
            if different <= 20 {
                println!("{question}\n  ours   {ours}\n  theirs {theirs}");
            }
        }
    }
    println!(
        "selectors: {} questions with seed {seed}, {errors} of them errors, {again} asked again: {different} answers differ",
        answers.len()
    );
    Ok(ExitCode::from(u8::from(different > 0)))
}
