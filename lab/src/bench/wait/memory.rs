//! Peak memory while some or all of many Pods are tracked.

use std::process::Command;
use std::time::{Duration, Instant};

use super::bench::{BYTES, Bar, Bench, LIMIT, Setting, progress};
use super::objects::{done, object};
use crate::Outcome;
use crate::bench::reflector;
use crate::bench::waiters::{By, Tool, Waited, Waiter};
use crate::measure::{Table, figure};

/// Bars for 50 tracked Pods of many, and for all, in MB.
const MEMORY_BELOW: f64 = 40.0;
/// Number of tracked Pods of many.
pub(super) const TRACKED: usize = 50;

impl Bench {
    /// Peak memory while some or all Pods of a namespace are tracked.
    pub(super) fn memory(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        let holders = [
            Holder::Tool(Tool::Settled, true),
            Holder::Tool(Tool::Settled, false),
            Holder::Tool(Tool::Helm, true),
            Holder::Tool(Tool::KubectlWait, true),
            Holder::Informer,
            Holder::Reflector,
        ];
        let mut table = Table::new([
            "tracked",
            "in the namespace",
            "settled wait -f",
            "settled wait -l",
            "helm --wait",
            "kubectl wait -f",
            "client-go informer",
            "kube-rs reflector",
        ]);
        let mut bars = Vec::new();
        let mut sizes = [0; 2];
        for among in plan.among {
            progress(&format!("{TRACKED} among {among}"));
            let namespace = self.namespace()?;
            let [bytes, _] = BYTES;
            self.fill(&namespace, "other", *among - TRACKED, bytes)?;
            sizes[0] = self.size(&format!("{}/other-000000", Waited::Pods.path(&namespace)))?;
            let mut cells = Vec::new();
            for (at, holder) in holders.iter().enumerate() {
                let prefix = format!("tracked{at}");
                let label = format!("tracked={prefix}");
                let setting = Setting {
                    namespace: Some(&namespace),
                    count: TRACKED,
                    prefix: &prefix,
                    label: Some(&label),
                    by: if let Holder::Tool(_, true) = holder { By::File } else { By::Label(&label) },
                    bytes,
                    memory: true,
                    ..Setting::default()
                };
                cells.push(self.hold(*holder, &setting)?);
            }
            if *among == 100_000 {
                for (cell, how) in cells.iter().zip(["-f", "-l"]) {
                    bars.push(memory_bar(format!("{how}, {TRACKED} of {among} Pods"), *cell));
                }
            }
            table.row(memory_row(TRACKED.to_string(), *among, &cells));
            self.empty(&namespace)?;
        }
        let all = plan.all;
        progress(&format!("all of {all}"));
        let mut cells = Vec::new();
        for holder in holders {
            // Both would take too long: objects created one by one, and requested one by one.
            if matches!(holder, Holder::Tool(Tool::Helm | Tool::KubectlWait, _)) {
                cells.push(None);
                continue;
            }
            let [_, bytes] = BYTES;
            let label = "app=waited";
            let by = if let Holder::Tool(_, true) = holder { By::File } else { By::Label(label) };
            let setting = Setting { count: all, by, bytes, memory: true, ..Setting::default() };
            let cell = self.hold(holder, &setting)?;
            cells.push(cell);
            if cell.is_some() {
                let namespace = format!("round-{}", self.namespaces);
                sizes[1] = self.size(&format!("{}/waited-000000", Waited::Pods.path(&namespace)))?;
                self.empty(&namespace)?;
            }
        }
        for (cell, how) in cells.iter().zip(["-f", "-l"]) {
            bars.push(memory_bar(format!("{how}, all of {all} Pods"), *cell));
        }
        table.row(memory_row(all.to_string(), all, &cells));
        self.page.line("### The most memory, MB");
        self.page.line(&format!(
            "Pods of {} bytes where some are tracked, of {} where all are; in brackets the seconds until the store was full.",
            sizes[0], sizes[1]
        ));
        self.page.table(&table);
        Ok(bars)
    }

    /// Peak memory in MB of one process from its start until all tracked objects are ready, and for caches the duration
    /// of the initial list.
    fn hold(&mut self, holder: Holder, setting: &Setting<'_>) -> Outcome<Option<(f64, Option<f64>)>> {
        let (mut command, name) = match holder {
            Holder::Tool(tool, _) => {
                if !self.tools.contains(&tool) {
                    return Ok(None);
                }
                let mut started = self.start(tool, setting)?;
                self.write(&started.path, &started.names, &done(setting.kind))?;
                started.ends(tool, 0)?;
                return Ok(Some((started.waiter.peak() as f64 / 1e6, None)));
            }
            Holder::Informer => match &self.informer {
                Some(program) => (Command::new(program), "informer"),
                None => return Ok(None),
            },
            Holder::Reflector => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["bench", reflector::CHILD]);
                (command, "reflector")
            }
        };
        let namespace = match setting.namespace {
            Some(name) => name.to_owned(),
            None => self.namespace()?,
        };
        let names: Vec<String> = (0..setting.count).map(|at| format!("{}-{at:06}", setting.prefix)).collect();
        let path = setting.kind.path(&namespace);
        let objects =
            names.iter().map(|name| object(setting.kind, name, setting.label, setting.bytes)).collect();
        self.create(&path, objects)?;
        command.arg(&namespace);
        self.place.environment(&mut command);
        let start = Instant::now();
        let log = self.place.directory.join(format!("{namespace}-{name}.log"));
        let mut waiter = Waiter::start(command, log, true)?;
        let synced = loop {
            if waiter.said().contains("synced ") {
                break start.elapsed();
            }
            if waiter.ended(Duration::from_millis(10)).is_some() || start.elapsed() > LIMIT {
                return Err(format!("{name} does not sync: {}", waiter.last_words()).into());
            }
        };
        self.write(&path, &names, &done(setting.kind))?;
        // It does not report what it has seen.
        std::thread::sleep(Duration::from_secs(1));
        Ok(Some((waiter.peak() as f64 / 1e6, Some(synced.as_secs_f64()))))
    }
}

/// Processes that keep objects in memory.
#[derive(Clone, Copy)]
enum Holder {
    /// A tool, and whether it gets a file of objects instead of a label selector.
    Tool(Tool, bool),
    /// client-go's informer.
    Informer,
    /// kube-rs' reflector.
    Reflector,
}

pub(super) fn memory_bar(what: String, is: Option<(f64, Option<f64>)>) -> Bar {
    let megabytes = is.map_or(f64::NAN, |(megabytes, _)| megabytes);
    Bar {
        what: format!("memory, {what}"),
        wanted: format!("under {MEMORY_BELOW} MB"),
        is: format!("{} MB", figure(megabytes)),
        met: megabytes < MEMORY_BELOW,
        always: false,
    }
}

fn memory_row(tracked: String, among: usize, cells: &[Option<(f64, Option<f64>)>]) -> [String; 8] {
    let mut row = vec![tracked, figure(among as f64)];
    row.extend(cells.iter().map(|cell| match cell {
        Some((megabytes, Some(synced))) => format!("{} [{synced:.1}]", figure(*megabytes)),
        Some((megabytes, None)) => figure(*megabytes),
        None => "-".to_owned(),
    }));
    <[String; 8]>::try_from(row).unwrap_or_default()
}
