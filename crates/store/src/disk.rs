//! The backend on disk: one redb file, one directory, one process.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::TryLockError;
use std::io;
use std::io::Read;
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;
use std::path::PathBuf;

use redb::Database;
use redb::ReadableDatabase;
use redb::ReadableTable;
use redb::TableDefinition;

use crate::backend::Backend;
use crate::backend::Batch;
use crate::backend::Loaded;
use crate::backend::Record;
use crate::error::BackendError;
use crate::key::Revision;
use crate::record;
use crate::record::State;
use crate::record::StateError;

/// When a write counts as stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Durability {
    /// Once it is on disk: it survives a crash of the process and of the machine.
    #[default]
    Synced,
    /// At once: a crash loses the writes of the last second or so. No revision is used twice even then. Files are
    /// written in good order, so a crash damages nothing.
    None,
}

const LOG: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("log");
const STATE: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("state");

const FILE: &str = "store.redb";
const NEW: &str = "store.redb.new";
/// What a file is called once it was found to be damaged: opening it may have changed it, and a second try must not
/// take it for whole.
const CORRUPT: &str = "store.redb.corrupt";
const LOCK: &str = "LOCK";

/// All is in memory anyway.
const CACHE: usize = 4 << 20;
/// How many revisions are reserved at once where writes are not synced.
const RESERVED: u64 = 10_000;
/// How many writes, and how many bytes, are held back where they are not synced.
const BUFFERED: usize = 1000;
const BUFFERED_BYTES: usize = 4 << 20;

/// Keeps records in a directory.
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
    path: PathBuf,
    durability: Durability,
    /// Nothing after an error, until it is opened again.
    database: Option<Database>,
    /// As it is on disk.
    state: State,
    /// What is to be written later.
    buffer: Batch,
    buffered_bytes: usize,
    #[cfg(test)]
    faults: tests::Faults,
    /// Held as long as the directory is in use. It comes last, so that it is let go last.
    _lock: File,
}

impl Disk {
    /// Opens a directory, and makes it if it does not exist. Only its owner may read it.
    ///
    /// # Errors
    ///
    /// The directory is in use, the file in it is damaged or of a newer format, or the system refuses.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self, BackendError> {
        make_directory(directory).map_err(|e| failed("creating", directory, e))?;
        let lock = lock_directory(directory)?;
        let path = directory.join(FILE);
        if !path.try_exists().map_err(|e| failed("looking for", &path, e))? {
            let corrupt = directory.join(CORRUPT);
            if corrupt.try_exists().map_err(|e| failed("looking for", &corrupt, e))? {
                let what = "found by an earlier start".to_owned();
                return Err(BackendError::Corrupt { path: corrupt, what });
            }
            create(directory)?;
        }
        let mut disk = Self {
            directory: directory.to_owned(),
            path,
            durability,
            database: None,
            state: State::default(),
            buffer: Batch::default(),
            buffered_bytes: 0,
            #[cfg(test)]
            faults: tests::Faults::default(),
            _lock: lock,
        };
        disk.reopen(true).map_err(|error| disk.set_aside(error))?;
        Ok(disk)
    }

    /// How many bytes the file has.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn file_bytes(&self) -> Result<u64, BackendError> {
        Ok(fs::metadata(&self.path).map_err(|e| failed("reading the size of", &self.path, e))?.len())
    }

    /// Renames a damaged file.
    fn set_aside(&mut self, error: BackendError) -> BackendError {
        match error {
            BackendError::Corrupt { path, what } => {
                drop(self.database.take());
                let corrupt = self.directory.join(CORRUPT);
                let renamed = fs::rename(&self.path, &corrupt).is_ok();
                BackendError::Corrupt { path: if renamed { corrupt } else { path }, what }
            }
            other => other,
        }
    }

    fn reopen(&mut self, check: bool) -> Result<(), BackendError> {
        // The old one lets the file go first.
        drop(self.database.take());
        let (database, state) = guard(&self.path, || {
            let mut database = self.database()?;
            if check && !database.check_integrity()? {
                return Err(Failure::Damaged("its pages do not match their checksums".to_owned()));
            }
            let transaction = database.begin_read()?;
            let table = transaction.open_table(STATE)?;
            let state = table.get(0)?;
            let state = state.ok_or_else(|| Failure::Damaged("it has no state".to_owned()))?;
            let state = record::decode_state(state.value()).map_err(|error| match error {
                StateError::Damaged => Failure::Damaged("the state does not match its checksum".to_owned()),
                StateError::Format(found) => Failure::Format(found),
            })?;
            Ok((database, state))
        })?;
        self.state = state;
        self.database = Some(database);
        Ok(())
    }

    fn database(&self) -> Result<Database, Failure> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        #[cfg(test)]
        return Ok(builder.create_with_backend(self.faults.wrap(file)?)?);
        #[cfg(not(test))]
        Ok(builder.create_file(file)?)
    }

    /// Writes everything in one transaction.
    fn commit(&mut self, batch: &Batch, reserved: u64) -> Result<(), BackendError> {
        let Some(database) = &self.database else {
            return Err(failed("writing", &self.path, io::Error::other("it is not open after an error")));
        };
        let state = State { mark: batch.mark, reserved };
        guard(&self.path, || {
            let transaction = database.begin_write()?;
            {
                let mut log = transaction.open_table(LOG)?;
                let mut bytes = Vec::new();
                for record in &batch.records {
                    record::encode(record, &mut bytes);
                    log.insert(record.revision.0, &*bytes)?;
                }
                for revision in &batch.discard {
                    log.remove(revision.0)?;
                }
            }
            transaction.open_table(STATE)?.insert(0, &record::encode_state(&state)[..])?;
            transaction.commit()?;
            Ok(())
        })?;
        self.state = state;
        Ok(())
    }

    /// What is to be reserved beyond this revision.
    fn reserve(&self, last: Revision) -> u64 {
        match self.durability {
            Durability::Synced => 0,
            Durability::None => last.0.saturating_add(RESERVED),
        }
    }
}

