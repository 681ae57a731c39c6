//! Clock jumps by hours, years and centuries. Nothing panics, revisions increase by one, watches continue, and all
//! writes survive a restart at any time.
//!
//! Debian's libfaketime changes the time of the server; the monotonic clock of timers stays unchanged, as on real
//! machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use settled_conformance::{Lines, Target as _};

use super::{
    COLLECTION, Dice, Kept, Report, Running, Setting, config_map, name_of, request, revision, serve, start,
    text,
};
use crate::{Outcome, oracle};

/// Sizes of jumps. None goes before 1970, where clocks of boards without a battery begin: rustls and hyper support no
/// earlier time.
const JUMPS: [&str; 12] =
    ["+0", "+90s", "-90s", "+2h", "-2h", "+40d", "-40d", "+2y", "+20y", "-20y", "-50y", "+2000y"];
/// Every second start at a wrong time uses one of these: the server keeps a certificate that clients trust.
const NEAR: [&str; 4] = ["+90s", "-90s", "+2h", "+40d"];
const EVENTS: &str = "/api/v1/namespaces/default/events";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let rounds = if setting.quick { 40 } else { 400 };
    let mut report = Report::default();
    let library = match library()? {
        Ok(library) => library,
        Err(why) => return Ok(Report { skipped: Some(why), ..report }),
    };
    let mut dice = Dice::new(setting.seed);
    let clock = Clock { file: setting.directory.join("clock"), library };
    clock.set("+0")?;
    let mut running = clock.start(&setting.directory)?;
    let (_, mut last) = running.list(COLLECTION)?;
    let mut names = Vec::new();
    let (mut starts, mut refused, mut untrusted, mut whole) = (0, 0, 0, 0);
    let mut watch = Watch::begin(&running, last)?;
    let mut times = [String::new(), String::new()];
    for round in 0..rounds {
        // Each once, then random ones.
        let jump = JUMPS.get(round).copied().unwrap_or_else(|| JUMPS[dice.below(JUMPS.len())]);
        clock.set(jump)?;
        let step = format!("round {round}, clock {jump}");
        let name = format!("c{round}");
        names.push(name.clone());
        for (path, object) in [
            (COLLECTION, config_map(&name, 1, 10)),
            (EVENTS, event(&name)),
            (
                LEASES,
                json!({"metadata": {"name": name}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}),
            ),
        ] {
            let answer = running.send("POST", path, &object)?;
            let created: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            report.expect(answer.status == 201, || format!("{step}: {path}: {}", text(&answer.body)));
            let at = revision(&created).unwrap_or_default();
            report.expect(at > last, || format!("{step}: revision {at} after {last}"));
            last = at;
            // Freshly written: it has not expired, whatever the time.
            let found = running.send("GET", &format!("{path}/{name}"), &Value::Null)?;
            report.expect(found.status == 200, || format!("{step}: {path}/{name} is gone: {}", found.status));
            let time = created["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
            for (one, later) in times.iter_mut().zip([false, true]) {
                if one.is_empty() || (time > *one) == later {
                    one.clone_from(&time);
                }
            }
        }
        watch.expect(&name, &step)?;
        let ready = running.send("GET", "/readyz", &Value::Null)?;
        report.expect(ready.status == 200, || format!("{step}: /readyz: {}", ready.status));
        // Killed, started at a wrong time, and started again at the correct one.
        if round % 4 == 3 {
            drop(watch);
            running.check(&mut report)?;
            drop(running);
            let restart = round / 4;
            let jump = if restart % 2 == 1 { NEAR[restart / 2 % NEAR.len()] } else { jump };
            clock.set(jump)?;
            let step = format!("round {round}, start at {jump}");
            match clock.start(&setting.directory) {
                Ok(mut wrong) => {
                    // Written at the wrong time, with a clock that jumps back and forth, and present after the next
                    // start.
                    let jumps = [jump, "-90s", "+2h", jump];
                    for (number, jump) in jumps.into_iter().enumerate() {
                        clock.set(jump)?;
                        let name = format!("c{round}-{number}");
                        let answer = match wrong.send("POST", COLLECTION, &config_map(&name, 1, 10)) {
                            Ok(answer) => answer,
                            // Its certificate is years off: no client trusts it.
                            Err(why) if why.to_string().contains("certificate") && number == 0 => {
                                untrusted += 1;
                                break;
                            }
                            Err(why) => return Err(why),
                        };
                        let created: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                        let at = revision(&created).unwrap_or_default();
                        report.expect(answer.status == 201 && at > last, || {
                            format!("{step}: {name} at {at} after {last}: {}", text(&answer.body))
                        });
                        last = at.max(last);
                        names.push(name);
                        whole += usize::from(number + 1 == jumps.len());
                    }
                    wrong.check(&mut report)?;
                    starts += 1;
                }
                // Ten years later even the CA has expired, and the server reports it.
                Err(why) if why.to_string().contains("the authority has expired") => refused += 1,
                Err(why) => report.wrong.push(format!("{step}: a start: {why}")),
            }
            clock.set("+0")?;
            running = clock.start(&setting.directory)?;
            let (items, at) = running.list(COLLECTION)?;
            report.expect(at >= last, || format!("{step}: revision {at} after a start, {last} before"));
            for name in &names {
                let there = items.iter().any(|item| name_of(item) == name);
                report.expect(there, || format!("{step}: {name} is gone after a start"));
            }
            last = at;
            watch = Watch::begin(&running, at)?;
        }
    }
    report.note(format!(
        "{rounds} jumps between {} and {}; {starts} starts at the wrong time, {whole} of them took all writes, {untrusted} had a \
         certificate that no client trusts, {refused} more refused for an authority too old",
        times[0], times[1]
    ));
    report.expect(times[0] != times[1], || "the clock did not jump".to_owned());
    // At least those near the correct time.
    let least = rounds / 8;
    report.expect(whole >= least, || {
        format!("{whole} starts at a wrong time accepted all writes, expected at least {least}")
    });
    running.check(&mut report)?;
    Ok(report)
}

