//! End of the log: classifies what follows the last valid frame as empty, torn or damaged.
//!
//! Frames are written into zero-filled space, and disks write whole sectors. So an interrupted write lacks sectors, as
//! in etcd's `isTornEntry`, or everything from some byte on: the rest is zero. A frame that has all of its sectors and
//! does not match its checksum was changed later.

use std::io;

use crate::file::SharedFile;
use crate::frame::Damage;
use crate::frame::FRAME;
use crate::frame::frame_head;

/// Sector size: the unit that disks write atomically.
pub(crate) const SECTOR: u64 = 512;
/// Read buffer size.
const CHUNK: usize = 16 << 10;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// State of the log after the last valid frame.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Tail {
    /// Preallocated zeros.
    Empty,
    /// An incomplete write of this size.
    Torn(u64),
    Damaged(Damage),
}

/// Classifies a file from the end of its last valid frame.
pub(crate) fn inspect(file: &SharedFile, number: u64, end: u64, length: u64) -> io::Result<Tail> {
    let (used, later) = scan(file, number, end, length)?;
    let damaged = |offset: u64, what: String| Ok(Tail::Damaged(Damage { offset: Some(offset), what }));
    if let Some(later) = later {
        let what = format!("data at byte {end} does not match its checksum, but later writes are at {later}");
        return damaged(end, what);
    }
    if used == end {
        return Ok(Tail::Empty);
    }
    let torn = Ok(Tail::Torn(used - end));
    let mut head = [0; FRAME];
    read(file, end, length, &mut head)?;
    let Some((size, _)) = frame_head(&head, number, end) else {
        // The size is unknown. Either only the header was written, or one of its sectors is missing.
        let split = (SECTOR - end % SECTOR).min(FRAME as u64) as usize;
        let (first, second) = head.split_at(split);
        let lacks = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(|byte| *byte == 0);
        if used <= end + FRAME as u64 || lacks(first) || lacks(second) {
            return torn;
        }
        return damaged(
            end,
            format!("the head of the last write, at byte {end}, does not match its checksum"),
        );
    };
    let frame_end = end.saturating_add(FRAME as u64).saturating_add(size);
    if frame_end > length {
        return torn;
    }
    if used > frame_end {
        return damaged(frame_end, format!("unexpected data follows the last write, at byte {frame_end}"));
    }
    if used < frame_end || lacks_sector(file, end, frame_end)? {
        return torn;
    }
    let what = format!(
        "the last write, at byte {end}, does not match its checksum, and it is not torn: none of its sectors is missing"
    );
    damaged(end, what)
}

/// Start of the zeros at the end of the file, and start of another frame, if any.
fn scan(file: &SharedFile, number: u64, end: u64, length: u64) -> io::Result<(u64, Option<u64>)> {
    let mut used = end;
    let mut head = [0; FRAME];
    let mut chunk = vec![0; CHUNK];
    let mut offset = end;
    while offset < length {
        let size = (length - offset).min(CHUNK as u64) as usize;
        let Some(bytes) = chunk.get_mut(..size) else { break };
        read(file, offset, length, bytes)?;
        if ZEROS.starts_with(bytes) {
            head = [0; FRAME];
            offset += size as u64;
            continue;
        }
        for (word, bytes) in (offset..).step_by(8).zip(bytes.chunks(8)) {
            head.copy_within(8.., 0);
            head[8..].fill(0);
            head[8..8 + bytes.len()].copy_from_slice(bytes);
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                used = word + last as u64 + 1;
            }
            // The header that ends here. The first one is that of the torn frame.
            if word > end + 8 && frame_head(&head, number, word - 8).is_some() {
                return Ok((used, Some(word - 8)));
            }
        }
        offset += size as u64;
    }
    Ok((used, None))
}

/// Whether a sector of the frame has only zeros.
fn lacks_sector(file: &SharedFile, start: u64, end: u64) -> io::Result<bool> {
    let mut sector = [0; SECTOR as usize];
    let mut offset = start;
    while offset < end {
        let size = (SECTOR - offset % SECTOR).min(end - offset);
        let bytes = &mut sector[..size as usize];
        read(file, offset, end, bytes)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        offset += size;
    }
    Ok(false)
}

/// Reads bytes; zeros beyond the end of the file.
fn read(file: &SharedFile, offset: u64, length: u64, bytes: &mut [u8]) -> io::Result<()> {
    let wanted = bytes.len().min(usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX));
    let (wanted, beyond) = bytes.split_at_mut(wanted);
    beyond.fill(0);
    let mut done = 0;
    while let Some(rest) = wanted.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset + done as u64, rest)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            size => done += size,
        }
    }
    Ok(())
}
