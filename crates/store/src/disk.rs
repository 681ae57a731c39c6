//! Disk backend: one log and one process per directory.

use std::collections::HashSet;
use std::fs;
use std::fs::File;
use std::fs::TryLockError;
use std::io;
use std::io::Read;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use crate::backend::Backend;
use crate::backend::Batch;
use crate::backend::DroppedWrite;
use crate::backend::Loaded;
use crate::backend::Record;
use crate::error::BackendError;
use crate::error::ReplayError;
use crate::file::Directory;
use crate::file::Reader;
use crate::file::SharedFile;
use crate::file::SystemDirectory;
use crate::file::private_file;
use crate::file::sync_directory;
use crate::frame::Damage;
use crate::frame::FIRST_FRAME_OFFSET;
use crate::frame::Failure;
use crate::frame::Frame;
use crate::frame::Frames;
use crate::frame::RECORD_HEADER_SIZE;
use crate::frame::State;
use crate::frame::damaged;
use crate::key::Revision;
use crate::log::FORMAT;
use crate::log::Log;
use crate::log::is_full;
use crate::record;
use crate::tail::SECTOR;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Durability {
    /// After it is durable: it survives a crash of the process and of the machine.
    #[default]
    Synced,
    /// Immediately: a crash loses the writes of the last second or so. Revisions are not reused even then. Files are
    /// written in order, so a crash causes no damage.
    None,
}

pub(crate) const FILE: &str = "store.log";
pub(crate) const NEW: &str = "store.log.new";
/// Name of a damaged log, which later starts must not use.
pub(crate) const CORRUPT: &str = "store.log.corrupt";
/// Seal of the last write. Optional: it detects more damage.
pub(crate) const SEAL_FILE: &str = "store.seal";
/// File of format 1, a redb database.
pub(crate) const REDB_FILE: &str = "store.redb";
pub(crate) const FIRST_FORMAT: u32 = 1;
pub(crate) const LOCK: &str = "LOCK";

/// Number of revisions reserved at once if writes are not synced.
const RESERVED: u64 = 10_000;
/// Maximum number and size of buffered writes without sync.
const BUFFERED: usize = 1000;
const BUFFERED_BYTES: usize = 4 << 20;
/// Compaction starts when obsolete bytes exceed both needed bytes and this size.
const SUPERFLUOUS: u64 = 4 << 20;
/// Bytes copied by compaction: a multiple of its size plus a constant per write, or a constant while idle.
const COPY_PER_WRITE: (u64, u64) = (4, 64 << 10);
const COPIED_IDLE: u64 = 4 << 20;
/// Bytes of the new file per sync.
const COPIED_SYNC: u64 = 8 << 20;
/// Approximate frame size of the new file.
const COPIED_FRAME: usize = 256 << 10;

/// Backend that stores records in a directory.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use settled_store::{Disk, Durability, Key, Options, Resource, Store, Write};
///
/// # let directory = std::env::temp_dir().join(format!("settled-store-doc-{}", std::process::id()));
/// let key = Key::new(&Resource::new("configmaps")?, "shop", "prices")?;
/// let store = Store::open(Box::new(Disk::open(&directory, Durability::Synced)?), Options::default())?;
/// let created = store.write(Write::create(key.clone(), *b"1")).wait()?;
/// assert!(Disk::open(&directory, Durability::Synced).is_err(), "it is in use");
/// drop(store);
///
/// let store = Store::open(Box::new(Disk::open(&directory, Durability::Synced)?), Options::default())?;
/// assert_eq!(store.get(&key).map(|entry| entry.mod_revision()), Some(created.revision()));
/// # drop(store);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
    files: Box<dyn Directory>,
    path: PathBuf,
    durability: Durability,
    /// `None` after close.
    log: Option<Log>,
    /// File for the seal of each write.
    beside: Option<SharedFile>,
    /// Checkpoint on disk.
    state: State,
    /// Synced length of the file.
    end: u64,
    /// Obsolete records in the file.
    discarded: HashSet<u64>,
    /// Total size of the other records.
    needed: u64,
    compaction: Option<Compaction>,
    /// After a failed compaction: the next one starts when the file has grown this much, or has this few needed bytes.
    compact_from: (u64, u64),
    /// The file may have been renamed without a sync of the directory.
    renamed: bool,
    dropped: Option<DroppedWrite>,
    frame: Frame,
    record: Vec<u8>,
    /// Buffered writes.
    buffer: Batch,
    buffered_bytes: usize,
    /// Lock of the directory. The last field, so that it is released last.
    _lock: Option<File>,
}

