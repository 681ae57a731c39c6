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

/// The script of the first step makes the files of a project of its own: each names what it needs of the others.
#[cfg(unix)]
#[test]
fn the_project_has_all_files_with_its_own_imports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/controller/project.md")).unwrap();
    let (_, script) = page.split_once("```sh\nsite=../settled/").unwrap();
    let script = format!("site=../settled/{}", script.split_once("\n```\n").unwrap().0);
    let directory = std::env::temp_dir().join(format!("settled-site-controller-{}", std::process::id()));
    let project = directory.join("site-controller");
    for directory in ["src", "tests"] {
        fs::create_dir_all(project.join(directory)).unwrap();
    }
    std::os::unix::fs::symlink(root.join("../..").canonicalize().unwrap(), directory.join("settled"))
        .unwrap();
    let ran =
        std::process::Command::new("sh").args(["-euc", &script]).current_dir(&project).status().unwrap();
    assert!(ran.success());
    let own = "use site_controller::{controller, kind};";
    for (file, lines) in [
        ("src/kind.rs", vec!["pub fn definition() -> CustomResourceDefinition {"]),
        ("src/controller.rs", vec!["use super::kind::{Site, SiteCondition, SiteReason, SiteStatus};"]),
        ("src/main.rs", vec![own]),
        (
            "tests/site.rs",
            vec!["use site_controller::controller;", "use site_controller::kind::{self, Site};"],
        ),
        ("tests/scenario/mod.rs", vec![own]),
        (
            "tests/faults.rs",
            vec![
                "mod scenario;",
                "use settled_controller::faults::Options;",
                "#[test]",
                "    for report in scenario::explore_all(&Options::share(150)).unwrap() {",
                "}",
            ],
        ),
    ] {
        let text = fs::read_to_string(project.join(file)).unwrap();
        for line in lines {
            assert!(text.lines().any(|found| found == line), "{file} lacks {line}");
        }
        // Nothing leads back into the clone.
        assert!(!text.contains("#[path") && !text.contains("examples/"), "{file}");
    }
    fs::remove_dir_all(directory).unwrap();
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
    let head = "| what | outcome | retried | visible as | never | test |\n|---|---|---|---|---|---|\n";
    let (_, table) = page.split_once(head).unwrap();
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 16, "{}", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_start_matches("| ").trim_end_matches(" |").split(" | ").collect();
        assert!(cells.len() == 6 && !cells.iter().any(|cell| cell.trim().is_empty()), "{row}");
        let tests = cells[5];
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
