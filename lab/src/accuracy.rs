//! Accuracy of verdicts, compared with upstream kstatus: on the test cases of the rule pack, on those of the examinations,
//! and by kind on the published cases of the corpus if available.
//!
//! The rules were written and revised with all sets in view, so no figure predicts accuracy on new kinds. Those of the
//! examinations before the rules were revised are in the document.

use std::collections::BTreeMap;
use std::fs;

use kstatus::{Options, Profile, Status, Verdict, compute};
use settled_rules::RuleSet;

use crate::{Outcome, corpora};

/// The page with the figures.
const DOCUMENT: &str = "docs/accuracy.md";

/// The day the cases were collected: a few verdicts depend on elapsed time.
const NOW: &str = "2026-07-31T00:00:00Z";

/// The time at which the cases of the examinations take place.
const EXAMINATION_NOW: &str = "2026-11-20T10:30:00Z";

/// The names of the examinations.
const ORDINALS: [&str; 2] = ["first", "second"];

/// Minimum share of correct statuses of the default profile.
const BAR: f64 = 0.99;
/// Minimum share on the pack's own cases, which `rules test` checks in full.
const PACK_BAR: f64 = 1.0;
/// Minimum share on the cases of each examination, and maximum share of false Current of those that are not Current.
const EXAMINATION_BARS: [(f64, f64); 2] = [(0.975, 0.005), (0.97, 0.007)];
/// The same without the pack, as kinds are read that have no rule: on the pack's own cases, on those of the first examination
/// and on the published ones.
const GENERIC_BARS: [(f64, f64); 3] = [(0.57, 0.058), (0.75, 0.034), (0.70, 0.06)];

/// Scores of one kind, in one profile.
#[derive(Clone, Copy, Default)]
struct Score {
    right: usize,
    /// Wrongly Current: the worst error, since it ends a wait.
    false_current: usize,
}

#[derive(Clone, Copy, Default)]
struct Kind {
    cases: usize,
    settled: Score,
    kstatus: Score,
}

/// Scores of one set, and the cases with an unexpected status.
#[derive(Default)]
struct Scores {
    kinds: BTreeMap<String, Kind>,
    total: Kind,
    /// Cases that expect another status than Current.
    not_current: usize,
    differing: Vec<String>,
}

impl Scores {
    fn add(&mut self, kind: &str, name: &str, expect: Status, settled: &Verdict, kstatus: &Verdict) {
        self.not_current += usize::from(expect != Status::Current);
        for kind in [self.kinds.entry(kind.to_owned()).or_default(), &mut self.total] {
            kind.cases += 1;
            for (score, verdict) in [(&mut kind.settled, settled), (&mut kind.kstatus, kstatus)] {
                score.right += usize::from(verdict.status == expect);
                score.false_current +=
                    usize::from(verdict.status == Status::Current && expect != Status::Current);
            }
        }
        if settled.status != expect {
            self.differing.push(format!("{name}: expected {expect}, found {settled} [{}]", settled.basis));
        }
    }

    fn share(&self, score: Score) -> f64 {
        score.right as f64 / self.total.cases as f64
    }

    /// Prints the totals; false if the bar is missed.
    fn summary(&self, about: &str, bar: f64, differences: bool) -> bool {
        let Kind { cases, settled, kstatus } = self.total;
        let met = self.share(settled) >= bar;
        println!(
            "{about}: {cases} cases of {} kinds; right: settled {} ({:.1} %), kstatus {} ({:.1} %); false Current: {} and {}; bar {:.1} %, {}",
            self.kinds.len(),
            settled.right,
            100.0 * self.share(settled),
            kstatus.right,
            100.0 * self.share(kstatus),
            settled.false_current,
            kstatus.false_current,
            100.0 * bar,
            if met { "met" } else { "MISSED" }
        );
        if differences || !met {
            self.list_differing();
        }
        met
    }

    fn list_differing(&self) {
        for case in &self.differing {
            println!("- {case}");
        }
    }

    /// Prints the totals as a row of the document; false if a bar is missed, or the document has another one.
    fn row(&self, set: &str, about: &str, (bar, max_false_current): (f64, f64)) -> Outcome<bool> {
        let Kind { cases, settled, .. } = self.total;
        let false_current = settled.false_current as f64 / self.not_current.max(1) as f64;
        let met = self.share(settled) >= bar && false_current <= max_false_current;
        let row = format!(
            "| {about} | {} of {cases} ({:.1} %) | {} of {} ({:.1} %) |",
            settled.right,
            100.0 * self.share(settled),
            settled.false_current,
            self.not_current,
            100.0 * false_current,
        );
        println!(
            "{set}, right and false Current: {row} bars {:.1} and {:.1} %, {}",
            100.0 * bar,
            100.0 * max_false_current,
            if met { "met" } else { "MISSED" }
        );
        let document = fs::read_to_string(corpora::root().join(DOCUMENT))?;
        let is_documented = document.lines().any(|line| line == row);
        if !is_documented {
            println!("{DOCUMENT} is out of date: put this row into its table");
        }
        Ok(met && is_documented)
    }
}

/// The rules, with or without the pack.
fn rules(with_pack: bool) -> RuleSet {
    RuleSet::builder().builtin(with_pack).build()
}

