//! Log file: a head with seals, followed by frames with checksums.
//!
//! ```text
//! head     magic, format, the file's number, checksum; two seals in sectors of their own
//! seal     count, the offset up to which frames are durable, checksum; the revision there, checksum
//! frames   see `frame`
//! zeros    space for the next frames: a write that does not change the size of a file is synced in half the time
//! ```
//!
//! A frame is written and synced before the next one, and then sealed: data below the seal is durable and never torn. A
//! torn frame above it, as classified by `tail`, is dropped; all other checksum mismatches are damage. The checksum of
//! a frame header covers the file's number and the offset, so that neither remains of an earlier file nor the content
//! of a value can pass for a frame.
//!
//! Seals are stored in two places, since an additional page would make each sync 10 % slower. A file beside the log has
//! the seal of the last frame, before that is acknowledged. It is not synced: it survives a killed process. The head
//! gets a seal after a few frames or milliseconds, which is synced with the next frame, and when the log is idle.
//!
//! Logs of earlier versions have no such file, and seals in the head that lag behind and have no revision; those
//! versions ignore the revision.

use std::io;
use std::io::Read as _;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use crate::file::Reader;
use crate::file::SharedFile;
use crate::frame::Body;
use crate::frame::FIRST_FRAME_OFFSET;
use crate::frame::Failure;
use crate::frame::Frame;
use crate::frame::Frames;
use crate::frame::damaged;
use crate::record::checksum;
use crate::record::take;
use crate::tail;
use crate::tail::SECTOR;
use crate::tail::Tail;

/// The current format. Format 1 was redb's.
pub(crate) const FORMAT: u32 = 2;

const MAGIC: [u8; 8] = *b"settled\n";
/// Magic, format, number, checksum.
const HEADER_SIZE: usize = 8 + 4 + 8 + 4;
/// Size of a seal, and of the revision added by later versions.
const SEAL_SIZE: usize = 8 + 8 + 4;
const SEAL_REVISION: usize = 8 + 4;

/// A seal is written to the head with the next frame after this many frames, or after this time.
const SEALED: (u64, Duration) = (64, Duration::from_millis(50));

/// Space preallocated for frames: half of the file size, between these.
const SPACE: (u64, u64) = (64 << 10, 4 << 20);
/// Preallocated space that remains when the log is closed or truncated, so that objects can be deleted on a full disk.
const RESERVE: u64 = 64 << 10;

/// A durable prefix of a log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Seal {
    count: u64,
    end: u64,
    /// The last revision below the end. Earlier versions do not write it.
    revision: Option<u64>,
}

