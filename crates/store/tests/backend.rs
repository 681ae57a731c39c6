//! Failing backends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use settled_store::At;
use settled_store::Backend;
use settled_store::BackendError;
use settled_store::Batch;
use settled_store::Loaded;
use settled_store::Mark;
use settled_store::Options;
use settled_store::Record;
use settled_store::ReplayError;
use settled_store::Revision;
use settled_store::Scope;
use settled_store::Store;
use settled_store::Write;
use settled_store::WriteError;

use crate::key;
use crate::resource;
use crate::show;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It works.
    No,
    /// The batch is not stored.
    Lost,
    /// The batch is stored, but that is not known.
    Kept,
    /// As `Lost` and `Kept`, and recovering fails for so many times.
    LostFor(usize),
    KeptFor(usize),
}

#[derive(Default)]
struct Media {
    records: Vec<Record>,
    mark: Mark,
    faults: VecDeque<Fault>,
    broken: usize,
}

#[derive(Clone, Default)]
struct Faulty(Arc<Mutex<Media>>);

fn no_space() -> BackendError {
    BackendError::NoSpace { path: "disk".into(), source: std::io::ErrorKind::StorageFull.into() }
}

impl Backend for Faulty {
    fn load(&mut self, visit: &mut dyn FnMut(Loaded) -> Result<(), ReplayError>) -> Result<(), BackendError> {
        let media = self.0.lock().unwrap();
        for record in &media.records {
            visit(Loaded::Record(record.clone())).unwrap();
        }
        visit(Loaded::Mark(media.mark)).unwrap();
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), BackendError> {
        let mut media = self.0.lock().unwrap();
        assert_eq!(media.broken, 0, "a broken backend is not written to");
        let fault = media.faults.pop_front().unwrap_or(Fault::No);
        if matches!(fault, Fault::No | Fault::Kept | Fault::KeptFor(_)) {
            media.records.extend(batch.records.iter().cloned());
            media.records.retain(|record| !batch.discard.contains(&record.revision));
            media.mark = batch.mark;
        }
        match fault {
            Fault::No => return Ok(()),
            Fault::LostFor(times) | Fault::KeptFor(times) => media.broken = times,
            Fault::Lost | Fault::Kept => {}
        }
        Err(no_space())
    }

    fn recover(&mut self) -> Result<Revision, BackendError> {
        let mut media = self.0.lock().unwrap();
        match media.broken.checked_sub(1) {
            Some(left) => {
                media.broken = left;
                Err(no_space())
            }
            None => Ok(media.mark.last),
        }
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.tick = Duration::from_secs(3600);
    options
}

#[test]
fn what_fails_is_an_error_and_the_rest_goes_on() {
    use Fault::*;
    // The faults of one write after the other (each puts its own object), which are acknowledged, what exists at the
    // end. The ninth write follows when all is well.
    let rows: [(&[Fault], &str, &str); 7] = [
        (&[], "12345678", "123456789"),
        (&[No, Lost, No, Lost], "135678", "1356789"),
        (&[Kept], "2345678", "123456789"),
        (&[Lost, Kept, Lost], "45678", "2456789"),
        (&[No, LostFor(1)], "1345678", "13456789"),
        (&[No, LostFor(3)], "15678", "156789"),
        (&[No, KeptFor(3), Lost], "1678", "126789"),
    ];
    for (faults, acknowledged, exist) in rows {
        let media = Faulty::default();
        media.0.lock().unwrap().faults.extend(faults);
        let store = Store::open(Box::new(media.clone()), options()).unwrap();
        let mut watch = store.watch(&resource(), &Scope::All, None).unwrap();
        let mut got = String::new();
        for name in "12345678".chars() {
            match store.write(Write::create(key(&name.to_string()), *b"v")).wait() {
                Ok(_) => got.push(name),
                Err(WriteError::Backend(error)) => {
                    assert_eq!(
                        error.to_string(),
                        "the disk is full: disk: free some space; reads are still possible"
                    );
                }
                Err(other) => panic!("{other:?}"),
            }
            assert!(store.snapshot(&resource(), At::Latest).is_ok(), "reads go on");
        }
        assert_eq!(got, acknowledged, "{faults:?}");
        store.write(Write::create(key("9"), *b"v")).wait().unwrap();
        let names = |store: &Store| -> String {
            let snapshot = store.snapshot(&resource(), At::Latest).unwrap();
            snapshot.iter(&Scope::All).map(|entry| entry.key().name().to_owned()).collect()
        };
        assert_eq!(names(&store), exist, "{faults:?}");
        store.close();
        let events: Vec<_> =
            std::iter::from_fn(|| watch.try_recv().ok().flatten()).map(|event| show(&event)).collect();
        assert_eq!(events.len(), exist.len(), "{faults:?} {events:?}");
        // What watchers saw is what is stored.
        let again = Store::open(Box::new(media), options()).unwrap();
        assert_eq!(names(&again), exist, "{faults:?}");
        assert_eq!(again.current_revision(), store.current_revision());
        let mut watch = again.watch(&resource(), &Scope::All, Some(Revision(0))).unwrap();
        let stored: Vec<_> =
            std::iter::from_fn(|| watch.try_recv().ok().flatten()).map(|event| show(&event)).collect();
        assert_eq!(stored, events, "{faults:?}");
    }
}
