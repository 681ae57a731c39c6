//! The same work for every backend.

use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use settled_store::Backend;
use settled_store::Key;
use settled_store::Loaded;
use settled_store::Mvcc;
use settled_store::Options;
use settled_store::Resource;
use settled_store::Store;
use settled_store::Write;

const VALUE: usize = 1300;
const OBJECTS: usize = 15_000;

/// Opens a backend in a directory.
pub(crate) type Open = fn(&Path) -> Box<dyn Backend>;

/// Measures each backend in turn, several times, and keeps the median: a disk is not the same from one second to the
/// next.
pub(crate) fn run(backends: &[(&str, Open)], root: &Path, rounds: usize) -> String {
    let mut rows = vec![Vec::new(); backends.len()];
    for round in 0..rounds {
        for ((name, open), row) in backends.iter().zip(&mut rows) {
            let directory = root.join(format!("{name}-{round}").replace(' ', "-"));
            row.push(measure(*open, &directory));
            let _ = std::fs::remove_dir_all(&directory).is_ok();
        }
    }
    let mut table = String::from(
        "| backend | batch 1 | batch 16 | batch 64 | 1 client | 16 clients | 64 clients | load ms | open ms | MB |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for ((name, _), rounds) in backends.iter().zip(rows) {
        table.push_str(&format!("| {name} |"));
        for column in 0..rounds[0].len() {
            let mut values: Vec<f64> = rounds.iter().map(|row| row[column]).collect();
            values.sort_by(f64::total_cmp);
            table.push_str(&format!(" {:.0} |", values[values.len() / 2]));
        }
        table.push('\n');
    }
    table
}

fn value(i: usize) -> Vec<u8> {
    // No two alike, and not to be compressed to nothing.
    let mut state = i as u64 + 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + ((state >> 59) as u8 & 15)
    };
    std::iter::repeat_with(next).take(VALUE).collect()
}

fn key(resource: &Resource, i: usize) -> Key {
    match Key::new(resource, "default", &format!("object-{i:06}")) {
        Ok(key) => key,
        Err(error) => unreachable!("{error}"),
    }
}

fn resource() -> Resource {
    match Resource::new("configmaps") {
        Ok(resource) => resource,
        Err(error) => unreachable!("{error}"),
    }
}

fn load(open: Open, directory: &Path) -> (Mvcc, Box<dyn Backend>) {
    let mut limits = Options::default().limits;
    // The window would add records to those of the objects.
    limits.history_events = 1000;
    let mut mvcc = Mvcc::new(limits);
    let mut backend = open(directory);
    let loaded = backend.load(&mut |loaded| match loaded {
        Loaded::Record(record) => mvcc.replay(record),
        Loaded::Mark(mark) => mvcc.replayed(mark),
    });
    assert!(loaded.is_ok(), "{loaded:?}");
    (mvcc, backend)
}

fn append(mvcc: &mut Mvcc, backend: &mut dyn Backend, writes: Vec<Write>) {
    let prepared = mvcc.prepare(writes, 0);
    let stored = backend.append(&prepared.batch());
    assert!(stored.is_ok(), "{stored:?}");
    mvcc.apply(prepared);
}

fn measure(open: Open, directory: &Path) -> Vec<f64> {
    let resource = resource();
    let mut row = Vec::new();

    // Writes over 10,000 objects, so many at a time.
    let (mut mvcc, mut backend) = load(open, &directory.join("batches"));
    for start in (0..10_000).step_by(500) {
        let writes = (start..start + 500).map(|i| Write::put(key(&resource, i), value(i))).collect();
        append(&mut mvcc, &mut *backend, writes);
    }
    for (size, batches) in [(1, 600), (16, 200), (64, 100)] {
        let writes: Vec<Vec<_>> = (0..batches)
            .map(|batch| {
                let numbers = (0..size).map(|i| (batch * size + i) * 7919 % 10_000);
                numbers.map(|i| Write::put(key(&resource, i), value(i + batch))).collect()
            })
            .collect();
        let start = Instant::now();
        for batch in writes {
            append(&mut mvcc, &mut *backend, batch);
        }
        row.push((size * batches) as f64 / start.elapsed().as_secs_f64());
    }
    drop(backend);

    // Creates by so many clients that each wait for the answer.
    for (clients, each) in [(1, 600), (16, 200), (64, 100)] {
        let opened = Store::open(open(&directory.join(format!("clients-{clients}"))), Options::default());
        let store = match opened {
            Ok(store) => store,
            Err(error) => unreachable!("{error}"),
        };
        let values: Vec<_> = (0..64).map(value).collect();
        let start = Instant::now();
        thread::scope(|scope| {
            for client in 0..clients {
                let (store, resource, values) = (&store, &resource, &values);
                scope.spawn(move || {
                    for i in 0..each {
                        let write = Write::create(key(resource, client * each + i), &*values[i % 64]);
                        let written = store.write(write).wait();
                        assert!(written.is_ok(), "{written:?}");
                    }
                });
            }
        });
        row.push((clients * each) as f64 / start.elapsed().as_secs_f64());
    }

    // 15,000 objects, written by several hands, and every third of them once more.
    let path = directory.join("objects");
    let (mut mvcc, mut backend) = load(open, &path);
    let numbers: Vec<_> = (0..OBJECTS).chain((0..OBJECTS).step_by(3)).collect();
    for numbers in numbers.chunks(50) {
        let writes = numbers.iter().map(|i| Write::put(key(&resource, *i), value(*i))).collect();
        append(&mut mvcc, &mut *backend, writes);
    }
    assert!(backend.close().is_ok());
    drop(backend);
    drop(mvcc);
    let start = Instant::now();
    let backend = open(&path);
    let opened = start.elapsed();
    drop(backend);
    let start = Instant::now();
    let (mvcc, backend) = load(open, &path);
    row.push(start.elapsed().as_secs_f64() * 1000.0);
    row.push(opened.as_secs_f64() * 1000.0);
    assert_eq!(mvcc.stats().objects, OBJECTS);
    drop(backend);
    row.push(size(path) as f64 / 1e6);
    row
}

fn size(path: PathBuf) -> u64 {
    let Ok(metadata) = std::fs::metadata(&path) else { return 0 };
    if metadata.is_file() {
        return metadata.len();
    }
    let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
    entries.map(|entry| size(entry.path())).sum()
}
