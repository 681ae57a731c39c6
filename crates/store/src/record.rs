//! Record encoding and checksums.

use std::sync::Arc;

use crate::backend::Record;
use crate::key::Key;
use crate::key::Resource;
use crate::key::Revision;

const PUT: u8 = 1;
const DELETED: u8 = 2;

/// Overhead of a record besides key and value.
pub(crate) const OVERHEAD: usize = 1 + 8 + 8 + 2 + 2;

/// Kind, creation revision, time, length of the resource, length of the path, both texts, value.
pub(crate) fn encode(record: &Record, bytes: &mut Vec<u8>) {
    bytes.clear();
    let (kind, value) = record.value.as_ref().map_or((DELETED, &[][..]), |value| (PUT, value));
    let (resource, path) = (record.key.resource().as_str(), record.key.path());
    bytes.push(kind);
    bytes.extend(record.create_revision.0.to_le_bytes());
    bytes.extend(record.time.to_le_bytes());
    // Keys are much shorter than this.
    bytes.extend((resource.len() as u16).to_le_bytes());
    bytes.extend((path.len() as u16).to_le_bytes());
    bytes.extend(resource.as_bytes());
    bytes.extend(path.as_bytes());
    bytes.extend(value);
}

/// `resource` is that of the previous record, whose text is shared if it is equal.
pub(crate) fn decode(
    revision: Revision,
    bytes: &[u8],
    resource: &mut Option<Resource>,
) -> Result<Record, String> {
    let damaged = |what: &str| format!("the record of revision {revision} {what}");
    let mut rest = bytes;
    let text = |bytes: &[u8]| -> Result<String, String> {
        String::from_utf8(bytes.to_vec()).map_err(|_| damaged("has a key that is not text"))
    };
    let short = || damaged("is too short");
    let [kind] = take(&mut rest).ok_or_else(short)?;
    let create_revision = Revision(u64::from_le_bytes(take(&mut rest).ok_or_else(short)?));
    let time = u64::from_le_bytes(take(&mut rest).ok_or_else(short)?);
    let resource_size = usize::from(u16::from_le_bytes(take(&mut rest).ok_or_else(short)?));
    let path_size = usize::from(u16::from_le_bytes(take(&mut rest).ok_or_else(short)?));
    let (name, rest) = rest.split_at_checked(resource_size).ok_or_else(short)?;
    let (path, value) = rest.split_at_checked(path_size).ok_or_else(short)?;
    let value: Option<Arc<[u8]>> = match kind {
        PUT => Some(value.into()),
        DELETED if value.is_empty() => None,
        _ => return Err(damaged("is of an unknown kind")),
    };
    let name = text(name)?;
    let resource = match resource {
        Some(known) if known.as_str() == name => known.clone(),
        other => {
            let new = Resource::new(&name).map_err(|e| damaged(&format!("has no key: {e}")))?;
            other.insert(new).clone()
        }
    };
    let key = Key::from_path(&resource, &text(path)?).map_err(|e| damaged(&format!("has no key: {e}")))?;
    Ok(Record { revision, create_revision, time, key, value })
}

/// Splits off the first bytes.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// CRC-32 (as in zlib) of the number followed by the bytes.
pub(crate) fn checksum(number: u64, bytes: &[u8]) -> u32 {
    let state = update(u32::MAX, &number.to_le_bytes());
    !update(state, bytes)
}

/// Eight bytes per step.
fn update(mut state: u32, bytes: &[u8]) -> u32 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(*chunk) ^ u64::from(state)).to_le_bytes();
        let at = |table: usize, byte: u8| TABLES[table][usize::from(byte)];
        state = at(7, a) ^ at(6, b) ^ at(5, c) ^ at(4, d) ^ at(3, e) ^ at(2, f) ^ at(1, g) ^ at(0, h);
    }
    for byte in rest {
        state = (state >> 8) ^ TABLES[0][usize::from(state as u8 ^ byte)];
    }
    state
}

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (0xedb8_8320 & (value & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn checksum_is_the_one_of_zlib() {
        for (bytes, sum) in
            [(&b""[..], 0), (b"123456789", 0xcbf4_3926), (b"a longer text, over 16", 0xde89_2c9e)]
        {
            assert_eq!(!update(u32::MAX, bytes), sum, "{bytes:?}");
        }
    }

    fn record(revision: u64, value: Option<&[u8]>) -> Record {
        let key = Key::new(&Resource::new("apps/deployments").unwrap(), "shop", "web").unwrap();
        let (revision, create_revision) = (Revision(revision), Revision(3));
        Record { revision, create_revision, time: 77, key, value: value.map(Into::into) }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(revision: u64, value: Option<Vec<u8>>) {
            let record = record(revision, value.as_deref());
            let mut bytes = vec![1, 2, 3];
            encode(&record, &mut bytes);
            prop_assert_eq!(decode(Revision(revision), &bytes, &mut None), Ok(record));
        }

        #[test]
        fn any_bytes_are_read_without_panic(revision: u64, mut bytes: Vec<u8>) {
            let _ = decode(Revision(revision), &bytes, &mut None).is_ok();
        }
    }
}
