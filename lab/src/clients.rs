//! Client conformance: scripts of kubectl, Helm and Kubernetes controllers against `settled serve`.
//!
//! A script is `conformance/clients/SUITE/NAME.yaml`; `NAME.txt` has the normalized output of its commands on
//! kube-apiserver. `conformance/clients/README.md` describes the format.

mod normal;
mod recording;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

use regex::RegexSet;

use crate::cluster::{ALL_PROGRAMS, Beside, Components, Place, kubeconfig_text, wait_for_namespace};
use crate::measure::Table;
use crate::server::{self, Kind, Server};
use crate::{Outcome, corpora};
use normal::{LOST_ANSWERS, Normaliser, RACES};
use recording::{MAX_LINE_LENGTH, Said, compare, from_text, to_text};
use script::{Recorded, Script, Step, directory, scripts};

/// Suites in the order of a complete run, with the server and the controllers that they need.
const SUITES: [(&str, Kind, Beside); 5] = [
    ("kubectl", Kind::Ours, Beside::BuiltIn),
    (CONTROLLERS, Kind::Ours, Beside::BuiltIn),
    ("helm", Kind::Ours, Beside::All),
    ("control-plane", Kind::Ours, Beside::All),
    ("restart", Kind::OursOnDisk, Beside::All),
];

/// Suite of the example controllers, and their names.
const CONTROLLERS: &str = "controllers";
const EXAMPLES: [&str; 3] = ["bucket", "load_balancer", "pod_resize"];

/// Default timeout of a step, in seconds.
const PATIENCE: u64 = 60;
/// Number of log lines per component printed after a failure.
const SHOWN: usize = 15;
#[derive(Default)]
struct Flags<'f> {
    record: bool,
    real: bool,
    meant: bool,
    names: Vec<&'f str>,
}

/// Runs the scripts; false if one differs from kube-apiserver.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let mut flags = Flags::default();
    for word in words {
        match *word {
            "--record" => flags.record = true,
            "--real" => flags.real = true,
            "--meant" => flags.meant = true,
            flag if flag.starts_with('-') => return Err(format!("no such flag: {flag}").into()),
            name => flags.names.push(name),
        }
    }
    for name in &flags.names {
        let suite = name.split('/').next().unwrap_or_default();
        if !SUITES.iter().any(|(known, ..)| *known == suite) {
            return Err(format!("no such suite: {suite}").into());
        }
    }
    let mut equal = true;
    let mut table = Table::new(["suite", "scripts", "seconds", ""]);
    for (suite, kind, beside) in SUITES {
        let wanted = |name: &str| {
            flags.names.is_empty()
                || flags.names.iter().any(|word| *word == suite || *word == format!("{suite}/{name}"))
        };
        let scripts = scripts(suite, wanted)?;
        if scripts.is_empty() {
            continue;
        }
        let kind = if flags.record || flags.real { Kind::Real } else { kind };
        let start = Instant::now();
        let same = run_suite(suite, &scripts, kind, beside, &flags)?;
        equal &= same;
        let outcome = if same { "" } else { "FAILED" };
        table.row([
            suite.to_owned(),
            scripts.len().to_string(),
            format!("{:.1}", start.elapsed().as_secs_f64()),
            outcome.to_owned(),
        ]);
    }
    println!();
    table.print();
    Ok(equal)
}

fn run_suite(
    suite: &str,
    scripts: &BTreeMap<String, Script>,
    kind: Kind,
    beside: Beside,
    flags: &Flags<'_>,
) -> Outcome<bool> {
    let Some(mut server) = server::start(kind)? else { return Ok(true) };
    let Some(place) = Place::new(&server, &ALL_PROGRAMS)? else { return Ok(true) };
    if suite == CONTROLLERS {
        place.add_examples(&EXAMPLES)?;
    }
    let mut components = match beside {
        Beside::BuiltIn if kind != Kind::Real => Components::default(),
        beside => Components::start(&place, &server, beside, &[])?,
    };
    println!("{suite}: {kind:?} was ready after {:.0} ms", server.took.as_secs_f64() * 1000.0);

    let normaliser = Normaliser::new(vec![
        (place.directory.display().to_string(), "DIR"),
        (server.directory.display().to_string(), "DIR"),
        (corpora::root().display().to_string(), "REPOSITORY"),
    ])?;
    let mut equal = true;
    for (name, script) in scripts {
        let start = Instant::now();
        let said = run_script(&place, name, script, kind, &mut server, &normaliser)?;
        let file = directory(suite).join(format!("{name}.txt"));
        let took = start.elapsed().as_secs_f64();
        if flags.record {
            fs::write(&file, to_text(&said))?;
            println!("  {name}: {} commands recorded, {took:.1} s", said.len());
            continue;
        }
        let recorded = from_text(&fs::read_to_string(&file).unwrap_or_default());
        let outcome = compare(script, &recorded, &said);
        println!(
            "  {name}: {} commands, {} as recorded, {} differ as said, {} differ; {took:.1} s",
            said.len(),
            outcome.equal,
            outcome.meant.len(),
            outcome.wrong.len(),
        );
        for wrong in &outcome.wrong {
            println!("{wrong}");
        }
        for meant in outcome.meant.iter().filter(|_| flags.meant) {
            println!("{meant}");
        }
        // Parts of a script or suite may be run; in CI it is complete, and each accepted difference must be used.
        for begins in &outcome.never {
            println!("    no longer differs; remove it from the script: {begins}");
        }
        equal &= outcome.wrong.is_empty() && outcome.never.is_empty();
    }
    let killed = kind == Kind::OursOnDisk && scripts.values().any(Script::restarts);
    let quiet = report(&mut components, suite, flags.record, !equal, killed, &normaliser)?;
    Ok(equal && quiet)
}

