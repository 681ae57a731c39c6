//! Power loss, kill and failure at any operation of a simulated disk, by seed. Acknowledged and served writes are preserved;
//! other writes are complete or absent; and every start succeeds.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use super::*;
use crate::entry::Expect;
use crate::entry::Write;
use crate::key::Key;
use crate::key::Resource;
use crate::key::Scope;
use crate::mvcc::Mvcc;
use crate::options::Options;
use crate::simulated::Dice;
use crate::simulated::SimulatedDisk;
use crate::snapshot::At;
use crate::store::Store;

/// Number of simulated disks, each with several power cuts; the environment can increase it.
const DISKS: u64 = 120;
const DISKS_VARIABLE: &str = "SETTLED_STORE_DISKS";
const LIVES: usize = 7;

/// Everything that readers see.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Contents {
    objects: BTreeMap<String, (Revision, Vec<u8>)>,
    last: Revision,
}

impl Contents {
    fn with(&self, batch: &Batch) -> Self {
        let mut after = self.clone();
        for record in &batch.records {
            let path = record.key.path().to_owned();
            match &record.value {
                Some(value) => drop(after.objects.insert(path, (record.revision, value.to_vec()))),
                None => drop(after.objects.remove(&path)),
            }
        }
        after.last = batch.mark.last;
        after
    }

    fn of(mvcc: &Mvcc, resource: &Resource) -> Self {
        let snapshot = mvcc.snapshot(resource, At::Latest).unwrap();
        let objects = snapshot
            .iter(&Scope::All)
            .map(|entry| (entry.key().path().to_owned(), (entry.mod_revision(), entry.value().to_vec())));
        Self { objects: objects.collect(), last: mvcc.current_revision() }
    }
}

fn resource() -> Resource {
    Resource::new("configmaps").unwrap()
}

fn open(files: &SimulatedDisk, durability: Durability) -> Result<(Disk, Mvcc), BackendError> {
    let mut limits = Options::default().limits;
    limits.history_events = 8;
    let mut mvcc = Mvcc::new(limits);
    let mut disk = Disk::open_files(Path::new("/simulated"), Box::new(files.clone()), durability, None)?;
    disk.load(&mut |loaded| match loaded {
        Loaded::Record(record) => mvcc.replay(record),
        Loaded::Mark(mark) => mvcc.replayed(mark),
    })?;
    Ok((disk, mvcc))
}

fn writes(dice: &mut Dice) -> Vec<Write> {
    let count = 1 + if dice.one_in(4) { dice.below(12) } else { 0 };
    let mut write = || {
        let key = Key::new(&resource(), "shop", &format!("n{}", dice.below(9))).unwrap();
        if dice.one_in(5) {
            return Write::delete(key, Expect::Any);
        }
        let size = match dice.below(12) {
            0 => dice.below(90_000),
            1..=4 => dice.below(4_000),
            _ => dice.below(300),
        };
        // Zeros look like unwritten space.
        let byte = if dice.one_in(6) { 0 } else { dice.next() as u8 };
        Write::put(key, vec![byte; size])
    };
    (0..count).map(|_| write()).collect()
}

/// Operations between two starts.
struct Life<'a> {
    seed: String,
    files: &'a SimulatedDisk,
    durability: Durability,
    dice: &'a mut Dice,
}

