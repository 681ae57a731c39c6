//! Benchmark of a verdict, compared with the JSON decoder that every Go reader needs.
//!
//! Rounds of all contestants alternate within a run, so that noise affects all of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use kstatus::{Options, Profile};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use settled_rules::RuleSet;

use crate::bench::generate::{self, Random, SEED};
use crate::bench::page::Page;
use crate::bench::status;
use crate::measure::{Plan, Rounds, Table, cores, figure, round, round_on};
use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

/// The clock of the benchmarks.
const NOW: &str = "2026-01-01T00:00:00Z";

/// Number of distinct objects of a generated workload: too many for branch predictors to learn, and few enough for the
/// cache.
const VARIANTS: usize = 32;

/// Required ratios to Go's decoding time, on one thread: of the library, and with the pack.
type Bars = Option<[f64; 2]>;

/// Measured objects.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) objects: Vec<Vec<u8>>,
    bars: Bars,
    /// Required MB/s with the pack, on one thread.
    speed: Option<f64>,
}

impl Workload {
    fn bytes_per_object(&self) -> f64 {
        self.objects.iter().map(Vec::len).sum::<usize>() as f64 / self.objects.len() as f64
    }
}

/// All workloads, in the order of the tables.
pub(crate) fn workloads() -> Outcome<Vec<Workload>> {
    let mut random = Random::new(SEED);
    let corpus = corpora::health_cases()?;
    let corpus = match corpus {
        Some(objects) => {
            Workload { name: "corpus, 392 real objects", objects, bars: Some([12.0, 8.0]), speed: None }
        }
        None => Workload {
            name: "generated small objects",
            objects: (0..392).map(|_| generate::small(&mut random).to_string().into_bytes()).collect(),
            bars: None,
            speed: None,
        },
    };
    let bare = status::custom_resources(VARIANTS * 8)?;
    // Its own, so that the other objects do not depend on these.
    let mut metadata = Random::new(SEED);
    let served: Vec<Value> = bare.iter().map(|object| generate::served(&mut metadata, object)).collect();
    let custom = [("custom resources", served), ("custom resources, bare", bare)];
    let mut workloads = vec![corpus];
    workloads.extend(custom.map(|(name, objects)| Workload {
        name,
        objects: objects.iter().map(|object| object.to_string().into_bytes()).collect(),
        bars: None,
        speed: Some(300.0),
    }));
    type Make = fn(&mut Random, usize) -> Value;
    let generated: [(&str, &str, Make, usize, Bars); 4] = [
        ("Deployment 8 KB", "Deployment 8 KB, pretty", generate::deployment, 8_192, Some([20.0, 20.0])),
        ("Pod 11 KB", "Pod 11 KB, pretty", generate::pod, 11_264, None),
        ("Deployment 20 KB", "Deployment 20 KB, pretty", generate::deployment, 20_480, None),
        ("Pod 20 KB", "Pod 20 KB, pretty", generate::pod, 20_480, None),
    ];
    for (name, pretty_name, make, bytes, bars) in generated {
        let objects: Vec<Value> = (0..VARIANTS).map(|_| make(&mut random, bytes)).collect();
        let compact = objects.iter().map(|object| object.to_string().into_bytes()).collect();
        let pretty = objects.iter().map(serde_json::to_vec_pretty).collect::<Result<_, _>>()?;
        workloads.push(Workload { name, objects: compact, bars, speed: None });
        workloads.push(Workload { name: pretty_name, objects: pretty, bars: None, speed: None });
    }
    Ok(workloads)
}

/// Options of all measurements.
pub(crate) fn options(profile: Profile) -> Outcome<Options> {
    Ok(Options { profile, ..Options::new(NOW.parse().map_err(|error| format!("{NOW}: {error}"))?) })
}

