//! Latency from the last status to the exit.

use super::bench::{Bar, Bench, Setting, millis, on, progress};
use super::objects::done;
use crate::Outcome;
use crate::bench::waiters::{Tool, Waited};
use crate::measure::{Rounds, Table, figure};
use crate::server::Kind;

/// Bars. For each size: the median divided by the best competitor's.
const PART_OF_THE_BEST: f64 = 1.0 / 3.0;
/// The 99th percentile of the rounds of [`super::bench::Plan::tail`], and the worst round with the largest number of
/// objects, in ms.
const P99_BELOW: f64 = 10.0;

impl Bench {
    /// From the last status to the exit of each tool.
    pub(super) fn detect(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        let sizes: Vec<(Waited, usize)> = (plan.pods.iter().map(|count| (Waited::Pods, *count)))
            .chain(plan.deployments.iter().map(|count| (Waited::Deployments, *count)))
            .collect();
        let tools = self.tools.clone();
        let mut writes = Rounds::default();
        let mut measured: Vec<Vec<Rounds>> = vec![vec![Rounds::default(); tools.len()]; sizes.len()];
        // Programs that were never run are read from the disk first.
        for tool in tools.iter().copied().filter(|tool| tool.knows(Waited::Pods)) {
            self.detect_once(tool, &Setting { kind: Waited::Pods, count: 1, ..Setting::default() })?;
        }
        for (row, (kind, count)) in sizes.iter().copied().enumerate() {
            progress(&format!("{count} {}", kind.resource()));
            for round in 0..plan.rounds {
                for (at, tool) in tools.iter().copied().enumerate() {
                    if tool.knows(kind) && round < rounds_of(tool, count, plan.rounds) {
                        let setting = Setting { kind, count, ..Setting::default() };
                        let (took, write) = self.detect_once(tool, &setting)?;
                        measured[row][at].push(took);
                        writes.push(write);
                    }
                }
            }
        }
        self.page.line(&format!("### From the last status to the exit, ms{}", on(self.kind)));
        self.page.line(&format!(
            "{} rounds after one to warm up, the tools taking turns; median (worst); in brackets the rounds where they are fewer. The clock starts when the last \
             status is sent; the server's answer takes {} ({}) ms of it.",
            plan.rounds,
            figure(writes.median()),
            figure(writes.percentile(99)),
        ));
        let mut table = Table::new([
            "objects",
            "settled wait",
            "kubectl wait",
            "rollout status",
            "helm --wait",
            "polling",
            "best other",
        ]);
        let mut bars = Vec::new();
        for ((kind, count), rounds) in sizes.iter().zip(&measured) {
            let of = |tool: Tool| tools.iter().position(|one| *one == tool).map(|at| &rounds[at]);
            let cell = |tool: Tool| {
                of(tool).filter(|rounds| rounds.len() > 0).map_or_else(
                    || "-".to_owned(),
                    |rounds| {
                        let fewer = if rounds.len() < plan.rounds {
                            format!(" [{}]", rounds.len())
                        } else {
                            String::new()
                        };
                        format!("{} ({}){fewer}", figure(rounds.median()), figure(rounds.percentile(99)))
                    },
                )
            };
            let best = Tool::ALL.iter().filter(|tool| **tool != Tool::Settled).filter_map(|tool| of(*tool));
            let best = best.map(Rounds::median).fold(f64::NAN, f64::min);
            let ours = of(Tool::Settled).map_or(f64::NAN, Rounds::median);
            let what = format!("{count} {}", kind.resource());
            table.row([
                what.clone(),
                cell(Tool::Settled),
                cell(Tool::KubectlWait),
                cell(Tool::RolloutStatus),
                cell(Tool::Helm),
                cell(Tool::Polling),
                if ours.is_finite() { format!("{:.1}x", best / ours) } else { figure(best) },
            ]);
            bars.push(Bar {
                what: format!("{what}: median, and that of the best other tool"),
                wanted: "at most a third".to_owned(),
                is: format!("{} of {} ms", figure(ours), figure(best)),
                met: ours <= best * PART_OF_THE_BEST,
                always: false,
            });
            if *count == 2000 {
                let worst = of(Tool::Settled).map_or(f64::NAN, |rounds| rounds.percentile(99));
                bars.push(Bar {
                    what: format!("{what}: the worst of {} rounds", plan.rounds),
                    wanted: format!("under {P99_BELOW} ms"),
                    is: format!("{} ms", figure(worst)),
                    met: worst < P99_BELOW,
                    always: false,
                });
            }
        }
        self.page.table(&table);
        // Percentiles of settled, on any server.
        if self.tools.contains(&Tool::Settled) && self.kind != Kind::RealOnDisk {
            bars.extend(self.tail()?);
        }
        Ok(bars)
    }

    /// settled only, with enough rounds for a 99th percentile.
    fn tail(&mut self) -> Outcome<Vec<Bar>> {
        let (count_of_rounds, sizes) = self.plan.tail;
        let mut table = Table::new(["objects", "rounds", "p50", "p90", "p99", "worst"]);
        let mut bars = Vec::new();
        for count in sizes.iter().copied() {
            progress(&format!("{count_of_rounds} rounds of {count} pods"));
            let mut rounds = Rounds::default();
            for _ in 0..count_of_rounds {
                let setting = Setting { kind: Waited::Pods, count, soon: true, ..Setting::default() };
                rounds.push(self.detect_once(Tool::Settled, &setting)?.0);
            }
            let what = format!("{count} pods");
            let p99 = rounds.percentile(99);
            table.row([
                what.clone(),
                rounds.len().to_string(),
                figure(rounds.median()),
                figure(rounds.percentile(90)),
                figure(p99),
                figure(rounds.percentile(100)),
            ]);
            bars.push(Bar {
                what: format!("{what}: p99 of {} rounds", rounds.len()),
                wanted: format!("under {P99_BELOW} ms"),
                is: format!("{} ms", figure(p99)),
                met: p99 < P99_BELOW,
                always: false,
            });
        }
        self.page.line("`settled wait` alone, in as many rounds as a 99th percentile needs, ms:");
        self.page.table(&table);
        Ok(bars)
    }

    /// Milliseconds from the last status to the exit, and duration of the write.
    pub(super) fn detect_once(&mut self, tool: Tool, setting: &Setting<'_>) -> Outcome<(f64, f64)> {
        let mut started = self.start(tool, setting)?;
        let written = self.write(&started.path, &started.names, &done(setting.kind))?;
        let ended = started.ends(tool, 0)?;
        if ended.at < written.sent {
            return Err(format!("{} ended before the last status was written", tool.name()).into());
        }
        Ok((written.until(ended), millis(written.answered - written.sent)))
    }
}

/// Fewer for `kubectl wait`, which reads ten objects per second on any server: 200 take 20 s, and 2,000 minutes.
fn rounds_of(tool: Tool, count: usize, rounds: usize) -> usize {
    match (tool, count) {
        (Tool::KubectlWait, 2000..) => 0,
        (Tool::KubectlWait, 200..) => rounds.min(2),
        _ => rounds,
    }
}
