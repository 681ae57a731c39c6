//! Random operations compared with a complete model.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use settled_store::At;
use settled_store::Event;
use settled_store::Expect;
use settled_store::Limits;
use settled_store::Mvcc;
use settled_store::Record;
use settled_store::Revision;
use settled_store::Scope;
use settled_store::Watch;
use settled_store::Write;

use crate::key;
use crate::resource;

type State = BTreeMap<String, (u64, Vec<u8>)>;

const PATHS: [&str; 6] = ["a/x", "a/y", "a-b/x", "b/x", "b/y", "n"];

#[derive(Clone, Debug)]
enum Operation {
    /// A batch: which object, which expectation, which value.
    Write(Vec<(usize, u8, Option<u8>)>),
    /// A batch that cannot be stored.
    Fail(usize),
    Compact(u8),
    Watch(usize, u8),
    SnapshotAndWatch(usize),
    Receive(usize, u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let write = (0..PATHS.len(), 0u8..6, prop::option::weighted(0.7, any::<u8>()));
    prop_oneof![
        8 => prop::collection::vec(write, 1..6).prop_map(Operation::Write),
        1 => (0..PATHS.len()).prop_map(Operation::Fail),
        1 => any::<u8>().prop_map(Operation::Compact),
        3 => (0usize..8, any::<u8>()).prop_map(|(scope, back)| Operation::Watch(scope, back)),
        1 => (0usize..8).prop_map(Operation::SnapshotAndWatch),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(watch, count)| Operation::Receive(watch, count)),
    ]
}

fn scope(index: usize) -> Scope {
    match index {
        0 => Scope::Namespace("a".to_owned()),
        1 => Scope::Namespace("b".to_owned()),
        2 => Scope::Object { namespace: "a".to_owned(), name: "x".to_owned() },
        3 => Scope::Object { namespace: String::new(), name: "n".to_owned() },
        _ => Scope::All,
    }
}

struct Watcher {
    scope: Scope,
    watch: Watch,
    state: State,
    seen: Vec<u64>,
}

impl Watcher {
    fn receive(&mut self, count: usize) {
        for _ in 0..count {
            let Some(event) = self.watch.try_recv().unwrap() else { return };
            apply(&mut self.state, &event);
            self.seen.push(event.revision().0);
        }
    }
}

/// Changes a state as an event says, and checks that the state was as the event says.
fn apply(state: &mut State, event: &Event) {
    let path = event.key().path().to_owned();
    let before = match event.entry() {
        Some(entry) => {
            assert_eq!(entry.mod_revision(), event.revision());
            state.insert(path, (entry.mod_revision().0, entry.value().to_vec()))
        }
        None => state.remove(&path),
    };
    assert_eq!(before, event.previous().map(|e| (e.mod_revision().0, e.value().to_vec())), "{event:?}");
}

fn filter(state: &State, scope: &Scope) -> State {
    state.iter().filter(|(path, _)| scope.holds(&key(path))).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn listed<'a>(entries: impl Iterator<Item = &'a Arc<settled_store::Entry>>) -> State {
    entries.map(|e| (e.key().path().to_owned(), (e.mod_revision().0, e.value().to_vec()))).collect()
}

#[derive(Default)]
struct Model {
    /// The state at every revision.
    states: Vec<State>,
    /// The path that each revision changed, or nothing if it was never written.
    changed: Vec<Option<&'static str>>,
    current: u64,
    records: Vec<Record>,
    discarded: Vec<Revision>,
}

impl Model {
    fn at(&self, revision: u64) -> &State {
        &self.states[revision as usize]
    }

