//! Measures the backends: `cargo run --release --package settled-store --example bench -- [DIRECTORY] [ROUNDS]`.
//!
//! `engines/` measures others by the same work.
#![allow(clippy::print_stdout, reason = "it is a program that prints a table")]

mod measure;

use std::path::Path;
use std::path::PathBuf;

use settled_store::Backend;
use settled_store::Disk;
use settled_store::Durability;

fn disk(path: &Path, durability: Durability) -> Box<dyn Backend> {
    match Disk::open(path, durability) {
        Ok(disk) => Box::new(disk),
        Err(error) => unreachable!("{error}"),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let root = directory.join(format!("settled-store-bench-{}", std::process::id()));
    let backends: [(&str, measure::Open); 2] = [
        ("log", |path| disk(path, Durability::Synced)),
        ("log, not synced", |path| disk(path, Durability::None)),
    ];
    println!("{}", measure::run(&backends, &root, rounds));
    let _ = std::fs::remove_dir_all(root).is_ok();
}
