//! Benchmark of `settled wait`, kubectl, Helm 4 and a polling loop: latency, memory (also of client-go's informer and
//! kube-rs' reflector), and requests.
//!
//! No controller runs: the benchmark writes each status itself, so it knows when the last one was written.

mod bench;
mod detect;
mod earlier;
mod fail;
mod large;
mod memory;
mod objects;
mod requests;

use std::time::Duration;

use bench::{Bar, Bench, Plan, on};

use crate::Outcome;
use crate::bench::load::Address;
use crate::bench::page::Page;
use crate::bench::waiters::Tool;
use crate::cluster::Place;
use crate::measure::Table;
use crate::oracle::{self, Oracle, Program};
use crate::server::{self, Kind};

const FULL: Plan = Plan {
    rounds: 5,
    pods: &[1, 20, 200, 2000],
    deployments: &[1, 20],
    tail: (200, &[1, 20]),
    failure_limit: Duration::from_secs(15),
    patience: Duration::from_secs(80),
    among: &[1000, 10_000, 100_000],
    all: 15_000,
    counted: (200, 20),
    quiet: Duration::from_secs(10),
};

const SMOKE: Plan = Plan {
    rounds: 1,
    pods: &[1, 20],
    deployments: &[1],
    tail: (3, &[1]),
    failure_limit: Duration::from_secs(3),
    patience: Duration::ZERO,
    among: &[1000],
    all: 1000,
    counted: (20, 2),
    quiet: Duration::from_secs(1),
};

/// A part of the benchmark, published as a section of its own.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    /// Marker of its section; none of what is not published.
    page: Option<&'static str>,
    /// Whether a run on both servers measures it on kube-apiserver, too.
    both: bool,
    measure: fn(&mut Bench) -> Outcome<Vec<Bar>>,
}

/// In the order of a complete run.
const PARTS: [Part; 6] = [
    Part { name: "detect", page: Some("wait-detect"), both: true, measure: Bench::detect },
    Part { name: "fail", page: Some("wait-fail"), both: true, measure: Bench::fail },
    Part { name: "requests", page: Some("wait-requests"), both: false, measure: Bench::requests },
    Part { name: "memory", page: Some("wait-memory"), both: false, measure: Bench::memory },
    Part { name: "large", page: Some("wait-large"), both: false, measure: Bench::large },
    Part { name: "earlier", page: None, both: false, measure: Bench::earlier },
];

struct Flags {
    smoke: bool,
    /// Overrides the number of rounds.
    rounds: Option<usize>,
    /// One server; both if none.
    kind: Option<Kind>,
    parts: Vec<Part>,
    tools: Vec<Tool>,
    write_docs: bool,
}

impl Flags {
    fn parse(words: &[&str]) -> Outcome<Self> {
        let mut flags = Self {
            smoke: false,
            rounds: None,
            kind: None,
            parts: vec![],
            tools: Tool::ALL.to_vec(),
            write_docs: false,
        };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            match word {
                "--smoke" => flags.smoke = true,
                "--write-docs" => flags.write_docs = true,
                "--rounds" => {
                    let number = words.next().ok_or("--rounds needs a number")?;
                    flags.rounds = Some(number.parse().map_err(|why| format!("--rounds {number}: {why}"))?);
                }
                "--competitors" => flags.tools.retain(|tool| *tool != Tool::Settled),
                "--server" => {
                    flags.kind = match words.next() {
                        Some("settled") => Some(Kind::OursAlone),
                        Some("kube-apiserver") => Some(Kind::RealOnDisk),
                        _ => return Err("--server settled or --server kube-apiserver".into()),
                    }
                }
                other => match PARTS.into_iter().find(|part| part.name == other) {
                    Some(part) => flags.parts.push(part),
                    None => {
                        let parts = PARTS.map(|part| part.name).join(", ");
                        return Err(format!("no such part or flag: {other}; parts: {parts}").into());
                    }
                },
            }
        }
        if flags.write_docs
            && (flags.smoke
                || flags.kind.is_some()
                || flags.rounds.is_some()
                || flags.tools.len() < Tool::ALL.len())
        {
            return Err(
                "--write-docs cannot be combined with --server, --smoke, --rounds or --competitors".into()
            );
        }
        let is_compared = server::earlier().is_some();
        if !is_compared && flags.parts.iter().any(|part| part.page.is_none()) {
            return Err("bench wait earlier needs SETTLED_EARLIER=BINARY, to compare with".into());
        }
        if flags.parts.is_empty() {
            flags.parts = PARTS.into_iter().filter(|part| part.page.is_some() || is_compared).collect();
        }
        Ok(flags)
    }

    /// The servers of a part.
    fn kinds(&self, part: Part) -> Vec<Kind> {
        match self.kind {
            Some(kind) => vec![kind],
            None if self.smoke || !part.both => vec![Kind::OursAlone],
            None => vec![Kind::OursAlone, Kind::RealOnDisk],
        }
    }
}

