//! The code map: every file of every crate with the first sentence of its module comment, in the order of its imports.

use std::fs;
use std::path::Path;

use regex::Regex;

use crate::structure::{Crate, Module, folders};
use crate::{Outcome, root};

const DOCUMENT: &str = "docs/code-map.md";
const INTRODUCTION: &str = "\
# Code map

Printed by `cargo xtask structure --write-docs` from the comments at the begin of the files; CI fails when it is out of date. The floor of a file is 0 if it
imports no other file of its crate, else one above the highest that it imports: to understand a crate from the ground, read upward; to find out where something
happens, read downward. [ARCHITECTURE.md](../ARCHITECTURE.md) says how the crates fit together.
";

/// Compares the document with the code, or writes it; false where it is out of date, or a file has no comment.
pub(crate) fn run(write: bool) -> Outcome<bool> {
    let mut text = INTRODUCTION.to_owned();
    let mut silent = Vec::new();
    // Links of rustdoc lead nowhere here.
    let link = Regex::new(r"\[(`[^`]+`)\](?:\([^)]*\))?")?;
    for folder in folders()? {
        let (package, purpose) = package(&folder)?;
        let name = folder.strip_prefix(root()).unwrap_or(&folder).display().to_string();
        text.push_str(&format!(
            "\n## `{package}` ({name})\n\n{purpose}\n\n| file | floor | responsible for |\n|---|--:|---|\n"
        ));
        let source = folder.join("src");
        let files = Crate::read(&source)?;
        let floors = files.floors();
        let mut rows: Vec<(usize, &Module)> = files
            .files
            .keys()
            .map(|module| (floors.get(module).copied().unwrap_or_default(), module))
            .collect();
        rows.sort_by(|(floor, module), (other_floor, other)| {
            other_floor.cmp(floor).then_with(|| module.cmp(other))
        });
        for (floor, module) in rows {
            let Some(file) = files.files.get(module) else { continue };
            let path = file.path.strip_prefix(&source).unwrap_or(&file.path).display().to_string();
            // The root's is the crate's README.
            let purpose =
                if module.is_empty() && file.purpose.is_empty() { "the crate's root" } else { &file.purpose };
            if purpose.is_empty() {
                silent.push(format!("{name}/src/{path}"));
            }
            text.push_str(&format!(
                "| `{path}` | {floor} | {} |\n",
                link.replace_all(purpose, "$1").replace('|', "\\|")
            ));
        }
    }
    for file in &silent {
        println!("{file}: has no comment that says what it is responsible for");
    }
    let path = root().join(DOCUMENT);
    if write {
        fs::write(&path, text)?;
        return Ok(silent.is_empty());
    }
    let is_current = fs::read_to_string(&path).unwrap_or_default() == text;
    if !is_current {
        println!("{DOCUMENT} is out of date: cargo xtask structure --write-docs");
    }
    Ok(is_current && silent.is_empty())
}

/// A crate's name and description.
fn package(folder: &Path) -> Outcome<(String, String)> {
    let file = folder.join("Cargo.toml");
    let text = fs::read_to_string(&file)?;
    let field = |name: &str| -> Outcome<String> {
        let found = Regex::new(&format!("(?m)^{name} = \"(.*)\"$"))?;
        let value = found.captures(&text).map(|found| found[1].to_owned());
        Ok(value.ok_or_else(|| format!("{}: no {name}", file.display()))?)
    };
    Ok((field("name")?, field("description")?))
}
