//! A writing process that is killed repeatedly.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use settled_store::Disk;
use settled_store::Durability;
use settled_store::Expect;
use settled_store::Options;
use settled_store::Revision;
use settled_store::Scope;
use settled_store::Store;
use settled_store::Write;

use crate::Directory;
use crate::alone;
use crate::key;
use crate::resource;

const DIRECTORY: &str = "SETTLED_STORE_CRASH_DIRECTORY";
const MODE: &str = "SETTLED_STORE_CRASH_MODE";
const WRITERS: usize = 4;
const KEYS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// All history is kept, so every acknowledged write can be looked up.
    Whole,
    /// Little history is kept, so records are discarded all the time.
    Short,
    /// Writes may be lost.
    Unsynced,
}

const MODES: [Mode; 3] = [Mode::Whole, Mode::Short, Mode::Unsynced];

fn open(directory: &Path, mode: Mode) -> Store {
    let mut options = Options::default();
    options.limits.history_events = if mode == Mode::Short { 20 } else { 10_000_000 };
    if mode == Mode::Whole {
        // However long the test takes, and whatever it writes.
        options.limits.history_age = Duration::MAX;
        options.limits.history_bytes = usize::MAX;
    }
    let durability = if mode == Mode::Unsynced { Durability::None } else { Durability::Synced };
    Store::open(Box::new(Disk::open(directory, durability).unwrap()), options).unwrap()
}

/// Not a test but the process that is killed, if its directory is given. It says what it tries and what was
/// acknowledged, one line each.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let mode = MODES[std::env::var(MODE).unwrap().parse::<usize>().unwrap()];
    let store = open(Path::new(&directory), mode);
    let say = |line: String| {
        let mut output = std::io::stdout().lock();
        // The reader is gone when it has seen enough.
        let said = output.write_all(line.as_bytes()).and_then(|()| output.flush());
        said.is_ok()
    };
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, say) = (&store, &say);
            scope.spawn(move || {
                // Ends, should the parent not.
                for i in 0..1_000_000_usize {
                    let path = format!("w{writer}/{}", i % KEYS);
                    let present = store.get(&key(&path));
                    let value = match present {
                        Some(_) if i % 7 == 3 => None,
                        _ => Some(format!("{}-{i}", std::process::id())),
                    };
                    let text = value.as_deref().unwrap_or("-");
                    if !say(format!("\ntry {path} {text}\n")) {
                        return;
                    }
                    let write = match &value {
                        // Long enough for pages of their own now and then.
                        Some(value) => {
                            let size = if i % 10 == 0 { 9000 } else { 100 };
                            Write::put(key(&path), format!("{value:<size$}").into_bytes())
                        }
                        None => Write::delete(key(&path), Expect::Any),
                    };
                    let revision = store.write(write).wait().unwrap().revision();
                    if !say(format!("\nack {path} {text} {revision}\n")) {
                        return;
                    }
                }
            });
        }
    });
}

/// What is known of all the children together.
#[derive(Default)]
struct Known {
    /// What each revision wrote.
    acknowledged: BTreeMap<Revision, (String, String)>,
    /// The last acknowledged write of each object, if any.
    objects: HashMap<String, (String, Revision)>,
    /// The last thing each writer tried without an answer.
    tried: HashMap<String, (String, String)>,
}

fn cycle(directory: &Path, mode: Mode, known: &mut Known, answers: usize) {
    let index = MODES.iter().position(|m| *m == mode).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(MODE, index.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n');
    let mut seen = 0;
    let mut last = known.acknowledged.keys().next_back().copied().unwrap_or_default();
    let newest_before = last;
    known.tried.clear();
    while let Some(Ok(line)) = lines.next() {
        let line = String::from_utf8(line).unwrap();
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["try", path, value] => {
                let writer = path.split('/').next().unwrap().to_owned();
                known.tried.insert(writer, (path.to_owned(), value.to_owned()));
            }
            ["ack", path, value, revision] => {
                let revision = Revision(revision.parse().unwrap());
                assert!(revision > newest_before, "{mode:?}: revision {revision} was used before");
                let written = (path.to_owned(), value.to_owned());
                assert_eq!(known.acknowledged.insert(revision, written), None, "{revision} was used twice");
                known.objects.insert(path.to_owned(), (value.to_owned(), revision));
                known.tried.remove(path.split('/').next().unwrap());
                last = last.max(revision);
                seen += 1;
                if seen == answers {
                    child.kill().unwrap();
                }
            }
            _ => {}
        }
    }
    assert!(!child.wait().unwrap().success());
    assert!(seen >= answers, "{mode:?}: the child ended by itself");
    verify(&open(directory, mode), mode, known, last);
}

fn verify(store: &Store, mode: Mode, known: &mut Known, last: Revision) {
    assert!(store.current_revision() >= last, "{mode:?}");
    if mode == Mode::Unsynced {
        // Whatever was lost: there is nothing that was never written, and clients notice.
        assert!(store.watch(&resource(), &Scope::All, Some(last)).is_err());
        return;
    }
    for writer in 0..WRITERS {
        for object in 0..KEYS {
            let path = format!("w{writer}/{object}");
            let found = store.get(&key(&path)).map(|entry| {
                let text = String::from_utf8_lossy(entry.value()).trim_end().to_owned();
                (text, entry.mod_revision())
            });
            let (value, revision) =
                known.objects.get(&path).cloned().unwrap_or_else(|| ("-".to_owned(), Revision(0)));
            let expected = (value != "-").then_some((value, revision));
            if found == expected {
                continue;
            }
            // Otherwise it is the one write that was not answered.
            let tried = known.tried.get(&format!("w{writer}"));
            let got = found.clone().map_or_else(|| "-".to_owned(), |(text, _)| text);
            assert_eq!(tried, Some(&(path.clone(), got)), "{mode:?}: {path} should be {expected:?}");
            let revision = found.map_or_else(|| store.current_revision(), |(_, revision)| revision);
            known.objects.insert(path.clone(), (tried.unwrap().1.clone(), revision));
        }
    }
    if mode == Mode::Whole {
        let mut watch = store.watch(&resource(), &Scope::All, Some(Revision(0))).unwrap();
        let mut written = BTreeMap::new();
        while let Some(event) = watch.try_recv().unwrap() {
            let text = |value: &[u8]| String::from_utf8_lossy(value).trim_end().to_owned();
            let value = event.entry().map_or_else(|| "-".to_owned(), |entry| text(entry.value()));
            written.insert(event.revision(), (event.key().path().to_owned(), value));
        }
        for (revision, write) in &known.acknowledged {
            assert_eq!(written.get(revision), Some(write), "revision {revision}");
        }
    }
}

fn kill(cycles: usize) {
    let _alone = alone();
    for mode in MODES {
        let directory = Directory::new("crash");
        let mut known = Known::default();
        for round in 0..cycles / MODES.len() {
            // Early, late, and anything between, the same in every run.
            let answers = 1 + (round * 37) % 120;
            cycle(directory.path(), mode, &mut known, answers);
        }
        assert!(!known.acknowledged.is_empty());
    }
}

#[test]
fn acknowledged_writes_survive_being_killed() {
    kill(30);
}

/// `cargo test --package settled-store --release -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn acknowledged_writes_survive_being_killed_a_thousand_times() {
    kill(1000);
}
