//! Simulated disk with a volatile cache, for tests: a power loss drops unsynced data completely or in part.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;

use crate::file::Directory;
use crate::file::LogFile;
use crate::file::SharedFile;
use crate::lock;

const SECTOR: usize = 512;

/// Pseudorandom generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }

    /// Returns true once in this many calls on average.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A disk with one directory. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: Vec<Contents>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Name changes since the directory was synced. A crash keeps a prefix of them.
    changed_names: Vec<Vec<(String, Option<usize>)>>,
    /// Number of operations before the power cut.
    operations_left: Option<u64>,
    /// Bytes that can still be written, including overwrites.
    budget: Option<u64>,
    /// Total size of all files.
    capacity: Option<u64>,
    /// One in this many syncs fails.
    failing_syncs: Option<(usize, Dice)>,
}

/// Content in the cache, content on disk, and the unsynced writes.
#[derive(Clone, Debug, Default)]
struct Contents {
    cached: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

fn apply(bytes: &mut Vec<u8>, offset: usize, piece: &[u8]) {
    let end = offset + piece.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(piece);
}

/// Unsynced changes that survive a power cut.
#[derive(Clone, Copy, Debug)]
enum Survivors {
    Nothing,
    All,
    /// Each sector with this probability in percent.
    Sectors(usize),
    /// In order, up to this many bytes.
    Prefix(usize),
}

impl Contents {
    fn survivors(&self, dice: &mut Dice) -> Survivors {
        let size = |change: &Change| if let Change::Write(_, bytes) = change { bytes.len() } else { 1 };
        match dice.below(6) {
            0 => Survivors::Nothing,
            1 => Survivors::All,
            2 => Survivors::Sectors(50),
            3 => Survivors::Sectors(95),
            4 => Survivors::Sectors(5),
            _ => Survivors::Prefix(dice.below(self.changes.iter().map(size).sum::<usize>() + 1)),
        }
    }

    /// Content on disk after a power cut.
    fn cut(&self, survivors: Survivors, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let mut left = if let Survivors::Prefix(left) = survivors { left } else { 0 };
        let mut survives = |size: usize| match survivors {
            Survivors::Nothing => 0,
            Survivors::All => size,
            Survivors::Sectors(chance) => size * usize::from(dice.below(100) < chance),
            Survivors::Prefix(_) => {
                let size = size.min(left);
                left -= size;
                size
            }
        };
        for change in &self.changes {
            match change {
                Change::SetLen(size) => {
                    if survives(1) == 1 {
                        bytes.resize(*size, 0);
                    }
                }
                Change::Write(offset, written) => {
                    let (mut offset, mut rest) = (*offset, &written[..]);
                    while !rest.is_empty() {
                        let (piece, after) = rest.split_at((SECTOR - offset % SECTOR).min(rest.len()));
                        let size = survives(piece.len());
                        if size > 0 {
                            apply(&mut bytes, offset, &piece[..size]);
                        }
                        offset += piece.len();
                        rest = after;
                    }
                }
            }
        }
        bytes
    }
}

impl State {
    /// Returns true if the power is cut during this operation.
    fn begin(&mut self) -> io::Result<bool> {
        match &mut self.operations_left {
            None => Ok(false),
            Some(0) => Err(io::Error::other("the power is out")),
            Some(left) => {
                *left -= 1;
                Ok(*left == 0)
            }
        }
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[*file].cached.len() as u64).sum()
    }

    fn rename(&mut self, changes: Vec<(String, Option<usize>)>) {
        for (name, file) in &changes {
            match file {
                Some(file) => drop(self.names.insert(name.clone(), *file)),
                None => drop(self.names.remove(name)),
            }
        }
        self.changed_names.push(changes);
    }