/// The cases of the pack's rules, if they expect a status.
fn pack(rules: &RuleSet) -> Outcome<Scores> {
    let mut scores = Scores::default();
    for case in corpora::pack_cases()? {
        let Some(expect) = case.expect else { continue };
        let expect: Status = expect.parse().map_err(|error| format!("{}: {error}", case.name))?;
        let now = case.now.as_deref().unwrap_or(NOW);
        let options = Options::new(now.parse().map_err(|error| format!("{}: {error}", case.name))?);
        let upstream = Options { profile: Profile::Kstatus, ..options };
        let object = serde_json::to_vec(&case.object)?;
        let (settled, kstatus) = (rules.compute(&object, &options), compute(&object, &upstream));
        scores.add(&case.kind, &case.name, expect, &settled, &kstatus);
    }
    Ok(scores)
}

/// The cases of authors who had not seen the rules.
fn examination(rules: &RuleSet, number: usize) -> Outcome<Scores> {
    let options =
        Options::new(EXAMINATION_NOW.parse().map_err(|error| format!("{EXAMINATION_NOW}: {error}"))?);
    let upstream = Options { profile: Profile::Kstatus, ..options };
    let mut scores = Scores::default();
    for case in corpora::examination(number)? {
        let object = case.object.get().as_bytes();
        let opinion = if case.opinion { ", an opinion" } else { "" };
        let name = format!("{} {}{opinion}", case.kind, case.name);
        let (settled, kstatus) = (rules.compute(object, &options), compute(object, &upstream));
        scores.add(&case.kind, &name, case.expect.parse()?, &settled, &kstatus);
    }
    Ok(scores)
}

/// The corpus' published cases.
fn published(rules: &RuleSet, cases: &[corpora::Expected]) -> Outcome<Scores> {
    let options = Options::new(NOW.parse().map_err(|error| format!("{NOW}: {error}"))?);
    let upstream = Options { profile: Profile::Kstatus, ..options };
    let mut scores = Scores::default();
    for case in cases {
        let name = format!("{} ({})", case.name, case.argo);
        let (settled, kstatus) = (rules.compute(&case.object, &options), compute(&case.object, &upstream));
        scores.add(&case.kind, &name, case.expect.parse()?, &settled, &kstatus);
    }
    Ok(scores)
}

/// Prints the totals of both sets, and the table of the corpus' kinds; with `--markdown` as part of a document, and
/// with `--differences` each differing case. False if a bar is missed.
pub(crate) fn run(markdown: bool, differences: bool) -> Outcome<bool> {
    let (with_pack, without) = (rules(true), rules(false));
    let mut met = pack(&with_pack)?.summary(
        "the pack's own cases, which its rules were written with",
        PACK_BAR,
        differences,
    );
    met &= pack(&without)?.row("without the pack", "the pack's own cases", GENERIC_BARS[0])?;
    for (number, bars) in (1..).zip(EXAMINATION_BARS) {
        let scores = examination(&with_pack, number)?;
        met &= scores.row("examination", &format!("{}, today", ORDINALS[number - 1]), bars)?;
        if differences {
            scores.list_differing();
        }
    }
    met &= examination(&without, 1)?.row("without the pack", "first examination, seen", GENERIC_BARS[1])?;
    println!(
        "`settled rules test` checks the same expectations; how right the rules are on other kinds, neither shows"
    );
    let Some(cases) = corpora::expected_health()? else {
        println!("published cases: not in this clone (../shared/corpora/health-cases.jsonl)");
        return Ok(met);
    };
    let scores = published(&with_pack, &cases)?;
    print(&scores.kinds, scores.total, markdown);
    println!();
    met &= scores.summary("published cases, seen", BAR, differences);
    met &= published(&without, &cases)?.row("without the pack", "published cases, seen", GENERIC_BARS[2])?;
    Ok(met)
}

fn print(kinds: &BTreeMap<String, Kind>, total: Kind, markdown: bool) {
    let mut rows: Vec<(String, Kind)> = kinds.iter().map(|(name, kind)| (name.clone(), *kind)).collect();
    rows.sort_by_key(|(name, kind)| {
        let wrong = kind.cases - kind.settled.right;
        (std::cmp::Reverse(kind.settled.false_current), std::cmp::Reverse(wrong), name.clone())
    });
    rows.push((format!("all {} kinds", rows.len()), total));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |name: &str, cells: [String; 5]| {
        let [cases, right, current, their_right, their_current] = cells;
        if markdown {
            println!("| {name} | {cases} | {right} | {current} | {their_right} | {their_current} |");
        } else {
            println!(
                "{name:width$}  {cases:>5}  {right:>7}  {current:>13}  {their_right:>7}  {their_current:>13}"
            );
        }
    };
    if markdown {
        println!("| kind | cases | right | false Current | `kstatus`: right | `kstatus`: false Current |");
        println!("|---|--:|--:|--:|--:|--:|");
    } else {
        println!("{:width$}  {:>5}  {:>22}  {:>22}", "", "", "settled", "kstatus");
        line("kind", ["cases", "right", "false Current", "right", "false Current"].map(str::to_owned));
    }
    for (name, kind) in &rows {
        let cells = [
            kind.cases,
            kind.settled.right,
            kind.settled.false_current,
            kind.kstatus.right,
            kind.kstatus.false_current,
        ];
        line(name, cells.map(|number| number.to_string()));
    }
}
