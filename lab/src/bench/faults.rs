//! Benchmark of fault exploration: schedules per minute of the example controllers of `settled-faults`, in a process of
//! their own.

use std::process::Command;

use super::page::Page;
use crate::examples::{self, Beside};
use crate::measure::{Table, cores, figure};
use crate::{Outcome, process};

/// The scenario with the bar: a controller with three objects for each custom resource.
const SCENARIO: &str = "sites";
/// Schedules of each scenario: a minute of the first one at its bar.
const SCHEDULES: usize = 10_000;
const SMOKE_SCHEDULES: usize = 10;
const BAR_PER_MINUTE: f64 = 10_000.0;
/// The bar is for so many cores.
const BAR_CORES: usize = 2;

/// The line of a report.
#[derive(Debug, PartialEq)]
struct Explored {
    scenario: String,
    schedules: usize,
    writes: usize,
    seconds: f64,
    passes: bool,
}

impl Explored {
    /// Reads `sites: 10002 of 156226 schedules over 32 writes in 55.2s (10872 per minute): all pass`.
    fn parse(line: &str) -> Option<Self> {
        let (scenario, rest) = line.split_once(": ")?;
        let (schedules, rest) = rest.split_once(" of ")?;
        let (_, rest) = rest.split_once(" schedules over ")?;
        let (writes, rest) = rest.split_once(" writes in ")?;
        let (seconds, rest) = rest.split_once("s (")?;
        Some(Self {
            scenario: scenario.to_owned(),
            schedules: schedules.parse().ok()?,
            writes: writes.parse().ok()?,
            seconds: seconds.parse().ok()?,
            passes: rest.ends_with("): all pass"),
        })
    }

    fn per_minute(&self) -> f64 {
        self.schedules as f64 * 60.0 / self.seconds
    }
}

/// Runs `bench faults [--smoke] [--write-docs]`; false if the bar is missed, or a controller fails.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    let mut page = Page::new("faults", write_docs && !smoke);
    page.machine("cargo xtask bench faults --write-docs")?;
    let beside = if smoke { Beside::Tests } else { Beside::Alone };
    let program = examples::build("settled-faults", "controllers", beside)?;
    let mut command = Command::new(program);
    command.arg(if smoke { SMOKE_SCHEDULES } else { SCHEDULES }.to_string());
    let output = process::started(command.output(), &command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let explored: Vec<Explored> = text.lines().filter_map(Explored::parse).collect();
    let Some(sites) = explored.iter().find(|explored| explored.scenario == SCENARIO) else {
        return Err(format!("it does not report {SCENARIO}: {text}").into());
    };
    if !output.status.success() || !explored.iter().all(|explored| explored.passes) {
        println!("{text}");
        return Ok(false);
    }
    let mut table = Table::new(["scenario", "writes", "schedules", "seconds", "schedules per minute"]);
    for explored in &explored {
        table.row([
            explored.scenario.clone(),
            explored.writes.to_string(),
            explored.schedules.to_string(),
            figure(explored.seconds),
            figure(explored.per_minute()),
        ]);
    }
    page.table(&table);
    let met = sites.per_minute() >= BAR_PER_MINUTE;
    page.line(&format!(
        "Bar: {} schedules of `{SCENARIO}` per minute on {BAR_CORES} cores: {}.",
        figure(BAR_PER_MINUTE),
        if met { "yes" } else { "NO" },
    ));
    page.publish()?;
    // With fewer cores than the bar is for, and in a short run, only the reports count.
    Ok(met || smoke || cores() < BAR_CORES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let line = "sites: 2002 of 156226 schedules over 32 writes in 20.0s (6006 per minute): all pass";
        let explored = Explored::parse(line).unwrap();
        assert_eq!((explored.schedules, explored.writes, explored.passes), (2002, 32, true));
        assert_eq!(explored.per_minute(), 6006.0);
        let failed = Explored::parse(&line.replace("all pass", "1 check fails"));
        assert_eq!(failed.map(|explored| explored.passes), Some(false));
        assert_eq!(Explored::parse("  replay:   settled_faults::replay(…)"), None);
    }
}