impl Disk {
    /// Opens a directory, and creates it if it does not exist, with access for its owner only.
    ///
    /// # Errors
    ///
    /// The directory is in use, its file is damaged or of another format, or an I/O error.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self, BackendError> {
        make_directory(directory).map_err(|e| failed("creating", directory, e))?;
        let lock = lock_directory(directory)?;
        restrict(directory);
        let files = Box::new(SystemDirectory(directory.to_owned()));
        Self::open_files(directory, files, durability, Some(lock))
    }

    /// Opens the files of a locked directory.
    fn open_files(
        directory: &Path,
        files: Box<dyn Directory>,
        durability: Durability,
        lock: Option<File>,
    ) -> Result<Self, BackendError> {
        let path = directory.join(FILE);
        let exists =
            |name: &str| files.exists(name).map_err(|e| failed("looking for", &directory.join(name), e));
        if !exists(FILE)? {
            if exists(CORRUPT)? {
                let what = "found by an earlier start".to_owned();
                return Err(BackendError::Corrupt { path: directory.join(CORRUPT), what });
            }
            if exists(REDB_FILE)? {
                let path = directory.join(REDB_FILE);
                return Err(BackendError::Format { path, found: FIRST_FORMAT, known: FORMAT });
            }
            create(directory, &*files)?;
        }
        // Removes the file of a compaction that a crash interrupted.
        let _none = files.remove(NEW);
        let mut state = State::default();
        let mut discarded = HashSet::new();
        let beside = files.open(SEAL_FILE).and_then(read_all).unwrap_or_default();
        let log = files.open(FILE).map_err(Failure::Io).and_then(|file| {
            Log::open(file, &beside, |body| {
                state = body.state;
                discarded.extend(body.discards());
                Ok(())
            })
        });
        let (log, torn) = log.map_err(|error| set_aside(directory, &*files, known(&path, error)))?;
        let dropped = (torn > 0).then_some(DroppedWrite { bytes: torn, revision: state.mark.last });
        Ok(Self {
            directory: directory.to_owned(),
            path,
            durability,
            end: log.end(),
            log: Some(log),
            beside: seal_file(&*files),
            files,
            state,
            discarded,
            needed: 0,
            compaction: None,
            compact_from: (0, 0),
            // The previous process may have been killed before it synced the directory.
            renamed: true,
            dropped,
            frame: Frame::default(),
            record: Vec::new(),
            buffer: Batch::default(),
            buffered_bytes: 0,
            _lock: lock,
        })
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    ///
    /// The size cannot be read.
    pub fn file_bytes(&self) -> Result<u64, BackendError> {
        Ok(fs::metadata(&self.path).map_err(|e| failed("reading the size of", &self.path, e))?.len())
    }

    /// Writes the buffer in one frame.
    fn commit(&mut self, batch: &Batch, reserved: u64) -> Result<(), BackendError> {
        let Some(log) = &mut self.log else { return Err(closed(&self.path)) };
        if self.renamed {
            self.files.sync().map_err(|e| failed("syncing", &self.directory, e))?;
            self.renamed = false;
        }
        let state = State { mark: batch.mark, reserved };
        self.frame.clear();
        self.frame.state = state;
        self.frame.discards.extend(batch.discard.iter().map(|revision| revision.0));
        let mut needed = self.needed;
        for record in &batch.records {
            record::encode(record, &mut self.record);
            self.frame.push(record.revision, &self.record);
            needed += (self.record.len() + RECORD_HEADER_SIZE) as u64;
        }
        let mut written = log.commit(&self.frame, self.beside.as_ref());
        if written.as_ref().is_err_and(is_full) && self.compaction.is_some() {
            // An unfinished copy uses the space that the write needs.
            cancel_compaction(&mut self.compaction, &*self.files);
            self.compact_from = (self.end + SUPERFLUOUS, self.needed / 4 * 3);
            written = log
                .cut(self.end, self.state.mark.last.0)
                .and_then(|()| log.commit(&self.frame, self.beside.as_ref()));
        }
        written.map_err(|e| failed("writing", &self.path, e))?;
        self.state = state;
        self.end = log.end();
        let discarded = batch.discard_bytes + batch.discard.len() * (record::OVERHEAD + RECORD_HEADER_SIZE);
        self.needed = needed.saturating_sub(discarded as u64);
        self.discarded.extend(&self.frame.discards);
        self.compact(self.frame.size() as u64 * COPY_PER_WRITE.0 + COPY_PER_WRITE.1);
        Ok(())
    }

    /// Continues a compaction, or starts one if needed. Errors do not affect the current file, and compaction is
    /// retried later.
    fn compact(&mut self, bytes: u64) {
        let superfluous = self.end.saturating_sub(FIRST_FRAME_OFFSET + self.needed);
        let due = superfluous > self.needed.max(SUPERFLUOUS)
            && (self.end >= self.compact_from.0 || self.needed <= self.compact_from.1);
        if (due || self.compaction.is_some()) && self.copy(bytes).is_err() {
            cancel_compaction(&mut self.compaction, &*self.files);
            self.compact_from = (self.end + SUPERFLUOUS, self.needed / 4 * 3);
        }
    }

    /// Copies this many bytes into a new file, which replaces the old one when it is complete.
    fn copy(&mut self, bytes: u64) -> Result<(), BackendError> {
        let Some(log) = &self.log else { return Err(closed(&self.path)) };
        let new = self.directory.join(NEW);
        let mut compaction = match self.compaction.take() {
            Some(compaction) => compaction,
            None => {
                let begun = Compaction::begin(&*self.files, log);
                begun.map_err(|e| failed("creating", &new, e))?
            }
        };
        let done = compaction.copy(bytes, self.end, &self.discarded).map_err(|e| known(&self.path, e))?;
        if !done {
            self.compaction = Some(compaction);
            return Ok(());
        }
        compaction.log.close().map_err(|e| failed("writing", &new, e))?;
        self.files.rename(NEW, FILE).map_err(|e| failed("renaming", &new, e))?;
        let Compaction { log, dropped, .. } = compaction;
        self.end = log.end();
        self.log = Some(log);
        self.discarded.retain(|revision| !dropped.contains(revision));
        self.compact_from = (0, 0);
        // If this fails, the next write retries before anything is acknowledged.
        self.renamed = self.files.sync().is_err();
        Ok(())
    }

    /// Revisions to reserve beyond this one.
    fn reserve(&self, last: Revision) -> u64 {
        match self.durability {
            Durability::Synced => 0,
            Durability::None => last.0.saturating_add(RESERVED),
        }
    }

    /// Writes buffered data.
    fn drain(&mut self) -> Result<(), BackendError> {
        if self.buffer.mark.last.0 == 0 {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.buffer);
        let written = self.commit(&batch, self.reserve(batch.mark.last));
        match &written {
            Ok(()) => self.buffered_bytes = 0,
            Err(_) => self.buffer = batch,
        }
        written
    }
}

