//! Log file: a head with seals, followed by frames with checksums.
//!
//! ```text
//! head     magic, format, the file's number, checksum; two seals in sectors of their own
//! seal     count, the offset up to which frames are durable, checksum; the revision there, checksum
//! frames   see `frame`
//! zeros    space for the next frames: a write that does not change the size of a file is synced in half the time
//! ```
//!
//! A frame is written and synced before the next one, and then sealed: what is below the seal is durable, and never torn. What `tail`
//! takes for a torn frame above it is dropped; everything else that does not match its checksum is damage. The checksum of a frame's
//! head covers the file's number and the offset, so that neither what an earlier file left nor what a value holds passes for a frame.
//!
//! There are two places for seals, because a further page in each sync would cost a tenth of it. A file beside the log has the seal of the
//! last frame before that is acknowledged. It is not synced: it survives a process that is killed. The head gets a seal every few frames
//! or milliseconds, which is synced with the next frame, and once the log is idle.
//!
//! Logs of earlier versions have no file beside them, and seals in the head that lag behind and have no revision; those versions ignore
//! the revision.

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

/// The format that is written. The first one was redb's.
pub(crate) const FORMAT: u32 = 2;

const MAGIC: [u8; 8] = *b"settled\n";
/// Magic, format, number, checksum.
const HEADER_SIZE: usize = 8 + 4 + 8 + 4;
/// Size of a seal, and of the revision that later versions added.
const SEAL_SIZE: usize = 8 + 8 + 4;
const SEAL_REVISION: usize = 8 + 4;

/// A seal goes into the head with the next frame after so many frames, or after this time.
const SEALED: (u64, Duration) = (64, Duration::from_millis(50));

/// How much space is made for the next frames: half of what there is, between these.
const SPACE: (u64, u64) = (64 << 10, 4 << 20);
/// How much of it stays when the log is closed or cut, so that objects can be deleted on a full disk.
const RESERVE: u64 = 64 << 10;

/// Up to where a log is known to be durable.
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

    /// Nothing if it is torn, or that of another file.
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
    /// Up to here, the log is known to be durable.
    pub(crate) sealed: u64,
    /// Offset of the next frame.
    pub(crate) end: u64,
    /// The size of a torn write at the end. 0: there is none.
    pub(crate) torn: u64,
    pub(crate) revision: u64,
}

impl Scan {
    /// Reads a log and shows all its frames. Changes nothing.
    ///
    /// `beside`: the contents of the file for the last seal.
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
            return damaged(end, format!("{what}, but it was stored up to byte {}{until}", sealed.end));
        }
        let torn = match tail {
            Tail::Empty => 0,
            Tail::Torn(size) => size,
            Tail::Damaged(damage) => return Err(Failure::Damaged(damage)),
        };
        Ok(Self { number, length, seal, sealed: sealed.end, end, torn, revision })
    }
}

/// A file that is written.
#[derive(Debug)]
pub(crate) struct Log {
    file: SharedFile,
    number: u64,
    /// Offset of the next frame.
    end: u64,
    /// The last revision below the end.
    revision: u64,
    /// Size of the file, including the zeros at its end.
    length: u64,
    /// The seal of the head.
    seal: Seal,
    /// The seal is durable.
    seal_synced: bool,
    /// How many frames it does not cover, and since when.
    unsealed: (u64, Instant),
    bytes: Vec<u8>,
}

impl Log {
    /// Makes an empty file, which is not synced.
    pub(crate) fn create(file: SharedFile) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // No two files of a directory have the same.
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

