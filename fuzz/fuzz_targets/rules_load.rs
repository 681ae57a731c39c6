//! Any bytes, as a file of rules, and as an expression or a text with expressions in a file that is right otherwise:
//! no panic, no hang, no waste of memory; each error has a place in the file; rules that are read can be listed.
//!
//! The rules of the built-in pack are the seeds.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use settled_rules::RuleSet;

/// Whether it could be read.
fn load(text: &str) -> bool {
    let lines = text.split('\n').count();
    match RuleSet::builder().builtin(false).add("fuzz.yaml", text) {
        Ok(builder) => {
            let rules = builder.build();
            for rule in rules.list() {
                assert!((1..=lines).contains(&rule.line), "{rule:?}");
                assert!(!rule.text.is_empty(), "{rule:?}");
            }
            true
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            for error in &errors.0 {
                assert!(!error.message.is_empty(), "{error}");
                // An error at the end stands on the line after the last.
                assert!((1..=lines + 1).contains(&error.line) && error.column >= 1, "{error}");
            }
            false
        }
    }
}

/// A pack whose `key` is any text; JSON's way to quote is one of YAML's.
fn pack(key: &str, text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("text is JSON");
    format!(
        "apiVersion: settled.dev/v1alpha1\nkind: RulePack\nrules:\n- match: {{group: example.com, kind: Widget}}\n  \
         failed: {{when: 'true', {key}: {quoted}}}\n"
    )
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses what the rest is.
    let Some((choice, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match choice {
        b'm' => _ = load(&pack("message", &text)),
        b'f' => _ = load(&pack("from", &text)),
        b'e' => {
            let expression =
                pack("reason", "R").replace("'true'", &serde_json::to_string(&text).expect("text is JSON"));
            load(&expression);
        }
        _ => _ = load(&text),
    }
});

static SEEDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let rules = RuleSet::default().list();
    let texts = rules.iter().map(|rule| {
        // Without the comment, which is for people.
        let body: Vec<&str> = rule.text.lines().filter(|line| !line.starts_with('#')).collect();
        body.join("\n")
    });
    texts.collect()
});

struct Random(u32);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % bound.max(1)
    }

    fn seed(&mut self) -> &'static str {
        let at = self.below(SEEDS.len());
        &SEEDS[at]
    }

    /// A piece of a text between two places where a word or an operator begins.
    fn piece<'t>(&mut self, text: &'t [u8]) -> std::ops::Range<usize> {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
        let mut cuts: Vec<usize> =
            (1..text.len()).filter(|&at| !is_word(&text[at]) || !is_word(&text[at - 1])).collect();
        cuts.extend([0, text.len()]);
        let from = cuts[self.below(cuts.len())];
        let to = if self.below(2) == 0 { from + self.below(24) } else { cuts[self.below(cuts.len())] };
        from.min(to)..to.max(from).min(text.len())
    }
}

// Now and then a rule takes the place of the input; often a piece of the input gives way to a piece of a rule, or is
// put in many times.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random(seed);
    let input = &data[..size];
    let mutated = match random.below(64) {
        0 | 1 => {
            let rules =
                format!("yapiVersion: settled.dev/v1alpha1\nkind: RulePack\nrules:\n{}\n", random.seed());
            rules.into_bytes()
        }
        2 | 3 => {
            let from = random.seed().as_bytes();
            let piece = random.piece(from);
            let choice = [b"e", b"m", b"f"][random.below(3)];
            [&choice[..], &from[piece]].concat()
        }
        4..24 if size > 0 => {
            let from = random.seed().as_bytes();
            let (new, old) = (random.piece(from), random.piece(input));
            [&input[..old.start], &from[new], &input[old.end..]].concat()
        }
        24..32 if size > 1 => {
            let piece = random.piece(input);
            let times = 1 << random.below(10);
            [&input[..piece.end], &input[piece.clone()].repeat(times)[..], &input[piece.end..]].concat()
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    if mutated.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..mutated.len()].copy_from_slice(&mutated);
    mutated.len()
});