/// Runs `bench wait [PART…] [--smoke] [--rounds N] [--competitors] [--server settled|kube-apiserver] [--write-docs]`; false
/// if a bar is missed.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let flags = Flags::parse(words)?;
    let mut met = true;
    for part in flags.parts.iter().copied() {
        match run_part(&flags, part)? {
            Some(of_part) => met &= of_part,
            None => return Ok(true),
        }
    }
    Ok(met)
}

/// One part on all its servers; `None` if a program is not available.
fn run_part(flags: &Flags, part: Part) -> Outcome<Option<bool>> {
    let mut page = Page::new(part.page.unwrap_or_default(), flags.write_docs && part.page.is_some());
    let published = if part.page.is_some() { " --write-docs" } else { "" };
    page.machine(&format!("cargo xtask bench wait {}{published}", part.name))?;
    let mut bars = Vec::new();
    for kind in flags.kinds(part) {
        let Some((continued, more)) = measure(flags, part, kind, page)? else { return Ok(None) };
        page = continued;
        bars.extend(more);
    }
    // These parts are about settled.
    bars.retain(|bar| flags.tools.contains(&Tool::Settled) && (bar.always || !flags.smoke));
    let met = bars.iter().all(|bar| bar.met);
    if !bars.is_empty() {
        let mut table = Table::new(["bar", "wanted", "is", "met"]);
        for bar in bars {
            table.row([bar.what, bar.wanted, bar.is, if bar.met { "yes" } else { "NO" }.to_owned()]);
        }
        page.line("Bars:");
        page.table(&table);
    }
    page.publish()?;
    Ok(Some(met))
}

/// A part on one server; `None` if a program is not available.
fn measure(flags: &Flags, part: Part, kind: Kind, page: Page) -> Outcome<Option<(Page, Vec<Bar>)>> {
    let mut plan = if flags.smoke { SMOKE } else { FULL };
    plan.rounds = flags.rounds.unwrap_or(plan.rounds);
    let Some(server) = server::start(kind)? else { return Ok(None) };
    let programs = [("kubectl", Program::Kubectl), ("helm", Program::Helm)];
    let Some(place) = Place::new(&server, &programs)? else { return Ok(None) };
    let informer = if part.name == "memory" {
        match oracle::build("informer")? {
            Oracle::Ready(program) => Some(program),
            Oracle::Skipped(why) => {
                println!("SKIPPED: client-go's informer: {why}");
                None
            }
        }
    } else {
        None
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let address = Address::new(&server.url, &server.ca)?;
    let client = runtime.block_on(address.connect())?;
    let tools = flags.tools.clone();
    let mut bench =
        Bench { plan, kind, tools, server, place, informer, runtime, address, client, namespaces: 0, page };
    let measured = (part.measure)(&mut bench);
    // The log is removed with the server.
    let bars = measured
        .map_err(|error| format!("{error}\nthe server's last words: {}", bench.server.last_words()))?;
    let bars = bars.into_iter().map(|bar| Bar { what: format!("{}{}", bar.what, on(kind)), ..bar }).collect();
    Ok(Some((bench.page, bars)))
}