impl Seal {
    fn encode(self, number: u64) -> [u8; SEAL_SIZE + SEAL_REVISION] {
        let mut bytes = [0; SEAL_SIZE + SEAL_REVISION];
        bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        let sum = checksum(number, &bytes[..16]);
        bytes[16..SEAL_SIZE].copy_from_slice(&sum.to_le_bytes());
        bytes[SEAL_SIZE..SEAL_SIZE + 8].copy_from_slice(&self.revision.unwrap_or_default().to_le_bytes());
        let sum = checksum(number, &bytes[..SEAL_SIZE + 8]);
        bytes[SEAL_SIZE + 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None` if it is torn or belongs to another file.
    fn decode(bytes: &[u8], number: u64) -> Option<Self> {
        let bytes = bytes.get(..SEAL_SIZE + SEAL_REVISION)?;
        let mut rest = bytes;
        let count = u64::from_le_bytes(take(&mut rest)?);
        let end = u64::from_le_bytes(take(&mut rest)?);
        let sum = u32::from_le_bytes(take(&mut rest)?);
        if sum != checksum(number, &bytes[..16]) {
            return None;
        }
        let revision = u64::from_le_bytes(take(&mut rest)?);
        let sum = u32::from_le_bytes(take(&mut rest)?);
        let revision = (sum == checksum(number, &bytes[..SEAL_SIZE + 8])).then_some(revision);
        Some(Self { count, end, revision })
    }
}

/// State recovered from a log.
#[derive(Debug)]
pub(crate) struct Scan {
    number: u64,
    pub(crate) length: u64,
    /// The seal of the head.
    seal: Seal,
    /// Known durable length of the log.
    pub(crate) sealed: u64,
    /// Offset of the next frame.
    pub(crate) end: u64,
    /// Size of a torn write at the end, or 0.
    pub(crate) torn: u64,
    pub(crate) revision: u64,
}

impl Scan {
    /// Reads a log and passes all its frames to the callback. Read-only.
    ///
    /// `beside`: content of the file for the last seal.
    pub(crate) fn new(
        file: &SharedFile,
        beside: &[u8],
        mut visit: impl FnMut(&Body<'_>) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let length = file.size()?;
        if length < FIRST_FRAME_OFFSET {
            return damaged(length, format!("it has {length} bytes"));
        }
        let mut head = vec![0; FIRST_FRAME_OFFSET as usize];
        read_exact(file, &mut head)?;
        let number = title(&head)?;
        let slots = [1, 2].iter().filter_map(|sector| head.get((SECTOR * sector) as usize..));
        let seal = slots.filter_map(|bytes| Seal::decode(bytes, number)).max_by_key(|seal| seal.count);
        let Some(seal) = seal else { return damaged(SECTOR, "its seals do not match their checksums") };

        let sealed = Seal::decode(beside, number).filter(|beside| beside.end > seal.end).unwrap_or(seal);

        let mut revision = 0;
        let mut frames = Frames::new(file.clone(), number, length);
        while let Some(body) = frames.next()? {
            revision = body.state.mark.last.0;
            visit(&body)?;
        }
        let end = frames.place();
        let tail = tail::inspect(file, number, end, length)?;
        if end < sealed.end {
            let until = sealed.revision.map_or_else(String::new, |revision| format!(", revision {revision}"));
            let what = if tail == Tail::Empty {
                format!("its writes end at byte {end}")
            } else {
                format!("data at byte {end} does not match its checksum")
            };
            return damaged(end, format!("{what}, but it was synced up to byte {}{until}", sealed.end));
        }
        let torn = match tail {
            Tail::Empty => 0,
            Tail::Torn(size) => size,
            Tail::Damaged(damage) => return Err(Failure::Damaged(damage)),
        };
        Ok(Self { number, length, seal, sealed: sealed.end, end, torn, revision })
    }
}

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct Log {
    file: SharedFile,
    number: u64,
    /// Offset of the next frame.
    end: u64,
    /// The last revision below the end.
    revision: u64,
    /// Size of the file, including preallocated zeros.
    length: u64,
    /// The seal of the head.
    seal: Seal,
    /// Whether the seal is durable.
    seal_synced: bool,
    /// Number of frames that it does not cover, and the time of the first.
    unsealed: (u64, Instant),
    bytes: Vec<u8>,
}

impl Log {
    /// Creates an empty log, without syncing it.
    pub(crate) fn create(file: SharedFile) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Distinct from all other files of the directory.
        let number = (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 44);
        let mut head = vec![0; FIRST_FRAME_OFFSET as usize];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        head[12..20].copy_from_slice(&number.to_le_bytes());
        let sum = checksum(0, &head[..20]);
        head[20..HEADER_SIZE].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(0, &head)?;
        let mut log = Self {
            file,
            number,
            end: FIRST_FRAME_OFFSET,
            revision: 0,
            length: FIRST_FRAME_OFFSET,
            seal: Seal::default(),
            seal_synced: false,
            unsealed: (0, Instant::now()),
            bytes: Vec::new(),
        };
        log.seal()?;
        Ok(log)
    }

    /// Opens a log, passes all its frames to the callback, and prepares it for writing. Returns the size of the dropped
    /// torn write, or 0.
    pub(crate) fn open(
        file: SharedFile,
        beside: &[u8],
        visit: impl FnMut(&Body<'_>) -> Result<(), Failure>,
    ) -> Result<(Self, u64), Failure> {
        let Scan { number, length, seal, sealed, end, torn, revision } = Scan::new(&file, beside, visit)?;
        let unsealed = (0, Instant::now());
        let (seal_synced, bytes) = (false, Vec::new());
        let mut log = Self { file, number, end, revision, length, seal, seal_synced, unsealed, bytes };
        // Served data must survive a power cut, and dropped data must not reappear with later writes. An earlier failed
        // sync leaves both in the cache only, and only rewritten data is synced again.
        log.rewrite(sealed.max(FIRST_FRAME_OFFSET))?;
        log.cut(end, revision)?;
        if seal.end < end {
            // If this fails, the next write retries.
            let _later = log.seal();
        }
        Ok((log, torn))
    }

    /// The frames of the file up to a length.
    pub(crate) fn frames(&self, length: u64) -> Frames {
        Frames::new(self.file.clone(), self.number, length)
    }

    /// Size of head and frames in bytes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Writes a frame, syncs it, and seals it beside the log.
    pub(crate) fn commit(&mut self, frame: &Frame, beside: Option<&SharedFile>) -> io::Result<()> {
        let (frames, since) = self.unsealed;
        if frames >= SEALED.0 || frames > 0 && since.elapsed() >= SEALED.1 {
            // Data up to here is durable. If this fails, the frame itself is the evidence.
            let _later = self.seal();
        }
        self.append(frame)?;
        self.sync()?;
        self.unsealed.0 += 1;
        if let Some(beside) = beside {
            let seal = Seal { count: 0, end: self.end, revision: Some(self.revision) };
            // The frame is stored even if this fails. The next write retries.
            let _later = beside.write_all_at(0, &seal.encode(self.number));
        }
        Ok(())
    }

    /// Writes a frame. It is stored with the next [`Log::sync`].
    pub(crate) fn append(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        frame.encode(self.number, self.end, &mut bytes);
        let size = bytes.len();
        let end = self.end + size as u64;
        let grows = end > self.length;
        if grows {
            let space = (end / 2).clamp(SPACE.0, SPACE.1).next_multiple_of(FIRST_FRAME_OFFSET);
            bytes.resize(size + space as usize, 0);
        }
        let mut written = self.file.write_all_at(self.end, &bytes);
        if grows && written.as_ref().is_err_and(is_full) {
            // The frame alone may fit.
            bytes.truncate(size);
            written = self.file.set_len(self.length).and_then(|()| self.file.write_all_at(self.end, &bytes));
        }
        let length = self.end + bytes.len() as u64;
        // Large frames are rare.
        if bytes.capacity() <= 1 << 20 {
            self.bytes = bytes;
        }
        written?;
        self.length = self.length.max(length);
        self.end = end;
        self.revision = frame.state.mark.last.0;
        Ok(())
    }

    /// Syncs written data.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.seal_synced = true;
        Ok(())
    }

    /// Rewrites the data from an offset to the end.
    fn rewrite(&self, from: u64) -> io::Result<()> {
        let mut rest = Reader::new(self.file.clone(), from).take(self.end.saturating_sub(from));
        let mut bytes = vec![0; 64 << 10];
        let mut offset = from;
        loop {
            let size = rest.read(&mut bytes)?;
            let Some(read) = bytes.get(..size).filter(|read| !read.is_empty()) else { return Ok(()) };
            self.file.write_all_at(offset, read)?;
            offset += size as u64;
        }
    }

    /// Truncates the log to this end and revision, so that later data never reappears.
    pub(crate) fn cut(&mut self, end: u64, revision: u64) -> io::Result<()> {
        self.end = end;
        self.revision = revision;
        let kept = self.length.min(end + RESERVE).max(end);
        let zeros = vec![0; (kept - end) as usize];
        let zeroed = self.file.write_all_at(end, &zeros).and_then(|()| self.file.set_len(kept));
        self.length = match zeroed {
            Ok(()) => kept,
            Err(_) => {
                self.file.set_len(end)?;
                end
            }
        };
        self.sync()
    }

    /// Releases most of the preallocated space, and marks a clean shutdown.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let kept = self.length.min(self.end + RESERVE);
        self.file.set_len(kept)?;
        self.length = kept;
        self.seal()?;
        self.sync()
    }

    /// Syncs the seal if necessary.
    pub(crate) fn sync_seal(&mut self) -> io::Result<()> {
        if self.seal.end != self.end {
            self.seal()?;
        }
        if self.seal_synced { Ok(()) } else { self.sync() }
    }

    /// Seals the file up to its end in the head.
    fn seal(&mut self) -> io::Result<()> {
        let seal = Seal { count: self.seal.count + 1, end: self.end, revision: Some(self.revision) };
        let bytes = seal.encode(self.number);
        // The other slot stays intact if this write is torn.
        self.file.write_all_at(SECTOR * (1 + seal.count % 2), &bytes)?;
        self.seal = seal;
        self.seal_synced = false;
        self.unsealed = (0, Instant::now());
        Ok(())
    }
}

/// Whether an error means that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn read_exact(file: &SharedFile, bytes: &mut [u8]) -> io::Result<()> {
    Reader::new(file.clone(), 0).read_exact(bytes)
}

/// The number of a file.
pub(crate) fn number(file: &SharedFile) -> Result<u64, Failure> {
    let mut head = [0; HEADER_SIZE];
    read_exact(file, &mut head)?;
    title(&head)
}

/// Number of the file.
fn title(head: &[u8]) -> Result<u64, Failure> {
    let mut rest = head;
    if take(&mut rest) != Some(MAGIC) {
        return damaged(0, "its magic number is wrong");
    }
    let format = take(&mut rest).map(u32::from_le_bytes);
    let number = take(&mut rest).map(u64::from_le_bytes);
    let sum = take(&mut rest).map(u32::from_le_bytes);
    match (format, number, sum) {
        (Some(format), Some(number), Some(sum)) if sum == checksum(0, &head[..HEADER_SIZE - 4]) => {
            // Other formats have a checksum at the same offset.
            if format == FORMAT { Ok(number) } else { Err(Failure::Format(format)) }
        }
        _ => damaged(0, "its head does not match its checksum"),
    }
}
