//! Full disk. Writes fail with a reason, no acknowledged write is lost, reads continue, and writes succeed again once
//! there is space; also after a kill and restart on the full disk.
//!
//! The disk is a small tmpfs in a mount namespace of its own, so that it is private and needs no privileges.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use settled_conformance::{Lines, Target as _};

use super::{
    COLLECTION, Dice, Kept, Report, Running, Setting, config_map, name_of, number, request, revision, serve,
    start, text,
};
use crate::Outcome;

const SIZE: &str = "48m";
/// A file that is removed to free space.
const BALLAST: usize = 12 << 20;
const BYTES: usize = 20_000;
/// Number of rejected writes after which the disk counts as full.
const REFUSED: usize = 20;

/// The tmpfs. It is unmounted when this is dropped.
struct Disk {
    holder: Child,
    mounted: PathBuf,
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

impl Disk {
    /// The reason if namespaces are not available.
    fn mount(directory: &Path) -> Outcome<Result<Self, String>> {
        let mounted = directory.join("data");
        fs::create_dir_all(&mounted)?;
        let script = format!(
            "mount -t tmpfs -o size={SIZE},mode=700 none \"$0\" && echo mounted && exec sleep infinity"
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(&mounted);
        let (log, output) = (directory.join("mount.log"), directory.join("mount.out"));
        command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(&log)?);
        let mut holder = match command.spawn() {
            Ok(holder) => holder,
            Err(why) => return Ok(Err(format!("unshare: {why}"))),
        };
        while !fs::read_to_string(&output)?.contains("mounted") {
            if holder.try_wait()?.is_some() {
                return Ok(Err(format!("cannot mount a tmpfs: {}", fs::read_to_string(&log)?.trim())));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(Ok(Self { holder, mounted }))
    }

    /// Path of the directory outside of the namespace.
    fn seen(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.mounted.strip_prefix("/").unwrap_or(&self.mounted))
    }

    /// Starts the server in the namespace.
    fn start(&self, directory: &Path) -> Outcome<Running> {
        let serve = serve(directory, Kept::OnDisk)?;
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id()));
        command
            .args(["--user", "--preserve-credentials", "--mount"])
            .arg(serve.get_program())
            .args(serve.get_args());
        // The one of the last start has another port. A full disk has no space for a second one.
        if let Ok(mut config) = File::options().write(true).open(self.seen().join("admin.kubeconfig")) {
            let size = config.metadata()?.len();
            config.write_all(&vec![b'#'; usize::try_from(size)?])?;
        }
        start(directory, command, |_| self.seen())
    }

