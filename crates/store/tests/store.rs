//! The thread-safe store: threads, tasks and queues.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::task::Context;
use std::task::Poll;
use std::task::Wake;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use settled_store::At;
use settled_store::Backend;
use settled_store::BackendError;
use settled_store::Batch;
use settled_store::Event;
use settled_store::Limits;
use settled_store::Loaded;
use settled_store::Options;
use settled_store::ReplayError;
use settled_store::Revision;
use settled_store::Scope;
use settled_store::Store;
use settled_store::WatchError;
use settled_store::Write;
use settled_store::WriteError;

use crate::key;
use crate::resource;
use crate::show;

/// Stores a batch only when told to, and says how large it was.
struct Gated {
    gate: mpsc::Receiver<()>,
    sizes: mpsc::Sender<usize>,
}

impl Backend for Gated {
    fn load(&mut self, _: &mut dyn FnMut(Loaded) -> Result<(), ReplayError>) -> Result<(), BackendError> {
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), BackendError> {
        self.sizes.send(batch.records.len()).unwrap();
        self.gate.recv().unwrap();
        Ok(())
    }

    fn recover(&mut self) -> Result<Revision, BackendError> {
        Ok(Revision(0))
    }
}

fn gated(options: Options) -> (Store, mpsc::Sender<()>, mpsc::Receiver<usize>) {
    let ((open, gate), (sizes, seen)) = (mpsc::channel(), mpsc::channel());
    (Store::open(Box::new(Gated { gate, sizes }), options).unwrap(), open, seen)
}

fn quiet() -> Options {
    let mut options = Options::default();
    options.tick = Duration::from_secs(3600);
    options
}

#[test]
fn writes_that_wait_are_stored_at_once() {
    let (store, gate, sizes) = gated(quiet());
    let first = store.write(Write::put(key("first"), *b"1"));
    assert_eq!(sizes.recv(), Ok(1));
    let others: Vec<_> = (0..20).map(|i| store.write(Write::put(key("a"), vec![i]))).collect();
    assert_eq!(store.current_revision(), Revision(0), "nothing is visible before it is stored");
    gate.send(()).unwrap();
    assert_eq!(first.wait().unwrap().revision(), Revision(1));
    assert_eq!(sizes.recv(), Ok(20));
    gate.send(()).unwrap();
    for (pending, revision) in others.into_iter().zip(2..) {
        assert_eq!(pending.wait().unwrap().revision(), Revision(revision));
    }
    assert_eq!(store.queue_stats().batches, 2);
}

#[test]
fn queues_are_bounded() {
    let mut options = quiet();
    options.waiting_writes = 3;
    options.waiting_bytes = 1000;
    let (store, gate, sizes) = gated(options);
    let put = |size: usize| store.write(Write::put(key("a"), vec![0; size]));
    let first = put(1);
    sizes.recv().unwrap();
    let waiting = [put(1), put(1), put(1)];
    assert!(matches!(put(1).wait(), Err(WriteError::Busy { waiting: 3 })));
    gate.send(()).unwrap();
    first.wait().unwrap();
    sizes.recv().unwrap();
    let large = put(2000);
    assert!(matches!(put(1).wait(), Err(WriteError::Busy { waiting: 1 })), "too many bytes");
    assert_eq!(store.queue_stats().busy, 2);
    gate.send(()).unwrap();
    gate.send(()).unwrap();
    assert!(waiting.into_iter().chain([large]).all(|pending| pending.wait().is_ok()));
}

#[test]
fn revisions_are_waited_for() {
    let (store, gate, sizes) = gated(quiet());
    assert_eq!(store.wait_for(Revision(0)).wait(), Ok(Revision(0)));
    let reached = store.wait_for(Revision(2));
    let never = store.wait_for(Revision(100));
    for _ in 0..2 {
        let written = store.write(Write::put(key("a"), *b"1"));
        sizes.recv().unwrap();
        gate.send(()).unwrap();
        written.wait().unwrap();
    }
    assert_eq!(reached.wait(), Ok(Revision(2)));
    let never = never.wait_timeout(Duration::ZERO).unwrap_err();
    store.close();
    assert_eq!(never.wait(), Err(WatchError::Stopped));
    assert_eq!(store.wait_for(Revision(100)).wait(), Err(WatchError::Stopped));
}

#[test]
fn closing_writes_what_waits_and_ends_watches_after_their_events() {
    let store = Store::memory(quiet());
    let mut watch = store.watch(&resource(), &Scope::All, None).unwrap();
    let pending: Vec<_> = (0..100).map(|i| store.write(Write::put(key("a"), vec![i]))).collect();
    store.close();
    assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
    for revision in 1..=100 {
        assert_eq!(watch.blocking_recv().unwrap().revision(), Revision(revision));
    }
    assert_eq!(watch.blocking_recv().unwrap_err(), WatchError::Stopped);
    assert!(matches!(store.write(Write::put(key("a"), *b"1")).wait(), Err(WriteError::Stopped)));
    assert!(matches!(store.shrink().wait(), Err(WriteError::Stopped)));
    assert_eq!(store.watch(&resource(), &Scope::All, None).unwrap_err(), WatchError::Stopped);
    assert!(store.get(&key("a")).is_some(), "reads go on");
}

