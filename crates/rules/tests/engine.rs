//! The language of rules, case by case: `tests/cases/*.txt`.
//!
//! Run with `UPDATE_CASES=1` to write what comes out into the files, then read the difference.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kstatus::{Object, Options, Profile, Status, Verdict};
use serde_json::{Value, json};
use settled_cel::Validator;
use settled_rules::{LoadErrors, RuleSet};
use settled_schema::Schema;

/// The present time in all cases.
pub(crate) const NOW: &str = "2026-01-01T00:00:00Z";

pub(crate) const HEAD: &str = "apiVersion: settled.dev/v1alpha1\nkind: RulePack\n";

pub(crate) fn options() -> Options {
    Options::new(NOW.parse().unwrap())
}

/// A text as YAML.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A pack of one rule for the kind of the tests, in YAML; its lines may be indented in any way.
pub(crate) fn pack_of(rule: &str) -> String {
    let body: String = rule.lines().map(|line| format!("    {line}\n")).collect();
    format!("{HEAD}rules:\n  - match: {{group: example.com, kind: Widget}}\n{body}")
}

pub(crate) fn load(pack: &str) -> Result<RuleSet, LoadErrors> {
    RuleSet::builder().builtin(false).add("rules.yaml", pack).map(|rules| rules.build())
}

/// The bytes of an object whose members are given, in the order they are given in.
pub(crate) fn object_of(members: &str) -> String {
    let members = members.trim().strip_prefix('{').unwrap();
    let comma = if members.trim() == "}" { "" } else { "," };
    format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget"{comma}{members}"#)
}

fn read(file: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Compares a file of cases with what came out, or writes that into it where `UPDATE_CASES` is set.
fn check(path: &Path, text: &str, found: &str) {
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(path, found).unwrap();
        return;
    }
    let lines = text.lines().zip(found.lines()).enumerate().filter(|(_, (wanted, found))| wanted != found);
    let different: String = lines
        .map(|(index, (wanted, found))| format!("line {}:\n- {wanted}\n+ {found}\n", index + 1))
        .collect();
    assert!(different.is_empty(), "{}:\n{different}", path.display());
    assert_eq!(text.lines().count(), found.lines().count(), "{}", path.display());
}

/// Visits each line of a file of cases; what `visit` gives should be that line.
fn walk(file: &str, visit: &mut dyn FnMut(usize, &str) -> String) {
    let (path, text) = read(file);
    let mut rewritten = String::new();
    for (index, line) in text.lines().enumerate() {
        writeln!(rewritten, "{}", visit(index + 1, line)).unwrap();
    }
    check(&path, &text, &rewritten);
}

/// What becomes of an expression: as it is explained, and as the verdict says it. They must not differ.
fn outcome(expression: &str, object: &str) -> String {
    let rules = match load(&pack_of(&format!(
        "checks: {{generation: false}}\nfailed: {}\ncurrent: 'true'",
        quoted(expression)
    ))) {
        Ok(rules) => rules,
        Err(errors) => return format!("refused: {}", errors.0[0].message),
    };
    let object = object_of(object);
    let verdict = rules.compute(object.as_bytes(), &options());
    let explanation = rules.explain(&Object::parse(object.as_bytes()).unwrap(), &options());
    assert_eq!(explanation.verdict, verdict, "{expression}");
    let tried = &explanation.rules[0].tried[0];
    let problem = verdict.problems.first().map(|problem| problem.message.to_string());
    let error =
        problem.and_then(|problem| problem.split_once(", failed: ").map(|(_, error)| error.to_owned()));
    match (&*tried.outcome, &*verdict.reason, error) {
        ("true", "Failed", None) => "true".to_owned(),
        ("false", "Current", None) => "false".to_owned(),
        (why, "Current", Some(error)) => {
            assert_eq!(why.strip_prefix("false: "), Some(&*error), "{expression}");
            format!("error: {error}")
        }
        (why, "Current", None) => {
            let what = why.strip_prefix("false: ").and_then(|what| what.strip_suffix(" is absent"));
            format!("absent: {}", what.unwrap_or(why))
        }
        (why, "RuleFailed", None) => format!("failed: {why}"),
        strange => panic!("{expression}: {strange:?}"),
    }
}

