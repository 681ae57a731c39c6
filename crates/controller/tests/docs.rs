//! The code of docs/controller.md is the code of the examples.

use std::fs;
use std::path::Path;

#[test]
fn each_block_of_the_page_is_a_part_of_the_file_that_it_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/controller.md")).unwrap();
    let mut blocks = 0;
    for (index, _) in page.match_indices("<!-- from: ") {
        let (path, rest) = page[index + "<!-- from: ".len()..].split_once(" -->\n\n```rust\n").unwrap();
        let (block, _) = rest.split_once("\n```\n").unwrap();
        let source = fs::read_to_string(root.join(path)).unwrap();
        assert!(source.contains(block), "docs/controller.md has a block that is not in {path}:\n{block}");
        blocks += 1;
    }
    assert!(blocks >= 8, "{blocks}");
    // Whatever else is Rust has no file behind it.
    assert_eq!(page.matches("```rust").count(), blocks);
}
