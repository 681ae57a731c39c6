//! Log frames: encoding and decoding of batches.
//!
//! ```text
//! frame    size, checksum of the body, checksum of these two and of the offset; the body, padded to 8 bytes
//! body     state, how many records are discarded and written, the revisions of the former, the latter
//! record   revision, size, what `record` makes of it
//! ```

use std::io;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Seek as _;
use std::io::SeekFrom;

use crate::backend::Mark;
use crate::error::ReplayError;
use crate::file::Reader;
use crate::file::SharedFile;
use crate::key::Revision;
use crate::record::checksum;
use crate::record::take;

/// Offset of the first frame: one page, so that the head has its own page.
pub(crate) const FIRST_FRAME_OFFSET: u64 = 4096;
/// Size of a frame header.
pub(crate) const FRAME: usize = 8 + 4 + 4;
const BODY: usize = 4 * 8 + 4 + 4;
/// Overhead of a record besides its bytes.
pub(crate) const RECORD_HEADER_SIZE: usize = 8 + 4;

/// Reason why a log cannot be read.
#[derive(Debug)]
pub(crate) enum Failure {
    Io(io::Error),
    Damaged(Damage),
    /// It has this format.
    Format(u32),
}

/// Damage of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Damage {
    /// Offset of the damage, if known.
    pub(crate) offset: Option<u64>,
    pub(crate) what: String,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Self::content(error.to_string())
    }
}

impl Failure {
    /// Damage without an offset.
    pub(crate) fn content(what: impl Into<String>) -> Self {
        Self::Damaged(Damage { offset: None, what: what.into() })
    }
}

pub(crate) fn damaged<T>(offset: u64, what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Damaged(Damage { offset: Some(offset), what: what.into() }))
}

/// Checkpoint stored with every frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) mark: Mark,
    /// Upper bound of revisions that were assigned without being stored; 0 if there are none.
    pub(crate) reserved: u64,
}

/// A frame to write.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) state: State,
    pub(crate) discards: Vec<u64>,
    count: u32,
    records: Vec<u8>,
}

impl Frame {
    /// Clears it, but keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.state = State::default();
        self.discards.clear();
        self.count = 0;
        self.records.clear();
    }

    pub(crate) fn push(&mut self, revision: Revision, record: &[u8]) {
        self.records.extend(revision.0.to_le_bytes());
        // Values are much smaller than this.
        self.records.extend((record.len() as u32).to_le_bytes());
        self.records.extend(record);
        self.count += 1;
    }

    /// Approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        FRAME + BODY + self.discards.len() * 8 + self.records.len()
    }

    pub(crate) fn encode(&self, number: u64, place: u64, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend([0; FRAME]);
        let State { mark, reserved } = self.state;
        for number in [mark.last.0, mark.compact.0, mark.objects, reserved] {
            bytes.extend(number.to_le_bytes());
        }
        // Batches are much smaller than this.
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

/// A decoded frame.
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

    /// Revisions of discarded records.
    pub(crate) fn discards(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.discards.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The records with their revisions. A truncated one is damage.
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
            row.ok_or_else(|| Failure::content("a record is cut off"))
        })
    }
}

/// Reads the frames of a file from the first one.
#[derive(Debug)]
pub(crate) struct Frames {
    file: BufReader<Reader>,
    number: u64,
    place: u64,
    length: u64,
    body: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(file: SharedFile, number: u64, length: u64) -> Self {
        let file = BufReader::with_capacity(256 << 10, Reader::new(file, FIRST_FRAME_OFFSET));
        Self { file, number, place: FIRST_FRAME_OFFSET, length, body: Vec::new() }
    }

    /// Offset of the next frame.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// Notes that the file has grown.
    pub(crate) fn extend(&mut self, length: u64) -> io::Result<()> {
        self.length = length;
        // The buffer may be older than the written data.
        self.file.seek(SeekFrom::Start(self.place)).map(drop)
    }

    /// The next frame, or `None` if it is incomplete or invalid, which ends the log.
    pub(crate) fn next(&mut self) -> Result<Option<Body<'_>>, Failure> {
        let left = self.length.saturating_sub(self.place);
        let mut head = [0; FRAME];
        if left < FRAME as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut head)?;
        let Some((size, sum)) = frame_head(&head, self.number, self.place) else { return Ok(None) };
        if size > left - FRAME as u64 {
            return Ok(None);
        }
        // It is smaller than the file.
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
            None => damaged(self.place, "a frame is too short"),
        }
    }
}

/// Size and checksum of the body, if the header is valid for this offset.
pub(crate) fn frame_head(head: &[u8; FRAME], number: u64, place: u64) -> Option<(u64, u32)> {
    let mut rest = &head[..];
    let size = u64::from_le_bytes(take(&mut rest)?);
    let body = u32::from_le_bytes(take(&mut rest)?);
    let sum = u32::from_le_bytes(take(&mut rest)?);
    (size > 0 && sum == checksum(number.wrapping_add(place), &head[..12])).then_some((size, body))
}
