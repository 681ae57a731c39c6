//! Verification of a data directory that no process has open. Read-only.

use std::collections::HashSet;
use std::fs::File;
use std::fs::TryLockError;
use std::io;
use std::io::Read as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::DroppedWrite;
use crate::disk::CORRUPT;
use crate::disk::FILE;
use crate::disk::FIRST_FORMAT;
use crate::disk::LOCK;
use crate::disk::REDB_FILE;
use crate::disk::SEAL_FILE;
use crate::disk::failed;
use crate::disk::known;
use crate::disk::read_all;
use crate::error::BackendError;
use crate::file::SharedFile;
use crate::frame::Damage;
use crate::frame::FIRST_FRAME_OFFSET;
use crate::frame::Failure;
use crate::frame::Frames;
use crate::frame::State;
use crate::key::Revision;
use crate::log::FORMAT;
use crate::log::Scan;
use crate::log::number;
use crate::mvcc::Limits;
use crate::mvcc::Mvcc;
use crate::record;

/// Readable content of a data directory.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The file that was read.
    pub path: PathBuf,
    /// Its format.
    pub format: u32,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Bytes used by complete writes.
    pub used_bytes: u64,
    /// Offset up to which the file is known to have been durable.
    pub sealed_bytes: u64,
    /// Number of batches.
    pub batches: u64,
    /// Number of records that are not obsolete.
    pub records: u64,
    /// The oldest readable revision.
    pub compact_revision: Revision,
    /// The last revision.
    pub last_revision: Revision,
    /// Number of objects.
    pub objects: u64,
    /// Incomplete write at the end, which was never acknowledged. The next start drops it.
    pub unfinished: Option<DroppedWrite>,
    /// Damage, if any. The other fields describe the data before it.
    pub damage: Option<CheckDamage>,
}

/// Damage to a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckDamage {
    /// Offset of the damage, if known.
    pub offset: Option<u64>,
    /// Description of the damage.
    pub what: String,
}

impl From<Damage> for CheckDamage {
    fn from(Damage { offset, what }: Damage) -> Self {
        Self { offset, what }
    }
}

/// Reads a directory as [`Disk::open`](crate::Disk::open) does, but only reports the findings: all frames and their
/// checksums, the seals, the order of the revisions, and whether all objects are present. If an earlier start has
/// renamed a damaged log, that file is read instead.
///
/// # Errors
///
/// The directory is in use, has no store or one of another format, or cannot be read.
pub fn check(directory: &Path) -> Result<CheckReport, BackendError> {
    let path = directory.join(FILE);
    let exists =
        |name: &str| directory.join(name).try_exists().map_err(|e| failed("looking for", directory, e));
    let _lock = lock(directory)?;
    let (path, set_aside) = match (exists(FILE)?, exists(CORRUPT)?, exists(REDB_FILE)?) {
        (true, _, _) => (path, false),
        (false, true, _) => (directory.join(CORRUPT), true),
        (false, false, true) => {
            let path = directory.join(REDB_FILE);
            return Err(BackendError::Format { path, found: FIRST_FORMAT, known: FORMAT });
        }
        (false, false, false) => return Err(BackendError::Missing { path: directory.to_owned() }),
    };
    let read = |error: io::Error| failed("reading", &path, error);
    let file: SharedFile = Arc::new(File::open(&path).map_err(read)?);
    let beside = match File::open(directory.join(SEAL_FILE)) {
        Ok(seal) => read_all(Arc::new(seal)).map_err(|e| failed("reading", &directory.join(SEAL_FILE), e))?,
        Err(_) => Vec::new(),
    };
    let mut found = Found::default();
    let scanned = Scan::new(&file, &beside, |body| {
        found.batches += 1;
        found.discarded.extend(body.discards());
        if body.state.mark.last < found.state.mark.last {
            let (last, before) = (body.state.mark.last, found.state.mark.last);
            return Err(Failure::content(format!("revision {last} follows {before}")));
        }
        found.state = body.state;
        Ok(())
    });
    let mut report = CheckReport {
        path: path.clone(),
        format: FORMAT,
        file_bytes: file.size().map_err(read)?,
        used_bytes: 0,
        sealed_bytes: 0,
        batches: found.batches,
        records: 0,
        compact_revision: found.state.mark.compact,
        last_revision: found.state.mark.last,
        objects: found.state.mark.objects,
        unfinished: None,
        damage: None,
    };
    match scanned {
        Ok(scan) => {
            report.used_bytes = scan.end;
            report.sealed_bytes = scan.sealed;
            let revision = report.last_revision;
            report.unfinished = (scan.torn > 0).then_some(DroppedWrite { bytes: scan.torn, revision });
        }
        Err(Failure::Damaged(damage)) => {
            report.used_bytes = damage.offset.unwrap_or(report.file_bytes);
            report.damage = Some(damage.into());
        }
        Err(other) => return Err(known(&path, other)),
    }
    match replay(&file, &found, report.damage.is_none()) {
        Ok(records) => report.records = records,
        Err(Failure::Damaged(damage)) => report.damage = report.damage.or_else(|| Some(damage.into())),
        Err(other) => return Err(known(&path, other)),
    }
    if set_aside && report.damage.is_none() {
        let what = format!("an earlier start renamed it as damaged, but it is intact: rename it to {FILE}");
        report.damage = Some(CheckDamage { offset: None, what });
    }
    Ok(report)
}

#[derive(Default)]
struct Found {
    batches: u64,
    state: State,
    discarded: HashSet<u64>,
}

/// Rebuilds all objects from their records, as a start does. Returns the number of records.
fn replay(file: &SharedFile, found: &Found, whole: bool) -> Result<u64, Failure> {
    let length = file.size()?;
    if length < FIRST_FRAME_OFFSET {
        return Ok(0);
    }
    let Ok(number) = number(file) else { return Ok(0) };
    let mut mvcc = Mvcc::new(Limits::default());
    let mut records = 0;
    let mut resource = None;
    let mut frames = Frames::new(file.clone(), number, length);
    while let Some(body) = frames.next()? {
        for record in body.records() {
            let (revision, bytes) = record?;
            if !found.discarded.contains(&revision.0) {
                records += 1;
                let record = record::decode(revision, bytes, &mut resource).map_err(Failure::content)?;
                // The records before damage may be inconsistent: the frame that discards some of them may follow it.
                if whole {
                    mvcc.replay(record)?;
                }
            }
        }
    }
    if whole {
        let mut mark = found.state.mark;
        // Revisions that were assigned and not stored: the next start skips them.
        if found.state.reserved > mark.last.0 {
            mark.last = Revision(found.state.reserved);
            mark.compact = mark.last;
        }
        mvcc.replayed(mark)?;
    }
    Ok(records)
}

/// Prevents others from opening the directory meanwhile. Without a lock file, it has never been opened.
fn lock(directory: &Path) -> Result<Option<File>, BackendError> {
    let path = directory.join(LOCK);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("opening", &path, error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _unknown = file.by_ref().take(20).read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                id => format!("process {id}"),
            };
            Err(BackendError::Locked { path: directory.to_owned(), holder })
        }
        Err(TryLockError::Error(error)) => Err(failed("locking", &path, error)),
    }
}
