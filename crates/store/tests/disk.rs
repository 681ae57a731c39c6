//! The disk backend.

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use settled_store::At;
use settled_store::Backend;
use settled_store::BackendError;
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
use crate::show;

pub(crate) fn options(history: usize) -> Options {
    let mut options = Options::default();
    options.tick = Duration::from_secs(3600);
    options.limits.history_events = history;
    options
}

fn open(directory: &Path, durability: Durability, options: Options) -> Result<Store, BackendError> {
    Store::open(Box::new(Disk::open(directory, durability)?), options)
}

/// The current revision, the compact revision, the objects and the events.
pub(crate) type Content = (Revision, Revision, Vec<String>, Vec<String>);

/// Everything that can be read.
pub(crate) fn content(store: &Store) -> Content {
    let (current, compact) = (store.current_revision(), store.compact_revision());
    let snapshot = store.snapshot(&resource(), At::Latest).unwrap();
    let live = snapshot
        .iter(&Scope::All)
        .map(|e| format!("{:?} {} {:?}", e, e.create_revision(), e.value()))
        .collect();
    let mut watch = store.watch(&resource(), &Scope::All, Some(compact)).unwrap();
    let events = std::iter::from_fn(|| watch.try_recv().unwrap()).map(|event| show(&event)).collect();
    (current, compact, live, events)
}

fn churn(store: &Store, writes: usize) {
    let mut pending = Vec::new();
    for i in 0..writes {
        let key = key(&format!("n{}/{}", i % 3, i % 17));
        pending.push(match i % 5 {
            0 => store.write(Write::delete(key, Expect::Any)),
            _ => store.write(Write::put(key, format!("{i}").repeat(100).into_bytes())),
        });
    }
    for pending in pending {
        assert!(!matches!(pending.wait(), Err(settled_store::WriteError::Backend(_))));
    }
}

#[test]
fn a_second_start_continues_where_the_first_was() {
    let _alone = alone();
    for durability in [Durability::Synced, Durability::None] {
        for history in [0, 7, 10_000] {
            let directory = Directory::new("again");
            let mut before = None;
            for round in 0..5 {
                let store = open(directory.path(), durability, options(history)).unwrap();
                if let Some(before) = before {
                    assert_eq!(content(&store), before, "{durability:?} {history} round {round}");
                }
                churn(&store, 100);
                if round == 2 {
                    store.compact(Revision(store.current_revision().0 - 3));
                    store.shrink().wait().unwrap();
                }
                // The file learns of what was compacted with the next write.
                store.write(Write::put(key("last"), *b"1")).wait().unwrap();
                store.write(Write::put(key("last"), *b"2")).wait().unwrap();
                let content = content(&store);
                before = (history != 0 || durability == Durability::None).then_some(content);
                if history < 10 {
                    // A history window may be longer after a start, because the last batch did not know its end.
                    before = None;
                }
                assert!(!store.snapshot(&resource(), At::Latest).unwrap().is_empty());
            }
        }
    }
}

#[test]
fn what_is_superseded_leaves_the_file() {
    let _alone = alone();
    let directory = Directory::new("superseded");
    let store = open(directory.path(), Durability::Synced, options(10)).unwrap();
    churn(&store, 3000);
    for _ in 0..10 {
        store.write(Write::put(key("last"), *b"1")).wait().unwrap();
    }
    let live = store.stats().objects;
    drop(store);
    let mut disk = Disk::open(directory.path(), Durability::Synced).unwrap();
    let mut records = 0;
    disk.load(&mut |_| {
        records += 1;
        Ok(())
    })
    .unwrap();
    // Live objects, the history window with what it changed, and what the last batch could not know.
    assert!(records <= live + 2 * 10 + 10, "{records} records of {live} objects");
}

