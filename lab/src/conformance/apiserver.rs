//! API server conformance: the same scripts on kube-apiserver and `settled serve`, with normalized responses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use settled_conformance::{
    Case, CaseFile, Client, Compared, Differences, RECORDED_WALK, Recording, Runner, Target, compare_case,
    load, load_recordings, walk,
};

use crate::server::{self, Kind};
use crate::{Outcome, corpora};

/// Maximum number of printed differences per case.
const PRINTED: usize = 400;
/// Length of the random walk in a complete comparison.
const SEED: u64 = 1;
const OPERATIONS: usize = 20_000;

/// Parsed flags.
#[derive(Default)]
struct Flags<'f> {
    record: bool,
    recorded: bool,
    /// Maximum number of unexplained differences: the known open ones, so that their number cannot grow.
    at_most: usize,
    real_as_ours: bool,
    case: Option<&'f str>,
    server: Option<&'f str>,
    token: Option<&'f str>,
    ca: Option<&'f str>,
    walk: Option<u64>,
    operations: usize,
}

impl<'f> Flags<'f> {
    fn parse(words: &[&'f str]) -> Outcome<Self> {
        let mut flags = Self { operations: OPERATIONS, ..Self::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().copied().ok_or_else(|| format!("{word} needs a value"));
            match *word {
                "--record" => flags.record = true,
                "--recorded" => flags.recorded = true,
                "--at-most" => flags.at_most = value()?.parse()?,
                "--real-as-ours" => flags.real_as_ours = true,
                "--case" => flags.case = Some(value()?),
                "--server" => flags.server = Some(value()?),
                "--token" => flags.token = Some(value()?),
                "--ca" => flags.ca = Some(value()?),
                "--walk" => flags.walk = Some(value()?.parse()?),
                "--operations" => flags.operations = value()?.parse()?,
                unknown => return Err(format!("no such flag: {unknown}").into()),
            }
        }
        Ok(flags)
    }

    fn wants(&self, file: &CaseFile, case: &Case) -> bool {
        self.case.is_none_or(|pattern| {
            let name = format!("{}/{}", file.name, case.name);
            settled_conformance::matches(pattern, &name) || settled_conformance::matches(pattern, &case.name)
        })
    }
}

fn directory() -> PathBuf {
    corpora::root().join("conformance/apiserver")
}

/// Compares, or records; false if a response has a difference that the table does not accept.
pub(crate) fn run(words: &[&str]) -> Outcome<bool> {
    let flags = Flags::parse(words)?;
    let mut files = load(&directory().join("cases"))?;
    if flags.record || flags.recorded {
        // A recording of all responses would have many megabytes.
        let (seed, operations) = RECORDED_WALK;
        files.push(walk(seed, operations)?);
    }
    if flags.record {
        return record(&flags, &files);
    }
    if flags.walk.is_some() {
        files.clear();
    }
    if !flags.recorded && flags.case.is_none() {
        let seed = flags.walk.unwrap_or(SEED);
        println!("random walk: seed {seed}, {} operations", flags.operations);
        files.push(walk(seed, flags.operations)?);
    }
    let theirs = if flags.recorded {
        load_recordings(&directory().join("recorded"))?
    } else {
        match server::start(Kind::Real)? {
            None => return Ok(true),
            Some(real) => {
                println!("kube-apiserver was ready after {:.1} s", real.took.as_secs_f64());
                answers(&real.client, &flags, &files)?
            }
        }
    };
    let ours = if let Some(url) = flags.server {
        let ca = flags.ca.ok_or("--server needs --ca FILE")?;
        let mut client = Client::new(url, Path::new(ca))?;
        client.admin_token = flags.token.map(str::to_owned);
        answers(&client, &flags, &files)?
    } else {
        // Comparing kube-apiserver with itself shows gaps in the normalization.
        let kind = if flags.real_as_ours { Kind::Real } else { Kind::OursAlone };
        let Some(server) = server::start(kind)? else { return Ok(true) };
        println!("ours was ready after {:.0} ms", server.took.as_secs_f64() * 1000.0);
        answers(&server.client, &flags, &files)?
    };
    report(&flags, &files, &theirs, &ours)
}

fn record(flags: &Flags<'_>, files: &[CaseFile]) -> Outcome<bool> {
    let Some(real) = server::start(Kind::Real)? else { return Ok(true) };
    println!(
        "kube-apiserver was ready after {:.1} s; its administrator's token is {}",
        real.took.as_secs_f64(),
        server::admin_token()
    );
    let fresh = answers(&real.client, flags, files)?;
    let directory = directory().join("recorded");
    fs::create_dir_all(&directory)?;
    let mut kept = load_recordings(&directory)?;
    let (mut cases, mut steps, mut failed) = (0, 0, 0);
    for (name, recording) in fresh {
        for (case, answers) in &recording.cases {
            cases += 1;
            steps += answers.len();
            for (step, answer) in
                answers.iter().enumerate().filter(|(_, answer)| answer.get("failed").is_some())
            {
                failed += 1;
                println!("{name}/{case}, step {step}: {answer}");
            }
        }
        kept.entry(name).or_default().cases.extend(recording.cases);
    }
    for file in files {
        let Some(recording) = kept.get_mut(&file.name) else { continue };
        recording.cases.retain(|name, _| file.cases.iter().any(|case| case.name == *name));
        settled_golden::write(&directory.join(format!("{}.json", file.name)), &recording.to_text())?;
    }
    println!("recorded {cases} cases, {steps} answers; {failed} failed");
    Ok(failed == 0)
}

/// Runs all selected cases.
fn answers(
    target: &dyn Target,
    flags: &Flags<'_>,
    files: &[CaseFile],
) -> Outcome<BTreeMap<String, Recording>> {
    let runner = Runner::new(target);
    let mut all = BTreeMap::new();
    for file in files {
        let wanted: Vec<&Case> = file.cases.iter().filter(|case| flags.wants(file, case)).collect();
        if wanted.is_empty() {
            continue;
        }
        let mut recording = Recording::default();
        match runner.setup(file) {
            Ok(()) => {
                for case in wanted {
                    recording.cases.insert(case.name.clone(), runner.run(file, case));
                }
            }
            Err(why) => {
                println!("{why}");
                for case in wanted {
                    let failed = serde_json::json!({"failed": why.to_string()});
                    recording.cases.insert(case.name.clone(), vec![failed]);
                }
            }
        }
        all.insert(file.name.clone(), recording);
    }
    Ok(all)
}

fn report(
    flags: &Flags<'_>,
    files: &[CaseFile],
    theirs: &BTreeMap<String, Recording>,
    ours: &BTreeMap<String, Recording>,
) -> Outcome<bool> {
    let table = directory().join("differences.yaml");
    let meant = Differences::parse(
        &fs::read_to_string(&table).map_err(|why| format!("{}: {why}", table.display()))?,
    )?;
    let (mut cases, mut steps, mut equal, mut known, mut wrong) = (0, 0, 0, 0, 0);
    for file in files {
        let mut bad = 0;
        let mut all = 0;
        for case in file.cases.iter().filter(|case| flags.wants(file, case)) {
            cases += 1;
            all += 1;
            let nothing = Vec::new();
            let of = |all: &BTreeMap<String, Recording>| {
                all.get(&file.name).and_then(|recording| recording.cases.get(&case.name)).cloned()
            };
            let theirs = of(theirs).unwrap_or_default();
            let ours = of(ours).unwrap_or_else(|| nothing.clone());
            let mut printed = 0;
            for Compared { step, differs, unexplained, .. } in
                compare_case(&meant, &file.name, &case.name, &theirs, &ours)
            {
                steps += 1;
                match (differs, unexplained.is_empty()) {
                    (false, _) => equal += 1,
                    (true, true) => known += 1,
                    (true, false) => {
                        wrong += 1;
                        if printed < PRINTED {
                            println!("{}/{}, step {step}: {}", file.name, case.name, title(case, step));
                        }
                        for difference in &unexplained {
                            if printed < PRINTED {
                                println!("  {difference}");
                            }
                            printed += 1;
                        }
                    }
                }
            }
            if printed > PRINTED {
                println!("  … and {} more in this case", printed - PRINTED);
            }
            bad += usize::from(printed > 0);
        }
        if all > 0 {
            println!("{:<24} {all:>4} cases, {bad:>4} differ", file.name);
        }
    }
    println!("{cases} cases, {steps} answers: {equal} equal, {known} differ as documented, {wrong} differ");
    if wrong > flags.at_most {
        println!("at most {} may differ without a reason", flags.at_most);
    }
    Ok(wrong <= flags.at_most)
}

/// The request of a recorded step.
fn title(case: &Case, step: usize) -> String {
    let recorded = case.steps.iter().filter(|step| step.is_recorded()).chain(&case.readers);
    recorded.skip(step).take(1).map(|step| format!("{} {}", step.method, step.path)).collect()
}