impl Backend for Disk {
    fn load(&mut self, visit: &mut dyn FnMut(Loaded) -> Result<(), ReplayError>) -> Result<(), BackendError> {
        let Some(log) = &self.log else { return Err(closed(&self.path)) };
        let mut mark = self.state.mark;
        let mut needed = 0;
        let mut load = || {
            let mut resource = None;
            let mut frames = log.frames(self.end);
            while let Some(body) = frames.next()? {
                for record in body.records() {
                    let (revision, bytes) = record?;
                    if !self.discarded.contains(&revision.0) {
                        needed += (bytes.len() + RECORD_HEADER_SIZE) as u64;
                        let record =
                            record::decode(revision, bytes, &mut resource).map_err(Failure::content)?;
                        visit(Loaded::Record(record))?;
                    }
                }
            }
            if frames.place() < self.end {
                return changed(frames.place());
            }
            if self.state.reserved > mark.last.0 {
                // No clean shutdown: revisions up to this one may have been assigned, and their writes are lost.
                mark.last = Revision(self.state.reserved);
                mark.compact = mark.last;
            }
            Ok(visit(Loaded::Mark(mark))?)
        };
        load().map_err(|error| set_aside(&self.directory, &*self.files, known(&self.path, error)))?;
        self.needed = needed;
        if self.durability == Durability::None || self.state.reserved > 0 {
            // Before any further revision is assigned.
            let batch = Batch { mark, ..Batch::default() };
            match self.commit(&batch, self.reserve(mark.last)) {
                // The first write reserves revisions before it is acknowledged, if there is space.
                Err(BackendError::NoSpace { .. }) => {
                    self.recover()?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), BackendError> {
        if self.durability == Durability::Synced {
            return self.commit(batch, 0);
        }
        let size = |record: &Record| record.value.as_ref().map_or(0, |value| value.len()) + record.key.len();
        let bytes = batch.records.iter().map(size).sum::<usize>();
        let writes = self.buffer.records.len() + batch.records.len();
        let due = writes >= BUFFERED
            || self.buffered_bytes + bytes >= BUFFERED_BYTES
            || batch.mark.last.0 > self.state.reserved;
        if due {
            let mut all = self.buffer.clone();
            extend(&mut all, batch);
            self.commit(&all, self.reserve(batch.mark.last))?;
            self.buffer = Batch::default();
            self.buffered_bytes = 0;
        } else {
            extend(&mut self.buffer, batch);
            self.buffered_bytes += bytes;
        }
        Ok(())
    }

    fn recover(&mut self) -> Result<Revision, BackendError> {
        let Some(log) = &mut self.log else { return Err(closed(&self.path)) };
        // After an error, data of unknown state is removed.
        log.cut(self.end, self.state.mark.last.0).map_err(|e| failed("writing", &self.path, e))?;
        Ok(self.state.mark.last.max(self.buffer.mark.last))
    }

    fn flush(&mut self) -> Result<(), BackendError> {
        self.drain()?;
        if let Some(log) = &mut self.log {
            log.sync_seal().map_err(|e| failed("syncing", &self.path, e))?;
        }
        self.compact(COPIED_IDLE);
        Ok(())
    }

    fn shrink(&mut self) -> Result<(), BackendError> {
        self.drain()?;
        let copied = self.copy(u64::MAX);
        if copied.is_err() {
            cancel_compaction(&mut self.compaction, &*self.files);
        }
        copied
    }

    fn close(&mut self) -> Result<(), BackendError> {
        let mut batch = std::mem::take(&mut self.buffer);
        if batch.mark.last.0 == 0 {
            batch.mark = self.state.mark;
        }
        if self.durability == Durability::None {
            self.commit(&batch, 0)?;
        }
        self.compaction = None;
        if let Some(mut log) = self.log.take() {
            log.close().map_err(|e| failed("writing", &self.path, e))?;
        }
        self.files.sync().map_err(|e| failed("syncing", &self.directory, e))
    }

    fn dropped(&self) -> Option<DroppedWrite> {
        self.dropped
    }
}

/// A copy of the file without obsolete records, which will replace it. It is written in pieces, so that no write waits
/// for all of it; meanwhile writes go to both files.
#[derive(Debug)]
struct Compaction {
    frames: Frames,
    log: Log,
    /// An interrupted copy.
    dropped: HashSet<u64>,
    frame: Frame,
    /// Read, but not yet written.
    pending: bool,
    synced: u64,
}

impl Compaction {
    fn begin(files: &dyn Directory, old: &Log) -> io::Result<Self> {
        let frames = old.frames(FIRST_FRAME_OFFSET);
        let log = Log::create(files.create(NEW)?)?;
        let (dropped, frame) = (HashSet::new(), Frame::default());
        Ok(Self { frames, log, dropped, frame, pending: false, synced: 0 })
    }

    /// Copies about this many bytes of the file, whose end is given. Returns true when complete.
    fn copy(&mut self, bytes: u64, end: u64, discarded: &HashSet<u64>) -> Result<bool, Failure> {
        let until = self.frames.place().saturating_add(bytes);
        self.frames.extend(end)?;
        while self.frames.place() < until.min(end) {
            let place = self.frames.place();
            let Some(body) = self.frames.next()? else {
                return changed(place);
            };
            self.pending = true;
            self.frame.state = body.state;
            for record in body.records() {
                let (revision, bytes) = record?;
                if discarded.contains(&revision.0) {
                    self.dropped.insert(revision.0);
                } else {
                    self.frame.push(revision, bytes);
                }
            }
            // Records that were discarded after they were copied must be listed.
            let dropped = &self.dropped;
            self.frame.discards.extend(body.discards().filter(|revision| !dropped.contains(revision)));
            if self.frame.size() >= COPIED_FRAME {
                self.write()?;
            }
        }
        let done = self.frames.place() >= end;
        if done {
            self.write()?;
        }
        Ok(done)
    }

    fn write(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.pending) {
            self.log.append(&self.frame)?;
            self.frame.clear();
            if self.log.end() - self.synced >= COPIED_SYNC {
                self.log.sync()?;
                self.synced = self.log.end();
            }
        }
        Ok(())
    }
}

fn changed<T>(offset: u64) -> Result<T, Failure> {
    damaged(offset, format!("data at byte {offset} has changed"))
}

/// Cancels a compaction and removes its file, which may fill the disk.
fn cancel_compaction(compaction: &mut Option<Compaction>, files: &dyn Directory) {
    *compaction = None;
    // If it stays, the next one overwrites it.
    let _none = files.remove(NEW);
}

/// Renames a damaged file.
fn set_aside(directory: &Path, files: &dyn Directory, error: BackendError) -> BackendError {
    match error {
        BackendError::Corrupt { path, what } => {
            let renamed = files.rename(FILE, CORRUPT).is_ok();
            // A backup that replaces it is shorter.
            let _none = files.remove(SEAL_FILE);
            BackendError::Corrupt { path: if renamed { directory.join(CORRUPT) } else { path }, what }
        }
        other => other,
    }
}

fn extend(buffer: &mut Batch, batch: &Batch) {
    buffer.records.extend(batch.records.iter().cloned());
    buffer.discard.extend(&batch.discard);
    buffer.discard_bytes += batch.discard_bytes;
    buffer.mark = batch.mark;
}

/// Creates a directory and its parents, durably.
fn make_directory(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        sync_directory(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
    }
    Ok(())
}

/// Revokes access of others, which an earlier version or a copy may have granted.
#[cfg(unix)]
fn restrict(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;

    let files = [FILE, SEAL_FILE, CORRUPT, LOCK].map(|name| (directory.join(name), 0o600));
    for (path, mode) in [(directory.to_owned(), 0o700)].into_iter().chain(files) {
        let open = fs::symlink_metadata(&path)
            .is_ok_and(|metadata| !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0);
        if open {
            // The directory may belong to another user.
            let _theirs = fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        }
    }
}

#[cfg(not(unix))]
fn restrict(_directory: &Path) {}

fn lock_directory(directory: &Path) -> Result<File, BackendError> {
    let path = directory.join(LOCK);
    let open = |e| failed("opening", &path, e);
    let mut file = private_file().truncate(false).open(&path).map_err(open)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The owner may not have written its PID yet.
            let known = file.take(20).read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder =
                if known { format!("process {}", holder.trim()) } else { "another process".to_owned() };
            return Err(BackendError::Locked { path: directory.to_owned(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(failed("locking", &path, error)),
    }
    // Only for the message: the lock does not depend on it.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).is_ok();
    Ok(file)
}

/// The file for seals, with space for one, if it can be created.
fn seal_file(files: &dyn Directory) -> Option<SharedFile> {
    if let Ok(file) = files.open(SEAL_FILE) {
        return Some(file);
    }
    let file = files.create(SEAL_FILE).ok()?;
    file.write_all_at(0, &[0; 64]).ok()?;
    Some(file)
}

pub(crate) fn read_all(file: SharedFile) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Reader::new(file, 0).take(SECTOR).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates an empty file under a temporary name first, so that a crash leaves no incomplete one.
fn create(directory: &Path, files: &dyn Directory) -> Result<(), BackendError> {
    let new = directory.join(NEW);
    let created = files.create(NEW).and_then(Log::create).and_then(|mut log| log.sync());
    created.map_err(|e| failed("creating", &new, e))?;
    files.rename(NEW, FILE).map_err(|e| failed("creating", &directory.join(FILE), e))?;
    files.sync().map_err(|e| failed("syncing", directory, e))
}

pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> BackendError {
    let path = path.to_owned();
    if is_full(&source) {
        BackendError::NoSpace { path, source }
    } else {
        BackendError::Io { action, path, source }
    }
}

fn closed(path: &Path) -> BackendError {
    failed("using", path, io::Error::other("it is closed"))
}

/// Error of a file operation.
pub(crate) fn known(path: &Path, failure: Failure) -> BackendError {
    match failure {
        Failure::Io(source) => failed("reading", path, source),
        Failure::Damaged(Damage { what, .. }) => BackendError::Corrupt { path: path.to_owned(), what },
        Failure::Format(found) => BackendError::Format { path: path.to_owned(), found, known: FORMAT },
    }
}

#[cfg(test)]
mod power_cuts;
#[cfg(test)]
mod tests;
