//! The MVCC store, without threads.

use std::sync::Arc;
use std::time::Duration;

use settled_store::At;
use settled_store::Expect;
use settled_store::Key;
use settled_store::KeyError;
use settled_store::Limits;
use settled_store::Mark;
use settled_store::Mvcc;
use settled_store::ReadError;
use settled_store::Record;
use settled_store::Resource;
use settled_store::Revision;
use settled_store::Scope;
use settled_store::WatchError;
use settled_store::Write;
use settled_store::WriteError;

use crate::drain;
use crate::key;
use crate::resource;

/// Writes in one batch, as text: `path=value`, `path-` deletes, `!` in front expects nothing there, `@N` revision N.
fn write(store: &mut Mvcc, now: u64, script: &str) -> Vec<Result<u64, String>> {
    let writes = script.split_whitespace().map(|word| {
        let (word, expect) = match word.split_once('@') {
            Some((word, revision)) => (word, Expect::Revision(Revision(revision.parse().unwrap()))),
            None if word.starts_with('!') => (&word[1..], Expect::Absent),
            None => (word, Expect::Any),
        };
        match word.split_once('=') {
            Some((path, value)) => Write::put(key(path), value.as_bytes()).expecting(expect),
            None => Write::delete(key(word.trim_end_matches('-')), expect),
        }
    });
    let prepared = store.prepare(writes.collect::<Vec<_>>(), now);
    let applied = store.apply(prepared);
    applied.outcomes.into_iter().map(|o| o.map(|e| e.revision().0).map_err(|e| e.to_string())).collect()
}

fn list(store: &Mvcc, at: At) -> Result<String, ReadError> {
    let snapshot = store.snapshot(&resource(), at)?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let entries = snapshot.iter(&Scope::All);
    Ok(entries.map(|e| format!("{}={}", e.key().path(), text(e.value()))).collect::<Vec<_>>().join(" "))
}

#[test]
fn writes_are_compared_and_swapped() {
    const ABSENT: &str = "the object is at no revision: it does not exist";
    // A batch, what becomes of it, and the list afterwards.
    type Outcomes = &'static [Result<u64, &'static str>];
    let rows: [(&str, Outcomes, &str); 9] = [
        ("!a=1 !a=2", &[Ok(1), Err("the object is at revision 1")], "a=1"),
        ("a=2@1 a=3@1 a=3@2", &[Ok(2), Err("the object is at revision 2"), Ok(3)], "a=3"),
        ("b-", &[Err(ABSENT)], "a=3"),
        ("b=1@3", &[Err(ABSENT)], "a=3"),
        ("a-@2", &[Err("the object is at revision 3")], "a=3"),
        ("a-@3 a- !a=4", &[Ok(4), Err(ABSENT), Ok(5)], "a=4"),
        ("x/b=1 x/a=2 x-y/a=3 x0/a=4", &[Ok(6), Ok(7), Ok(8), Ok(9)], "a=4 x-y/a=3 x/a=2 x/b=1 x0/a=4"),
        ("x/a- x/b- x-y/a- x0/a-", &[Ok(10), Ok(11), Ok(12), Ok(13)], "a=4"),
        ("c= c=1 c-", &[Ok(14), Ok(15), Ok(16)], "a=4"),
    ];
    let mut store = Mvcc::new(Limits::default());
    for (script, outcomes, after) in rows {
        let outcomes: Vec<_> = outcomes.iter().map(|o| o.map_err(str::to_owned)).collect();
        assert_eq!(write(&mut store, 0, script), outcomes, "{script}");
        assert_eq!(list(&store, At::Latest).unwrap(), after, "{script}");
    }
    let entry = store.get(&key("a")).unwrap();
    assert_eq!((entry.create_revision(), entry.mod_revision()), (Revision(5), Revision(5)));
}

