//! Thousands of large Pods in every state: time and memory of `status` and `wait`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::bench::{BYTES, Bar, Bench, LIMIT, progress};
use super::memory::memory_bar;
use super::objects::{Failure, done, starting};
use crate::Outcome;
use crate::bench::waiters::{By, Tool, Wait, Waited, Waiter, command};
use crate::measure::{Table, figure};
use crate::process::run_measured;
use crate::server;

/// Bar of one `status` of all of them, in seconds.
const LOOK_BELOW: f64 = 1.5;
/// Output of a wait after the initial lists.
const SYNCED: &str = "watching ";

/// Rows of the table, and our bars.
struct Rows {
    table: Table,
    bars: Vec<Bar>,
    count: usize,
}

/// Resource usage of a command. NaN if unknown or not applicable.
pub(super) struct Used {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) peak_bytes: u64,
}

impl Rows {
    fn push(&mut self, command: &str, state: &str, used: &Used) {
        let megabytes = used.peak_bytes as f64 / 1e6;
        self.table.row([
            command.to_owned(),
            state.to_owned(),
            figure(used.seconds),
            figure(used.cpu_seconds),
            figure(megabytes),
        ]);
        if !command.starts_with("settled") {
            return;
        }
        let what = format!("{command}, {} Pods, {state}", self.count);
        if command.starts_with("settled status") {
            self.bars.push(Bar {
                what: what.clone(),
                wanted: format!("under {LOOK_BELOW} s"),
                is: format!("{} s", figure(used.seconds)),
                met: used.seconds < LOOK_BELOW,
                always: false,
            });
        }
        self.bars.push(memory_bar(what, Some((megabytes, None))));
    }
}

impl Bench {
    /// Each command on all Pods of a namespace that are not ready, ready, and failed.
    pub(super) fn large(&mut self) -> Outcome<Vec<Bar>> {
        let count = self.plan.all;
        let namespace = self.namespace()?;
        progress(&format!("{count} large Pods"));
        let [_, bytes] = BYTES;
        self.fill(&namespace, "large", count, bytes)?;
        let path = Waited::Pods.path(&namespace);
        let names: Vec<String> = (0..count).map(|at| format!("large-{at:06}")).collect();
        let table = Table::new(["command", "Pods", "seconds", "CPU s", "peak MB"]);
        let mut rows = Rows { table, bars: Vec::new(), count };
        let ours = self.tools.contains(&Tool::Settled);

        progress("not done");
        self.write(&path, &names, &starting())?;
        let size = self.size(&format!("{path}/large-000000"))?;
        if ours {
            self.status(&mut rows, &namespace, "not done", &[3])?;
            let timeout = Duration::from_secs(10 + count as u64 / 1000);
            self.wait_to_the_end(&mut rows, &namespace, "timed out", timeout, &[], 3)?;
        }
        let mut kubectl = Command::new(self.place.bin.join("kubectl"));
        kubectl.args(["get", "pods", "-o", "json", "-n", &namespace]);
        let used = self.run(kubectl, &[0])?;
        rows.push("kubectl get pods -o json", "not done", &used);

        progress("done");
        if ours {
            self.wait_until_done(&mut rows, &namespace, &path, &names)?;
            self.status(&mut rows, &namespace, "done", &[0])?;
            progress("failed");
            self.write(&path, &names, &Failure::Image.status())?;
            // Within the grace period of a failed image pull, and after it.
            self.status(&mut rows, &namespace, "failed", &[3, 1])?;
            let more = [Failure::Image.without_grace(), &["--no-fail-fast"]].concat();
            self.wait_to_the_end(&mut rows, &namespace, "failed", LIMIT, &more, 1)?;
        }
        self.page.line(&format!("### {count} Pods of {size} bytes"));
        self.page.line("Seconds, processor time and the most memory from the start until the command has read all, or ends.");
        self.page.table(&rows.table);
        self.empty(&namespace)?;
        Ok(rows.bars)
    }

    /// One `status` of all.
    fn status(&self, rows: &mut Rows, namespace: &str, state: &str, codes: &[i32]) -> Outcome<()> {
        let mut command = Command::new(server::binary()?);
        command.args(["status", "pods", "-o", "jsonl", "-n", namespace]);
        let used = self.run(command, codes)?;
        rows.push("settled status pods -o jsonl", state, &used);
        Ok(())
    }

    /// A wait for all that ends by itself.
    fn wait_to_the_end(
        &self,
        rows: &mut Rows,
        namespace: &str,
        state: &str,
        limit: Duration,
        more: &[&str],
        code: i32,
    ) -> Outcome<()> {
        let used = self.run(self.wait_for_all(namespace, limit, more)?, &[code])?;
        rows.push("settled wait pods --all", state, &used);
        Ok(())
    }

    /// A wait for all that ends when they become ready; its usage after the initial lists and when idle.
    fn wait_until_done(
        &mut self,
        rows: &mut Rows,
        namespace: &str,
        path: &str,
        names: &[String],
    ) -> Outcome<()> {
        const COMMAND: &str = "settled wait pods --all";
        let log = self.place.directory.join(format!("{namespace}-all.log"));
        let start = Instant::now();
        let mut waiter = Waiter::start(self.wait_for_all(namespace, LIMIT, &[])?, log, true)?;
        let so_far = |waiter: &Waiter| -> Outcome<Used> {
            let (cpu, peak_bytes) = waiter.used()?;
            Ok(Used { seconds: start.elapsed().as_secs_f64(), cpu_seconds: cpu.as_secs_f64(), peak_bytes })
        };
        while !waiter.said().contains(SYNCED) {
            if waiter.ended(Duration::from_millis(2)).is_some() || start.elapsed() > LIMIT {
                return Err(format!("{COMMAND} does not sync: {}", waiter.last_words()).into());
            }
        }
        rows.push(COMMAND, "not done, just read", &so_far(&waiter)?);
        if waiter.ended(self.plan.quiet).is_some() {
            return Err(format!("{COMMAND} ended early: {}", waiter.last_words()).into());
        }
        rows.push(COMMAND, "not done, waiting", &so_far(&waiter)?);
        self.write(path, names, &done(Waited::Pods))?;
        let ended = waiter.ended(LIMIT);
        if ended.and_then(|ended| ended.code) != Some(0) {
            return Err(format!("{COMMAND} ended with {ended:?}: {}", waiter.last_words()).into());
        }
        // It ends when the writes do, and its processor time is no longer readable.
        let used = Used { seconds: f64::NAN, cpu_seconds: f64::NAN, peak_bytes: waiter.peak() };
        rows.push(COMMAND, "until all are done", &used);
        Ok(())
    }

    fn wait_for_all(&self, namespace: &str, limit: Duration, more: &[&str]) -> Outcome<Command> {
        let chart = &self.place.directory;
        let wait = Wait { kind: Waited::Pods, namespace, by: By::All, count: 0, limit, chart, more };
        command(Tool::Settled, &self.place, &wait)
    }

    /// Runs a command, which must exit with one of these codes.
    pub(super) fn run(&self, mut command: Command, codes: &[i32]) -> Outcome<Used> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.place.environment(&mut command);
        let used = run_measured(&mut command)?;
        if used.exit_code.is_none_or(|code| !codes.contains(&code)) {
            return Err(format!("{command:?} ended with {:?} instead of {codes:?}", used.exit_code).into());
        }
        Ok(Used {
            seconds: used.wall.as_secs_f64(),
            cpu_seconds: used.cpu.as_secs_f64(),
            peak_bytes: used.peak_bytes,
        })
    }
}
