//! The file: a head, then frames with checksums, one after the other.
//!
//! ```text
//! head     magic, format, the file's number, checksum; two seals in sectors of their own
//! seal     how often it was written, up to where the file is known to be whole, checksum
//! frame    size, checksum of the body, checksum of these two and of the place; the body, filled up to 8 bytes
//! body     state, how many records are discarded and written, the revisions of the former, the latter
//! record   revision, size, what `record` makes of it
//! zeros    space for the next frames: a write that does not change the size of a file is synced in half the time
//! ```
//!
//! A frame is written and synced before the next one. So what a crash tears is the last frame, and nothing that has been synced follows
//! it. Whatever else isn't whole is damage: before the seal, or with another frame behind it. The checksum of a frame's head covers
//! the file's number and the place, so that neither what an earlier file left nor what a value holds passes for a frame.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Seek as _;
use std::io::SeekFrom;
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use crate::backend::Mark;
use crate::key::Revision;
use crate::record::checksum;
use crate::record::take;

/// The format that is written. The first one was redb's.
pub(crate) const FORMAT: u32 = 2;

const MAGIC: [u8; 8] = *b"settled\n";
/// A page, so that frames do not share one with the head.
pub(crate) const HEAD: u64 = 4096;
/// Magic, format, number, checksum.
const TITLE: usize = 8 + 4 + 8 + 4;
/// What disks write as a whole.
const SECTOR: u64 = 512;
const SEAL: usize = 8 + 8 + 4;
const FRAME: usize = 8 + 4 + 4;
const BODY: usize = 4 * 8 + 4 + 4;
/// What a record takes beside its bytes.
pub(crate) const ROW: usize = 8 + 4;

/// How much space is made for the next frames: half of what there is, between these.
const SPACE: (u64, u64) = (64 << 10, 4 << 20);

/// What is stored with every frame, beside the records.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) mark: Mark,
    /// Revisions up to this one may have been given out without being stored. 0: none.
    pub(crate) reserved: u64,
}

/// Why a file can't be read.
#[derive(Debug)]
pub(crate) enum Failure {
    Io(io::Error),
    Damaged(String),
    /// It has this format.
    Format(u32),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn damaged<T>(what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Damaged(what.into()))
}

/// A frame to be written.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) state: State,
    pub(crate) discards: Vec<u64>,
    count: u32,
    records: Vec<u8>,
}

impl Frame {
    /// Makes it empty, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.state = State::default();
        self.discards.clear();
        self.count = 0;
        self.records.clear();
    }

    pub(crate) fn push(&mut self, revision: Revision, record: &[u8]) {
        self.records.extend(revision.0.to_le_bytes());
        // Values are bounded far below this.
        self.records.extend((record.len() as u32).to_le_bytes());
        self.records.extend(record);
        self.count += 1;
    }

    /// About how many bytes it will have.
    pub(crate) fn size(&self) -> usize {
        FRAME + BODY + self.discards.len() * 8 + self.records.len()
    }

    fn encode(&self, number: u64, place: u64, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend([0; FRAME]);
        let State { mark, reserved } = self.state;
        for number in [mark.last.0, mark.compact.0, mark.objects, reserved] {
            bytes.extend(number.to_le_bytes());
        }
        // A batch is bounded far below this.
        bytes.extend((self.discards.len() as u32).to_le_bytes());
        bytes.extend(self.count.to_le_bytes());
        for revision in &self.discards {
            bytes.extend(revision.to_le_bytes());
        }
        bytes.extend(&self.records);
        let size = (bytes.len() - FRAME) as u64;
        let sum = checksum(number, &bytes[FRAME..]);
        bytes[..8].copy_from_slice(&size.to_le_bytes());
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        let sum = checksum(number.wrapping_add(place), &bytes[..12]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
}

/// A frame as it was read.
pub(crate) struct Body<'a> {
    pub(crate) state: State,
    discards: &'a [u8],
    records: &'a [u8],
    count: u32,
}

impl<'a> Body<'a> {
    fn decode(mut bytes: &'a [u8]) -> Option<Self> {
        let mut number = || take(&mut bytes).map(u64::from_le_bytes);
        let mark = Mark { last: Revision(number()?), compact: Revision(number()?), objects: number()? };
        let state = State { mark, reserved: number()? };
        let discards = u32::from_le_bytes(take(&mut bytes)?) as usize;
        let count = u32::from_le_bytes(take(&mut bytes)?);
        let (discards, records) = bytes.split_at_checked(discards.checked_mul(8)?)?;
        Some(Self { state, discards, records, count })
    }

