//! `settled store check`.

use std::fs::{self, File};

use insta::assert_snapshot;

use crate::support::{Directory, settled};

/// A log with 12 writes to 4 objects, one of which is deleted.
const LOG: &[u8] = include_bytes!("../../store/tests/fixtures/killed.log");

fn directory(log: &[u8]) -> Directory {
    let directory = Directory::new(&[("data/store/LOCK", "4711\n")]);
    fs::write(directory.path().join("data/store/store.log"), log).unwrap();
    directory
}

/// Checks the data twice: by the directory of the server, and by that of the store.
fn check(directory: &Directory, arguments: &str) -> String {
    let files = || -> Vec<_> {
        let mut paths: Vec<_> = fs::read_dir(directory.path().join("data/store"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect()
    };
    let before = files();
    let first = settled(&format!("store check data {arguments}")).dir(directory).transcript();
    let second = settled(&format!("store check data/store {arguments}")).dir(directory).transcript();
    let second = second.replace("cannot check data/store:", "cannot check data:");
    assert_eq!(first, second);
    assert!(files() == before, "nothing is changed");
    first
}

#[test]
fn a_whole_store() {
    assert_snapshot!(check(&directory(LOG), ""));
    assert_snapshot!(check(&directory(LOG), "-o json"));
}

#[test]
fn an_unfinished_write_is_no_damage() {
    let directory = directory(&LOG[..LOG.len() - 40]);
    assert_snapshot!(check(&directory, ""));
    assert_snapshot!(check(&directory, "-o json"));
}

#[test]
fn damage_has_a_place_and_a_remedy() {
    let mut log = LOG.to_vec();
    log[5000] ^= 1;
    let directory = directory(&log);
    assert_snapshot!(check(&directory, ""));
    assert_snapshot!(check(&directory, "-o json"));
    // A server that was started on it has set it aside.
    let store = directory.path().join("data/store");
    fs::rename(store.join("store.log"), store.join("store.log.corrupt")).unwrap();
    assert!(check(&directory, "").contains("store.log.corrupt"));
}

#[test]
fn what_is_no_store_or_in_use_is_refused() {
    let directory = directory(LOG);
    fs::create_dir(directory.path().join("empty")).unwrap();
    for name in ["empty", "missing"] {
        let said = settled(&format!("store check {name}")).dir(&directory).transcript();
        let expected = format!(
            "exit code: 2\n--- stderr ---\nerror: cannot check {name}: {name} contains no store\n\
             hint: use the directory of `settled serve --data-dir`\n"
        );
        assert_eq!(said, expected);
    }
    let lock = File::open(directory.path().join("data/store/LOCK")).unwrap();
    lock.lock().unwrap();
    assert_eq!(
        check(&directory, ""),
        "exit code: 2\n--- stderr ---\nerror: cannot check data: data/store is in use by process 4711: \
         stop that process or choose another directory\n"
    );
}
