//! Code map: every file with the first sentence of its module comment, ordered by imports.

use std::fs;
use std::path::Path;

use regex::Regex;

use crate::structure::{Crate, Module, directories};
use crate::{Outcome, root};

const DOCUMENT: &str = "docs/code-map.md";
const INTRODUCTION: &str = "\
# Code map

`cargo xtask structure --write-docs` prints this page from the module comments; CI fails if it is out of date. A file in level 0 imports no other file of its crate; any
other file is one level above the highest file that it imports. Read upward to learn a crate from its foundations, and downward to find where something happens.
[ARCHITECTURE.md](../ARCHITECTURE.md) describes how the crates fit together.
";

/// Compares the document with the code, or writes it; false if it is out of date, or a file has no module comment.
pub(crate) fn run(write: bool) -> Outcome<bool> {
    let mut text = INTRODUCTION.to_owned();
    let mut undocumented = Vec::new();
    // Rustdoc links do not work here.
    let link = Regex::new(r"\[(`[^`]+`)\](?:\([^)]*\))?")?;
    for directory in directories()? {
        let (package, purpose) = package(&directory)?;
        let name = directory.strip_prefix(root()).unwrap_or(&directory).display().to_string();
        text.push_str(&format!(
            "\n## `{package}` ({name})\n\n{purpose}\n\n| file | level | responsible for |\n|---|--:|---|\n"
        ));
        let source = directory.join("src");
        let files = Crate::read(&source)?;
        let levels = files.levels();
        let mut rows: Vec<(usize, &Module)> = files
            .files
            .keys()
            .map(|module| (levels.get(module).copied().unwrap_or_default(), module))
            .collect();
        rows.sort_by(|(level, module), (other_level, other)| {
            other_level.cmp(level).then_with(|| module.cmp(other))
        });
        for (level, module) in rows {
            let Some(file) = files.files.get(module) else { continue };
            let path = file.path.strip_prefix(&source).unwrap_or(&file.path).display().to_string();
            // The crate's README documents its root.
            let purpose =
                if module.is_empty() && file.purpose.is_empty() { "crate root" } else { &file.purpose };
            if purpose.is_empty() {
                undocumented.push(format!("{name}/src/{path}"));
            }
            text.push_str(&format!(
                "| `{path}` | {level} | {} |\n",
                link.replace_all(purpose, "$1").replace('|', "\\|")
            ));
        }
    }
    for file in &undocumented {
        println!("{file}: has no module comment");
    }
    let path = root().join(DOCUMENT);
    if write {
        fs::write(&path, text)?;
        return Ok(undocumented.is_empty());
    }
    let is_current = fs::read_to_string(&path).unwrap_or_default() == text;
    if !is_current {
        println!("{DOCUMENT} is out of date: cargo xtask structure --write-docs");
    }
    Ok(is_current && undocumented.is_empty())
}

/// A crate's name and description.
fn package(directory: &Path) -> Outcome<(String, String)> {
    let file = directory.join("Cargo.toml");
    let text = fs::read_to_string(&file)?;
    let field = |name: &str| -> Outcome<String> {
        let found = Regex::new(&format!("(?m)^{name} = \"(.*)\"$"))?;
        let value = found.captures(&text).map(|found| found[1].to_owned());
        Ok(value.ok_or_else(|| format!("{}: no {name}", file.display()))?)
    };
    Ok((field("name")?, field("description")?))
}