impl Backend for Disk {
    fn load(&mut self, visit: &mut dyn FnMut(Loaded) -> Result<(), String>) -> Result<(), BackendError> {
        let Some(database) = &self.database else {
            return Err(failed("reading", &self.path, io::Error::other("it is not open after an error")));
        };
        let mut mark = self.state.mark;
        let loaded = guard(&self.path, || {
            let transaction = database.begin_read()?;
            let table = transaction.open_table(LOG)?;
            let mut resource = None;
            for row in table.iter()? {
                let (revision, bytes) = row?;
                let record = record::decode(Revision(revision.value()), bytes.value(), &mut resource)
                    .map_err(Failure::Damaged)?;
                visit(Loaded::Record(record)).map_err(Failure::Damaged)?;
            }
            if self.state.reserved > mark.last.0 {
                // Not closed in order: revisions up to there may have been given out, and what they wrote is lost.
                mark.last = Revision(self.state.reserved);
                mark.compact = mark.last;
            }
            visit(Loaded::Mark(mark)).map_err(Failure::Damaged)
        });
        loaded.map_err(|error| self.set_aside(error))?;
        if self.durability == Durability::None || self.state.reserved > 0 {
            // Before any further revision is given out.
            let batch = Batch { mark, ..Batch::default() };
            self.commit(&batch, self.reserve(mark.last))?;
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
        self.reopen(false)?;
        let buffered = self.buffer.mark.last;
        if self.state.mark.last >= buffered {
            // What was buffered is there, or nothing was.
            self.buffer = Batch::default();
            self.buffered_bytes = 0;
        }
        Ok(self.state.mark.last.max(buffered))
    }

    fn flush(&mut self) -> Result<(), BackendError> {
        if self.buffer.mark.last.0 == 0 {
            return Ok(());
        }
        let batch = self.buffer.clone();
        self.commit(&batch, self.reserve(batch.mark.last))?;
        self.buffer = Batch::default();
        self.buffered_bytes = 0;
        Ok(())
    }

    fn shrink(&mut self) -> Result<(), BackendError> {
        self.flush()?;
        let Some(database) = &mut self.database else { return Ok(()) };
        guard(&self.path, || Ok(database.compact().map(drop)?))
    }

    fn close(&mut self) -> Result<(), BackendError> {
        let mut batch = std::mem::take(&mut self.buffer);
        if batch.mark.last.0 == 0 {
            batch.mark = self.state.mark;
        }
        if self.durability == Durability::None {
            self.commit(&batch, 0)?;
        }
        drop(self.database.take());
        sync_directory(&self.directory).map_err(|e| failed("syncing", &self.directory, e))
    }
}

/// A record that is discarded before it was written is not written at all.
fn extend(buffer: &mut Batch, batch: &Batch) {
    buffer.records.extend(batch.records.iter().cloned());
    buffer.discard.extend(&batch.discard);
    buffer.mark = batch.mark;
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn lock_directory(directory: &Path) -> Result<File, BackendError> {
    let path = directory.join(LOCK);
    let open = |e| failed("opening", &path, e);
    let mut file = private_file().truncate(false).open(&path).map_err(open)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // It may not have written its number yet.
            let known = file.take(20).read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder =
                if known { format!("process {}", holder.trim()) } else { "another process".to_owned() };
            return Err(BackendError::Locked { path: directory.to_owned(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(failed("locking", &path, error)),
    }
    // For the message alone: the lock holds without it.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).is_ok();
    Ok(file)
}

/// Makes an empty file under another name first, so that a crash leaves none that is half made.
fn create(directory: &Path) -> Result<(), BackendError> {
    let (new, path) = (directory.join(NEW), directory.join(FILE));
    let file = private_file().truncate(true).open(&new).map_err(|e| failed("creating", &new, e))?;
    guard(&new, || {
        let database = Database::builder().set_cache_size(CACHE).create_file(file)?;
        let transaction = database.begin_write()?;
        drop(transaction.open_table(LOG)?);
        transaction.open_table(STATE)?.insert(0, &record::encode_state(&State::default())[..])?;
        Ok(transaction.commit()?)
    })?;
    fs::rename(&new, &path).map_err(|e| failed("creating", &path, e))?;
    sync_directory(directory).map_err(|e| failed("syncing", directory, e))
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    // Elsewhere, directories can't be opened as files.
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> BackendError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            BackendError::NoSpace { path, source }
        }
        _ => BackendError::Io { action, path, source },
    }
}

/// What goes wrong inside of the database.
enum Failure {
    Database(redb::Error),
    Damaged(String),
    Format(u32),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

/// Turns errors into ours, and panics into errors: a damaged page may make the database panic.
fn guard<T>(path: &Path, action: impl FnOnce() -> Result<T, Failure>) -> Result<T, BackendError> {
    let corrupt = |what: String| BackendError::Corrupt { path: path.to_owned(), what };
    match catch_unwind(AssertUnwindSafe(action)) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(Failure::Damaged(what))) => Err(corrupt(what)),
        Ok(Err(Failure::Format(found))) => {
            Err(BackendError::Format { path: path.to_owned(), found, known: record::FORMAT })
        }
        Ok(Err(Failure::Database(error))) => Err(match error {
            redb::Error::Io(source) if source.kind() == io::ErrorKind::InvalidData => {
                corrupt(source.to_string())
            }
            redb::Error::Io(source) => failed("reading or writing", path, source),
            redb::Error::Corrupted(what) => corrupt(what),
            redb::Error::DatabaseAlreadyOpen => {
                BackendError::Locked { path: path.to_owned(), holder: "another process".to_owned() }
            }
            redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_) => {
                failed("reading or writing", path, io::Error::other(error.to_string()))
            }
            other => corrupt(other.to_string()),
        }),
        Err(_) => Err(corrupt("the database could not make sense of it".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering;

    use redb::StorageBackend;
    use redb::backends::FileBackend;

    use super::*;
    use crate::entry::Write;
    use crate::error::WriteError;
    use crate::key::Key;
    use crate::key::Resource;
    use crate::key::Scope;
    use crate::mvcc::At;
    use crate::store::Options;
    use crate::store::Store;

    /// A disk that is full after so many bytes.
    #[derive(Clone, Debug)]
    pub(super) struct Faults {
        left: Arc<AtomicU64>,
    }

    impl Default for Faults {
        fn default() -> Self {
            Self { left: Arc::new(AtomicU64::new(u64::MAX)) }
        }
    }

    impl Faults {
        pub(super) fn wrap(&self, file: File) -> Result<Faulty, Failure> {
            Ok(Faulty { file: FileBackend::new(file)?, faults: self.clone() })
        }

        fn use_up(&self, bytes: usize) -> io::Result<()> {
            let full = || io::Error::from(io::ErrorKind::StorageFull);
            let left = self.left.load(Ordering::Relaxed).checked_sub(bytes as u64).ok_or_else(full)?;
            self.left.store(left, Ordering::Relaxed);
            Ok(())
        }
    }

    #[derive(Debug)]
    pub(super) struct Faulty {
        file: FileBackend,
        faults: Faults,
    }

    impl StorageBackend for Faulty {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.faults.use_up(1)?;
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.faults.use_up(data.len())?;
            self.file.write(offset, data)
        }

        fn close(&self) -> io::Result<()> {
            self.file.close()
        }
    }

    /// Every place in a few transactions where the disk may be full: what is acknowledged stays, the rest is all or
    /// nothing, and it works again when there is space.
    #[test]
    fn a_full_disk_loses_nothing() {
        // What is not synced is written many writes at a time.
        for (durability, value) in [(Durability::Synced, 3000), (Durability::None, 400_000)] {
            let mut failures = 0;
            for space in (0..100_000).step_by(9_973) {
                let directory = std::env::temp_dir()
                    .join(format!("settled-store-full-{}-{durability:?}-{space}", std::process::id()));
                failures += full(&directory, durability, value, space);
                fs::remove_dir_all(&directory).unwrap();
            }
            assert!(failures > 10, "{failures}");
        }
    }

    fn full(directory: &Path, durability: Durability, value: usize, space: u64) -> usize {
        let disk = Disk::open(directory, durability).unwrap();
        let left = disk.faults.left.clone();
        let store = Store::open(Box::new(disk), Options::default()).unwrap();
        let resource = Resource::new("r").unwrap();
        let put = |i: usize| {
            let key = Key::new(&resource, "", &format!("{i:02}")).unwrap();
            store.write(Write::create(key, vec![i as u8; value])).wait()
        };
        put(0).unwrap();
        left.store(space, Ordering::Relaxed);
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
        left.store(u64::MAX, Ordering::Relaxed);
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
        let disk = Disk::open(directory, durability).unwrap();
        let store = Store::open(Box::new(disk), Options::default()).unwrap();
        assert_eq!((names(&store), store.current_revision()), (seen, last), "space for {space}");
        failures
    }
}