fn run_script(
    place: &Place,
    name: &str,
    script: &Script,
    kind: Kind,
    server: &mut Server,
    normaliser: &Normaliser,
) -> Outcome<Vec<Said>> {
    let work = place.directory.join(name);
    fs::create_dir_all(work.join("home"))?;
    fs::write(work.join("kubeconfig"), kubeconfig_text(&server.url, &server.ca, name))?;
    for (file, content) in &script.files {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        fs::write(work.join(file), text)?;
    }
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    fs::write(work.join(".namespace"), namespace.to_string())?;
    let make = format!("kubectl create -f .namespace && {}", wait_for_namespace(30));
    let made = place.command(&work, "make", &make, PATIENCE)?;
    if made.2 != 0 {
        return Err(format!("{name}: cannot create the namespace: {}", made.1).into());
    }
    let mut said = Vec::new();
    for step in &script.steps {
        let (command, within, recorded) = match step {
            Step::Run(command) => (command, PATIENCE, Recorded::All),
            Step::Special(special) => {
                if special.restart && kind == Kind::OursOnDisk {
                    server.restart()?;
                }
                let Some(command) = &special.run else { continue };
                (command, special.within.unwrap_or(PATIENCE), special.record)
            }
        };
        let (output, errors, code) = place.command(&work, "step", command, within)?;
        let mut lines = Vec::new();
        if recorded != Recorded::Exit {
            let marked = |mark: &str, text: &str| -> Vec<String> {
                let lines = normaliser.apply(text);
                lines.lines().map(|line| format!("{mark} {line}").trim_end().to_owned()).collect()
            };
            lines.extend(marked(" ", &output));
            if recorded == Recorded::Sorted {
                lines.sort();
            }
            lines.extend(marked("!", &errors));
        }
        if code != 0 {
            lines.push(format!("= {code}"));
        }
        said.push(Said { command: command.trim_end().to_owned(), lines });
    }
    Ok(said)
}

/// Log errors of the components that do not occur on kube-apiserver; after a failure, also the ends of their logs.
/// False if a component has exited or has a new error.
fn report(
    components: &mut Components,
    suite: &str,
    record: bool,
    failed: bool,
    killed: bool,
    normaliser: &Normaliser,
) -> Outcome<bool> {
    let mut quiet = true;
    let races = RegexSet::new(RACES.iter().chain(if killed { &LOST_ANSWERS[..] } else { &[] }))?;
    let file = directory(suite).join("complaints.txt");
    let known = fs::read_to_string(&file).unwrap_or_default();
    let mut known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    for (name, child, log) in &mut components.running {
        if let Some(status) = child.try_wait()? {
            println!("  {name} exited unexpectedly: {status}");
            quiet = false;
        }
        let text = fs::read_to_string(&log)?;
        let mut complaints: BTreeMap<String, usize> = BTreeMap::new();
        for line in text.lines() {
            if let Some(complaint) = normaliser.complaint(line) {
                *complaints.entry(format!("{name}: {complaint}")).or_default() += 1;
            }
        }
        if record {
            known.extend(complaints.into_keys());
            continue;
        }
        for (complaint, times) in complaints.iter().filter(|(complaint, _)| !known.contains(*complaint)) {
            let race = races.is_match(complaint);
            let what = if race { "a race" } else { "a new complaint" };
            println!("  {what}, {times} times, and not recorded on the real server: {complaint}");
            quiet &= race;
        }
        if failed {
            println!("  the end of {name}'s log:");
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains(r#""level":"INFO""#)).collect();
            for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                println!("    {}", line.chars().take(MAX_LINE_LENGTH).collect::<String>());
            }
        }
    }
    if record && !known.is_empty() {
        let lines: Vec<String> = known.into_iter().collect();
        fs::write(&file, lines.join("\n") + "\n")?;
    }
    Ok(quiet)
}