#[test]
fn expressions() {
    let mut object = "{}".to_owned();
    walk("expressions.txt", &mut |_, line| {
        if line.starts_with("## ") {
            object = "{}".to_owned();
        }
        match line.split_once(" => ") {
            Some((expression, _)) if !line.starts_with('#') => {
                format!("{expression} => {}", outcome(expression, &object))
            }
            _ => {
                if line.starts_with('{') {
                    object = line.to_owned();
                }
                line.to_owned()
            }
        }
    });
}

/// What the expression is as a rule of a CRD, which is recorded from upstream: a second opinion on values, types and
/// functions. None where a CRD with it is refused.
pub(crate) fn opinion_of_crds(expression: &str) -> Option<Option<bool>> {
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": expression}]});
    let (validator, errors) = Validator::compile(&Schema::parse(&schema).unwrap(), "schema");
    if !errors.is_empty() {
        return None;
    }
    let errors = validator?.validate(&json!({}), None);
    Some(match errors.as_slice() {
        [] => Some(true),
        [error] if error.message().contains("failed rule") => Some(false),
        _ => None,
    })
}

#[test]
fn expressions_mean_what_they_mean_in_crds() {
    let (mut asked, mut count) = (false, 0);
    let mut differences = Vec::new();
    for (index, line) in read("expressions.txt").1.lines().enumerate() {
        if line.starts_with("## ") {
            asked = line.ends_with("(also in CRDs)");
        } else if asked && let Some((expression, wanted)) = line.split_once(" => ") {
            let Some(found) = opinion_of_crds(expression) else { continue };
            count += 1;
            if found != wanted.parse().ok() {
                let number = index + 1;
                differences.push(format!("{number}: {expression} is {wanted}; in a CRD it is {found:?}"));
            }
        }
    }
    assert!(count > 230, "{count} expressions");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn shown(verdict: &Verdict) -> String {
    let mut text = format!("{} {} {}", verdict.status, verdict.basis, verdict.reason);
    if let Some(failure) = verdict.failure {
        write!(text, " ({}{})", failure.class, if failure.terminal { ", terminal" } else { "" }).unwrap();
    }
    let message = verdict.message.replace('\n', "\\n");
    if message.len() > 400 {
        write!(text, ": {} bytes", message.len()).unwrap();
    } else {
        write!(text, ": {message}").unwrap();
    }
    for problem in &verdict.problems {
        write!(text, " | {}", problem.message).unwrap();
    }
    text
}

/// Rules stand in lines of their own; an object's line is followed by its verdict.
#[test]
fn verdicts() {
    let mut pack = String::new();
    let mut rules = None;
    let mut wanted = options();
    let mut is_builtin = false;
    let mut pending = None;
    walk("verdicts.txt", &mut |number, line| {
        if let Some(option) = line.strip_prefix('!') {
            match option {
                "kstatus" => wanted.profile = Profile::Kstatus,
                "builtin" => is_builtin = true,
                _ => panic!("{number}: unknown option {option}"),
            }
        } else if line.starts_with("## ") {
            (pack, rules, is_builtin) = (String::new(), None, false);
            wanted = options();
        } else if line.starts_with('{') {
            let rules = rules.get_or_insert_with(|| {
                let text =
                    if pack.starts_with("- ") { format!("{HEAD}rules:\n{pack}") } else { pack_of(&pack) };
                let loaded = RuleSet::builder().builtin(is_builtin).add("rules.yaml", &text);
                loaded.unwrap_or_else(|errors| panic!("{number}: {errors}")).build()
            });
            let is_whole = line.contains(r#""apiVersion""#);
            let object = if is_whole { line.to_owned() } else { object_of(line) };
            let verdict = rules.compute(object.as_bytes(), &wanted);
            let parsed = Object::parse(object.as_bytes()).unwrap();
            assert_eq!(rules.explain(&parsed, &wanted).verdict, verdict, "explained: {line}");
            pending = Some(shown(&verdict));
        } else if line.starts_with("=> ") {
            return format!("=> {}", pending.take().unwrap());
        } else if !line.is_empty() && !line.starts_with("# ") {
            // A new rule begins where an object was before.
            if rules.take().is_some() {
                pack.clear();
            }
            writeln!(pack, "{line}").unwrap();
        }
        line.to_owned()
    });
}

/// A file of rules with a mark, «, at each place that an error names; its messages stand below it.
#[test]
fn errors() {
    let (path, text) = read("errors.txt");
    let mut rewritten = String::new();
    let mut sections = text.split("## ");
    rewritten.push_str(sections.next().unwrap());
    for section in sections {
        let (name, rest) = section.split_once('\n').unwrap();
        let body: String = rest
            .lines()
            .take_while(|line| !line.starts_with("=> "))
            .map(|line| format!("{line}\n"))
            .collect();
        let body = body.replace('«', "");
        let yaml = body.trim_start_matches("<< ").replace("␉", "\t");
        let yaml = if yaml.starts_with("rules:") { format!("{HEAD}{yaml}") } else { yaml };
        let head = if body.starts_with("rules:") { 2 } else { 0 };
        let errors = match load(&yaml) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.0,
        };
        let mut lines: Vec<Vec<char>> = body.lines().map(|line| line.chars().collect()).collect();
        for error in errors.iter().rev() {
            assert_eq!(error.file, "rules.yaml");
            let place = lines
                .get_mut((error.line - 1).wrapping_sub(head))
                .filter(|line| error.column - 1 <= line.len());
            let line = place.unwrap_or_else(|| panic!("{name}: no such place: {error}"));
            line.insert(error.column - 1, '«');
        }
        writeln!(rewritten, "## {name}").unwrap();
        for line in lines {
            writeln!(rewritten, "{}", line.iter().collect::<String>()).unwrap();
        }
        for error in &errors {
            writeln!(rewritten, "=> {}", error.message).unwrap();
        }
        if errors.is_empty() {
            rewritten.push_str("=> no error\n");
        }
        rewritten.push('\n');
    }
    let rewritten = format!("{}\n", rewritten.trim_end());
    check(&path, &text, &rewritten);
}

/// What becomes of an expression that may be too much, and of the next object.
fn limited(expression: &str, object: &str) -> String {
    let found = outcome(expression, object);
    if found.starts_with("failed: ") {
        let rule = format!("failed: {}\ncurrent: 'true'", quoted(expression));
        let other = "  - match: {group: example.com, kind: Gadget}\n    current: 'true'\n";
        let rules = load(&[pack_of(&rule), other.to_owned()].concat()).unwrap();
        let verdict = rules.compute(object_of(object).as_bytes(), &options());
        let name = "rule rules.yaml:4 example.com/Widget";
        let why = found.trim_start_matches("failed: false: ");
        assert_eq!(shown(&verdict), format!("Unknown custom-rule RuleFailed: {name}, failed: {why}"));
        let next = rules.compute(br#"{"apiVersion":"example.com/v1","kind":"Gadget"}"#, &options());
        assert_eq!(next.status, Status::Current, "{expression}");
    }
    found
}

const STEPS: &str = "failed: false: it needs more than 100000 steps";
const ROOM: &str = "failed: false: it needs more than 1048576 bytes of memory";

/// What is written in an expression is bounded before the parser sees it.
#[test]
fn expressions_that_are_too_large_are_refused() {
    let nested = |open: &str, count: usize, middle: &str, close: &str| {
        [&*open.repeat(count), middle, &*close.repeat(count)].concat()
    };
    let deep = "refused: brackets are nested deeper than 32 levels";
    let many = "refused: the expression has more than 400 operators";
    let tree = "refused: the expression is nested too deeply";
    let choices = "refused: the expression has more than 60 choices `a ? b : c`";
    let pad = |length: usize| format!("true{}", " ".repeat(length - 4));
    for (expression, wanted) in [
        (pad(4096), "true"),
        (pad(4097), "refused: the expression is longer than 4096 bytes"),
        (nested("(", 32, "true", ")"), "true"),
        (nested("(", 33, "true", ")"), deep),
        ("(".repeat(4000), deep),
        (nested("[", 33, "", "]"), deep),
        (nested("{1:", 33, "1", "}"), deep),
        (nested("!(", 33, "true", ")"), deep),
        (nested("[1].all(x, ", 33, "true", ")"), deep),
        // What looks like text to a careless reader.
        (format!("r'\\' == {}", "(".repeat(2000)), deep),
        (format!("'''a' ''' == {}", "(".repeat(2000)), deep),
        (format!("\"\"\"a\" \"\"\" == {}", "(".repeat(2000)), deep),
        (format!("true // '\n{}", "(".repeat(2000)), deep),
        (format!("1r'\\' == {}", "(".repeat(2000)), "refused: an operator is missing before this text"),
        (format!("'\n{}", "(".repeat(2000)), "refused: the text is not ended: `'` is missing"),
        (format!("'{}", "(".repeat(2000)), "refused: the text is not ended: `'` is missing"),
        (
            format!("'\\q{}'", "(".repeat(2000)),
            "refused: there is no escape `\\q`; write `\\\\q`, or r'...' for the whole text",
        ),
        ("(]".repeat(2000), "refused: expected `)`, found `]`"),
        // And what is text.
        (format!("'{}' != '' // {}", "(".repeat(1000), "[".repeat(1000)), "true"),
        (format!("r'{}\\' != '{}'", "[".repeat(1000), "(\"(".repeat(500)), "true"),
        (format!("1{} > 0", "+1".repeat(99)), "true"),
        (format!("1{} > 0", "+1".repeat(200)), tree),
        (format!("1{} > 0", "+1".repeat(401)), many),
        (format!("true{}", " && true".repeat(199)), "true"),
        (format!("true{}", " || true".repeat(201)), many),
        (format!("spec{}", ".a".repeat(401)), many),
        (format!("spec{}", "[0]".repeat(401)), many),
        (format!("{}[1]", "1 in ".repeat(401)), many),
        (format!("{}[1]", "1in ".repeat(401)), many),
        (format!("{}true", "true ? true : ".repeat(60)), "true"),
        (format!("{}true", "true ? true : ".repeat(61)), choices),
        (nested("(", 32, &format!("{}true", "true ? true : ".repeat(60)), ")"), "true"),
        ("!".repeat(2000), "refused: write `!` and `-` once: two of them cancel out"),
        ("-".repeat(2000), "refused: write `!` and `-` once: two of them cancel out"),
        ("@".repeat(4000), "refused: unexpected \"@\""),
        (format!("'a'.matches('{}')", "(a{100})".repeat(200)), "refused: the pattern is too large"),
        (
            "'a'.matches('((a{100}){100}){100}')".to_owned(),
            "refused: error parsing regexp: invalid repeat count: `{100}`",
        ),
    ] {
        assert_eq!(outcome(&expression, "{}"), wanted, "{expression}");
    }
}

/// The work of an evaluation is bounded, whatever the expression and the object.
#[test]
fn evaluations_that_need_too_much_end() {
    let long = format!(r#"é"\{}"#, "x".repeat(1_000_000));
    let random: String =
        (0..30_000u32).map(|i| if i.wrapping_mul(2_654_435_761) >> 31 == 0 { 'x' } else { '1' }).collect();
    let map: serde_json::Map<String, Value> =
        (0..100_000).map(|i| (format!("k{i}"), Value::from(i))).collect();
    let conditions: Vec<Value> = (0..100)
        .map(|i| serde_json::json!({"type": format!("T{i}"), "message": "m".repeat(10_000)}))
        .collect();
    let (mut deep, mut list) = (Value::from(1), Value::from(1));
    for _ in 0..100 {
        deep = serde_json::json!({ "a": deep });
        list = Value::from(vec![list]);
    }
    let object = serde_json::json!({
        "spec": {
            "long": long, "other": long, "random": random, "map": map, "deep": deep, "list": list,
            "texts": ["x".repeat(500_000), "y".repeat(500_000)],
        },
        "status": {"conditions": conditions},
    });
    let object = object.to_string();
    let many = |body: &str| format!("lists.range(1000).all(i, lists.range(1000).all(j, {body}))");
    let grow = ["['x']", &".map(a, a + a + a + a)".repeat(8)].concat();
    let too_deep = "error: cannot compare values nested deeper than 64 levels";
    for (expression, wanted) in [
        (many("true"), STEPS),
        ("spec.map.all(a, spec.map.all(b, true))".to_owned(), STEPS),
        ("spec.map.map(a, a).size() > 0".to_owned(), STEPS),
        ("spec.map.exists(a, a == 'k99999')".to_owned(), STEPS),
        ("spec.map == spec.map".to_owned(), STEPS),
        ("spec.map == {}".to_owned(), "false"),
        ("spec.map.size() == 100000".to_owned(), "true"),
        ("spec.map.k99999 == 99999 && 'k5' in spec.map && spec.map['k7'] == 7".to_owned(), "true"),
        (many("!('zz' in spec.map)"), STEPS),
        (many("spec.map.size() > 0"), STEPS),
        (many("!has(self['spec'].zz)"), STEPS),
        (many("self['spec'] != 1"), STEPS),
        (many("spec.long == spec.other"), STEPS),
        (many("spec.long >= spec.other"), STEPS),
        (many("!(spec.long in ['a'])"), STEPS),
        (many("!'x'.contains(spec.long)"), STEPS),
        (many("spec.long.contains('x')"), STEPS),
        (many("spec.long.size() > 0"), STEPS),
        (many("{'a': spec.long} != {'a': 'b'}"), STEPS),
        (many("spec.long.trim() == '' || true"), STEPS),
        (many("!isTrue('X')"), STEPS),
        (many("worst(['X', 'Y']).status == 'Unknown'"), STEPS),
        (many("!spec.texts.isTrue('X')"), STEPS),
        (many("!(1 in spec.texts)"), STEPS),
        (many("spec.texts[0].size() > 0"), STEPS),
        (many("'a'.matches('a' + 'b') || true"), STEPS),
        (many("!spec.random.matches('[x1]*1[x1]{300}z')"), STEPS),
        (many("spec.random.findAll('(?:[x1]*1[x1]{80}){9}[^x1]').size() == 0"), STEPS),
        (format!("{grow}.all(s, {})", many("s != 'y'")), STEPS),
        (format!("{grow}.all(s, {})", many("s <= s")), STEPS),
        (format!("{}.size() > 0", ["['x']", &".map(a, a + a + a + a)".repeat(11)].concat()), STEPS),
        (many("[1, 2, 3, 4, 5, 6, 7, 8, 9] + [1, 2, 3] != []"), STEPS),
        (many("string(spec.random) != ''"), STEPS),
        (many("spec.random.replace('x', 'yy') != ''"), STEPS),
        ("spec.random.replace('', spec.random) != ''".to_owned(), "error: replace: the texts are too long"),
        (
            "lists.range(1000000000).size() > 0".to_owned(),
            "error: lists.range: a list of more than 1000 elements",
        ),
        ("'%.999999999f'.format([1.0]) != ''".to_owned(), "error: format: a precision of more than 3 digits"),
        ("'%.999f'.format([1.0]) != ''".to_owned(), "true"),
        (format!("'a'.find('{}') == ''", "(a{100})".repeat(200)), "refused: the pattern is too large"),
        (format!("'a'.matches('{}' + '')", "(a{100})".repeat(200)), "error: the pattern is too large"),
        (
            "'a'.find('((a{100}){100}){100}') == ''".to_owned(),
            "refused: error parsing regexp: invalid repeat count: `{100}`",
        ),
        ("quantity('1e1000000000').isGreaterThan(quantity('1'))".to_owned(), "true"),
        ("quantity('1e-10').isGreaterThan(quantity('1'))".to_owned(), "false"),
        (format!("quantity('{}').sign() == 1", "9".repeat(100)), "true"),
        ("quantity('9999999E').add(quantity('1n')).isGreaterThan(quantity('1'))".to_owned(), "true"),
        ("spec.deep == spec.deep".to_owned(), too_deep),
        ("spec.list == spec.list".to_owned(), too_deep),
        ("spec.list.flatten() == []".to_owned(), "false"),
        // What is made is bounded, however short the text is that makes it.
        (many("[spec.long].size() > 0"), STEPS),
        (many("spec.texts.map(t, t).size() > 0"), STEPS),
        (many("spec.random.split('').size() > 0 || true"), STEPS),
        (format!("{}.size() > 0", many("i > -1").replace(".all(", ".map(")), STEPS),
        ("spec.deep == {'a': 1}".to_owned(), "false"),
    ] {
        let found = limited(&expression, &object);
        // Which of the two limits is hit first is nobody's business.
        let found = if found == ROOM { STEPS } else { &found };
        assert_eq!(found, wanted, "{expression}");
    }
}

/// The answers are those of Go's `regexp`.
#[test]
fn patterns_mean_what_they_mean_to_go() {
    for (expression, wanted) in [
        (r"'7'.matches('^\\d$')", "true"),
        (r"'٣'.matches('^\\d$')", "false"),
        (r"'é'.matches('\\w')", "false"),
        (r"'é'.matches('\\' + 'w')", "false"),
        (r"'x٣7'.find('\\d') == '7'", "true"),
        (r"'x٣7'.findAll('\\d').size() == 1", "true"),
        ("'a&b'.matches('^[a&&b]+$')", "true"),
        ("'a{,2}'.matches('^a{,2}$')", "true"),
        ("'a'.matches('(a')", "refused: error parsing regexp: missing closing ): `(a`"),
        ("'a'.matches('(a' + 'b')", "error: error parsing regexp: missing closing ): `(ab`"),
        ("'a'.matches('(?=a)')", "refused: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
    ] {
        assert_eq!(outcome(expression, "{}"), wanted, "{expression}");
    }
}

/// A rule that needs too much costs its own object the verdict, also where it is asked before all others.
#[test]
fn a_rule_that_needs_too_much_says_so() {
    let much = "lists.range(1000).all(i, lists.range(1000).all(j, true))";
    for branch in ["suspended", "failed", "inProgress", "unknown", "current"] {
        let verdict = |condition: &str| {
            let rules = load(&pack_of(&format!("{branch}: {}", quoted(condition)))).unwrap();
            let object = object_of("{}");
            let parsed = Object::parse(object.as_bytes()).unwrap();
            let verdict = rules.compute(object.as_bytes(), &options());
            let explained = rules.explain(&parsed, &options());
            assert_eq!(explained.verdict, verdict);
            // The explanation of a condition that is decided without its costly operand does not speak of the limit.
            let outcomes = explained.rules.iter().flat_map(|rule| &rule.tried).map(|tried| &tried.outcome);
            let is_limited = outcomes.into_iter().any(|outcome| outcome.contains("needs more than"));
            assert_eq!(is_limited, verdict.reason == "RuleFailed", "{condition}");
            verdict
        };
        let failed = verdict(&format!("{much} && default(spec.a, 1) == 1"));
        assert_eq!((&*failed.reason, failed.status), ("RuleFailed", Status::Unknown), "{branch}");
        // What is false anyway is not evaluated.
        assert_ne!(verdict(&format!("{much} && has(spec.a)")).reason, "RuleFailed", "{branch}");
    }
}

#[test]
fn messages_are_bounded() {
    let object =
        serde_json::json!({"status": {"long": "é".repeat(100_000), "list": vec!["x".repeat(2000); 100]}})
            .to_string();
    let message_of = |template: &str, object: &str| {
        let rules =
            load(&pack_of(&format!("failed: {{when: 'true', message: {}}}", quoted(template)))).unwrap();
        rules.compute(object_of(object).as_bytes(), &options()).message.into_owned()
    };
    let most = 32 * 1024;
    for template in
        ["${status.long}", "x${status.long}", "${status.long}${status.long}", "${status.list}", "${status}"]
    {
        let message = message_of(template, &object);
        assert!((most - 3..=most).contains(&message.len()), "{template}: {}", message.len());
    }
    assert_eq!(message_of(&"y".repeat(100_000), "{}").len(), most);
    assert_eq!(message_of(&"${status.long}".repeat(20_000), &object).len(), most);
    // Of many elements and of deep nesting, only some are written.
    let numbers = Value::from((0..100).collect::<Vec<_>>());
    let object = serde_json::json!({"status": {"list": numbers}}).to_string();
    assert!(message_of("${status.list}", &object).ends_with("30, 31, ..."));
    let deep = format!(r#"{{"status":{{"list":{}1{}}}}}"#, "[".repeat(1000), "]".repeat(1000));
    let message = message_of("${status.list}", &deep);
    assert!(message.contains("...") && message.len() < 300, "{message}");
}

#[test]
fn rules_of_several_files_are_for_different_objects() {
    let second = pack_of("current: status.b").replace("  - match", "\n  - match");
    let first = RuleSet::builder().builtin(false).add("a.yaml", &pack_of("current: status.a")).unwrap();
    let errors = first.add("b.yaml", &second).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "b.yaml:5:1: a second rule for example.com/Widget; the first is at a.yaml:4 for example.com/Widget: remove one \
         of them"
    );
    // A rule of the built-in pack may have another one before it.
    let own =
        pack_of("current: 'true'").replace("example.com, kind: Widget", "cert-manager.io, kind: Certificate");
    assert!(RuleSet::builder().add("own.yaml", &own).is_ok());
}

#[test]
fn an_explanation_names_what_was_tried_and_seen() {
    let rules = load(&pack_of(
        "suspended: spec.paused
failed: [\"isFalse('Ready')\", status.count > 3, status.text > 3]
current: isTrue('Ready') && has(status.phase) && worst(['Ready']).status == 'True'
otherwise: {from: Ready}",
    ))
    .unwrap();
    let object = object_of(
        r#"{"status":{"text":"it's\n3","phase":"Up","conditions":[{"type":"Ready","status":"True"}]}}"#,
    );
    let explanation = rules.explain(&Object::parse(object.as_bytes()).unwrap(), &options());
    let mut text = String::new();
    for rule in &explanation.rules {
        writeln!(text, "{}", rule.name).unwrap();
        for tried in &rule.tried {
            let mark = if tried.decided { "=>" } else { "  " };
            writeln!(text, "{mark} {} {}: {}", tried.branch, tried.expression, tried.outcome).unwrap();
        }
        for (what, value) in &rule.seen {
            writeln!(text, "   {what} = {value}").unwrap();
        }
    }
    insta::assert_snapshot!(text, @r"
    rules.yaml:4 example.com/Widget
       suspended spec.paused: false: spec.paused is absent
       failed isFalse('Ready'): false
       failed status.count > 3: false: status.count is absent
       failed status.text > 3: false: no order for string and int
    => current isTrue('Ready') && has(status.phase) && worst(['Ready']).status == 'True': true
       spec.paused = absent
       isFalse('Ready') = false
       status.count = absent
       status.text = 'it\'s\n3'
       isTrue('Ready') = true
       has(status.phase) = true
       worst(['Ready']) = {'type': 'Ready', 'status': 'True'}
    ");
    let listed = rules.list();
    assert_eq!(listed[0].reads, ["spec.paused", "status.count", "status.text", "status.phase"]);
}

/// A definition that is met later counts as if its file had been loaded, and less than what the user loaded.
#[test]
fn definitions_may_be_added_later() {
    let object = br#"{"apiVersion":"example.com/v1","kind":"Widget","status":{"knobs":1}}"#;
    let definition = |rule: &str| {
        serde_json::json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com", "annotations": {"settled.dev/rule": rule}},
            "spec": {"group": "example.com", "names": {"kind": "Widget"}},
        })
        .to_string()
    };
    let rules = load(&format!("{HEAD}rules: []\n")).unwrap();
    assert_eq!(rules.compute(object, &options()).status, Status::Unknown);
    assert_eq!(
        rules.add_definition("widgets.example.com", &definition("current: status.knobs > 0")),
        Ok(true)
    );
    let verdict = rules.compute(object, &options());
    assert_eq!((verdict.status, verdict.basis), (Status::Current, kstatus::Basis::CrdAnnotation));
    // It was changed: the last one counts.
    assert_eq!(
        rules.add_definition("widgets.example.com", &definition("current: status.knobs > 1")),
        Ok(true)
    );
    assert_eq!(rules.compute(object, &options()).status, Status::InProgress);
    // What cannot be read is none, and changes nothing.
    assert!(rules.add_definition("widgets.example.com", &definition("current: status.knobs >")).is_err());
    assert_eq!(rules.compute(object, &options()).status, Status::InProgress);
    let plain = definition("").replace("settled.dev/rule", "example.com/note");
    assert_eq!(rules.add_definition("widgets.example.com", &plain), Ok(false));

    let rules = load(&pack_of("current: status.knobs == 1")).unwrap();
    assert_eq!(
        rules.add_definition("widgets.example.com", &definition("current: status.knobs > 1")),
        Ok(true)
    );
    let verdict = rules.compute(object, &options());
    assert_eq!((verdict.status, verdict.basis), (Status::Current, kstatus::Basis::CustomRule));
}

/// An object without a rule is read as the library reads it alone.
#[test]
fn rules_for_others_change_nothing() {
    let rules = load(&pack_of("current: 'true'")).unwrap();
    let options = Options::new(NOW.parse().unwrap());
    for members in [
        r#""metadata":{"generation":2},"spec":{"suspend":true},"status":{"observedGeneration":1}"#,
        r#""metadata":{"generation":2},"spec":{"paused":false},"status":{"observedGeneration":1}"#,
        r#""metadata":{"generation":2},"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"False","reason":"BuildFailed","observedGeneration":2}]}"#,
        r#""metadata":{"annotations":{"example.com/paused":"true"}},"status":{"phase":"Pending"}"#,
        r#""status":{"phase":"Failed"}"#,
    ] {
        let object = format!(r#"{{"apiVersion":"example.com/v1","kind":"Gadget",{members}}}"#);
        let alone = kstatus::compute(object.as_bytes(), &options);
        assert_eq!(rules.compute(object.as_bytes(), &options), alone, "{members}");
    }
}