impl Life<'_> {
    /// Possible states at the next start, the last of which is the acknowledged one; `None` after a clean shutdown.
    fn run(&mut self, found: &mut Vec<Contents>, assigned: &mut Revision) -> Option<()> {
        let (mut disk, mut mvcc) = match open(self.files, self.durability) {
            Ok(opened) => opened,
            Err(error) => {
                let out = !self.files.has_power() || matches!(error, BackendError::Io { .. });
                assert!(out, "{}: a start is refused: {error}", self.seed);
                return Some(());
            }
        };
        let contents = Contents::of(&mvcc, &resource());
        match self.durability {
            Durability::Synced => {
                assert!(found.contains(&contents), "{}: {contents:?} is none of {found:?}", self.seed);
                if let Some(dropped) = disk.dropped() {
                    assert!(
                        dropped.bytes > 0 && dropped.revision == contents.last,
                        "{}: {dropped:?}",
                        self.seed
                    );
                }
            }
            Durability::None => {
                assert!(contents.last >= *assigned, "{}: {contents:?} after {assigned}", self.seed);
                let same = found.iter().any(|known| known.objects == contents.objects);
                assert!(same, "{}: {contents:?} is none of {found:?}", self.seed);
            }
        }
        *found = vec![contents];
        for _ in 0..self.dice.below(30) {
            let done = match self.dice.below(16) {
                0 => disk.flush(),
                1 => disk.shrink(),
                2 | 3 => disk.copy(300 + self.dice.next() % 9_000),
                _ => self.write(&mut disk, &mut mvcc, found, assigned),
            };
            if done.is_err() {
                if !self.files.has_power() {
                    return Some(());
                }
                cancel_compaction(&mut disk.compaction, &*disk.files);
                if disk.recover().is_err() {
                    return Some(());
                }
            }
        }
        if self.dice.one_in(3) { disk.close().err().map(drop) } else { Some(()) }
    }

    fn write(
        &mut self,
        disk: &mut Disk,
        mvcc: &mut Mvcc,
        found: &mut Vec<Contents>,
        assigned: &mut Revision,
    ) -> Result<(), BackendError> {
        let prepared = mvcc.prepare(writes(self.dice), 0);
        let batch = prepared.batch();
        if prepared.is_empty() {
            mvcc.apply(prepared);
            return Ok(());
        }
        let before = found.last().unwrap().clone();
        let after = before.with(&batch);
        let apply = |mvcc: &mut Mvcc, prepared, found: &mut Vec<Contents>| {
            mvcc.apply(prepared);
            if self.durability == Durability::Synced {
                found.clear();
            }
            found.push(after.clone());
        };
        match disk.append(&batch) {
            Ok(()) => {
                *assigned = batch.mark.last;
                apply(mvcc, prepared, found);
                Ok(())
            }
            Err(error) if !self.files.has_power() => {
                found.insert(0, after);
                Err(error)
            }
            Err(_) => {
                let recovered = disk.recover();
                match recovered {
                    Ok(last) if prepared.has_writes() && last >= prepared.last() => {
                        apply(mvcc, prepared, found)
                    }
                    Ok(_) => mvcc.abandon(prepared),
                    Err(_) => found.insert(0, after),
                }
                recovered.map(drop)
            }
        }
    }
}

fn disk_of(seed: u64, durability: Durability) {
    let mut dice = Dice(seed);
    let mut files = SimulatedDisk::default();
    let mut found = vec![Contents::default()];
    let mut assigned = Revision(0);
    for number in 0..LIVES {
        if dice.one_in(4) {
            files.failing_syncs(12, dice.next());
        }
        let cut = dice.one_in(2);
        if cut {
            // Often in the first operations, which belong to the start.
            let most = if dice.one_in(3) { 12 } else { 120 };
            files.power_for(Some(1 + dice.next() % most));
        }
        let seed = format!("seed {seed} {durability:?} life {number}");
        let ended = Life { seed, files: &files, durability, dice: &mut dice }.run(&mut found, &mut assigned);
        match ended {
            None if durability == Durability::None => found = found.split_off(found.len() - 1),
            _ => {}
        }
        if cut || dice.one_in(2) {
            files = files.power_cut(Some(&mut dice));
        }
        // Killed process: the cache survives.
        files.power_for(None);
        files.failing_syncs(usize::MAX, 0);
    }
    Life {
        seed: format!("seed {seed} {durability:?} at the end"),
        files: &files,
        durability,
        dice: &mut dice,
    }
    .run(&mut found, &mut assigned);
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let disks = std::env::var(DISKS_VARIABLE).map_or(DISKS, |text| text.parse().unwrap());
    thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || {
                for seed in (0..disks).filter(|seed| seed % 2 == part) {
                    let unsynced = seed % 5 == 4;
                    disk_of(seed, if unsynced { Durability::None } else { Durability::Synced });
                }
            });
        }
    });
}

/// Order of operations: at the moment of each acknowledgement, all unsynced data is dropped.
#[test]
fn a_sync_comes_before_each_acknowledgement() {
    let files = SimulatedDisk::default();
    let open = |files: &SimulatedDisk| {
        let disk =
            Disk::open_files(Path::new("/simulated"), Box::new(files.clone()), Durability::Synced, None);
        Store::open(Box::new(disk.unwrap()), Options::default()).unwrap()
    };
    let store = open(&files);
    let (writers, each) = (4, 25);
    thread::scope(|scope| {
        for writer in 0..writers {
            let (store, files, open) = (&store, &files, &open);
            scope.spawn(move || {
                for i in 0..each {
                    let key = Key::new(&resource(), "shop", &format!("w{writer}-{i}")).unwrap();
                    let value = vec![b'v'; 1 + i * 137];
                    let written = store.write(Write::create(key.clone(), value.clone())).wait().unwrap();
                    let after = open(&files.power_cut(None));
                    let entry = after.get(&key).unwrap();
                    assert_eq!((entry.mod_revision(), &**entry.value()), (written.revision(), &*value));
                }
            });
        }
    });
    assert_eq!(store.queue_stats().failed_batches, 0);
}