    /// Fills the space that the server needs.
    fn ballast(&self) -> Outcome<()> {
        let mut file = File::create(self.seen().join("ballast"))?;
        for _ in 0..BALLAST / 4096 {
            // As much as there is.
            if file.write_all(&[1; 4096]).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn make_room(&self) -> Outcome<()> {
        Ok(fs::remove_file(self.seen().join("ballast"))?)
    }
}

/// Acknowledged writes: version and revision by name. A rejected write may have been stored nevertheless.
#[derive(Default)]
struct Promises {
    kept: BTreeMap<String, (u64, u64)>,
    highest: u64,
    refused: BTreeMap<String, u64>,
}

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let rounds = if setting.quick { 3 } else { 20 };
    let mut report = Report::default();
    let disk = match Disk::mount(&setting.directory)? {
        Ok(disk) => disk,
        Err(why) => return Ok(Report { skipped: Some(why), ..report }),
    };
    let mut dice = Dice::new(setting.seed);
    let mut running = disk.start(&setting.directory)?;
    let mut promises = Promises::default();
    let mut version = 0;
    let (_, mut from) = running.list(COLLECTION)?;
    for round in 0..rounds {
        disk.ballast()?;
        let watch = request("GET", &format!("{COLLECTION}?watch=true&resourceVersion={from}"), &Value::Null);
        let mut events = running.client.watch(&watch)?.lines.ok_or("no events come")?;
        let mut seen = Vec::new();
        let mut refused = 0;
        let mut acknowledged = Vec::new();
        while refused < REFUSED {
            version += 1;
            match write(&running, &mut promises, &format!("d{}", dice.roll(2000)), version, &mut report)? {
                Some(revision) => {
                    acknowledged.push(revision);
                    // Immediately: a watch with many queued events is closed.
                    follow(&mut *events, &mut seen, revision)?;
                }
                None => refused += 1,
            }
            if acknowledged.len() > 5000 {
                return Err("the disk does not become full".into());
            }
        }
        check(&running, &mut promises, &mut report)?;
        report.expect(acknowledged.iter().all(|one| seen.contains(one)), || {
            format!("round {round}: a watch has missed acknowledged writes")
        });
        report.expect(seen.is_sorted(), || format!("round {round}: events are out of order"));
        if round % 2 == 1 {
            running.check(&mut report)?;
            drop(running);
            running = match disk.start(&setting.directory) {
                Ok(running) => running,
                Err(why) => {
                    report.wrong.push(format!("round {round}: a start on the full disk: {why}"));
                    return Ok(report);
                }
            };
            check(&running, &mut promises, &mut report)?;
            // Objects can be deleted through the API before there is space.
            if let Some(name) = promises.kept.keys().next().cloned() {
                let answer = running.send("DELETE", &format!("{COLLECTION}/{name}"), &Value::Null)?;
                report.expect(answer.status == 200, || {
                    format!("round {round}: a delete on the full disk: {}", text(&answer.body))
                });
                promises.kept.remove(&name);
                promises.refused.remove(&name);
            }
        }
        drop(disk.make_room());
        // The first write recovers the server.
        let name = format!("d{}", dice.roll(2000));
        version += 1;
        let recovered = write(&running, &mut promises, &name, version, &mut report)?;
        report
            .expect(recovered.is_some(), || format!("round {round}: a write fails although there is space"));
        // Space within the store.
        let (items, _) = running.list(COLLECTION)?;
        for item in items.iter().filter(|item| name_of(item).starts_with('d')) {
            let name = name_of(item);
            if dice.roll(3) > 0 {
                let answer = running.send("DELETE", &format!("{COLLECTION}/{name}"), &Value::Null)?;
                report.expect(answer.status == 200, || format!("a delete: {}", text(&answer.body)));
                promises.kept.remove(name);
                promises.refused.remove(name);
            }
        }
        from = check(&running, &mut promises, &mut report)?;
    }
    report.note(format!(
        "{rounds} times full, {} times of these killed and started again on the full disk; {version} writes",
        rounds / 2
    ));
    running.check(&mut report)?;
    Ok(report)
}

/// Reads events up to that of a write.
fn follow(events: &mut dyn Lines, seen: &mut Vec<u64>, last: u64) -> Outcome<()> {
    let deadline = Instant::now() + super::PATIENCE;
    while seen.last().is_none_or(|seen| *seen < last) {
        let line = events.next(deadline)?.ok_or("a watch ended on the full disk")?;
        let event: Value = serde_json::from_slice(&line)?;
        seen.extend(event.get("object").and_then(revision));
    }
    Ok(())
}

/// One write: its revision, or `None` if it was rejected.
fn write(
    server: &Running,
    promises: &mut Promises,
    name: &str,
    version: u64,
    report: &mut Report,
) -> Outcome<Option<u64>> {
    let object = config_map(name, version, BYTES);
    let path = format!("{COLLECTION}/{name}");
    let mut answer = server.send("PUT", &path, &object)?;
    if answer.status == 404 {
        answer = server.send("POST", COLLECTION, &object)?;
    }
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match (answer.status, revision(&said)) {
        (200 | 201, Some(revision)) => {
            report.expect(revision > promises.highest, || {
                format!("{name}: revision {revision} after {}", promises.highest)
            });
            promises.highest = revision;
            promises.refused.remove(name);
            promises.kept.insert(name.to_owned(), (version, revision));
            Ok(Some(revision))
        }
        _ => {
            let clear = answer.status >= 500
                && text(&answer.body).contains("space")
                && !text(&answer.body).contains("store.log");
            report.expect(clear, || format!("a refusal: {} {}", answer.status, text(&answer.body)));
            if report.notes.is_empty() {
                report.note(format!("refused with {} {}", answer.status, said["message"]));
            }
            promises.refused.insert(name.to_owned(), version);
            Ok(None)
        }
    }
}

/// Compares the objects with the acknowledged writes.
fn check(server: &Running, promises: &mut Promises, report: &mut Report) -> Outcome<u64> {
    let (items, at) = server.list(COLLECTION)?;
    report.expect(at >= promises.highest, || format!("revision {at} after {}", promises.highest));
    let mut found = BTreeMap::new();
    for item in items.iter().filter(|item| name_of(item).starts_with('d')) {
        let stored = (number(item.pointer("/data/version")), revision(item));
        let (Some(version), Some(revision)) = stored else {
            report.wrong.push(format!("{} is incomplete", name_of(item)));
            continue;
        };
        found.insert(name_of(item).to_owned(), (version, revision));
    }
    for (name, promise) in &promises.kept {
        let late = |there: &(u64, u64)| promises.refused.get(name).is_some_and(|version| *version == there.0);
        match found.get(name) {
            Some(there) if there == promise || late(there) => {}
            there => report.wrong.push(format!("{name}: {promise:?} was acknowledged, {there:?} is there")),
        }
    }
    for (name, there) in &found {
        let asked = promises.refused.get(name).is_some_and(|version| *version == there.0);
        report.expect(promises.kept.contains_key(name) || asked, || format!("{name} was never requested"));
    }
    promises.kept = found;
    Ok(at)
}
