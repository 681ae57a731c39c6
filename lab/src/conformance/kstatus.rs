//! kstatus conformance: compares the profile `kstatus` with recorded answers of the upstream library, object by object.
//!
//! A line of a recording is `{"object": …, "answer": …}`. `augmented` of the answer is `status.conditions` after
//! Augment, without `lastTransitionTime` and `lastUpdateTime` of `Reconciling` and `Stalled`; these times follow from
//! the object, and are added before the comparison.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use kstatus::{Options, Profile, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::measure::{Table, cores};
use crate::{Outcome, corpora};

/// The clock of the comparison. Pods of the recordings were created in 2020 or will be in 2999, so that the only rule
/// that depends on the time has the same result on any day in between.
const NOW: &str = "2026-01-01T00:00:00Z";

/// Maximum number of printed differences; all are counted.
const PRINTED: usize = 20;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
    answer: Answer,
}

#[derive(Deserialize)]
struct Answer {
    status: Option<String>,
    #[serde(default)]
    message: String,
    conditions: Option<Vec<Condition>>,
    error: Option<String>,
    panic: Option<String>,
    augmented: Option<Value>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

/// Compared properties, from the most to the least significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Verdict,
    AccessorError,
    UnknownPhase,
    ConverterError,
    Panic,
    Augmented,
    AugmentError,
    AugmentPanic,
    ParsedValue,
}

impl Class {
    const fn about(self) -> &'static str {
        match self {
            Self::Verdict => "status, message, conditions",
            Self::AccessorError => "Malformed: accessor error, text",
            Self::UnknownPhase => "Malformed: unknown phase, text",
            Self::ConverterError => "Malformed: other errors, text",
            Self::Panic => "Malformed: upstream panics",
            Self::Augmented => "augment: object",
            Self::AugmentError => "augment: error, text",
            Self::AugmentPanic => "augment: upstream panics, an error",
            Self::ParsedValue => "bytes and parsed value agree",
        }
    }

    fn of_error(text: &str) -> Self {
        if text.contains("accessor error") {
            Self::AccessorError
        } else if text.starts_with("unknown phase") {
            Self::UnknownPhase
        } else {
            Self::ConverterError
        }
    }
}

#[derive(Default)]
struct Tally {
    objects: usize,
    compared: BTreeMap<Class, usize>,
    differing: BTreeMap<Class, usize>,
    /// The smallest object of each class of differences, and the size of the class.
    sorts: BTreeMap<(Class, String), (usize, Difference)>,
}

struct Difference {
    line: usize,
    object: String,
    upstream: String,
    ours: String,
}

impl Tally {
    fn add(&mut self, class: Class, difference: Option<(String, Difference)>) {
        *self.compared.entry(class).or_default() += 1;
        let Some((sort, difference)) = difference else { return };
        *self.differing.entry(class).or_default() += 1;
        self.keep((class, sort), 1, difference);
    }

