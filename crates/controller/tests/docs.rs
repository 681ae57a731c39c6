//! The code of docs/controller is the code of the examples.

use std::fs;
use std::path::Path;

#[test]
fn each_block_of_the_pages_is_a_part_of_the_file_that_it_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut blocks = 0;
    for page in fs::read_dir(root.join("../../docs/controller")).unwrap() {
        let name = page.unwrap().path();
        let page = fs::read_to_string(&name).unwrap();
        let mut here = 0;
        for (index, _) in page.match_indices("<!-- from: ") {
            let (path, rest) = page[index + "<!-- from: ".len()..].split_once(" -->\n\n```rust\n").unwrap();
            let (block, _) = rest.split_once("\n```\n").unwrap();
            let source = fs::read_to_string(root.join(path)).unwrap();
            assert!(source.contains(block), "{} has a block that is not in {path}:\n{block}", name.display());
            here += 1;
        }
        // Whatever else is Rust has no file behind it.
        assert_eq!(page.matches("```rust").count(), here, "{}", name.display());
        blocks += here;
    }
    assert!(blocks >= 8, "{blocks}");
}

/// The steps, and the pages beside them.
#[test]
fn the_overview_leads_to_each_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let overview = fs::read_to_string(root.join("../../docs/controller.md")).unwrap();
    for page in fs::read_dir(root.join("../../docs/controller")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        assert!(overview.contains(&format!("](controller/{name})")), "{name}");
    }
}

/// In the table of failures: `` `status.rs`: `a_conflict_…`, `a_fight_…` ``.
#[test]
fn each_failure_of_the_page_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/controller/failures.md")).unwrap();
    let (_, table) = page.split_once("| what | outcome | test |\n|---|---|---|\n").unwrap();
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 16, "{}", rows.len());
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let mut source = None;
        for name in tests.split('`').skip(1).step_by(2) {
            if name.ends_with(".rs") {
                let path = if name.contains('/') {
                    root.join("../..").join(name)
                } else {
                    root.join("tests").join(name)
                };
                source = Some(
                    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
                );
            } else {
                let source = source.as_deref().expect("a test comes after its file");
                let wanted = format!("fn {}", name.trim_end_matches('…'));
                assert_eq!(source.matches(&wanted).count(), 1, "{row}: {wanted}");
            }
        }
        assert!(source.is_some(), "a failure without a test: {row}");
    }
}