    /// The revisions that are discarded.
    pub(crate) fn discards(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.discards.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The records with their revisions. One that is cut off is damage.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<(Revision, &'a [u8]), Failure>> + use<'a> {
        let mut rest = self.records;
        (0..self.count).map(move |_| {
            let row = (|| {
                let revision = Revision(u64::from_le_bytes(take(&mut rest)?));
                let size = u32::from_le_bytes(take(&mut rest)?) as usize;
                let (record, after) = rest.split_at_checked(size)?;
                rest = after;
                Some((revision, record))
            })();
            row.ok_or_else(|| Failure::Damaged("a record is cut off".to_owned()))
        })
    }
}

/// Reads the frames of a file, from its first one on.
#[derive(Debug)]
pub(crate) struct Frames {
    file: BufReader<File>,
    number: u64,
    place: u64,
    length: u64,
    body: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(path: &Path, number: u64, length: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(HEAD))?;
        let file = BufReader::with_capacity(256 << 10, file);
        Ok(Self { file, number, place: HEAD, length, body: Vec::new() })
    }

    /// Where the next frame begins, or would.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// There is more than there was.
    pub(crate) fn extend(&mut self, length: u64) -> io::Result<()> {
        self.length = length;
        // What was read ahead may be older than what was written since.
        self.file.seek(SeekFrom::Start(self.place)).map(drop)
    }

    /// The next frame, or nothing if what is there isn't a whole one. Nothing can be read after that.
    pub(crate) fn next(&mut self) -> Result<Option<Body<'_>>, Failure> {
        let left = self.length.saturating_sub(self.place);
        let mut head = [0; FRAME];
        if left < FRAME as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut head)?;
        let Some((size, sum)) = self.head(&head, self.place) else { return Ok(None) };
        if size > left - FRAME as u64 {
            return Ok(None);
        }
        // It is less than the file has.
        self.body.resize(size as usize, 0);
        self.file.read_exact(&mut self.body)?;
        if sum != checksum(self.number, &self.body) {
            return Ok(None);
        }
        let end = self.place + FRAME as u64 + size;
        self.place = end.next_multiple_of(8).min(self.length);
        self.file.seek_relative((self.place - end) as i64)?;
        match Body::decode(&self.body) {
            Some(body) => Ok(Some(body)),
            None => damaged("a frame is too short"),
        }
    }

    fn head(&self, head: &[u8; FRAME], place: u64) -> Option<(u64, u32)> {
        let mut rest = &head[..];
        let size = u64::from_le_bytes(take(&mut rest)?);
        let body = u32::from_le_bytes(take(&mut rest)?);
        let sum = u32::from_le_bytes(take(&mut rest)?);
        (size > 0 && sum == checksum(self.number.wrapping_add(place), &head[..12])).then_some((size, body))
    }

    /// Looks for a frame's head behind the place where there is no whole frame. If there is none, says whether there is anything but zeros.
    fn rest(mut self) -> Result<Rest, Failure> {
        self.file.seek(SeekFrom::Start(self.place))?;
        let mut head = [0; FRAME];
        let mut rest = Rest::Zeros;
        for place in (self.place..self.length.saturating_sub(7)).step_by(8) {
            head.copy_within(8.., 0);
            self.file.read_exact(&mut head[8..])?;
            if head[8..] != [0; 8] {
                rest = Rest::Torn;
            }
            // The head that ends here. The one at the place itself is that of the torn frame.
            if place > self.place + 8 && self.head(&head, place - 8).is_some() {
                return Ok(Rest::Frame(place - 8));
            }
        }
        let mut few = Vec::new();
        self.file.read_to_end(&mut few)?;
        Ok(if few.iter().all(|byte| *byte == 0) { rest } else { Rest::Torn })
    }
}

enum Rest {
    Zeros,
    Torn,
    Frame(u64),
}

/// A file that is written.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    number: u64,
    /// Where the next frame begins.
    end: u64,
    /// How long the file is: zeros from the end on.
    length: u64,
    /// Where the system writes next, if that is known.
    cursor: Option<u64>,
    /// How often it was sealed.
    seals: u64,
    bytes: Vec<u8>,
    #[cfg(test)]
    faults: crate::disk::tests::Faults,
}