/// The Go program, which reads commands.
struct Decoder {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Loaded {
    objects: usize,
    refused: usize,
    go: String,
    apimachinery: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Round {
    ns_per_object: f64,
    allocations_per_object: f64,
}

impl Decoder {
    fn start() -> Outcome<Option<Self>> {
        let program = match oracle::build("unstructured")? {
            Oracle::Ready(program) => program,
            Oracle::Skipped(reason) => {
                println!("SKIPPED: the comparison: {reason}");
                return Ok(None);
            }
        };
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::started(command.spawn(), &command)?;
        let commands = child.stdin.take().ok_or("the decoder has no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("the decoder has no standard output")?);
        Ok(Some(Self { child, commands, answers }))
    }

    fn ask<T: DeserializeOwned>(&mut self, command: &str) -> Outcome<T> {
        writeln!(self.commands, "{command}")?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("the decoder ended at: {command}").into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    fn load(&mut self, workload: &Workload) -> Outcome<Loaded> {
        let file = oracle::cache()?.join(format!("workload-{}.json", std::process::id()));
        let mut text = workload.objects.join(&b'\n');
        text.push(b'\n');
        fs::write(&file, text)?;
        let loaded = self.ask::<Loaded>(&format!("load {}", file.display()));
        fs::remove_file(&file)?;
        let loaded = loaded?;
        if loaded.objects != workload.objects.len() || loaded.refused > 0 {
            return Err(format!(
                "{}: the decoder has read {} objects and refused {} of {}",
                workload.name,
                loaded.objects,
                loaded.refused,
                workload.objects.len()
            )
            .into());
        }
        Ok(loaded)
    }

    fn round(&mut self, threads: usize, plan: Plan) -> Outcome<Round> {
        self.ask(&format!("round {threads} {}", plan.at_least.as_millis()))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // It may have exited already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Results of one workload in nanoseconds per object.
#[derive(Default)]
struct Measured {
    go: Rounds,
    go_all: Rounds,
    go_allocations: f64,
    /// By profile: `kstatus`, `settled`.
    bytes: [Rounds; 2],
    bytes_all: [Rounds; 2],
    /// The default: `settled` with the rule pack.
    pack: Rounds,
    pack_all: Rounds,
    parsed: [Rounds; 2],
    utf8: Rounds,
    memchr: Rounds,
    ignored: Rounds,
    value: Rounds,
    allocations: [Allocations; 2],
}

/// Allocations of `compute`, summed over the objects of a workload.
#[derive(Default)]
struct Allocations {
    /// Alive when the verdict is returned: the verdict's strings.
    own: i64,
    /// Others; must be zero.
    beyond: i64,
    /// For each reason with other allocations: kind and index of the first such object.
    offenders: BTreeMap<String, String>,
}

const PROFILES: [Profile; 2] = [Profile::Kstatus, Profile::Settled];

/// Measures and prints. False if a bar is missed; a smoke run checks only the allocations.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    let mut page = Page::new("verdict", write_docs && !smoke);
    page.machine("cargo xtask bench verdict --write-docs")?;
    let plan = if smoke {
        Plan { rounds: 3, at_least: Duration::from_millis(40) }
    } else {
        Plan { rounds: 9, at_least: Duration::from_millis(200) }
    };
    let workloads = workloads()?;
    let mut decoder = Decoder::start()?;
    page.line(&format!(
        "{} rounds of at least {} ms each, alternating; medians (minima); seed {SEED:#x}.",
        plan.rounds,
        plan.at_least.as_millis(),
    ));

    let mut results = Vec::new();
    for workload in &workloads {
        if let Some(decoder) = &mut decoder {
            let loaded = decoder.load(workload)?;
            if results.is_empty() {
                page.line(&format!(
                    "Against unstructured.UnmarshalJSON of apimachinery {}, {}. \"With the pack\" is what `settled status` does by default: \
                     the profile `settled` and the built-in rules; `settled` alone is the library `kstatus`.",
                    loaded.apimachinery, loaded.go
                ));
            }
        }
        results.push(measure(workload, plan, decoder.as_mut())?);
    }

    let rows: Vec<(&Workload, &Measured)> = workloads.iter().zip(&results).collect();
    print_single_thread(&mut page, &rows);
    print_floor(&mut page, &rows);
    print_all_cores(&mut page, &rows);
    let allocations_met = print_allocations(&mut page, &rows);
    let ratios_met = print_bars(&mut page, &rows);
    page.publish()?;
    Ok(allocations_met && (smoke || ratios_met))
}

/// Has verdicts given on the objects of all workloads, for a profile of what runs how often. Nothing else runs beside them: what the
/// verdicts are compared with would be most of what is counted.
pub(crate) fn train() -> Outcome<()> {
    /// Verdicts on objects of each workload.
    const VERDICTS: usize = 1_000_000;
    /// Bytes of large objects, most of which are only skipped.
    const LARGE_BYTES: usize = 200_000_000;
    /// From here on, an object is large.
    const LARGE: f64 = 4096.0;
    let options = [options(PROFILES[0])?, options(PROFILES[1])?];
    let rules = RuleSet::default();
    for workload in &workloads()? {
        let bytes: usize = workload.objects.iter().map(Vec::len).sum();
        let passes = if workload.bytes_per_object() < LARGE {
            VERDICTS / workload.objects.len()
        } else {
            LARGE_BYTES / bytes
        };
        for _ in 0..passes {
            for object in &workload.objects {
                std::hint::black_box(kstatus::compute(object, &options[0]));
                std::hint::black_box(kstatus::compute(object, &options[1]));
                std::hint::black_box(rules.compute(object, &options[1]));
            }
        }
    }
    Ok(())
}

fn measure(workload: &Workload, plan: Plan, mut decoder: Option<&mut Decoder>) -> Outcome<Measured> {
    let objects = &workload.objects;
    let values: Vec<Value> =
        objects.iter().map(|object| serde_json::from_slice(object)).collect::<Result<_, _>>()?;
    let options = [options(PROFILES[0])?, options(PROFILES[1])?];
    let all = cores();
    let rules = RuleSet::default();
    // A rule is compiled at the first object that it matches.
    for object in objects {
        std::hint::black_box(rules.compute(object, &options[1]));
    }

    let mut measured = Measured::default();
    count_allocations(workload, &values, &options, &mut measured.allocations)?;

    for _ in 0..plan.rounds {
        if let Some(decoder) = &mut decoder {
            let round = decoder.round(1, plan)?;
            measured.go.push(round.ns_per_object);
            measured.go_allocations = round.allocations_per_object;
        }
        for (at, options) in options.iter().enumerate() {
            measured.bytes[at]
                .push(round(objects, plan.at_least, |object| kstatus::compute(object, options)));
            measured.parsed[at]
                .push(round(&values, plan.at_least, |value| kstatus::compute_value(value, options)));
        }
        measured.pack.push(round(objects, plan.at_least, |object| rules.compute(object, &options[1])));
        measured.utf8.push(round(objects, plan.at_least, |object| std::str::from_utf8(object).is_ok()));
        measured.memchr.push(round(objects, plan.at_least, |object| memchr::memchr(0, object)));
        measured.ignored.push(round(objects, plan.at_least, |object| {
            serde_json::from_slice::<IgnoredAny>(object).is_ok()
        }));
        measured
            .value
            .push(round(objects, plan.at_least, |object| serde_json::from_slice::<Value>(object).ok()));
        if let Some(decoder) = &mut decoder {
            measured.go_all.push(decoder.round(all, plan)?.ns_per_object);
        }
        measured
            .pack_all
            .push(round_on(all, objects, plan.at_least, |object| rules.compute(object, &options[1])));
        for (at, options) in options.iter().enumerate() {
            measured.bytes_all[at]
                .push(round_on(all, objects, plan.at_least, |object| kstatus::compute(object, options)));
        }
    }
    Ok(measured)
}

/// Counts in a separate program, whose allocator would slow the timings down.
fn count_allocations(
    workload: &Workload,
    values: &[Value],
    options: &[Options; 2],
    allocations: &mut [Allocations; 2],
) -> Outcome<()> {
    let counter = process::beside("settled-allocations")?;
    let mut counter = Command::new(counter)
        .arg(options[0].now.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The program reads all of its input before it prints.
    let mut input = counter.stdin.take().ok_or("the counting program has no standard input")?;
    for object in &workload.objects {
        input.write_all(&u32::try_from(object.len())?.to_le_bytes())?;
        input.write_all(object)?;
    }
    drop(input);
    let output = counter.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() || text.lines().count() != values.len() {
        return Err("the counting program has not answered for all objects".into());
    }
    for (at, ((line, object), value)) in text.lines().zip(&workload.objects).zip(values).enumerate() {
        let counts: Vec<i64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        for ((counts, options), allocations) in counts.chunks(2).zip(options).zip(allocations.iter_mut()) {
            let &[own, beyond] = counts else {
                return Err("the counting program's answer is not understood".into());
            };
            allocations.own += own;
            allocations.beyond += beyond;
            if beyond > 0 {
                let verdict = kstatus::compute(object, options);
                let sort = format!("{} {}", verdict.status, verdict.reason);
                let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
                allocations.offenders.entry(sort).or_insert_with(|| format!("{beyond}, {kind}, object {at}"));
            }
        }
    }
    Ok(())
}

fn both(rounds: &Rounds) -> String {
    format!("{} ({})", figure(rounds.median()), figure(rounds.min()))
}

/// Ratio of the times.
fn ratio(theirs: &Rounds, ours: &Rounds) -> String {
    let ratio = theirs.median() / ours.median();
    if ratio.is_finite() { format!("{ratio:.1}x") } else { "-".to_owned() }
}

fn megabytes_per_second(bytes: f64, rounds: &Rounds) -> String {
    figure(bytes * 1e3 / rounds.median())
}

fn print_single_thread(page: &mut Page, rows: &[(&Workload, &Measured)]) {
    page.line("### Bytes to verdict, one thread, ns per object");
    let mut table = Table::new([
        "workload",
        "bytes",
        "Go decode",
        "`kstatus`",
        "MB/s",
        "ratio",
        "`settled`",
        "MB/s",
        "ratio",
        "with the pack",
        "MB/s",
        "ratio",
        "Go allocations",
    ]);
    for (workload, measured) in rows {
        let bytes = workload.bytes_per_object();
        let [kstatus, settled] = &measured.bytes;
        table.row([
            workload.name.to_owned(),
            figure(bytes),
            both(&measured.go),
            both(kstatus),
            megabytes_per_second(bytes, kstatus),
            ratio(&measured.go, kstatus),
            both(settled),
            megabytes_per_second(bytes, settled),
            ratio(&measured.go, settled),
            both(&measured.pack),
            megabytes_per_second(bytes, &measured.pack),
            ratio(&measured.go, &measured.pack),
            figure(measured.go_allocations),
        ]);
    }
    page.table(&table);
}

fn print_floor(page: &mut Page, rows: &[(&Workload, &Measured)]) {
    page.line("### Parsed to verdict, and what only reading the bytes costs, one thread, ns per object");
    let mut table = Table::new([
        "workload",
        "parsed, `kstatus`",
        "parsed, `settled`",
        "memchr",
        "UTF-8 check",
        "serde_json, ignored",
        "serde_json, `Value`",
        "`settled` / UTF-8 check",
        "`settled` / ignored",
    ]);
    for (workload, measured) in rows {
        let [parsed_kstatus, parsed_settled] = &measured.parsed;
        let settled = &measured.bytes[1];
        table.row([
            workload.name.to_owned(),
            both(parsed_kstatus),
            both(parsed_settled),
            both(&measured.memchr),
            both(&measured.utf8),
            both(&measured.ignored),
            both(&measured.value),
            ratio(settled, &measured.utf8),
            ratio(settled, &measured.ignored),
        ]);
    }
    page.table(&table);
}

fn print_all_cores(page: &mut Page, rows: &[(&Workload, &Measured)]) {
    page.line(&format!("### Bytes to verdict, all {} cores, ns of wall clock per object", cores()));
    let mut table = Table::new([
        "workload",
        "Go decode",
        "`kstatus`",
        "ratio",
        "`settled`",
        "MB/s",
        "ratio",
        "with the pack",
        "MB/s",
        "ratio",
    ]);
    for (workload, measured) in rows {
        let [kstatus, settled] = &measured.bytes_all;
        table.row([
            workload.name.to_owned(),
            both(&measured.go_all),
            both(kstatus),
            ratio(&measured.go_all, kstatus),
            both(settled),
            megabytes_per_second(workload.bytes_per_object(), settled),
            ratio(&measured.go_all, settled),
            both(&measured.pack_all),
            megabytes_per_second(workload.bytes_per_object(), &measured.pack_all),
            ratio(&measured.go_all, &measured.pack_all),
        ]);
    }
    page.table(&table);
}

fn print_allocations(page: &mut Page, rows: &[(&Workload, &Measured)]) -> bool {
    page.line("### Heap allocations per object, bytes to verdict");
    let mut table = Table::new([
        "workload",
        "the verdict's own, `kstatus`",
        "beyond",
        "the verdict's own, `settled`",
        "beyond",
    ]);
    let mut met = true;
    for (workload, measured) in rows {
        let objects = workload.objects.len() as f64;
        let [kstatus, settled] = &measured.allocations;
        met &= kstatus.beyond == 0 && settled.beyond == 0;
        table.row([
            workload.name.to_owned(),
            figure(kstatus.own as f64 / objects),
            figure(kstatus.beyond as f64 / objects),
            figure(settled.own as f64 / objects),
            figure(settled.beyond as f64 / objects),
        ]);
    }
    page.table(&table);
    for (workload, measured) in rows {
        for (profile, allocations) in PROFILES.iter().zip(&measured.allocations) {
            for (sort, first) in &allocations.offenders {
                println!("beyond its own, {profile}, {}: {sort}: {first}", workload.name);
            }
        }
    }
    met
}

fn print_bars(page: &mut Page, rows: &[(&Workload, &Measured)]) -> bool {
    page.line("### Bars: ratios of medians (of minima), or MB/s");
    let mut table = Table::new(["bar", "wanted", "`kstatus`", "`settled`", "with the pack", "met"]);
    let mut all_met = true;
    for (workload, measured) in rows {
        if let Some(bar) = workload.speed {
            let speed = |time: f64| workload.bytes_per_object() * 1e3 / time;
            let shown =
                |rounds: &Rounds| format!("{:.0} ({:.0})", speed(rounds.median()), speed(rounds.min()));
            let met = speed(measured.pack.median()) >= bar;
            all_met &= met;
            let [kstatus, settled] = &measured.bytes;
            table.row([
                format!("{}, MB/s", workload.name),
                format!("{bar:.0}"),
                shown(kstatus),
                shown(settled),
                shown(&measured.pack),
                if met { "yes" } else { "NO" }.to_owned(),
            ]);
        }
        let Some(bars) = workload.bars else { continue };
        let ours = [&measured.bytes[0], &measured.bytes[1], &measured.pack];
        let reached = ours.map(|ours| measured.go.median() / ours.median());
        let of_minima = ours.map(|ours| measured.go.min() / ours.min());
        let met = if measured.go.median().is_nan() {
            "not compared"
        } else if reached.iter().zip([bars[0], bars[0], bars[1]]).all(|(ratio, bar)| *ratio >= bar) {
            "yes"
        } else {
            all_met = false;
            "NO"
        };
        let [kstatus, settled, pack] =
            [0, 1, 2].map(|which| format!("{:.1}x ({:.1}x)", reached[which], of_minima[which]));
        let wanted = match bars {
            [alone, pack] if alone == pack => format!("{alone:.0}x"),
            [alone, pack] => format!("{alone:.0}x, {pack:.0}x with the pack"),
        };
        table.row([workload.name.to_owned(), wanted, kstatus, settled, pack, met.to_owned()]);
    }
    let beyond: [i64; 2] =
        [0, 1].map(|profile| rows.iter().map(|(_, measured)| measured.allocations[profile].beyond).sum());
    table.row([
        "allocations beyond the verdict's own".to_owned(),
        "0".to_owned(),
        beyond[0].to_string(),
        beyond[1].to_string(),
        "-".to_owned(),
        if beyond == [0, 0] { "yes" } else { "NO" }.to_owned(),
    ]);
    page.table(&table);
    all_met
}
