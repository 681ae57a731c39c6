//! Tests of the disk backend: full disk, compaction, close.

use super::*;
use crate::entry::Expect;
use crate::entry::Write;
use crate::error::WriteError;
use crate::key::Key;
use crate::key::Resource;
use crate::key::Scope;
use crate::mvcc::Mvcc;
use crate::options::Options;
use crate::simulated::SimulatedDisk;
use crate::snapshot::At;
use crate::store::Store;

/// The disk becomes full at each byte of a few transactions: acknowledged writes are kept, others are complete or
/// absent, and writes work again when there is space.
#[test]
fn a_full_disk_loses_nothing() {
    // Without sync, many writes are written at once.
    for (durability, value) in [(Durability::Synced, 3000), (Durability::None, 400_000)] {
        let mut failures = 0;
        for space in (0..100_000).step_by(9_973) {
            failures += full(durability, value, space);
        }
        assert!(failures > 10, "{failures}");
    }
}

fn simulated(files: &SimulatedDisk, durability: Durability) -> Result<Store, BackendError> {
    let disk = Disk::open_files(Path::new("/secret/place"), Box::new(files.clone()), durability, None)?;
    Store::open(Box::new(disk), Options::default())
}

fn full(durability: Durability, value: usize, space: u64) -> usize {
    let files = SimulatedDisk::default();
    let store = simulated(&files, durability).unwrap();
    let resource = Resource::new("r").unwrap();
    let put = |i: usize| {
        let key = Key::new(&resource, "", &format!("{i:02}")).unwrap();
        store.write(Write::create(key, vec![i as u8; value])).wait()
    };
    put(0).unwrap();
    files.budget(Some(space));
    let mut acknowledged = vec![0];
    let mut failures = 0;
    for i in 1..16 {
        match put(i) {
            Ok(_) => acknowledged.push(i),
            Err(WriteError::Backend(error)) => {
                assert!(matches!(*error, BackendError::NoSpace { .. }), "{error:?}");
                failures += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
        assert!(store.get(&Key::new(&resource, "", "00").unwrap()).is_some());
    }
    files.budget(None);
    put(16).unwrap();
    acknowledged.push(16);
    let names = |store: &Store| -> Vec<usize> {
        let snapshot = store.snapshot(&resource, At::Latest).unwrap();
        snapshot.iter(&Scope::All).map(|entry| entry.key().name().parse().unwrap()).collect()
    };
    let seen = names(&store);
    assert!(acknowledged.iter().all(|i| seen.contains(i)), "{acknowledged:?} {seen:?}");
    let last = store.current_revision();
    drop(store);
    let store = simulated(&files, durability).unwrap();
    assert_eq!((names(&store), store.current_revision()), (seen, last), "space for {space}");
    failures
}

/// Writes during a compaction: after each step a crash loses nothing.
#[test]
fn a_compaction_is_never_noticed() {
    let directory =
        |name: &str| std::env::temp_dir().join(format!("settled-store-{name}-{}", std::process::id()));
    let (directory, image) = (directory("compaction"), directory("compaction-image"));
    let mut limits = Options::default().limits;
    limits.history_events = 20;
    let mut mvcc = Mvcc::new(limits.clone());
    let mut disk = Disk::open(&directory, Durability::Synced).unwrap();
    let resource = Resource::new("r").unwrap();
    let live = |mvcc: &Mvcc| -> Vec<String> {
        let snapshot = mvcc.snapshot(&resource, At::Latest).unwrap();
        snapshot.iter(&Scope::All).map(|entry| format!("{entry:?} {:?}", entry.value())).collect()
    };
    let mut compacted = 0;
    for i in 0..400_usize {
        let key = Key::new(&resource, "", &format!("{:02}", i * 7 % 31)).unwrap();
        let write = match i % 4 {
            3 => Write::delete(key, Expect::Any),
            _ => Write::put(key, format!("{i}").repeat(i % 50).into_bytes()),
        };
        let prepared = mvcc.prepare([write], i as u64);
        disk.append(&prepared.batch()).unwrap();
        mvcc.apply(prepared);
        if i > 100 {
            let end = disk.end;
            disk.copy(300 + (i as u64 * 37) % 900).unwrap();
            compacted += usize::from(disk.end < end);
        }
        fs::create_dir_all(&image).unwrap();
        for name in [FILE, NEW, SEAL_FILE] {
            let _none = fs::remove_file(image.join(name));
            let _none = fs::copy(directory.join(name), image.join(name));
        }
        let mut again = Mvcc::new(limits.clone());
        let mut opened = Disk::open(&image, Durability::Synced).unwrap();
        let loaded = opened.load(&mut |loaded| match loaded {
            Loaded::Record(record) => again.replay(record),
            Loaded::Mark(mark) => again.replayed(mark),
        });
        loaded.unwrap();
        assert_eq!(live(&again), live(&mvcc), "{i}");
        assert_eq!(again.current_revision(), mvcc.current_revision(), "{i}");
        assert_eq!(opened.needed, disk.needed, "what is needed is counted right");
        assert!(!image.join(NEW).exists());
    }
    assert!(compacted > 5, "{compacted}");
    assert!(disk.discarded.len() < 200, "what is gone is forgotten");
    fs::remove_dir_all(&directory).unwrap();
    fs::remove_dir_all(&image).unwrap();
}

/// On a full disk, objects can be deleted, before and after a restart, clean or not.
#[test]
fn a_full_disk_can_be_opened_and_objects_deleted() {
    let resource = Resource::new("r").unwrap();
    let key = |i: usize| Key::new(&resource, "", &format!("{i:02}")).unwrap();
    for (durability, closed) in [
        (Durability::Synced, true),
        (Durability::Synced, false),
        (Durability::None, true),
        (Durability::None, false),
    ] {
        let files = SimulatedDisk::default();
        let store = simulated(&files, durability).unwrap();
        for i in 0..20 {
            store.write(Write::create(key(i), vec![b'v'; 9_000])).wait().unwrap();
        }
        // Without sync, writes are buffered for a while.
        store.shrink().wait().unwrap();
        files.fill_up(Some(0));
        let mut refused = 0;
        let size = if durability == Durability::Synced { 90_000 } else { 400_000 };
        for i in 20..60 {
            let written = store.write(Write::create(key(i), vec![b'v'; size])).wait();
            refused += usize::from(written.is_err());
        }
        assert!(refused > 0, "{durability:?}");
        store.write(Write::delete(key(0), Expect::Any)).wait().unwrap();
        let files = if closed {
            drop(store);
            files
        } else {
            files.power_cut(None)
        };
        files.fill_up(Some(0));
        let store = simulated(&files, durability).unwrap();
        assert!(store.get(&key(1)).is_some());
        if durability == Durability::Synced {
            assert!(store.get(&key(0)).is_none());
            for i in 1..20 {
                store.write(Write::delete(key(i), Expect::Any)).wait().unwrap();
            }
        }
    }
}

/// The interval of sealing the head elapses without writes.
#[test]
fn an_idle_log_is_sealed_for_good() {
    let files = SimulatedDisk::default();
    let mut disk =
        Disk::open_files(Path::new("/simulated"), Box::new(files.clone()), Durability::Synced, None).unwrap();
    let mut mvcc = Mvcc::new(Options::default().limits);
    disk.load(&mut |_| Ok(())).unwrap();
    let resource = Resource::new("r").unwrap();
    for i in 0..5 {
        let prepared =
            mvcc.prepare([Write::put(Key::new(&resource, "", &format!("{i}")).unwrap(), *b"v")], 0);
        disk.append(&prepared.batch()).unwrap();
        mvcc.apply(prepared);
    }
    let opened = |files: &SimulatedDisk, length: u64| {
        files.open(FILE).unwrap().set_len(length).unwrap();
        Disk::open_files(Path::new("/simulated"), Box::new(files.clone()), Durability::Synced, None)
    };
    // The seal beside the log is not synced, and the head does not cover these writes yet.
    assert!(opened(&files.power_cut(None), FIRST_FRAME_OFFSET).is_ok());
    disk.flush().unwrap();
    let error = opened(&files.power_cut(None), disk.end - 8).unwrap_err();
    assert!(
        error.to_string().contains(&format!("it was synced up to byte {}, revision 5", disk.end)),
        "{error}"
    );
}