impl Log {
    /// Makes an empty file, which is not synced.
    pub(crate) fn create(file: File) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // No two files of a directory have the same.
        let number = (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 44);
        let mut log = Self::over(file, number);
        let mut head = vec![0; HEAD as usize];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        head[12..20].copy_from_slice(&number.to_le_bytes());
        let sum = checksum(0, &head[..20]);
        head[20..TITLE].copy_from_slice(&sum.to_le_bytes());
        log.write(0, &head)?;
        log.length = HEAD;
        log.seal()?;
        Ok(log)
    }

    fn over(file: File, number: u64) -> Self {
        Self {
            file,
            number,
            end: HEAD,
            length: HEAD,
            cursor: None,
            seals: 0,
            bytes: Vec::new(),
            #[cfg(test)]
            faults: crate::disk::tests::Faults::default(),
        }
    }

    /// Opens a file, shows all its frames, and makes it ready for more.
    pub(crate) fn open(
        path: &Path,
        mut visit: impl FnMut(&Body<'_>) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        if length < HEAD {
            return damaged(format!("it has {length} bytes"));
        }
        let mut head = vec![0; HEAD as usize];
        file.read_exact(&mut head)?;
        let number = title(&head)?;
        let seal = (0..2).filter_map(|slot| seal(&head, number, slot)).max();
        let Some((seals, sealed)) = seal else { return damaged("its seals do not match their checksums") };

        let mut frames = Frames::new(path, number, length)?;
        while let Some(body) = frames.next()? {
            visit(&body)?;
        }
        let end = frames.place();
        if end < sealed {
            return damaged(format!("what is at byte {end} does not match its checksum"));
        }
        let mut log = Self { end, length, seals, ..Self::over(file, number) };
        match frames.rest()? {
            Rest::Zeros => {}
            Rest::Frame(later) => {
                let what = format!(
                    "what is at byte {end} does not match its checksum, but later writes are at {later}"
                );
                return damaged(what);
            }
            // Before anything is written: a further crash must not leave half of the one and half of the other.
            Rest::Torn => log.repair()?,
        }
        Ok(log)
    }

    /// What [`Frames::new`] wants to know.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes the head and the frames have.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Writes a frame. It is stored with the next [`Log::sync`].
    pub(crate) fn append(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        frame.encode(self.number, self.end, &mut bytes);
        let size = bytes.len();
        let end = self.end + size as u64;
        let grows = end > self.length;
        if grows {
            let space = (end / 2).clamp(SPACE.0, SPACE.1).next_multiple_of(HEAD);
            bytes.resize(size + space as usize, 0);
        }
        let mut written = self.write(self.end, &bytes);
        if grows && written.as_ref().is_err_and(is_full) {
            // The frame alone may fit.
            bytes.truncate(size);
            self.cursor = None;
            written = self.file.set_len(self.end).and_then(|()| self.write(self.end, &bytes));
        }
        let length = self.end + bytes.len() as u64;
        // Large ones are rare.
        if bytes.capacity() <= 1 << 20 {
            self.bytes = bytes;
        }
        written?;
        if grows {
            self.length = length;
            // Up to here it was synced before.
            self.seal()?;
        }
        self.end = end;
        Ok(())
    }

    /// Stores what was written.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        #[cfg(test)]
        self.faults.use_up(1)?;
        self.file.sync_data()
    }

    /// Takes back what was written since the file ended there, so that it never comes back.
    pub(crate) fn cut(&mut self, end: u64) -> io::Result<()> {
        self.end = end;
        self.repair()
    }

    fn repair(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.length = self.end;
        self.sync()
    }

    /// Gives the space at the end back, and says that the file is whole.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.length = self.end;
        self.seal()?;
        self.sync()
    }

    /// Notes that the file is whole up to its end.
    fn seal(&mut self) -> io::Result<()> {
        let seals = self.seals + 1;
        let mut bytes = [0; SEAL];
        bytes[..8].copy_from_slice(&seals.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        let sum = checksum(self.number, &bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        // The other one stays whole if this one is torn.
        self.write(SECTOR * (1 + seals % 2), &bytes)?;
        self.seals = seals;
        Ok(())
    }

    fn write(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        self.faults.use_up(bytes.len())?;
        if self.cursor.take() != Some(place) {
            self.file.seek(SeekFrom::Start(place))?;
        }
        self.file.write_all(bytes)?;
        self.cursor = Some(place + bytes.len() as u64);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn failing_as(mut self, other: &Self) -> Self {
        self.faults = other.faults.clone();
        self
    }

    #[cfg(test)]
    pub(crate) fn break_with(&mut self, faults: crate::disk::tests::Faults) {
        self.faults = faults;
    }
}

/// Is there no room for what was to be written?
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// The file's number.
fn title(head: &[u8]) -> Result<u64, Failure> {
    let mut rest = head;
    if take(&mut rest) != Some(MAGIC) {
        return damaged("it does not begin as it should");
    }
    let format = take(&mut rest).map(u32::from_le_bytes);
    let number = take(&mut rest).map(u64::from_le_bytes);
    let sum = take(&mut rest).map(u32::from_le_bytes);
    match (format, number, sum) {
        (Some(format), Some(number), Some(sum)) if sum == checksum(0, &head[..TITLE - 4]) => {
            // Other formats have a checksum in the same place.
            if format == FORMAT { Ok(number) } else { Err(Failure::Format(format)) }
        }
        _ => damaged("its head does not match its checksum"),
    }
}

/// How often a seal was written and up to where it says that the file is whole, unless it is torn.
fn seal(head: &[u8], number: u64, slot: u64) -> Option<(u64, u64)> {
    let start = (SECTOR * (1 + slot)) as usize;
    let bytes = head.get(start..start + SEAL)?;
    let mut rest = bytes;
    let seals = u64::from_le_bytes(take(&mut rest)?);
    let sealed = u64::from_le_bytes(take(&mut rest)?);
    let sum = u32::from_le_bytes(take(&mut rest)?);
    (sum == checksum(number, &bytes[..16])).then_some((seals, sealed))
}