    fn write(&mut self, store: &mut Mvcc, writes: &[(usize, u8, Option<u8>)], stored: bool) {
        let mut batch = Vec::new();
        let mut model = self.states.last().unwrap().clone();
        let first = self.states.len();
        let mut outcomes = Vec::new();
        for (path, expect, value) in writes {
            let path = PATHS[*path];
            let current = model.get(path).map(|(revision, _)| *revision);
            let expect = match expect {
                0 => Expect::Absent,
                1 => Expect::Revision(Revision(current.unwrap_or(0))),
                2 => Expect::Revision(Revision(current.map_or(1, |revision| revision - 1))),
                _ => Expect::Any,
            };
            let write = match value {
                Some(value) => Write::put(key(path), vec![*value]).expecting(expect),
                None => Write::delete(key(path), expect),
            };
            batch.push(write);
            let expected = match expect {
                Expect::Any => value.is_some() || current.is_some(),
                Expect::Absent => current.is_none() && value.is_some(),
                Expect::Revision(revision) => current == Some(revision.0),
            };
            if !expected {
                outcomes.push(Err(current));
                continue;
            }
            let revision = self.states.len() as u64;
            match value {
                Some(value) => drop(model.insert(path.to_owned(), (revision, vec![*value]))),
                None => drop(model.remove(path)),
            }
            outcomes.push(Ok(revision));
            self.states.push(model.clone());
            self.changed.push(Some(path));
        }
        let prepared = store.prepare(batch, 0);
        if stored {
            let stored = prepared.batch();
            self.records.extend(stored.records);
            self.discarded.extend(stored.discard);
            let applied = store.apply(prepared);
            let got: Vec<_> = applied
                .outcomes
                .into_iter()
                .map(|outcome| match outcome {
                    Ok(event) => Ok(event.revision().0),
                    Err(settled_store::WriteError::Conflict { current }) => {
                        Err(current.map(|e| e.mod_revision().0))
                    }
                    Err(other) => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(got, outcomes);
            if outcomes.iter().any(Result::is_ok) {
                self.current = self.states.len() as u64 - 1;
            }
        } else {
            store.abandon(prepared);
            // The revisions are used up, and nothing happened.
            let before = self.states[first - 1].clone();
            for revision in first..self.states.len() {
                self.states[revision] = before.clone();
                self.changed[revision] = None;
            }
        }
    }

    fn check(&self, store: &Mvcc) {
        let (compact, current) = (store.compact_revision().0, store.current_revision().0);
        assert_eq!(current, self.current);
        for revision in 0..=current + 1 {
            let snapshot = store.snapshot(&resource(), At::Exactly(Revision(revision)));
            assert_eq!(snapshot.is_ok(), (compact..=current).contains(&revision));
            let Ok(snapshot) = snapshot else { continue };
            for index in 0..5 {
                let scope = scope(index);
                let expected = filter(self.at(revision), &scope);
                assert_eq!(listed(snapshot.iter(&scope)), expected, "{scope:?} at {revision}");
                assert_eq!(snapshot.len(&scope), expected.len());
                for limit in 1..4 {
                    let (mut start, mut all) = (String::new(), Vec::new());
                    loop {
                        let page = snapshot.page(&scope, &start, limit);
                        all.extend(page.entries);
                        assert_eq!(page.remaining, expected.len() - all.len());
                        let Some(next) = page.next else { break };
                        start = next;
                    }
                    assert_eq!(listed(all.iter()), expected);
                    assert!(all.is_sorted_by(|a, b| a.key() < b.key()));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn lists_and_watches_are_those_of_the_model(
        operations in prop::collection::vec(operation(), 1..60),
        history in prop_oneof![Just(10_000usize), 1usize..20],
    ) {
        let mut limits = Limits::default();
        (limits.history_events, limits.watch_events) = (history, 10_000);
        let mut store = Mvcc::new(limits.clone());
        let mut model = Model { states: vec![State::new()], changed: vec![None], ..Model::default() };
        let mut watchers: Vec<Watcher> = Vec::new();
        for operation in &operations {
            match operation {
                Operation::Write(writes) => model.write(&mut store, writes, true),
                Operation::Fail(path) => model.write(&mut store, &[(*path, 5, Some(1))], false),
                Operation::Compact(back) => {
                    store.compact(Revision(model.current.saturating_sub(u64::from(*back))));
                }
                Operation::Watch(index, back) => {
                    let revision = model.current.saturating_sub(u64::from(*back) % 32);
                    let watch = store.watch(&resource(), &scope(*index), Some(Revision(revision)));
                    prop_assert_eq!(watch.is_ok(), revision >= store.compact_revision().0);
                    if let Ok(watch) = watch {
                        let (scope, seen) = (scope(*index), Vec::new());
                        let state = filter(model.at(revision), &scope);
                        watchers.push(Watcher { scope, watch, state, seen });
                    }
                }
                Operation::SnapshotAndWatch(index) => {
                    let scope = scope(*index);
                    let (snapshot, watch) = store.snapshot_and_watch(&resource(), &scope).unwrap();
                    let state = listed(snapshot.iter(&scope));
                    watchers.push(Watcher { scope, watch, state, seen: Vec::new() });
                }
                Operation::Receive(watcher, count) => {
                    let index = watcher % watchers.len().max(1);
                    if let Some(watcher) = watchers.get_mut(index) {
                        watcher.receive(usize::from(*count) % 8);
                        // Whatever was received: the state is that of the last revision received.
                        let revision = watcher.seen.last().copied().unwrap_or_else(|| watcher.watch.from().0);
                        prop_assert_eq!(&watcher.state, &filter(model.at(revision), &watcher.scope));
                    }
                }
            }
        }
        model.check(&store);
        let now = store.current_revision();
        // From every revision that can still be watched from.
        for revision in store.compact_revision().0..=now.0 {
            for index in 0..5 {
                let scope = scope(index);
                let watch = store.watch(&resource(), &scope, Some(Revision(revision))).unwrap();
                let state = filter(model.at(revision), &scope);
                watchers.push(Watcher { scope, watch, state, seen: Vec::new() });
            }
        }
        for watcher in &mut watchers {
            watcher.receive(usize::MAX);
            prop_assert_eq!(watcher.watch.progress(), Some(now));
            prop_assert_eq!(&watcher.state, &filter(model.at(now.0), &watcher.scope));
            let expected: Vec<u64> = (watcher.watch.from().0 + 1..=now.0)
                .filter(|r| model.changed[*r as usize].is_some_and(|path| watcher.scope.holds(&key(path))))
                .collect();
            prop_assert_eq!(&watcher.seen, &expected, "every event once, in order");
        }

        // Opened again, all of it is as it was.
        let mark = store.prepare([], 0).batch().mark;
        let mut again = Mvcc::new(limits);
        for record in model.records.iter().filter(|record| !model.discarded.contains(&record.revision)) {
            again.replay(record.clone()).unwrap();
        }
        again.replayed(mark).unwrap();
        prop_assert_eq!(again.compact_revision(), store.compact_revision());
        model.check(&again);
        let (a, b) = (again.stats(), store.stats());
        prop_assert_eq!((a.objects, a.live_bytes, a.history_bytes), (b.objects, b.live_bytes, b.history_bytes));
    }
}