fn event(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "reason": "Jumped", "type": "Normal",
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": "default"},
    })
}

/// A watch that continues through all jumps.
struct Watch(Box<dyn Lines>);

impl Watch {
    fn begin(server: &Running, at: u64) -> Outcome<Self> {
        let path = format!("{COLLECTION}?watch=true&resourceVersion={at}");
        let watching = server.client.watch(&request("GET", &path, &Value::Null))?;
        Ok(Self(watching.lines.ok_or("no events come")?))
    }

    fn expect(&mut self, name: &str, step: &str) -> Outcome<()> {
        let line = self.0.next(Instant::now() + super::PATIENCE)?;
        let line = line.ok_or_else(|| format!("{step}: the watch has ended"))?;
        let event: Value = serde_json::from_slice(&line)?;
        if event["type"] == "ADDED" && name_of(&event["object"]) == name {
            return Ok(());
        }
        Err(format!("{step}: unexpected watch event {}", text(&line)).into())
    }
}

struct Clock {
    file: PathBuf,
    library: PathBuf,
}

impl Clock {
    fn set(&self, jump: &str) -> Outcome<()> {
        // Renamed, so that the server never reads a partial file.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{jump}\n"))?;
        Ok(fs::rename(new, &self.file)?)
    }

    fn start(&self, directory: &Path) -> Outcome<Running> {
        let mut command = serve(directory, Kept::OnDisk)?;
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", &self.file);
        command.envs([("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
        start(directory, command, |_| directory.join("data"))
    }
}

/// Path of the library: installed, or from Debian's package, unpacked into the cache. Otherwise, the reason.
fn library() -> Outcome<Result<PathBuf, String>> {
    let place = "usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    let installed = Path::new("/").join(place);
    if installed.is_file() {
        return Ok(Ok(installed));
    }
    let directory = oracle::cache()?.join("libfaketime");
    let library = directory.join(place);
    if !library.is_file() {
        fs::create_dir_all(&directory)?;
        // A new machine has no package lists yet.
        let script = "get() { apt-get download libfaketime; }; get || { apt-get update && get; } \
                      && dpkg-deb --extract libfaketime_*.deb .";
        let output = Command::new("sh").args(["-c", script]).current_dir(&directory).output()?;
        if !library.is_file() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Ok(Err(format!("libfaketime is not installed, and apt-get has none: {said}")));
        }
    }
    Ok(Ok(library))
}
