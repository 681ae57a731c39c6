//! The log of the crate, redb and fjall beside each other. From this directory:
//! `cargo run --release -- [DIRECTORY] [ROUNDS]`.
//!
//! The two others do only what is measured: no recovery, no checks of what is read.

#[path = "../../examples/bench/measure.rs"]
mod measure;

use std::path::Path;
use std::path::PathBuf;

use fjall::KeyspaceCreateOptions;
use fjall::PersistMode;
use redb::Database;
use redb::ReadableDatabase as _;
use redb::ReadableTable as _;
use redb::TableDefinition;
use settled_store::Backend;
use settled_store::BackendError;
use settled_store::Batch;
use settled_store::Disk;
use settled_store::Durability;
use settled_store::Key;
use settled_store::Loaded;
use settled_store::Mark;
use settled_store::Record;
use settled_store::ReplayError;
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

type Visit<'a> = &'a mut dyn FnMut(Loaded) -> Result<(), ReplayError>;

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

const RECORDS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("records");
const STATE: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("state");

struct Redb(Database);

fn redb(path: &Path) -> Box<dyn Backend> {
    std::fs::create_dir_all(path).unwrap();
    let database = Database::builder().set_cache_size(4 << 20).create(path.join("redb")).unwrap();
    let write = database.begin_write().unwrap();
    drop((write.open_table(RECORDS).unwrap(), write.open_table(STATE).unwrap()));
    write.commit().unwrap();
    Box::new(Redb(database))
}

impl Backend for Redb {
    fn load(&mut self, visit: Visit<'_>) -> Result<(), BackendError> {
        let read = self.0.begin_read().unwrap();
        for row in read.open_table(RECORDS).unwrap().iter().unwrap() {
            let (revision, value) = row.unwrap();
            visit(Loaded::Record(decode(revision.value(), value.value()))).unwrap();
        }
        if let Some(mark) = read.open_table(STATE).unwrap().get(0).unwrap() {
            visit(Loaded::Mark(decode_mark(mark.value()))).unwrap();
        }
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), BackendError> {
        let write = self.0.begin_write().unwrap();
        {
            let mut records = write.open_table(RECORDS).unwrap();
            for record in &batch.records {
                records.insert(record.revision.0, &*encode(record)).unwrap();
            }
            for revision in &batch.discard {
                records.remove(revision.0).unwrap();
            }
        }
        write.open_table(STATE).unwrap().insert(0, &*encode_mark(&batch.mark)).unwrap();
        write.commit().unwrap();
        Ok(())
    }

    fn recover(&mut self) -> Result<Revision, BackendError> {
        unimplemented!()
    }
}

fn log(path: &Path) -> Box<dyn Backend> {
    Box::new(Disk::open(path, Durability::Synced).unwrap())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let root = directory.join(format!("settled-store-engines-{}", std::process::id()));
    let backends: [(&str, measure::Open); 3] = [("log", log), ("redb", redb), ("fjall", fjall)];
    println!("{}", measure::run(&backends, &root, rounds));
    let _ = std::fs::remove_dir_all(root).is_ok();
}
