//! Benchmark of rules: first verdicts, evaluation of a compiled rule, startup time of the pack, and the same rules in Lua.

use std::collections::HashSet;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

use kstatus::{Basis, Object, Options};
use settled_lua::{HealthStatus, Limits, Script};
use settled_rules::RuleSet;

use crate::bench::page::Page;
use crate::measure::{Rounds, Table, figure};
use crate::{Outcome, corpora, process, server};

/// The hidden task that measures first verdicts.
pub(crate) const CHILD: &str = "first-verdicts-child";

const NOW: &str = "2026-07-31T00:00:00Z";

/// Maximum of the median verdict by a compiled rule, in microseconds.
const RULE_BAR: f64 = 1.5;
/// Maximum that the built-in pack may add to the startup of a command that uses one kind of it, in milliseconds.
const START_BAR: f64 = 2.0;
/// Maximum of the first objects of [`FIRST_KINDS`] kinds together, in milliseconds.
const FIRST_BAR: f64 = 3.0;
/// Number of kinds in a dump of a large cluster.
const FIRST_KINDS: usize = 86;

/// The same rule in both languages, with objects of each outcome.
struct Pair {
    name: &'static str,
    cel: &'static str,
    lua: &'static str,
    objects: [&'static str; 3],
}

const PAIRS: &[Pair] = &[
    Pair {
        name: "condition",
        cel: "failed: {when: isFalse('Ready'), from: Ready}\n    current: {when: isTrue('Ready'), from: Ready}",
        lua: r#"
            local hs = { status = "Progressing", message = "waiting" }
            if obj.status ~= nil and obj.status.conditions ~= nil then
              for i, condition in ipairs(obj.status.conditions) do
                if condition.type == "Ready" then
                  if condition.status == "False" then
                    hs.status = "Degraded"
                    hs.message = condition.message
                  elseif condition.status == "True" then
                    hs.status = "Healthy"
                    hs.message = condition.message
                  end
                end
              end
            end
            return hs"#,
        objects: [
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"a","generation":3,"labels":{"app":"a","tier":"web"},"annotations":{"note":"some text of a usual length"}},"spec":{"replicas":3,"template":{"image":"registry.example.com/a:1.2.3","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}},"status":{"observedGeneration":3,"conditions":[{"type":"Synced","status":"True","reason":"Ok","message":"synced","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Ready","status":"True","reason":"AllUp","message":"all is up","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#,
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"b","generation":3,"labels":{"app":"b","tier":"web"},"annotations":{"note":"some text of a usual length"}},"spec":{"replicas":3,"template":{"image":"registry.example.com/b:1.2.3","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}},"status":{"observedGeneration":3,"conditions":[{"type":"Synced","status":"True","reason":"Ok","message":"synced","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Ready","status":"False","reason":"Down","message":"the disk is full","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#,
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"c","generation":3,"labels":{"app":"c","tier":"web"}},"spec":{"replicas":3},"status":{}}"#,
        ],
    },
    Pair {
        name: "phase",
        cel: "failed: {when: \"status.phase in ['Failed', 'Error']\", message: \"${status.message}\"}\n    current: status.phase in ['Running', 'Ready']",
        lua: r#"
            if obj.status ~= nil and obj.status.phase ~= nil then
              local phase = obj.status.phase
              if phase == "Failed" or phase == "Error" then
                return { status = "Degraded", message = obj.status.message }
              end
              if phase == "Running" or phase == "Ready" then
                return { status = "Healthy", message = phase }
              end
            end
            return { status = "Progressing", message = "waiting" }"#,
        objects: [
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"a","generation":1},"spec":{"size":3,"storage":{"class":"fast","size":"10Gi"}},"status":{"phase":"Running","message":"fine","nodes":["a","b","c"]}}"#,
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"b","generation":1},"spec":{"size":3,"storage":{"class":"fast","size":"10Gi"}},"status":{"phase":"Error","message":"no quorum","nodes":["a","b","c"]}}"#,
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"c","generation":1},"spec":{"size":3,"storage":{"class":"fast","size":"10Gi"}},"status":{"phase":"Creating","nodes":[]}}"#,
        ],
    },
    Pair {
        name: "counters",
        cel: "failed: isTrue('Degraded')\n    inProgress: {when: \"!atLeast(status.updatedReplicas, spec.replicas)\", message: \"Updated: ${ratio(status.updatedReplicas, spec.replicas)}\"}\n    current: atLeast(status.readyReplicas, spec.replicas)",
        lua: r#"
            local wanted = obj.spec.replicas or 1
            local status = obj.status or {}
            for i, condition in ipairs(status.conditions or {}) do
              if condition.type == "Degraded" and condition.status == "True" then
                return { status = "Degraded", message = condition.message }
              end
            end
            if (status.updatedReplicas or 0) < wanted then
              return { status = "Progressing", message = "Updated: " .. (status.updatedReplicas or 0) .. "/" .. wanted }
            end
            if (status.readyReplicas or 0) >= wanted then
              return { status = "Healthy", message = "ready" }
            end
            return { status = "Progressing", message = "waiting" }"#,
        objects: [
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"a","generation":1},"spec":{"replicas":3,"selector":{"app":"a"}},"status":{"replicas":3,"updatedReplicas":3,"readyReplicas":3,"conditions":[{"type":"Degraded","status":"False","reason":"Ok","message":""}]}}"#,
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"b","generation":1},"spec":{"replicas":3,"selector":{"app":"b"}},"status":{"replicas":3,"updatedReplicas":1,"readyReplicas":3,"conditions":[{"type":"Degraded","status":"False","reason":"Ok","message":""}]}}"#,
            r#"{"apiVersion":"example.com/v1","kind":"T","metadata":{"name":"c","generation":1},"spec":{"replicas":3,"selector":{"app":"c"}},"status":{"replicas":3,"updatedReplicas":3,"readyReplicas":2,"conditions":[{"type":"Degraded","status":"True","reason":"Disk","message":"the disk is full"}]}}"#,
        ],
    },
];