    /// Writes as much as there is space for.
    fn write(&mut self, file: usize, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let room = self.budget.unwrap_or(u64::MAX).min(self.capacity.map_or(u64::MAX, |capacity| {
            let within = self.files[file].cached.len().saturating_sub(offset) as u64;
            within + capacity.saturating_sub(self.used())
        }));
        let written = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if let Some(budget) = &mut self.budget {
            *budget -= written as u64;
        }
        let contents = &mut self.files[file];
        apply(&mut contents.cached, offset, &bytes[..written]);
        contents.changes.push(Change::Write(offset, bytes[..written].to_vec()));
        if written < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl SimulatedDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Cuts the power after this many operations; `None`: never.
    pub(crate) fn power_for(&self, operations: Option<u64>) {
        self.state().operations_left = operations;
    }

    pub(crate) fn has_power(&self) -> bool {
        self.state().operations_left != Some(0)
    }

    pub(crate) fn budget(&self, bytes: Option<u64>) {
        self.state().budget = bytes;
    }

    /// Limits the total growth of files.
    pub(crate) fn fill_up(&self, free: Option<u64>) {
        let mut state = self.state();
        state.capacity = free.map(|free| state.used() + free);
    }

    pub(crate) fn failing_syncs(&self, one_in: usize, seed: u64) {
        self.state().failing_syncs = Some((one_in, Dice(seed)));
    }

    /// The disk after a power cut. `dice` selects the unsynced data that survives; none without it.
    pub(crate) fn power_cut(&self, mut dice: Option<&mut Dice>) -> Self {
        let state = self.state();
        let mut names = state.durable_names.clone();
        let kept = dice.as_mut().map_or(0, |dice| dice.below(state.changed_names.len() + 1));
        for (name, file) in state.changed_names[..kept].iter().flatten() {
            match file {
                Some(file) => drop(names.insert(name.clone(), *file)),
                None => drop(names.remove(name)),
            }
        }
        let mut files = Vec::new();
        for file in names.values_mut() {
            let contents = &state.files[std::mem::replace(file, files.len())];
            let bytes = match &mut dice {
                None => contents.durable.clone(),
                Some(dice) => {
                    let survivors = contents.survivors(dice);
                    contents.cut(survivors, dice)
                }
            };
            files.push(Contents { cached: bytes.clone(), durable: bytes, changes: Vec::new() });
        }
        Self(Arc::new(Mutex::new(State { files, durable_names: names.clone(), names, ..State::default() })))
    }

    fn file(&self, file: usize) -> SharedFile {
        Arc::new(SimulatedFile { disk: self.clone(), file })
    }
}

impl Directory for SimulatedDisk {
    fn open(&self, name: &str) -> io::Result<SharedFile> {
        let file = self.state().names.get(name).copied();
        file.map(|file| self.file(file)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&self, name: &str) -> io::Result<SharedFile> {
        let mut state = self.state();
        state.begin()?;
        if state.capacity.is_some_and(|capacity| state.used() >= capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = state.files.len();
        state.files.push(Contents::default());
        state.rename(vec![(name.to_owned(), Some(file))]);
        drop(state);
        Ok(self.file(file))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.state().names.contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        let file = state.names.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
        state.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.begin()?;
        state.rename(vec![(name.to_owned(), None)]);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.begin()? {
            return Err(io::Error::other("the power went"));
        }
        if state.failing_syncs.as_mut().is_some_and(|(one_in, dice)| dice.one_in(*one_in)) {
            return Err(io::Error::other("a simulated failure"));
        }
        state.durable_names = state.names.clone();
        state.changed_names.clear();
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl LogFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].cached.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.state();
        let rest = state.files[self.file].cached.get(offset as usize..).unwrap_or_default();
        let size = rest.len().min(bytes.len());
        bytes[..size].copy_from_slice(&rest[..size]);
        Ok(size)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let last = state.begin()?;
        state.write(self.file, offset as usize, bytes)?;
        if last { Err(io::Error::other("the power went")) } else { Ok(()) }
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let last = state.begin()?;
        let contents = &mut state.files[self.file];
        contents.cached.resize(size as usize, 0);
        contents.changes.push(Change::SetLen(size as usize));
        if last { Err(io::Error::other("the power went")) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.begin()? {
            return Err(io::Error::other("the power went"));
        }
        let failing = state.failing_syncs.as_mut();
        let failing = failing.and_then(|(one_in, dice)| dice.one_in(*one_in).then(|| dice.clone()));
        let contents = &mut state.files[self.file];
        if let Some(mut dice) = failing {
            // As on Linux: some of the data is stored, and the rest will never be, but stays in the cache.
            let survivors = contents.survivors(&mut dice);
            contents.durable = contents.cut(survivors, &mut dice);
            contents.changes.clear();
            return Err(io::Error::other("a simulated failure"));
        }
        for change in std::mem::take(&mut contents.changes) {
            match change {
                Change::Write(offset, bytes) => apply(&mut contents.durable, offset, &bytes),
                Change::SetLen(size) => contents.durable.resize(size, 0),
            }
        }
        Ok(())
    }
}
