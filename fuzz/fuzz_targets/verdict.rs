//! Any bytes, as an object: a verdict in both profiles and no panic; the same bytes are JSON for us and for
//! serde_json; bytes and parsed value give the same; what `augment` writes can be read, and augmenting it again
//! changes nothing.
//!
//! The objects of the test cases are the seeds: a rule is fuzzed as soon as it has a case.
#![no_main]

use std::ops::Range;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use kstatus::{MAX_DEPTH, Object, Options, Profile, augment, augment_value, compute, compute_value};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use serde::de::IgnoredAny;
use serde_json::Value;

/// What a look at the tokens of JSON tells.
#[derive(Default)]
struct Tokens {
    /// The deepest nesting of lists and maps.
    depth: usize,
    /// Whether a number is `-0`. It is the integer 0 in the bytes, as in Go, and the float -0.0 in a `Value`.
    negative_zero: bool,
    /// Where values and keys lie.
    spans: Vec<Range<usize>>,
}

/// Reads the tokens of JSON; of other bytes it gives something.
fn tokens(json: &[u8]) -> Tokens {
    let mut tokens = Tokens::default();
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' | b'[' => {
                open.push(start);
                tokens.depth = tokens.depth.max(open.len());
            }
            b'}' | b']' => tokens.spans.extend(open.pop().map(|start| start..at)),
            b'"' => {
                while let Some(&byte) = json.get(at) {
                    at += if byte == b'\\' { 2 } else { 1 };
                    if byte == b'"' {
                        break;
                    }
                }
                at = at.min(json.len());
                tokens.spans.push(start..at);
            }
            b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                while json
                    .get(at)
                    .is_some_and(|byte| matches!(byte, b'-' | b'+' | b'.') || byte.is_ascii_alphanumeric())
                {
                    at += 1;
                }
                tokens.negative_zero |= json.get(start..at) == Some(b"-0");
                tokens.spans.push(start..at);
            }
            _ => {}
        }
    }
    tokens
}

/// An object starts with a brace; white space is what JSON calls so.
fn starts_with_brace(json: &[u8]) -> bool {
    json.iter().find(|byte| !matches!(byte, b' ' | b'\n' | b'\t' | b'\r')) == Some(&b'{')
}

/// An object is read if and only if serde_json finds no fault in it.
///
/// `IgnoredAny` means the same as ours by JSON: it steps over strings without asking whether they are UTF-8 and
/// whether surrogates come in pairs, and over numbers without asking whether they fit. It has no bound for the depth.
/// So no input has to be left out but one that is nested too deeply for us.
fn check_reading(json: &[u8], tokens: &Tokens) {
    let ours = Object::parse(json);
    let theirs = serde_json::from_slice::<IgnoredAny>(json);
    let is_object = theirs.is_ok() && starts_with_brace(json);
    if is_object && tokens.depth > MAX_DEPTH {
        // Ours counts from the first level that no rule reads into: at most four levels further.
        assert!(tokens.depth <= MAX_DEPTH + 4 || ours.is_err(), "depth {}", tokens.depth);
        return;
    }
    assert_eq!(ours.is_ok(), is_object, "ours: {:?}; serde_json: {theirs:?}", ours.err());
}

fn check_verdict(json: &[u8], value: Option<&Value>, options: &Options) {
    let verdict = compute(json, options);
    assert_eq!(verdict, compute(json, options));
    if let Some(value) = value {
        assert_eq!(verdict, compute_value(value, options), "bytes, then value; {}", options.profile);
    }
    let Ok(augmented) = augment(json, options) else { return };
    let text = String::from_utf8_lossy(&augmented);
    if let Err(error) = Object::parse(&augmented) {
        panic!("augmented in {}: {error}: {text}", options.profile);
    }
    if let Some(value) = value {
        let mut from_value = value.clone();
        let outcome = augment_value(&mut from_value, options);
        assert_eq!(outcome, Ok(()), "bytes were augmented; {}", options.profile);
        let from_bytes: Value = serde_json::from_slice(&augmented).expect("what was a value still is");
        assert_eq!(from_bytes, from_value, "augmented bytes, then value; {}", options.profile);
    }
}