/// Prints all tables; false if a bar is missed. A smoke run ignores bars.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    let mut page = Page::new("rules", write_docs && !smoke);
    page.machine("cargo xtask bench rules --write-docs")?;
    let options = options()?;
    let first_met = first_verdicts(&mut page, smoke)?;
    let rules_met = on_cases(&mut page, smoke, &options)?;
    let start_met = start(&mut page, smoke)?;
    beside_lua(&mut page, smoke, &options)?;
    page.publish()?;
    Ok(smoke || (first_met && rules_met && start_met))
}

/// Nanoseconds per call, from rounds of many calls.
fn nanos(calls: u32, rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut all = Rounds::default();
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..calls {
            work();
        }
        all.push(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    all.median()
}

/// A kind, and an object of it in compact JSON.
type Sample = (String, Vec<u8>);

/// Objects of the pack's kinds: of the corpus if available, otherwise of the cases of the rules.
fn objects() -> Outcome<(&'static str, Vec<Sample>)> {
    if let Some(cases) = corpora::expected_health()? {
        return Ok(("of the corpus", cases.into_iter().map(|case| (case.kind, case.object)).collect()));
    }
    let cases = corpora::pack_cases()?;
    let objects = cases.into_iter().map(|case| (case.kind, case.object.to_string().into_bytes())).collect();
    Ok(("of the pack's cases", objects))
}

/// The first verdict of each kind, which loads and compiles its rule. Rules stay compiled, so each repetition is a process of its own.
fn first_verdicts(page: &mut Page, smoke: bool) -> Outcome<bool> {
    let processes = if smoke { 1 } else { 9 };
    page.line(&format!(
        "First verdict on a kind, on an object that is read: its rule is read and compiled, µs; median and maximum of {processes} processes:"
    ));
    let (about, _) = objects()?;
    let [mut first, mut median, mut total] = [(); 3].map(|()| Rounds::default());
    let mut kinds = 0;
    for _ in 0..processes {
        let mut command = Command::new(std::env::current_exe()?);
        let output =
            process::started(command.args(["bench", CHILD]).stderr(Stdio::inherit()).output(), &command)?;
        if !output.status.success() {
            return Err(format!("{CHILD} has ended with {}", output.status).into());
        }
        let mut micros: Vec<f64> = serde_json::from_slice(&output.stdout)?;
        kinds = micros.len();
        first.push(micros.first().copied().unwrap_or(f64::NAN));
        total.push(micros.iter().sum());
        micros.sort_by(f64::total_cmp);
        median.push(micros.get(kinds / 2).copied().unwrap_or(f64::NAN));
    }
    let mut table = Table::new(["kinds", "first kind", "median kind", "all", "all, maximum"]);
    table.row([
        format!("{kinds} {about}"),
        figure(first.median()),
        figure(median.median()),
        figure(total.median()),
        figure(total.percentile(100)),
    ]);
    page.table(&table);
    let met = total.median() / 1e3 <= FIRST_BAR;
    page.line(&format!("Bar: all of them in at most {FIRST_BAR} ms: {}.", yes(met)));
    Ok(met)
}

/// Prints the microseconds of each first verdict, as a JSON list.
pub(crate) fn child() -> Outcome<bool> {
    let options = options()?;
    let (_, objects) = objects()?;
    let rules = RuleSet::default();
    let mut seen = HashSet::new();
    let mut micros = Vec::new();
    for (_, object) in objects.iter().filter(|(kind, _)| seen.insert(kind)).take(FIRST_KINDS) {
        let object = Object::parse(object)?;
        let start = Instant::now();
        black_box(rules.verdict(&object, &options));
        micros.push(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    println!("{}", serde_json::to_string(&micros)?);
    Ok(true)
}

fn options() -> Outcome<Options> {
    Ok(Options::new(NOW.parse().map_err(|error| format!("{NOW}: {error}"))?))
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

/// The verdict of each object read before, by its rule.
fn on_cases(page: &mut Page, smoke: bool, options: &Options) -> Outcome<bool> {
    page.line("Verdict on an object that is read, by a compiled rule:");
    let (about, objects) = objects()?;
    let rules = RuleSet::default();
    let (calls, rounds) = if smoke { (20, 1) } else { (200, 7) };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (_, json) in &objects {
        let object = Object::parse(json)?;
        if rules.verdict(&object, options).basis != Basis::RulePack {
            continue;
        }
        with.push(nanos(calls, rounds, || drop(black_box(rules.verdict(black_box(&object), options)))));
        without.push(nanos(calls, rounds, || drop(black_box(black_box(&object).verdict(options)))));
    }
    let mut table = Table::new(["µs per object", "median", "p95", "max"]);
    let mut row = |name: &str, values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            values.get(((values.len() - 1) as f64 * share) as usize).copied().unwrap_or(f64::NAN) / 1000.0
        };
        table.row([name.to_owned(), figure(at(0.5)), figure(at(0.95)), figure(at(1.0))]);
        at(0.5)
    };
    let median = row(&format!("by rule, {} objects {about}", with.len()), &mut with);
    row("the same without rules", &mut without);
    page.table(&table);
    let met = median <= RULE_BAR;
    page.line(&format!("Bar: a median of at most {RULE_BAR} µs: {}.", yes(met)));
    Ok(met)
}

/// Startup time that the pack adds to a command, with and without objects of its kinds.
fn start(page: &mut Page, smoke: bool) -> Outcome<bool> {
    page.line("What the pack adds to the start of a command:");
    let binary = server::binary()?;
    let directory = std::env::temp_dir().join(format!("settled-bench-rules-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let objects = [
        ("no kind of the pack", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        (
            "one kind of the pack",
            "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a}\n\
             status: {conditions: [{type: Ready, status: 'True'}]}\n",
        ),
    ];
    let mut table = Table::new(["ms per command", "with the pack", "without", "added"]);
    // Without such an object, no file of the pack is read: that row shows the noise.
    let mut loading = f64::NAN;
    for (name, text) in objects {
        let file = directory.join("object.yaml");
        std::fs::write(&file, text)?;
        let time = |flags: &[&str]| -> Outcome<f64> {
            let start = Instant::now();
            let mut command = Command::new(&binary);
            command.args(["status", "-q", "--threads", "1", "-f"]).arg(&file).args(flags);
            command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            Ok(start.elapsed().as_secs_f64() * 1000.0)
        };
        let (mut with, mut without) = (Rounds::default(), Rounds::default());
        for _ in 0..if smoke { 5 } else { 101 } {
            with.push(time(&[])?);
            without.push(time(&["--no-builtin-rules"])?);
        }
        let added = with.median() - without.median();
        loading = added;
        table.row([name.to_owned(), figure(with.median()), figure(without.median()), figure(added)]);
    }
    std::fs::remove_dir_all(&directory)?;
    page.table(&table);
    let met = loading < START_BAR;
    page.line(&format!("Bar: one kind of the pack adds less than {START_BAR} ms: {}.", yes(met)));
    Ok(met)
}

/// Bytes to verdict, the same rule in CEL and in Lua.
fn beside_lua(page: &mut Page, smoke: bool, options: &Options) -> Outcome<()> {
    page.line("Bytes to verdict, beside the same rule in Lua:");
    let (calls, rounds) = if smoke { (200, 1) } else { (5000, 9) };
    let mut table = Table::new(["rule", "CEL µs", "Lua µs", "Lua / CEL"]);
    for pair in PAIRS {
        let pack = format!(
            "apiVersion: settled.dev/v1alpha1\nkind: RulePack\nrules:\n  - match: {{group: example.com, kind: T}}\n    {}\n",
            pair.cel
        );
        let rules = RuleSet::builder().builtin(false).add("bench.yaml", &pack)?.build();
        let script = Script::new(pair.name, pair.lua)?;
        let limits = Limits::default();
        for object in pair.objects {
            let status = rules.compute(object.as_bytes(), options).status.to_string();
            let health = match script.run(object.as_bytes(), &limits)?.status {
                HealthStatus::Healthy | HealthStatus::Suspended => "Current",
                HealthStatus::Progressing => "InProgress",
                HealthStatus::Degraded => "Failed",
                HealthStatus::Missing | HealthStatus::Unknown => "Unknown",
            };
            if status != health {
                return Err(format!("{}: CEL says {status}, Lua {health}: {object}", pair.name).into());
            }
        }
        let (mut cel, mut lua) = (Rounds::default(), Rounds::default());
        for _ in 0..rounds {
            let each = |work: &dyn Fn(&[u8])| {
                let start = Instant::now();
                for _ in 0..calls {
                    for object in pair.objects {
                        work(black_box(object.as_bytes()));
                    }
                }
                start.elapsed().as_nanos() as f64 / f64::from(calls) / pair.objects.len() as f64
            };
            cel.push(each(&|object| drop(black_box(rules.compute(object, options)))));
            lua.push(each(&|object| drop(black_box(script.run(object, &limits)))));
        }
        let (cel, lua) = (cel.median() / 1000.0, lua.median() / 1000.0);
        table.row([pair.name.to_owned(), figure(cel), figure(lua), figure(lua / cel)]);
    }
    page.table(&table);
    Ok(())
}
