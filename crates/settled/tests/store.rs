//! `settled store check`.

use std::fs::{self, File};

use insta::assert_snapshot;

use crate::support::{Folder, settled};

/// A log with 12 writes to 4 objects, one of which is deleted.
const LOG: &[u8] = include_bytes!("../../store/tests/fixtures/killed.log");

fn folder(log: &[u8]) -> Folder {
    let folder = Folder::new(&[("data/store/LOCK", "4711\n")]);
    fs::write(folder.path().join("data/store/store.log"), log).unwrap();
    folder
}

/// Checks the data twice: by the directory of the server, and by that of the store.
fn check(folder: &Folder, arguments: &str) -> String {
    let files = || -> Vec<_> {
        let mut paths: Vec<_> = fs::read_dir(folder.path().join("data/store"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect()
    };
    let before = files();
    let first = settled(&format!("store check data {arguments}")).dir(folder).transcript();
    let second = settled(&format!("store check data/store {arguments}")).dir(folder).transcript();
    let second = second.replace("cannot check data/store:", "cannot check data:");
    assert_eq!(first, second);
    assert!(files() == before, "nothing is changed");
    first
}

#[test]
fn a_whole_store() {
    assert_snapshot!(check(&folder(LOG), ""));
    assert_snapshot!(check(&folder(LOG), "-o json"));
}

#[test]
fn an_unfinished_write_is_no_damage() {
    let folder = folder(&LOG[..LOG.len() - 40]);
    assert_snapshot!(check(&folder, ""));
    assert_snapshot!(check(&folder, "-o json"));
}

#[test]
fn damage_has_a_place_and_a_remedy() {
    let mut log = LOG.to_vec();
    log[5000] ^= 1;
    let folder = folder(&log);
    assert_snapshot!(check(&folder, ""));
    assert_snapshot!(check(&folder, "-o json"));
    // A server that was started on it has set it aside.
    let store = folder.path().join("data/store");
    fs::rename(store.join("store.log"), store.join("store.log.corrupt")).unwrap();
    assert!(check(&folder, "").contains("store.log.corrupt"));
}

#[test]
fn what_is_no_store_or_in_use_is_refused() {
    let folder = folder(LOG);
    fs::create_dir(folder.path().join("empty")).unwrap();
    for name in ["empty", "missing"] {
        let said = settled(&format!("store check {name}")).dir(&folder).transcript();
        let expected = format!(
            "exit code: 2\n--- stderr ---\nerror: cannot check {name}: {name} contains no store\n\
             hint: use the directory of `settled serve --data-dir`\n"
        );
        assert_eq!(said, expected);
    }
    let lock = File::open(folder.path().join("data/store/LOCK")).unwrap();
    lock.lock().unwrap();
    assert_eq!(
        check(&folder, ""),
        "exit code: 2\n--- stderr ---\nerror: cannot check data: data/store is in use by process 4711: \
         stop that process or choose another directory\n"
    );
}