/// Wakes a thread: the smallest of all runtimes.
struct Thread(thread::Thread);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Thread(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn tasks_can_await_everything() {
    let store = Store::memory(quiet());
    let (snapshot, mut watch) = store.snapshot_and_watch(&resource(), &Scope::All).unwrap();
    assert!(snapshot.is_empty());
    let watcher = thread::spawn(move || {
        block_on(async {
            let mut seen = Vec::new();
            while let Ok(event) = watch.recv().await {
                seen.push(show(&event));
            }
            seen
        })
    });
    let events = block_on(async {
        let first = store.write(Write::create(key("a"), *b"1")).await.unwrap();
        let second = store.write(Write::update(key("a"), first.revision(), *b"2")).await.unwrap();
        assert_eq!(store.wait_for(second.revision()).await, Ok(second.revision()));
        [show(&first), show(&second)]
    });
    store.close();
    assert_eq!(watcher.join().unwrap(), events);
}

type State = BTreeMap<String, (Revision, Vec<u8>)>;

fn apply(state: &mut State, event: &Event) {
    let path = event.key().path().to_owned();
    match event.entry() {
        Some(entry) => state.insert(path, (entry.mod_revision(), entry.value().to_vec())),
        None => state.remove(&path),
    };
}

fn state_at(store: &Store, at: At) -> (Revision, State) {
    let snapshot = store.snapshot(&resource(), at).unwrap();
    let state = snapshot
        .iter(&Scope::All)
        .map(|e| (e.key().path().to_owned(), (e.mod_revision(), e.value().to_vec())))
        .collect();
    (snapshot.revision(), state)
}

/// Writers count objects up by compare-and-swap, so that a lost update would be seen; watchers begin anywhere, and
/// what they rebuild is what a list gives.
#[test]
fn many_writers_and_watchers() {
    const WRITERS: usize = 32;
    const WATCHERS: usize = 24;
    const WRITES: usize = 60;
    let mut options = Options::default();
    options.limits = Limits::default();
    options.limits.watch_events = WRITERS * WRITES * 4;
    let store = Store::memory(options);
    let done = AtomicBool::new(false);
    let last = AtomicU64::new(0);
    let revisions = Mutex::new(Vec::new());
    let sequences = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, revisions) = (&store, &revisions);
                scope.spawn(move || {
                    let key = key(&format!("n{}/counter", writer % 4));
                    let mut mine = Vec::new();
                    while mine.len() < WRITES {
                        let write = match store.get(&key) {
                            None => Write::create(key.clone(), 1_u64.to_le_bytes()),
                            Some(entry) => {
                                let count = u64::from_le_bytes(entry.value()[..].try_into().unwrap()) + 1;
                                Write::update(key.clone(), entry.mod_revision(), count.to_le_bytes())
                            }
                        };
                        match store.write(write).wait() {
                            Ok(event) => {
                                mine.push(event.revision());
                                assert!(store.current_revision() >= event.revision(), "read your writes");
                                let entry = store.get(&key).unwrap();
                                assert!(entry.mod_revision() >= event.revision());
                            }
                            Err(WriteError::Conflict { current }) => assert!(current.is_some()),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    assert!(mine.is_sorted());
                    revisions.lock().unwrap().extend(mine);
                })
            })
            .collect();
        for watcher in 0..WATCHERS {
            let (store, done, last, sequences) = (&store, &done, &last, &sequences);
            scope.spawn(move || {
                let (mut state, mut watch, from) = match watcher % 3 {
                    0 => {
                        let (snapshot, watch) = store.snapshot_and_watch(&resource(), &Scope::All).unwrap();
                        let (_, state) = state_at(store, At::Exactly(snapshot.revision()));
                        (state, watch, snapshot.revision())
                    }
                    1 => {
                        let watch = store.watch(&resource(), &Scope::All, Some(Revision(0))).unwrap();
                        (State::new(), watch, Revision(0))
                    }
                    _ => {
                        let reached = store.wait_for(Revision(watcher as u64 * 20)).wait().unwrap();
                        let (revision, state) = state_at(store, At::AtLeast(reached));
                        let watch = store.watch(&resource(), &Scope::All, Some(revision)).unwrap();
                        (state, watch, revision)
                    }
                };
                let mut seen = Vec::new();
                let mut reached = from;
                while !done.load(Ordering::Acquire) || reached.0 < last.load(Ordering::Acquire) {
                    let Some(event) = watch.try_recv().unwrap() else {
                        thread::yield_now();
                        continue;
                    };
                    assert!(event.revision() > reached, "{event:?} after {reached}");
                    reached = event.revision();
                    seen.push(reached);
                    apply(&mut state, &event);
                    if seen.len() % 100 == 0 {
                        assert_eq!(state_at(store, At::Exactly(reached)).1, state);
                    }
                }
                assert_eq!(state_at(store, At::Latest), (reached, state));
                assert_eq!(watch.progress(), Some(reached));
                sequences.lock().unwrap().push((from, seen));
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        last.store(store.current_revision().0, Ordering::Release);
        done.store(true, Ordering::Release);
    });
    let mut revisions = revisions.into_inner().unwrap();
    revisions.sort_unstable();
    let all: Vec<_> = (1..=(WRITERS * WRITES) as u64).map(Revision).collect();
    assert_eq!(revisions, all, "every revision was given out once");
    for (from, seen) in sequences.into_inner().unwrap() {
        assert_eq!(seen, all[from.0 as usize..]);
    }
    let total: u64 = state_at(&store, At::Latest)
        .1
        .values()
        .map(|(_, value)| u64::from_le_bytes(value[..].try_into().unwrap()))
        .sum();
    assert_eq!(total, (WRITERS * WRITES) as u64, "no update was lost");
    let stats = store.stats();
    assert_eq!((stats.written, stats.watchers_closed), ((WRITERS * WRITES) as u64, 0));
}