/// Augmenting an object again changes nothing, not even the times in its conditions when time has gone on.
fn check_again(json: &[u8], now: Timestamp) {
    // Before the grace period has passed a Pod's message says for how long it has waited: here it always has.
    let options = Options { schedule_grace: SignedDuration::MIN, ..Options::new(now) };
    let Ok(augmented) = augment(json, &options) else { return };
    let later = Options { now: now + SignedDuration::from_secs(1), ..options };
    let again = augment(&augmented, &later).map(|again| String::from_utf8_lossy(&again).into_owned());
    assert_eq!(again.as_deref(), Ok(&*String::from_utf8_lossy(&augmented)), "augmented again");
}

fuzz_target!(|json: &[u8]| {
    let tokens = tokens(json);
    check_reading(json, &tokens);
    // serde_json has no value for what is nested deeper than 128 levels, for text that is not Unicode and for
    // numbers beyond its floats. Of two members with one key the last counts for both.
    let value = serde_json::from_slice::<Value>(json).ok().filter(|_| !tokens.negative_zero);
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    check_again(json, now);
    for &profile in Profile::ALL {
        let options = Options { profile, ..Options::new(now) };
        check_verdict(json, value.as_ref(), &options);
        check_verdict(
            json,
            value.as_ref(),
            &Options { assume_current: true, require_address: false, ..options },
        );
    }
});

/// The objects of the test cases, with the apiVersion and kind of the heading above them.
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let files = [
        include_str!("../../crates/kstatus/tests/cases/any-kind.txt"),
        include_str!("../../crates/kstatus/tests/cases/cluster.txt"),
        include_str!("../../crates/kstatus/tests/cases/network-and-storage.txt"),
        include_str!("../../crates/kstatus/tests/cases/pods.txt"),
        include_str!("../../crates/kstatus/tests/cases/workloads.txt"),
    ];
    let mut seeds = Vec::new();
    let mut heading = ("", "");
    for line in files.iter().flat_map(|file| file.lines()) {
        if let Some(names) = line.strip_prefix("## ") {
            heading = names.split_once(' ').expect("a heading is an apiVersion and a kind");
        } else if let Some(members) = line.strip_prefix('{') {
            let (api_version, kind) = heading;
            let comma = if members == "}" { "" } else { "," };
            let object = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}"{comma}{members}"#);
            seeds.push(object.into_bytes());
        }
    }
    seeds
});

/// A stream of numbers that one seed gives.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % bound.max(1)
    }

    fn seed(&mut self) -> &'static [u8] {
        let at = self.below(SEEDS.len());
        &SEEDS[at]
    }

    fn value_of(&mut self, json: &[u8]) -> Range<usize> {
        let spans = tokens(json).spans;
        spans.get(self.below(spans.len())).cloned().unwrap_or_default()
    }

    fn key_of(&mut self, json: &[u8]) -> Range<usize> {
        let mut spans = tokens(json).spans;
        spans.retain(|span| json.get(span.end) == Some(&b':'));
        spans.get(self.below(spans.len())).cloned().unwrap_or_default()
    }
}

// Bytes changed at random hardly ever stay JSON with a known kind. So now and then a case takes the place of the
// input, often a value in the input gives way to a value of a case, and sometimes a key is given a second time.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random(seed);
    let choice = random.below(64);
    let mutated = match choice {
        0 => random.seed().to_vec(),
        1..32 => {
            let from = random.seed();
            let new = random.value_of(from);
            let old = random.value_of(&data[..size]);
            [&data[..old.start], &from[new], &data[old.end..size]].concat()
        }
        32..40 => {
            let json = &data[..size];
            let maps: Vec<usize> = (0..size).filter(|&at| json[at] == b'{').map(|at| at + 1).collect();
            let at = maps.get(random.below(maps.len())).copied().unwrap_or(size);
            let key = random.key_of(json);
            let value = random.value_of(json);
            [&json[..at], &json[key], b":", &json[value], b",", &json[at..]].concat()
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    if mutated.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..mutated.len()].copy_from_slice(&mutated);
    mutated.len()
});