/// Unacknowledged writes of a killed process are served after the next start, so they must survive a power cut.
#[test]
fn what_is_served_after_a_start_is_synced() {
    let files = SimulatedDisk::default();
    let (mut disk, mut mvcc) = open(&files, Durability::Synced).unwrap();
    let key = |name: &str| Key::new(&resource(), "shop", name).unwrap();
    let prepared = mvcc.prepare([Write::put(key("a"), *b"1")], 0);
    disk.append(&prepared.batch()).unwrap();
    mvcc.apply(prepared);
    let prepared = mvcc.prepare([Write::put(key("b"), *b"2")], 0);
    // The write reaches the cache, and the process is killed during the sync.
    files.power_for(Some(2));
    assert!(disk.append(&prepared.batch()).is_err());
    files.power_for(None);
    drop(disk);
    let (disk, served) = open(&files, Durability::Synced).unwrap();
    assert!(served.get(&key("b")).is_some() && disk.dropped().is_none());
    let (_disk, after) = open(&files.power_cut(None), Durability::Synced).unwrap();
    assert_eq!(Contents::of(&after, &resource()), Contents::of(&served, &resource()));
}

/// As before, but the sync fails, and the cache has data that never reaches the disk.
#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_again() {
    let key = |name: &str| Key::new(&resource(), "shop", name).unwrap();
    for seed in 0..20 {
        let files = SimulatedDisk::default();
        let (mut disk, mut mvcc) = open(&files, Durability::Synced).unwrap();
        let prepared = mvcc.prepare([Write::put(key("a"), vec![b'1'; 3_000])], 0);
        disk.append(&prepared.batch()).unwrap();
        mvcc.apply(prepared);
        let prepared = mvcc.prepare([Write::put(key("b"), vec![b'2'; 70_000])], 0);
        files.failing_syncs(1, seed);
        assert!(disk.append(&prepared.batch()).is_err());
        // Killed before recovery.
        drop(disk);
        files.failing_syncs(usize::MAX, 0);
        let (_disk, served) = open(&files, Durability::Synced).unwrap();
        let (_disk, after) = open(&files.power_cut(None), Durability::Synced).unwrap();
        assert_eq!(Contents::of(&after, &resource()), Contents::of(&served, &resource()), "{seed}");
    }
}

/// The process is killed, or a sync fails, at each step of a compaction. Writes acknowledged after that are in the file
/// that has the name after a power cut.
#[test]
fn a_new_name_is_synced_before_the_next_acknowledgement() {
    let key = |i: usize| Key::new(&resource(), "shop", &format!("{i}")).unwrap();
    for (killed, step) in [true, false].into_iter().flat_map(|killed| (1..12).map(move |step| (killed, step)))
    {
        let files = SimulatedDisk::default();
        let (mut disk, mut mvcc) = open(&files, Durability::Synced).unwrap();
        for i in 0..20 {
            let prepared = mvcc.prepare([Write::put(key(i % 3), vec![b'v'; 500])], 0);
            disk.append(&prepared.batch()).unwrap();
            mvcc.apply(prepared);
        }
        if killed {
            files.power_for(Some(step));
            let _any = disk.copy(u64::MAX);
            files.power_for(None);
            drop(disk);
            (disk, mvcc) = open(&files, Durability::Synced).unwrap();
        } else {
            files.failing_syncs(2, step);
            let _any = disk.copy(u64::MAX);
            cancel_compaction(&mut disk.compaction, &*disk.files);
            files.failing_syncs(usize::MAX, 0);
        }
        let prepared = mvcc.prepare([Write::put(key(7), *b"1")], 0);
        disk.append(&prepared.batch()).unwrap();
        mvcc.apply(prepared);
        let (_disk, after) = open(&files.power_cut(None), Durability::Synced).unwrap();
        let expected = Contents::of(&mvcc, &resource());
        assert_eq!(Contents::of(&after, &resource()), expected, "killed: {killed}, step {step}");
    }
}