#[test]
fn one_process_has_a_directory() {
    let _alone = alone();
    let directory = Directory::new("twice");
    let store = open(directory.path(), Durability::Synced, options(10)).unwrap();
    let error = open(directory.path(), Durability::Synced, options(10)).unwrap_err();
    let expected = format!(
        "{} is in use by process {}: stop that process or choose another directory",
        directory.path().display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    drop(store);
    open(directory.path(), Durability::Synced, options(10)).unwrap();
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads() {
    let _alone = alone();
    use std::os::unix::fs::PermissionsExt as _;
    let parent = Directory::new("private");
    let directory = parent.path().join("data");
    drop(open(&directory, Durability::Synced, options(10)).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
    // What a copy or an earlier version left open is closed.
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&directory, 0o755);
    for entry in fs::read_dir(&directory).unwrap() {
        set(&entry.unwrap().path(), 0o644);
    }
    drop(open(&directory, Durability::Synced, options(10)).unwrap());
    assert_eq!(mode(&directory), 0o700);
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
}

#[test]
fn revisions_that_may_be_lost_are_not_used_again() {
    let _alone = alone();
    let directory = Directory::new("reserved");
    let image = Directory::new("image");
    let store = open(directory.path(), Durability::None, options(10_000)).unwrap();
    store.write(Write::put(key("a"), *b"1")).wait().unwrap();
    drop(store);
    let store = open(directory.path(), Durability::None, options(10_000)).unwrap();
    for _ in 0..50 {
        store.write(Write::put(key("a"), *b"2")).wait().unwrap();
    }
    let last = store.current_revision();
    // As after a crash: the writes are not in the file.
    for durability in [Durability::Synced, Durability::None] {
        let _none = fs::remove_file(image.path().join("store.seal"));
        fs::copy(directory.path().join("store.log"), image.path().join("store.log")).unwrap();
        let again = open(image.path(), durability, options(10_000)).unwrap();
        assert!(again.current_revision() > last);
        assert_eq!(again.compact_revision(), again.current_revision(), "clients must list again");
        assert_eq!(&**again.get(&key("a")).unwrap().value(), b"1");
        let next = again.write(Write::put(key("a"), *b"3")).wait().unwrap();
        assert!(next.revision() > last);
        let next = again.write(Write::put(key("a"), *b"1")).wait().unwrap();
        drop(again);
        let again = open(image.path(), durability, options(10_000)).unwrap();
        assert_eq!(again.current_revision(), next.revision(), "closed in order, nothing is skipped");
    }
}

/// A file as it was closed, and what was in it.
fn image() -> (Vec<u8>, Content) {
    let directory = Directory::new("image");
    let store = open(directory.path(), Durability::Synced, options(50)).unwrap();
    churn(&store, 200);
    drop(store);
    // Once more, so that the content is what the file says.
    let store = open(directory.path(), Durability::Synced, options(50)).unwrap();
    let content = content(&store);
    drop(store);
    (fs::read(directory.path().join("store.log")).unwrap(), content)
}

/// A damaged file is refused, or the damage is in a place that holds nothing.
fn check_damaged(bytes: &[u8], backup: &[u8], whole: &Content) -> bool {
    let directory = Directory::new("damaged");
    fs::write(directory.path().join("store.log"), bytes).unwrap();
    match open(directory.path(), Durability::Synced, options(50)) {
        Err(BackendError::Corrupt { path, what }) => {
            assert!(path.ends_with("store.log.corrupt") && !what.is_empty());
            let again = open(directory.path(), Durability::Synced, options(50));
            assert!(matches!(again, Err(BackendError::Corrupt { .. })), "a second try is refused as well");
            // A backup that is put in its place is taken.
            fs::write(directory.path().join("store.log"), backup).unwrap();
            assert_eq!(&content(&open(directory.path(), Durability::Synced, options(50)).unwrap()), whole);
            true
        }
        Err(BackendError::Io { .. }) => true,
        Err(other) => panic!("{other:?}"),
        Ok(store) => {
            assert_eq!(&content(&store), whole);
            false
        }
    }
}

#[test]
fn what_is_damaged_is_never_served() {
    let _alone = alone();
    let (file, whole) = image();
    let cut = |size: usize| file[..size].to_vec();
    let zeroed = |from: usize, to: usize| {
        let mut bytes = file.clone();
        bytes[from..to].fill(0);
        bytes
    };
    // The rest is space for later.
    let size = file.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let rows: [(&str, Vec<u8>); 8] = [
        ("a byte", cut(1)),
        ("the head", cut(100)),
        ("half a page", cut(2048)),
        ("half of it", cut(size / 2)),
        ("no head", zeroed(0, 512)),
        ("no magic", zeroed(0, 9)),
        ("all zero", zeroed(0, size)),
        ("other bytes", b"this is not a database".repeat(500)),
    ];
    for (what, bytes) in rows {
        assert!(check_damaged(&bytes, &file, &whole), "{what}");
    }
    // Each region of the file, with one bit flipped.
    let mut refused = 0;
    for position in (0..size).step_by(size / 150) {
        let mut bytes = file.clone();
        bytes[position] ^= 0x10;
        refused += usize::from(check_damaged(&bytes, &file, &whole));
    }
    assert!(refused > 5, "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_damage_is_refused_or_harmless(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let _alone = alone();
        static IMAGE: std::sync::OnceLock<(Vec<u8>, Content)> =
            std::sync::OnceLock::new();
        let (file, whole) = IMAGE.get_or_init(image);
        let mut bytes = file.clone();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        check_damaged(&bytes, file, whole);
    }
}

#[test]
fn the_file_does_not_grow_for_ever() {
    let _alone = alone();
    let directory = Directory::new("growth");
    let store = open(directory.path(), Durability::Synced, options(10)).unwrap();
    let size = || fs::metadata(directory.path().join("store.log")).unwrap().len();
    for i in 0..1000_usize {
        store.write(Write::put(key(&format!("{}", i % 7)), vec![i as u8; 50_000])).wait().unwrap();
        // What is needed, what is superfluous before a compaction and during one, and space.
        assert!(size() < 16 << 20, "{} after {i}", size());
    }
    let before = content(&store);
    store.shrink().wait().unwrap();
    assert!(size() < 2 << 20, "{}", size());
    assert_eq!(content(&store), before);
    drop(store);
    assert_eq!(content(&open(directory.path(), Durability::Synced, options(10)).unwrap()).2, before.2);
}

#[test]
fn another_format_is_named() {
    let _alone = alone();
    let directory = Directory::new("format");
    fs::write(directory.path().join("store.redb"), "").unwrap();
    let error = open(directory.path(), Durability::Synced, options(10)).unwrap_err();
    assert!(matches!(error, BackendError::Format { found: 1, known: 2, .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.ends_with("store.redb has format 1; this version reads 2: use the version that wrote it"),
        "{text}"
    );
}