#[test]
fn conflicts_carry_the_current_object() {
    let mut store = Mvcc::new(Limits::default());
    write(&mut store, 0, "a=1");
    let prepared = store.prepare([Write::create(key("a"), *b"2")], 0);
    match store.apply(prepared).outcomes.remove(0) {
        Err(WriteError::Conflict { current: Some(entry) }) => assert_eq!(&**entry.value(), b"1"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_visible_before_it_is_applied() {
    let mut store = Mvcc::new(Limits::default());
    let mut watch = store.watch(&resource(), &Scope::All, None).unwrap();
    let prepared = store.prepare([Write::put(key("a"), *b"1")], 0);
    assert_eq!((list(&store, At::Latest).unwrap(), drain(&mut watch).len()), (String::new(), 0));
    assert_eq!(store.current_revision(), Revision(0));
    store.abandon(prepared);
    assert_eq!((store.current_revision(), watch.progress()), (Revision(0), Some(Revision(0))));
    assert_eq!(write(&mut store, 0, "b=1"), [Ok(2)], "the revision of the abandoned write is not used again");
    assert_eq!(drain(&mut watch), ["2 b=1<-"]);
}

#[test]
fn exact_revisions_within_the_window() {
    let mut store = Mvcc::new(Limits::default());
    let scripts = ["a=1", "b=1", "a=2", "a-", "b=2", "a=3"];
    let states = ["", "a=1", "a=1 b=1", "a=2 b=1", "b=1", "b=2", "a=3 b=2"];
    for script in scripts {
        write(&mut store, 0, script);
    }
    for compact in 0..=6 {
        store.compact(Revision(compact));
        assert_eq!(store.compact_revision(), Revision(compact));
        for (revision, state) in (0..).zip(states) {
            let at = At::Exactly(Revision(revision));
            let compacted =
                ReadError::Compacted { requested: Revision(revision), compact_revision: Revision(compact) };
            let expected = if revision < compact { Err(compacted) } else { Ok(state.to_owned()) };
            assert_eq!(list(&store, at), expected, "at {revision} of {compact}");
            let watch = store.watch(&resource(), &Scope::All, Some(Revision(revision)));
            assert_eq!(watch.is_err(), revision < compact);
        }
        assert_eq!(list(&store, At::AtLeast(Revision(compact))).unwrap(), "a=3 b=2");
    }
    let future = ReadError::Future { requested: Revision(7), current_revision: Revision(6) };
    assert_eq!(list(&store, At::Exactly(Revision(7))), Err(future.clone()));
    assert_eq!(list(&store, At::AtLeast(Revision(7))), Err(future));
    store.compact(Revision(100));
    assert_eq!(store.compact_revision(), Revision(6), "the future can't be compacted");
}

#[test]
fn pages_stay_at_their_revision() {
    let mut store = Mvcc::new(Limits::default());
    for i in 0..10 {
        write(&mut store, 0, &format!("x/{i}=1 y/{i}=1"));
    }
    let revision = store.current_revision();
    let mut start = String::new();
    let mut seen = Vec::new();
    let scope = Scope::Namespace("x".to_owned());
    // So many writes that the snapshot is remembered.
    for remaining in [7, 4, 1, 0] {
        let snapshot = store.snapshot(&resource(), At::Exactly(revision)).unwrap();
        assert_eq!((snapshot.len(&Scope::All), snapshot.len(&scope)), (20, 10));
        let page = snapshot.page(&scope, &start, 3);
        assert_eq!(page.remaining, remaining);
        seen.extend(page.entries.iter().map(|e| e.key().path().to_owned()));
        assert_eq!(page.next.is_none(), remaining == 0);
        start = page.next.unwrap_or_default();
        for i in 0..100 {
            write(&mut store, 0, &format!("x/{i}=2 x/0-"));
        }
    }
    assert_eq!(seen, (0..10).map(|i| format!("x/{i}")).collect::<Vec<_>>());
    assert_eq!(store.snapshot(&resource(), At::Latest).unwrap().page(&scope, "x/98", 0).entries.len(), 2);
    let object = Scope::Object { namespace: "x".to_owned(), name: "9".to_owned() };
    let snapshot = store.snapshot(&resource(), At::Latest).unwrap();
    assert_eq!((snapshot.len(&object), snapshot.page(&object, "", 0).entries.len()), (1, 1));
    assert!(snapshot.get("x", "9").is_some() && snapshot.get("", "9").is_none());
    // A start from elsewhere can't leave the namespace.
    assert_eq!(snapshot.page(&scope, "z", 0).entries.len(), 0);
    assert_eq!(snapshot.page(&scope, "", 1).entries[0].key().path(), "x/1");
}

#[test]
fn watches_by_scope() {
    let mut store = Mvcc::new(Limits::default());
    write(&mut store, 0, "x/a=1 y/a=1 n=1");
    let namespace = |name: &str| Scope::Namespace(name.to_owned());
    let object = |namespace: &str, name: &str| Scope::Object {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let rows: [(Scope, Option<u64>, &[&str]); 8] = [
        (Scope::All, None, &["4 x/a=2<1", "5 y/a=-<1", "6 x/b=1<-", "7 n=2<1"]),
        (Scope::All, Some(2), &["3 n=1<-", "4 x/a=2<1", "5 y/a=-<1", "6 x/b=1<-", "7 n=2<1"]),
        (Scope::All, Some(5), &["6 x/b=1<-", "7 n=2<1"]),
        (Scope::All, Some(9), &[]),
        (namespace("x"), Some(0), &["1 x/a=1<-", "4 x/a=2<1", "6 x/b=1<-"]),
        (object("x", "a"), Some(0), &["1 x/a=1<-", "4 x/a=2<1"]),
        (object("", "n"), Some(0), &["3 n=1<-", "7 n=2<1"]),
        (namespace("z"), Some(0), &[]),
    ];
    let mut watches: Vec<_> = rows
        .iter()
        .map(|(scope, after, _)| store.watch(&resource(), scope, after.map(Revision)).unwrap())
        .collect();
    write(&mut store, 0, "x/a=2 y/a-");
    write(&mut store, 0, "x/b=1 n=2");
    for ((scope, after, events), watch) in rows.iter().zip(&mut watches) {
        assert_eq!(drain(watch), *events, "{scope:?} {after:?}");
        let progress = (*after != Some(9)).then_some(Revision(7));
        assert_eq!(watch.progress(), progress, "{scope:?} {after:?}");
    }
    write(&mut store, 0, "x/a=3 x/a=4 x/a=5");
    assert_eq!(drain(&mut watches[3]), ["10 x/a=5<4"], "it waited for the future");
    assert_eq!(watches[4].progress(), None, "events wait");
    // Other resources are other watches.
    let mut other = store.watch(&Resource::new("secrets").unwrap(), &Scope::All, Some(Revision(0))).unwrap();
    assert_eq!((drain(&mut other).len(), other.progress()), (0, Some(Revision(10))));
    assert_eq!(store.stats().watchers, 9);
    drop((watches, other));
    store.advance(0);
    assert_eq!(store.stats().watchers, 0);
}

#[test]
fn slow_watchers_are_closed_and_never_skipped() {
    let limits = || {
        let mut limits = Limits::default();
        (limits.watch_events, limits.watch_bytes) = (3, 3000);
        limits
    };
    let slow = WatchError::Slow { events: 3, bytes: 3000 };
    let big = format!("a={}", "x".repeat(5000));
    // Batches, and how many events come before the error.
    let rows: [(&[&str], Option<usize>); 5] = [
        (&["a=1 a=2 a=3"], None),
        (&["a=1 a=2 a=3", "a=4"], Some(0)),
        (&["a=1 a=2 a=3 a=4"], Some(0)),
        (&[&big], None),
        (&["b=1", &big], Some(0)),
    ];
    for (batches, closed) in rows {
        let mut store = Mvcc::new(limits());
        let mut watch = store.watch(&resource(), &Scope::All, None).unwrap();
        for batch in batches {
            write(&mut store, 0, batch);
        }
        match closed {
            Some(_) => {
                assert_eq!(watch.try_recv().unwrap_err(), slow);
                assert_eq!(watch.try_recv().unwrap_err(), slow, "it stays closed");
                assert_eq!((watch.progress(), store.stats().watchers), (None, 0));
            }
            None => assert!(!drain(&mut watch).is_empty()),
        }
        assert_eq!(store.stats().watchers_closed, u64::from(closed.is_some()));
    }
    // What happened before the watch does not count against its queue.
    let mut store = Mvcc::new(limits());
    write(&mut store, 0, "a=1 a=2 a=3 a=4 a=5");
    let mut watch = store.watch(&resource(), &Scope::All, Some(Revision(0))).unwrap();
    write(&mut store, 0, "a=6");
    assert_eq!(drain(&mut watch).len(), 6);
}

/// A client that makes thousands of objects at once takes processor time from its watchers.
#[test]
fn a_burst_of_thousands_of_writes_closes_no_watcher() {
    let mut store = Mvcc::new(Limits::default());
    let mut watch = store.watch(&resource(), &Scope::All, None).unwrap();
    let script: Vec<String> = (0..100).map(|number| format!("object-{number}=1")).collect();
    for _ in 0..100 {
        write(&mut store, 0, &script.join(" "));
    }
    assert_eq!((drain(&mut watch).len(), store.stats().watchers_closed), (10_000, 0));
}

#[test]
fn the_window_is_bounded() {
    let mut limits = Limits::default();
    (limits.history_events, limits.history_age) = (5, Duration::from_millis(100));
    let mut store = Mvcc::new(limits.clone());
    for now in 0..20 {
        write(&mut store, now, "a=1");
    }
    assert_eq!((store.stats().history_events, store.compact_revision()), (5, Revision(15)));
    store.advance(116);
    assert_eq!(store.compact_revision(), Revision(16), "revision 16 was written at 15, revision 17 at 16");
    // A clock that goes back makes nothing older or younger than its neighbours.
    write(&mut store, 3, "a=2");
    store.advance(119);
    assert_eq!(store.compact_revision(), Revision(19));
    store.advance(u64::MAX);
    assert_eq!((store.stats().history_events, store.stats().history_bytes), (0, 0));
    assert_eq!(store.current_revision(), store.compact_revision());

    limits.history_bytes = 10_000;
    limits.history_events = 1000;
    let mut store = Mvcc::new(limits);
    for _ in 0..50 {
        write(&mut store, 0, &format!("a={}", "x".repeat(1000)));
    }
    let stats = store.stats();
    assert!(stats.history_bytes <= 10_000 && stats.history_events >= 3, "{stats:?}");
}

#[test]
fn limits_refuse() {
    let mut limits = Limits::default();
    (limits.value_bytes, limits.live_bytes, limits.watchers) = (10, 40, 2);
    let mut store = Mvcc::new(limits);
    let too_large = "the value has 11 bytes; at most 10 are allowed";
    // Each object has a key of 11 bytes and its value.
    let rows: [(&str, &[Result<u64, &str>]); 5] = [
        ("a=12345678901", &[Err(too_large)]),
        ("a=1234567890 b=1", &[Ok(1), Ok(2)]),
        (
            "c=1234567890",
            &[Err("the objects would have 54 bytes together; at most 40 are allowed: delete some")],
        ),
        ("a=1 c=1", &[Ok(3), Ok(4)]),
        ("a- b- c-", &[Ok(5), Ok(6), Ok(7)]),
    ];
    for (script, outcomes) in rows {
        let outcomes: Vec<_> = outcomes.iter().map(|o| o.map_err(str::to_owned)).collect();
        assert_eq!(write(&mut store, 0, script), outcomes, "{script}");
    }
    assert_eq!((store.stats().refused, store.stats().live_bytes, store.stats().objects), (2, 0, 0));

    let watch = |store: &mut Mvcc| store.watch(&resource(), &Scope::All, None);
    let (first, _second) = (watch(&mut store).unwrap(), watch(&mut store).unwrap());
    assert_eq!(watch(&mut store).unwrap_err(), WatchError::TooMany { limit: 2 });
    drop(first);
    assert!(watch(&mut store).is_ok(), "a place is free");
    assert_eq!(store.stats().watchers_refused, 1);
}

#[test]
fn keys_are_checked() {
    let long = "x".repeat(Key::MAX + 1);
    let rows: [(&str, &str, Option<KeyError>); 7] = [
        ("", "", Some(KeyError::Empty { part: "name" })),
        ("a", "", Some(KeyError::Empty { part: "name" })),
        ("a/b", "c", Some(KeyError::Character { part: "namespace", character: '/' })),
        ("a", "b\0", Some(KeyError::Character { part: "name", character: '\0' })),
        ("", &long, Some(KeyError::TooLong { part: "name", size: Key::MAX + 1, limit: Key::MAX })),
        (&long[1..], &long[1..], None),
        ("a", "..", None),
    ];
    for (namespace, name, error) in rows {
        assert_eq!(Key::new(&resource(), namespace, name).err(), error);
    }
    assert!(Resource::new("").is_err() && Resource::new("a\0").is_err());
}

#[test]
fn attachments_are_made_once_or_handed_in() {
    let mut store = Mvcc::new(Limits::default());
    let put = |path| Write::put(key(path), *b"1");
    let prepared = store.prepare([put("a"), put("b").with_attachment(7_u32)], 0);
    let events = store.apply(prepared).outcomes;
    let entry = |path| store.get(&key(path)).unwrap();
    assert_eq!(entry("a").attachment(|_| 1_u32), Some(&1));
    assert_eq!(entry("a").attachment(|_| 2_u32), Some(&1));
    assert_eq!(entry("a").attachment(|_| "other"), None);
    assert_eq!(entry("b").attachment(|_| 2_u32), Some(&7));
    let event = events[0].as_ref().unwrap();
    assert_eq!(event.attachment(|event| event.revision()), Some(&Revision(1)));
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let record = |revision, create_revision, path: &str, value: Option<&str>| Record {
        revision: Revision(revision),
        create_revision: Revision(create_revision),
        time: 0,
        key: key(path),
        value: value.map(|value| Arc::from(value.as_bytes())),
    };
    let mark = |last, compact, objects| Mark { last: Revision(last), compact: Revision(compact), objects };
    let (a, a2) = (|| record(1, 1, "a", Some("1")), || record(2, 1, "a", Some("2")));
    let rows: [(&str, Vec<Record>, Mark, Option<&str>); 11] = [
        ("nothing", vec![], mark(0, 0, 0), None),
        ("whole", vec![a(), a2()], mark(2, 0, 1), None),
        ("order", vec![a2(), a()], mark(2, 2, 1), Some("revision 1 follows 2")),
        ("twice", vec![a(), a()], mark(2, 0, 1), Some("revision 1 follows 1")),
        ("an object less", vec![a()], mark(2, 0, 2), Some("2 objects were written, 1 are there")),
        ("last", vec![a(), a2()], mark(1, 0, 1), Some("the last revision is 1, but there is 2")),
        ("compacted", vec![a2()], mark(2, 2, 1), None),
        ("a hole", vec![a2()], mark(2, 1, 1), Some("the value before revision 2 is missing")),
        ("future", vec![record(1, 2, "a", None)], mark(1, 0, 0), Some("revision 1 was created by 2")),
        (
            "another",
            vec![a(), record(2, 2, "a", None)],
            mark(2, 0, 0),
            Some("revision 2 does not continue 1"),
        ),
        (
            "orphan",
            vec![record(2, 1, "a", None)],
            mark(2, 1, 0),
            Some("the value before revision 2 is missing"),
        ),
    ];
    for (what, records, mark, error) in rows {
        let mut store = Mvcc::new(Limits::default());
        let result =
            records.into_iter().try_for_each(|r| store.replay(r)).and_then(|()| store.replayed(mark));
        assert_eq!(result.err().map(|error| error.to_string()).as_deref(), error, "{what}");
    }
}
