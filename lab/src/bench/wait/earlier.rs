//! `settled wait` and `settled status` beside those of an earlier binary, in turn.

use std::process::Command;

use super::bench::{BYTES, Bar, Bench, Setting, progress};
use super::large::Used;
use super::memory::TRACKED;
use super::objects::done;
use crate::Outcome;
use crate::bench::waiters::{By, Tool, Waited};
use crate::measure::{Rounds, Table, figure};

/// The two in turn, the earlier one first.
const TOOLS: [Tool; 2] = [Tool::Earlier, Tool::Settled];

/// What both were measured at: less is better.
struct Compared {
    what: String,
    rounds: [Rounds; 2],
}

impl Compared {
    fn new(what: String) -> Self {
        Self { what, rounds: [Rounds::default(), Rounds::default()] }
    }
}

impl Bench {
    /// Latency, time of commands, and memory of two versions. It has no bars: an earlier version is no reference.
    pub(super) fn earlier(&mut self) -> Outcome<Vec<Bar>> {
        let mut all = self.latencies()?;
        all.extend(self.tracked_of_many()?);
        all.extend(self.commands_on_many()?);
        self.page.line("### Two versions of settled");
        self.page.line(&format!("Medians of up to {} rounds, in turn.", self.plan.rounds));
        let mut table = Table::new(["", "earlier", "this", "better"]);
        for Compared { what, rounds: [earlier, ours] } in all {
            let better = format!("{:.2}x", earlier.median() / ours.median());
            table.row([what, figure(earlier.median()), figure(ours.median()), better]);
        }
        self.page.table(&table);
        Ok(Vec::new())
    }

    fn latencies(&mut self) -> Outcome<Vec<Compared>> {
        let plan = self.plan;
        let pods = plan.pods.iter().map(|count| (Waited::Pods, *count));
        let sizes: Vec<_> =
            pods.chain(plan.deployments.iter().map(|count| (Waited::Deployments, *count))).collect();
        let mut all = Vec::new();
        for (kind, count) in sizes {
            let what = format!("{count} {}", kind.resource());
            progress(&what);
            let mut exit = Compared::new(format!("{what}, last status to exit, ms"));
            // More rounds where they are short.
            for _ in 0..if count < 1000 { plan.rounds * 4 } else { plan.rounds } {
                for (rounds, tool) in exit.rounds.iter_mut().zip(TOOLS) {
                    let setting = Setting { kind, count, soon: count < 1000, ..Setting::default() };
                    rounds.push(self.detect_once(tool, &setting)?.0);
                }
            }
            all.push(exit);
        }
        Ok(all)
    }

    fn tracked_of_many(&mut self) -> Outcome<Vec<Compared>> {
        let among = self.plan.among.iter().copied().find(|among| *among >= 10_000).unwrap_or(1000);
        progress(&format!("{TRACKED} of {among}"));
        let namespace = self.namespace()?;
        self.fill(&namespace, "other", among - TRACKED, BYTES[0])?;
        let mut all = Vec::new();
        for (way, is_file) in [("-f", true), ("-l", false)] {
            let mut memory = Compared::new(format!("`wait {way}`, {TRACKED} of {among} pods, MB"));
            for round in 0..self.plan.rounds.min(3) {
                for (rounds, tool) in memory.rounds.iter_mut().zip(TOOLS) {
                    let prefix =
                        format!("{}{way}{round}", if tool == Tool::Settled { "this" } else { "earlier" });
                    let label = format!("tracked={prefix}");
                    let setting = Setting {
                        namespace: Some(&namespace),
                        count: TRACKED,
                        prefix: &prefix,
                        label: Some(&label),
                        by: if is_file { By::File } else { By::Label(&label) },
                        bytes: BYTES[0],
                        memory: true,
                        ..Setting::default()
                    };
                    let mut started = self.start(tool, &setting)?;
                    self.write(&started.path, &started.names, &done(setting.kind))?;
                    started.ends(tool, 0)?;
                    rounds.push(started.waiter.peak() as f64 / 1e6);
                }
            }
            all.push(memory);
        }
        self.empty(&namespace)?;
        Ok(all)
    }

    /// Commands on many Pods that are done: they end by themselves.
    fn commands_on_many(&mut self) -> Outcome<Vec<Compared>> {
        let count = self.plan.all;
        progress(&format!("{count} large pods"));
        let namespace = self.namespace()?;
        self.fill(&namespace, "large", count, BYTES[1])?;
        let names: Vec<String> = (0..count).map(|at| format!("large-{at:06}")).collect();
        self.write(&Waited::Pods.path(&namespace), &names, &done(Waited::Pods))?;
        let mut all = Vec::new();
        for command in ["status pods -o jsonl", "wait pods --all"] {
            let of = |what: &str| Compared::new(format!("`{command}`, {count} pods, {what}"));
            let [mut seconds, mut cpu, mut memory] = [of("s"), of("CPU s"), of("MB")];
            for _ in 0..self.plan.rounds {
                for (at, tool) in TOOLS.into_iter().enumerate() {
                    let mut run = Command::new(tool.settled()?);
                    run.args(command.split(' ')).args(["-n", &namespace]);
                    let Used { seconds: took, cpu_seconds, peak_bytes } = self.run(run, &[0])?;
                    seconds.rounds[at].push(took);
                    cpu.rounds[at].push(cpu_seconds);
                    memory.rounds[at].push(peak_bytes as f64 / 1e6);
                }
            }
            all.extend([seconds, cpu, memory]);
        }
        self.empty(&namespace)?;
        Ok(all)
    }
}
