//! Rule files and case files: found in directories, and read.

use std::fs;
use std::path::{Path, PathBuf};

use settled_rules::Builder;

use crate::error::CommandError;

/// No file of rules is larger.
const MAX_BYTES: u64 = 16 << 20;

/// Adds a file of rules; reports all invalid places in one error.
pub(crate) fn add(builder: Builder, file: &Path) -> Result<Builder, CommandError> {
    builder.add(&file.display().to_string(), &read(file)?).map_err(|errors| {
        const MAX_ERRORS: usize = 20;
        let mut error = CommandError::input(format!("cannot use {} as rules", file.display()));
        for invalid in errors.0.iter().take(MAX_ERRORS) {
            error = error.detail(invalid.to_string());
        }
        if errors.0.len() > MAX_ERRORS {
            error = error.detail(format!("and {} more", errors.0.len() - MAX_ERRORS));
        }
        error
    })
}

/// The text of a file of rules or cases, which has a bounded size.
pub(crate) fn read(path: &Path) -> Result<String, CommandError> {
    let unreadable = |error| CommandError::input_error(format!("cannot read {}", path.display()), error);
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.len() > MAX_BYTES {
        return Err(CommandError::input(format!("{} is larger than 16 MiB", path.display())));
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// The files of rules that paths name: of directories all YAML, JSON and Lua in them, cases excepted.
pub(crate) fn files<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Result<Vec<PathBuf>, CommandError> {
    let is_rules = |name: &str| {
        let known = [".yaml", ".yml", ".json", ".lua"].iter().any(|extension| name.ends_with(extension));
        known && !is_cases(name)
    };
    walk(paths, &is_rules)
}

fn is_cases(name: &str) -> bool {
    [".test.yaml", ".test.yml", ".test.json"].iter().any(|ending| name.ends_with(ending))
}

/// The files of cases that paths name.
pub(crate) fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    walk(paths.iter(), &is_cases)
}

/// Files as they are named, and those of directories that are wanted, in sorted order.
fn walk<'p>(
    paths: impl Iterator<Item = &'p PathBuf>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<PathBuf>, CommandError> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            read_directory(path, is_wanted, &mut found, 0)?;
            if found.len() == before {
                return Err(CommandError::input(format!(
                    "there is no file in {} that could be read",
                    path.display()
                ))
                .hint("rules end in .yaml, .yml, .json or .lua, cases in .test.yaml"));
            }
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// The health check of a kind as Argo CD publishes it.
const ARGO_HEALTH: &str = "health.lua";

/// Whether a directory is one of Argo CD's `resource_customizations/GROUP/KIND`: beside the health check it has tests, test data, and
/// scripts for actions, none of which are rules.
fn is_argo_kind(inside: &[PathBuf]) -> bool {
    let has = |wanted: &str| inside.iter().find(|path| path.file_name().is_some_and(|name| name == wanted));
    let actions =
        |path: &PathBuf| path.join("discovery.lua").is_file() || path.join("action_test.yaml").is_file();
    has(ARGO_HEALTH).is_some() || has("health_test.yaml").is_some() || has("actions").is_some_and(actions)
}

fn read_directory(
    path: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
    found: &mut Vec<PathBuf>,
    depth: usize,
) -> Result<(), CommandError> {
    const MAX_DEPTH: usize = 32;
    let unreadable = |error| CommandError::input_error(format!("cannot read {}", path.display()), error);
    let mut inside = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        inside.push(entry.map_err(unreadable)?.path());
    }
    inside.sort();
    if is_argo_kind(&inside) {
        inside.retain(|path| path.file_name().is_some_and(|name| name == ARGO_HEALTH));
    }
    for path in inside {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            if depth < MAX_DEPTH {
                read_directory(&path, is_wanted, found, depth + 1)?;
            }
        } else if is_wanted(&name) {
            found.push(path);
        }
    }
    Ok(())
}
