//! redb, fjall and a plain log of checksummed frames beside each other. From this directory:
//! `cargo run --release -- [DIRECTORY] [ROUNDS]`.
//!
//! The two others do only what is measured: no recovery, no checks of what is read, no compaction of the log.

#[path = "../../examples/bench/measure.rs"]
mod measure;

use std::fs::File;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use fjall::KeyspaceCreateOptions;
use fjall::PersistMode;
use settled_store::Backend;
use settled_store::BackendError;
use settled_store::Batch;
use settled_store::Disk;
use settled_store::Durability;
use settled_store::Key;
use settled_store::Loaded;
use settled_store::Mark;
use settled_store::Record;
use settled_store::Resource;
use settled_store::Revision;

fn encode(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.push(u8::from(record.value.is_some()));
    bytes.extend(record.create_revision.0.to_le_bytes());
    bytes.extend(record.time.to_le_bytes());
    for text in [record.key.resource().as_str(), record.key.namespace(), record.key.name()] {
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes.extend(record.value.as_deref().unwrap_or_default());
    bytes
}

fn number(bytes: &mut &[u8]) -> u64 {
    let (first, rest) = bytes.split_first_chunk().unwrap();
    *bytes = rest;
    u64::from_le_bytes(*first)
}

fn decode(revision: u64, mut bytes: &[u8]) -> Record {
    let put = bytes[0] == 1;
    bytes = &bytes[1..];
    let (create, time) = (number(&mut bytes), number(&mut bytes));
    let mut text = || {
        let size = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let text = std::str::from_utf8(&bytes[2..2 + size]).unwrap();
        bytes = &bytes[2 + size..];
        text
    };
    let key = Key::new(&Resource::new(text()).unwrap(), text(), text()).unwrap();
    let value = put.then(|| bytes.into());
    Record { revision: Revision(revision), create_revision: Revision(create), time, key, value }
}

fn encode_mark(mark: &Mark) -> Vec<u8> {
    [mark.last.0, mark.compact.0, mark.objects].iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn decode_mark(mut bytes: &[u8]) -> Mark {
    let bytes = &mut bytes;
    Mark { last: Revision(number(bytes)), compact: Revision(number(bytes)), objects: number(bytes) }
}

type Visit<'a> = &'a mut dyn FnMut(Loaded) -> Result<(), String>;

struct Fjall {
    database: fjall::Database,
    log: fjall::Keyspace,
    state: fjall::Keyspace,
}

fn fjall(path: &Path) -> Box<dyn Backend> {
    std::fs::create_dir_all(path).unwrap();
    let database = fjall::Database::builder(path).open().unwrap();
    let log = database.keyspace("log", KeyspaceCreateOptions::default).unwrap();
    let state = database.keyspace("state", KeyspaceCreateOptions::default).unwrap();
    Box::new(Fjall { database, log, state })
}

impl Backend for Fjall {
    fn load(&mut self, visit: Visit<'_>) -> Result<(), BackendError> {
        for row in self.log.iter() {
            let (key, value) = row.into_inner().unwrap();
            let revision = u64::from_be_bytes(key[..].try_into().unwrap());
            visit(Loaded::Record(decode(revision, &value))).unwrap();
        }
        if let Some(mark) = self.state.get("mark").unwrap() {
            visit(Loaded::Mark(decode_mark(&mark))).unwrap();
        }
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), BackendError> {
        let mut write = self.database.batch().durability(Some(PersistMode::SyncData));
        for record in &batch.records {
            write.insert(&self.log, record.revision.0.to_be_bytes(), encode(record));
        }
        for revision in &batch.discard {
            write.remove(&self.log, revision.0.to_be_bytes());
        }
        write.insert(&self.state, "mark", encode_mark(&batch.mark));
        write.commit().unwrap();
        Ok(())
    }

    fn recover(&mut self) -> Result<Revision, BackendError> {
        unimplemented!()
    }
}

/// Frames of a length, a checksum and a batch. Nothing is ever taken out.
struct Log {
    path: PathBuf,
    file: File,
}

fn log(path: &Path) -> Box<dyn Backend> {
    std::fs::create_dir_all(path).unwrap();
    let path = path.join("log");
    let file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    Box::new(Log { path, file })
}

fn checksum(bytes: &[u8]) -> u64 {
    let fold = |sum: u64, bytes: [u8; 8]| {
        (sum.rotate_left(5) ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let (chunks, rest) = bytes.as_chunks::<8>();
    rest.iter().fold(chunks.iter().fold(1, |sum, chunk| fold(sum, *chunk)), |sum, byte| fold(sum, [*byte; 8]))
}

impl Backend for Log {
    fn load(&mut self, visit: Visit<'_>) -> Result<(), BackendError> {
        let mut bytes = Vec::new();
        File::open(&self.path).unwrap().read_to_end(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        let mut last = None;
        while !rest.is_empty() {
            let (size, sum) = (number(&mut rest) as usize, number(&mut rest));
            let (mut frame, after) = rest.split_at(size);
            rest = after;
            assert_eq!(checksum(frame), sum);
            last = Some(decode_mark(&frame[..24]));
            frame = &frame[24..];
            while !frame.is_empty() {
                let (revision, size) = (number(&mut frame), number(&mut frame) as usize);
                visit(Loaded::Record(decode(revision, &frame[..size]))).unwrap();
                frame = &frame[size..];
            }
        }
        if let Some(mark) = last {
            visit(Loaded::Mark(mark)).unwrap();
        }
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), BackendError> {
        let mut frame = encode_mark(&batch.mark);
        for record in &batch.records {
            let bytes = encode(record);
            frame.extend(record.revision.0.to_le_bytes());
            frame.extend((bytes.len() as u64).to_le_bytes());
            frame.extend(bytes);
        }
        let mut bytes = (frame.len() as u64).to_le_bytes().to_vec();
        bytes.extend(checksum(&frame).to_le_bytes());
        bytes.extend(frame);
        self.file.write_all(&bytes).unwrap();
        self.file.sync_data().unwrap();
        Ok(())
    }

    fn recover(&mut self) -> Result<Revision, BackendError> {
        unimplemented!()
    }
}

fn redb(path: &Path) -> Box<dyn Backend> {
    Box::new(Disk::open(path, Durability::Synced).unwrap())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let root = directory.join(format!("settled-store-engines-{}", std::process::id()));
    let backends: [(&str, measure::Open); 3] = [("redb", redb), ("fjall", fjall), ("plain log", log)];
    println!("{}", measure::run(&backends, &root, rounds));
    let _ = std::fs::remove_dir_all(root).is_ok();
}