    fn keep(&mut self, sort: (Class, String), count: usize, difference: Difference) {
        match self.sorts.get_mut(&sort) {
            None => {
                self.sorts.insert(sort, (count, difference));
            }
            Some((known, smallest)) => {
                *known += count;
                if difference.object.len() < smallest.object.len() {
                    *smallest = difference;
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.objects += other.objects;
        for (class, count) in other.compared {
            *self.compared.entry(class).or_default() += count;
        }
        for (class, count) in other.differing {
            *self.differing.entry(class).or_default() += count;
        }
        for (sort, (count, difference)) in other.sorts {
            self.keep(sort, count, difference);
        }
    }
}

/// Compares the given files, or all available recordings. True if nothing differs.
pub(crate) fn run(files: &[&str]) -> Outcome<bool> {
    let files = match files {
        [] => corpora::recorded_answers()?,
        named => named.iter().map(PathBuf::from).collect(),
    };
    let mut equal = true;
    for file in files {
        equal &= compare_file(&file)?;
    }
    Ok(equal)
}

fn compare_file(file: &Path) -> Outcome<bool> {
    let start = Instant::now();
    let text = corpora::read(file)?;
    let lines: Vec<&[u8]> = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect();
    let unpacked = start.elapsed();
    let tally = compare_lines(&lines)?;

    println!(
        "\n{}: {} objects in {:.1} s, {:.1} s of it to unpack",
        file.file_name().unwrap_or_default().to_string_lossy(),
        tally.objects,
        start.elapsed().as_secs_f64(),
        unpacked.as_secs_f64(),
    );
    let mut table = Table::new(["compared", "objects", "differences"]);
    for (class, count) in &tally.compared {
        let differing = tally.differing.get(class).unwrap_or(&0);
        table.row([class.about().to_owned(), count.to_string(), differing.to_string()]);
    }
    table.print();

    for ((class, sort), (count, difference)) in tally.sorts.iter().take(PRINTED) {
        let Difference { line, object, upstream, ours } = difference;
        println!("\n{} ({sort}): {count} of this sort, the smallest is line {line}", class.about());
        println!("  object   {object}\n  upstream {upstream}\n  ours     {ours}");
    }
    if tally.sorts.len() > PRINTED {
        println!("\n{} more sorts of differences are not printed", tally.sorts.len() - PRINTED);
    }
    Ok(tally.differing.is_empty() && tally.objects > 0)
}

fn compare_lines(lines: &[&[u8]]) -> Outcome<Tally> {
    const BLOCK: usize = 256;
    let next = AtomicUsize::new(0);
    let worker = || -> Outcome<Tally> {
        let options = options()?;
        let mut tally = Tally::default();
        loop {
            let first = next.fetch_add(BLOCK, Ordering::Relaxed);
            let Some(rest) = lines.get(first..) else { return Ok(tally) };
            for (at, line) in rest.iter().take(BLOCK).enumerate() {
                let number = first + at + 1;
                let line: Line<'_> =
                    serde_json::from_slice(line).map_err(|error| format!("line {number}: {error}"))?;
                compare(number, &line, &options, &mut tally)?;
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores()).map(|_| scope.spawn(worker)).collect();
        let mut all = Tally::default();
        for worker in workers {
            all.merge(
                worker.join().map_err(|_| "a comparing thread panicked: a verdict must never do that")??,
            );
        }
        Ok(all)
    })
}

fn options() -> Outcome<Options> {
    let mut options = Options::new(NOW.parse().map_err(|error| format!("{NOW}: {error}"))?);
    options.profile = Profile::Kstatus;
    Ok(options)
}

fn compare(line: usize, recorded: &Line<'_>, options: &Options, tally: &mut Tally) -> Outcome<()> {
    tally.objects += 1;
    let bytes = recorded.object.get().as_bytes();
    let object: Value = serde_json::from_slice(bytes)?;
    let answer = &recorded.answer;
    let verdict = kstatus::compute(bytes, options);

    let difference = |sort: &str, upstream: String, ours: String| {
        let object = printed_object(&object, &verdict, options);
        let kind = serde_json::from_str::<Value>(&object)
            .ok()
            .and_then(|object| Some(object.get("kind")?.as_str()?.to_owned()))
            .unwrap_or_default();
        Some((format!("{kind} {sort}"), Difference { line, object, upstream, ours }))
    };

    let (class, found) = match answer {
        Answer { panic: Some(panic), .. } => (
            Class::Panic,
            if is_malformed(&verdict, None) {
                None
            } else {
                difference("", format!("panic: {panic}"), described(&verdict))
            },
        ),
        Answer { error: Some(error), .. } => (
            Class::of_error(error),
            if is_malformed(&verdict, Some(error)) {
                None
            } else {
                difference(&sort_of(error), format!("error: {error}"), described(&verdict))
            },
        ),
        Answer { status, message, conditions, .. } => {
            let status = status.as_deref().unwrap_or_default();
            let upstream = conditions.as_deref().unwrap_or_default();
            let ours = conditions_of(&verdict);
            let equal =
                verdict.status.to_string() == status && *verdict.message == **message && ours == upstream;
            let found = if equal {
                None
            } else {
                difference(
                    &format!("{status} and {}, {}", verdict.status, sort_of(message)),
                    format!("{status} {message:?} {upstream:?}"),
                    described(&verdict),
                )
            };
            (Class::Verdict, found)
        }
    };
    tally.add(class, found);

    let from_value = kstatus::compute_value(&object, options);
    tally.add(
        Class::ParsedValue,
        if from_value == verdict {
            None
        } else {
            difference(
                "",
                format!("(from bytes) {}", described(&verdict)),
                format!("(from value) {}", described(&from_value)),
            )
        },
    );

    let augmented = kstatus::augment(bytes, options);
    let told_augmented = || match &augmented {
        Ok(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Err(error) => format!("error: {error}"),
    };
    let (class, found) = match &answer.augmented {
        _ if answer.panic.is_some() => (
            Class::AugmentPanic,
            if augmented.is_err() { None } else { difference("", "panic".to_owned(), told_augmented()) },
        ),
        Some(Value::Object(failed)) => {
            let text = failed.get("error").and_then(Value::as_str).unwrap_or_default();
            let equal = augmented.as_ref().is_err_and(|error| error.to_string() == text);
            let found = if equal {
                None
            } else {
                difference(&sort_of(text), format!("error: {text}"), told_augmented())
            };
            (Class::AugmentError, found)
        }
        recorded => {
            let expected = expected_augmented(&object, recorded.as_ref(), answer);
            let equal = augmented
                .as_ref()
                .ok()
                .and_then(|bytes| serde_json::from_slice(bytes).ok())
                .is_some_and(|ours| same(&ours, &expected));
            let found = if equal {
                None
            } else {
                difference("", format!("(with times) {expected}"), told_augmented())
            };
            (Class::Augmented, found)
        }
    };
    tally.add(class, found);
    Ok(())
}

fn is_malformed(verdict: &Verdict, text: Option<&str>) -> bool {
    verdict.status == kstatus::Status::Unknown
        && *verdict.reason == *"Malformed"
        && conditions_of(verdict).is_empty()
        && text.is_none_or(|text| *verdict.message == *text)
}

fn conditions_of(verdict: &Verdict) -> Vec<Condition> {
    verdict
        .condition()
        .iter()
        .map(|condition| Condition {
            type_: condition.type_.to_owned(),
            status: condition.status.to_owned(),
            reason: condition.reason.to_owned(),
            message: condition.message.to_owned(),
        })
        .collect()
}

fn described(verdict: &Verdict) -> String {
    let Verdict { status, reason, message, .. } = verdict;
    format!("{status} {reason:?} {message:?} {:?}", conditions_of(verdict))
}

/// The complete result of augment: the input with the recorded conditions, and with times by upstream's rule. A written
/// condition gets `lastUpdateTime`, and also `lastTransitionTime` if its status changes or it is new; other conditions
/// keep theirs.
fn expected_augmented(object: &Value, recorded: Option<&Value>, answer: &Answer) -> Value {
    const TIMES: [&str; 2] = ["lastTransitionTime", "lastUpdateTime"];
    let mut expected = object.clone();
    let Some(recorded) = recorded.and_then(Value::as_array) else { return expected };
    let before =
        object.pointer("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let written: Vec<&str> =
        answer.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect();

    let conditions = recorded.iter().enumerate().map(|(at, condition)| {
        let mut condition = condition.clone();
        let Some(fields) = condition.as_object_mut() else { return condition };
        let is_written = fields.get("type").and_then(Value::as_str).is_some_and(|it| written.contains(&it));
        let old = before.get(at).and_then(Value::as_object);
        let kept = |name: &str| old.and_then(|old| old.get(name)).cloned();
        let [transition, update] = if is_written {
            let same_status = old.is_some_and(|old| old.get("status") == fields.get("status"));
            [if same_status { kept(TIMES[0]) } else { Some(json!(NOW)) }, Some(json!(NOW))]
        } else {
            TIMES.map(kept)
        };
        set(fields, TIMES[0], transition);
        set(fields, TIMES[1], update);
        condition
    });
    let conditions = Value::Array(conditions.collect());

    if let Some(top) = expected.as_object_mut() {
        let status = top.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.insert("conditions".to_owned(), conditions);
        }
    }
    expected
}

fn set(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

/// JSON equality after a round trip through Go: `2.0` becomes `2`.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Replaces digits and quoted values, to group differences by cause.
fn sort_of(text: &str) -> String {
    let folded: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let (head, tail) = folded.split_once("accessor error: ").unwrap_or(("", &folded));
    let tail =
        if head.is_empty() { tail } else { tail.rsplit_once(" is of ").map_or(tail, |(_, tail)| tail) };
    tail.chars().take(60).collect()
}

/// Removes fields that upstream's rules never read, unless that would change our verdict.
fn printed_object(object: &Value, verdict: &Verdict, options: &Options) -> String {
    const METADATA: [&str; 5] = ["name", "namespace", "generation", "creationTimestamp", "deletionTimestamp"];
    const SPEC: [&str; 9] = [
        "clusterIP",
        "completions",
        "parallelism",
        "paused",
        "progressDeadlineSeconds",
        "replicas",
        "suspend",
        "type",
        "updateStrategy",
    ];
    let mut reduced = object.clone();
    if let Some(top) = reduced.as_object_mut() {
        top.retain(|key, _| ["apiVersion", "kind", "metadata", "spec", "status"].contains(&key.as_str()));
        for (part, read) in [("metadata", &METADATA[..]), ("spec", &SPEC[..])] {
            if let Some(fields) = top.get_mut(part).and_then(Value::as_object_mut) {
                fields.retain(|key, _| read.contains(&key.as_str()));
            }
        }
    }
    let text = reduced.to_string();
    if kstatus::compute(text.as_bytes(), options) == *verdict {
        return text;
    }
    format!("{object}\n  (complete: our verdict changes without the fields that upstream does not read)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn augmented_times_follow_from_the_object() {
        let condition = |type_: &str, status: &str| Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: String::new(),
            message: String::new(),
        };
        let answer = |conditions| Answer {
            status: None,
            message: String::new(),
            conditions: Some(conditions),
            error: None,
            panic: None,
            augmented: None,
        };
        // (conditions before, what is recorded, what is expected)
        for (before, recorded, expected) in [
            (
                json!([{"type": "Ready", "lastTransitionTime": "a"}]),
                json!([{"type": "Ready", "lastTransitionTime": "a"}, {"type": "Stalled", "status": "True"}]),
                json!([{"type": "Ready", "lastTransitionTime": "a"},
                       {"type": "Stalled", "status": "True", "lastTransitionTime": NOW, "lastUpdateTime": NOW}]),
            ),
            (
                json!([{"type": "Stalled", "status": "True", "lastTransitionTime": "a"}]),
                json!([{"type": "Stalled", "status": "True"}]),
                json!([{"type": "Stalled", "status": "True", "lastTransitionTime": "a", "lastUpdateTime": NOW}]),
            ),
            (
                json!([{"type": "Reconciling", "status": "False", "lastTransitionTime": "a"},
                       {"type": "Stalled", "status": "False", "lastUpdateTime": "b"}]),
                json!([{"type": "Reconciling", "status": "False"}, {"type": "Stalled", "status": "True"}]),
                json!([{"type": "Reconciling", "status": "False", "lastTransitionTime": "a"},
                       {"type": "Stalled", "status": "True", "lastTransitionTime": NOW, "lastUpdateTime": NOW}]),
            ),
        ] {
            let object = json!({"kind": "X", "status": {"conditions": before}});
            let augmented =
                expected_augmented(&object, Some(&recorded), &answer(vec![condition("Stalled", "True")]));
            assert_eq!(augmented, json!({"kind": "X", "status": {"conditions": expected}}));
        }
    }

    #[test]
    fn floats_without_a_fraction_equal_the_integer_that_go_writes() {
        assert!(same(&json!({"a": [2.0]}), &json!({"a": [2]})));
        assert!(!same(&json!(2.5), &json!(2)));
        assert!(!same(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992_i64)));
    }
}
