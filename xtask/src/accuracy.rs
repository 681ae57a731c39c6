//! How often the verdict is right: on the published cases of the corpus, per kind, beside upstream's reading.

use std::collections::BTreeMap;

use kstatus::{Options, Profile, Status, compute};
use settled_rules::RuleSet;

use crate::{Outcome, corpora};

/// The day the cases were collected: a few verdicts depend on how long something lasts.
const NOW: &str = "2026-07-31T00:00:00Z";

/// The share of right statuses that the default profile must reach.
const BAR: f64 = 0.99;

/// One kind, in one profile.
#[derive(Clone, Copy, Default)]
struct Score {
    right: usize,
    /// Called Current what is not: the worst mistake, for it ends a wait.
    false_current: usize,
}

#[derive(Default)]
struct Kind {
    cases: usize,
    settled: Score,
    kstatus: Score,
}

/// Prints the table; with `--markdown` as a part of a document, and with `--differences` each case that differs.
/// False where the bar is missed.
pub(crate) fn run(markdown: bool, differences: bool) -> Outcome<bool> {
    let Some(cases) = corpora::expected_health()? else {
        println!("SKIPPED: accuracy: the corpus is not at hand (../shared/corpora/health-cases.jsonl)");
        return Ok(true);
    };
    let rules = RuleSet::default();
    let options = Options::new(NOW.parse().map_err(|error| format!("{NOW}: {error}"))?);
    let upstream = Options { profile: Profile::Kstatus, ..options };
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let mut total = Kind::default();
    let mut differing = Vec::new();
    for case in &cases {
        let expect: Status = case.expect.parse()?;
        let verdict = rules.compute(&case.object, &options);
        let theirs = compute(&case.object, &upstream);
        for kind in [kinds.entry(case.kind.clone()).or_default(), &mut total] {
            kind.cases += 1;
            for (score, status) in [(&mut kind.settled, verdict.status), (&mut kind.kstatus, theirs.status)] {
                score.right += usize::from(status == expect);
                score.false_current += usize::from(status == Status::Current && expect != Status::Current);
            }
        }
        if verdict.status != expect {
            differing.push(format!(
                "{}: expected {expect} ({}), found {verdict} [{}]",
                case.name, case.argo, verdict.basis
            ));
        }
    }
    let mut rows: Vec<(String, Kind)> = kinds.into_iter().collect();
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
    let Some((_, total)) = rows.last() else { return Ok(false) };
    let share = |score: Score| score.right as f64 / total.cases as f64;
    let met = share(total.settled) >= BAR;
    println!();
    println!(
        "right: settled {:.1} %, kstatus {:.1} %; bar {:.0} %, {}",
        100.0 * share(total.settled),
        100.0 * share(total.kstatus),
        100.0 * BAR,
        if met { "met" } else { "MISSED" }
    );
    if differences || !met {
        for case in differing {
            println!("- {case}");
        }
    }
    Ok(met)
}