    /// Opens a file, shows all its frames, and makes it ready for more. Also gives the size of the torn write that was dropped, 0 if
    /// there was none.
    pub(crate) fn open(
        file: SharedFile,
        beside: &[u8],
        visit: impl FnMut(&Body<'_>) -> Result<(), Failure>,
    ) -> Result<(Self, u64), Failure> {
        let Scan { number, length, seal, sealed, end, torn, revision } = Scan::new(&file, beside, visit)?;
        let unsealed = (0, Instant::now());
        let (seal_synced, bytes) = (false, Vec::new());
        let mut log = Self { file, number, end, revision, length, seal, seal_synced, unsealed, bytes };
        // What is served must survive a power cut, and what is dropped must not come back with what is written next. A sync that failed
        // before leaves both in the cache alone, and only what is written again is synced again.
        log.rewrite(sealed.max(FIRST_FRAME_OFFSET))?;
        log.cut(end, revision)?;
        if seal.end < end {
            // Should it fail, the next write tries again.
            let _later = log.seal();
        }
        Ok((log, torn))
    }

    /// The frames of the file from the first one on, up to a length.
    pub(crate) fn frames(&self, length: u64) -> Frames {
        Frames::new(self.file.clone(), self.number, length)
    }

    /// Size of head and frames in bytes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Writes a frame, makes it durable and seals it beside the log.
    pub(crate) fn commit(&mut self, frame: &Frame, beside: Option<&SharedFile>) -> io::Result<()> {
        let (frames, since) = self.unsealed;
        if frames >= SEALED.0 || frames > 0 && since.elapsed() >= SEALED.1 {
            // Up to here it is durable. Should it fail, the frame tells.
            let _later = self.seal();
        }
        self.append(frame)?;
        self.sync()?;
        self.unsealed.0 += 1;
        if let Some(beside) = beside {
            let seal = Seal { count: 0, end: self.end, revision: Some(self.revision) };
            // The frame is stored, whatever comes of this. The next one tries again.
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
        // Large ones are rare.
        if bytes.capacity() <= 1 << 20 {
            self.bytes = bytes;
        }
        written?;
        self.length = self.length.max(length);
        self.end = end;
        self.revision = frame.state.mark.last.0;
        Ok(())
    }

    /// Stores what was written.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.seal_synced = true;
        Ok(())
    }

    /// Writes what is there from an offset to the end once more.
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

    /// Takes back what was written since the file ended there, with that revision, so that it never comes back.
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

    /// Gives most of the space at the end back, and says that the file is whole.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let kept = self.length.min(self.end + RESERVE);
        self.file.set_len(kept)?;
        self.length = kept;
        self.seal()?;
        self.sync()
    }

    /// Makes the seal durable, unless it is.
    pub(crate) fn sync_seal(&mut self) -> io::Result<()> {
        if self.seal.end != self.end {
            self.seal()?;
        }
        if self.seal_synced { Ok(()) } else { self.sync() }
    }

    /// Notes in the head that the file is whole up to its end.
    fn seal(&mut self) -> io::Result<()> {
        let seal = Seal { count: self.seal.count + 1, end: self.end, revision: Some(self.revision) };
        let bytes = seal.encode(self.number);
        // The other one stays whole if this one is torn.
        self.file.write_all_at(SECTOR * (1 + seal.count % 2), &bytes)?;
        self.seal = seal;
        self.seal_synced = false;
        self.unsealed = (0, Instant::now());
        Ok(())
    }
}

/// Is there no room for what was to be written?
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

/// The file's number.
fn title(head: &[u8]) -> Result<u64, Failure> {
    let mut rest = head;
    if take(&mut rest) != Some(MAGIC) {
        return damaged(0, "it does not begin as it should");
    }
    let format = take(&mut rest).map(u32::from_le_bytes);
    let number = take(&mut rest).map(u64::from_le_bytes);
    let sum = take(&mut rest).map(u32::from_le_bytes);
    match (format, number, sum) {
        (Some(format), Some(number), Some(sum)) if sum == checksum(0, &head[..HEADER_SIZE - 4]) => {
            // Other formats have a checksum in the same place.
            if format == FORMAT { Ok(number) } else { Err(Failure::Format(format)) }
        }
        _ => damaged(0, "its head does not match its checksum"),
    }
}
