//! Lists the files of the built-in pack, sorted by group, and where in each the rules stand, for `src/builtin.rs` to include: only the
//! rules of kinds that are met are read.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::{env, fs, io};

/// How a rule of the pack begins; all that follows it is indented further.
const RULE: &str = "  - match:";

/// A rule of a file, before it is read.
struct Place {
    /// The kinds it is for; none stands for all.
    kinds: Vec<String>,
    /// The line it begins on, counted from 0.
    line: usize,
    bytes: Range<usize>,
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=rules");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("rules");
    let mut groups = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(group) = name.strip_suffix(".yaml").filter(|group| !group.ends_with(".test")) {
            groups.push(group.to_owned());
        }
    }
    groups.sort_unstable();
    let mut code = String::from("&[\n");
    for group in groups {
        let file = folder.join(format!("{group}.yaml"));
        let places = places(&fs::read_to_string(&file)?)
            .map_err(|(line, error)| io::Error::other(format!("{}:{}: {error}", file.display(), line + 1)))?;
        let mut write = || {
            writeln!(code, "    File {{ group: {group:?}, text: include_str!({file:?}), rules: &[")?;
            for Place { kinds, line, bytes } in &places {
                writeln!(
                    code,
                    "        Place {{ kinds: &{kinds:?}, line: {line}, start: {}, end: {} }},",
                    bytes.start, bytes.end
                )?;
            }
            writeln!(code, "    ] }},")
        };
        write().map_err(io::Error::other)?;
    }
    code.push_str("]\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("builtin.rs"), code)
}

/// Where the rules of a file stand. An error has its line, counted from 0.
fn places(text: &str) -> Result<Vec<Place>, (usize, &'static str)> {
    let mut places: Vec<Place> = Vec::new();
    let mut at = 0;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        if content.starts_with(RULE) {
            places.push(Place { kinds: Vec::new(), line, bytes: at..text.len() });
            let count = places.len();
            if let Some(before) = count.checked_sub(2).and_then(|index| places.get_mut(index)) {
                before.bytes.end = at;
            }
        } else if content.trim_end() == "---" {
            return Err((line, "a file of the pack is one document"));
        }
        at += content.len();
    }
    for place in &mut places {
        let rule = text.get(place.bytes.clone()).unwrap_or_default();
        place.kinds = kinds(rule)
            .ok_or((place.line, "write `kind: A`, `kind: [A, B]` on one line, or a list of lines"))?;
    }
    Ok(places)
}

/// The kinds that a rule's match names.
fn kinds(rule: &str) -> Option<Vec<String>> {
    let (before, rest) = rule.split_once("kind:")?;
    // What follows the match on lines of its own has four spaces before it, a match on several lines has more.
    if before.lines().skip(1).any(|line| line.starts_with("    ") && !line.starts_with("     ")) {
        return None;
    }
    let mut lines = rest.lines();
    let first = lines.next()?.trim();
    let names: Vec<&str> = match first.strip_prefix('[') {
        Some(list) => list.split_once(']')?.0.split(',').collect(),
        None if first.is_empty() => lines.map_while(|line| line.trim().strip_prefix("- ")).collect(),
        None => first.split([',', '}']).take(1).collect(),
    };
    let names: Vec<String> =
        names.into_iter().map(|name| name.trim().trim_matches(['"', '\'']).to_owned()).collect();
    if names.iter().any(String::is_empty) || names.is_empty() {
        return None;
    }
    let is_all = names.iter().any(|name| name == "*");
    Some(if is_all { Vec::new() } else { names })
}
