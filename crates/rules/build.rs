//! Prepares the built-in pack for `src/builtin.rs`: each rule as JSON, so that no YAML is read when a program runs, and the kinds that each
//! is for, so that only the rules of kinds that are met are read.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

use crate::key::{group_key, kind_key};

#[path = "src/key.rs"]
mod key;

/// How a rule of the pack begins; all that follows it is indented further.
const RULE: &str = "  - match:";

/// A rule of a file.
struct Rule<'t> {
    /// The line it begins on, counted from 0.
    line: usize,
    text: &'t str,
}

/// What becomes of the pack.
#[derive(Default)]
struct Pack {
    /// Code: the files, and where each rule is.
    files: String,
    places: String,
    /// The rules by their keys.
    index: Vec<(u32, usize)>,
    count: usize,
    json: Vec<u8>,
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
    // The same on every machine.
    groups.sort_unstable();
    let mut pack = Pack::default();
    for (number, group) in groups.iter().enumerate() {
        let file = folder.join(format!("{group}.yaml"));
        let text = fs::read_to_string(&file)?;
        let wrong =
            |line: usize, error: &str| io::Error::other(format!("{}:{}: {error}", file.display(), line + 1));
        for rule in rules(&text).map_err(|(line, error)| wrong(line, error))? {
            pack.add(number, group, &rule).map_err(|error| wrong(rule.line, &error))?;
        }
        writeln!(pack.files, "    File {{ name: \"builtin:{group}.yaml\", text: include_str!({file:?}) }},")
            .map_err(io::Error::other)?;
    }
    pack.index.sort_unstable();
    let suffixes: Vec<&String> = groups.iter().filter(|group| group.starts_with('_')).collect();
    let Pack { files, places, index, count, json } = pack;
    let code = format!(
        "const COUNT: usize = {count};\n\
         static FILES: [File; {}] = [\n{files}];\n\
         static SUFFIXES: &[&str] = &{suffixes:?};\n\
         static PLACES: [Place; COUNT] = [\n{places}];\n\
         static INDEX: [(u32, u16); {}] = {index:?};\n\
         static JSON: &[u8] = include_bytes!(\"pack.json\");\n",
        groups.len(),
        index.len(),
    );
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("pack.json"), json)?;
    fs::write(Path::new(&out).join("builtin.rs"), code)
}

impl Pack {
    fn add(&mut self, file: usize, group: &str, rule: &Rule<'_>) -> Result<(), String> {
        let start = self.json.len();
        let mut json = Vec::new();
        settled_manifest::yaml_to_json(rule.text.as_bytes(), &mut json).map_err(|error| error.to_string())?;
        // The text is a list of one.
        let json = json.strip_prefix(b"[").and_then(|json| json.strip_suffix(b"]")).unwrap_or(&json);
        self.json.extend_from_slice(json);
        let kinds =
            kinds(rule.text).ok_or("write `kind: A`, `kind: [A, B]` on one line, or a list of lines")?;
        let group = group_key(group);
        self.index.extend(kinds.iter().map(|kind| (kind_key(group, kind), self.count)));
        self.count += 1;
        let (line, end) = (rule.line, self.json.len());
        writeln!(self.places, "    Place {{ file: {file}, line: {line}, start: {start}, end: {end} }},")
            .map_err(|error| error.to_string())
    }
}

/// The rules of a file. An error has its line, counted from 0.
fn rules(text: &str) -> Result<Vec<Rule<'_>>, (usize, &'static str)> {
    let mut starts = Vec::new();
    let mut at = 0;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        if content.starts_with(RULE) {
            starts.push((line, at));
        } else if content.trim_end() == "---" {
            return Err((line, "a file of the pack is one document"));
        }
        at += content.len();
    }
    let ends = starts.iter().skip(1).map(|(_, at)| *at).chain([text.len()]);
    let rules = starts.iter().zip(ends);
    Ok(rules
        .map(|((line, at), end)| Rule { line: *line, text: text.get(*at..end).unwrap_or_default() })
        .collect())
}

/// The kinds that a rule's match names; `*` alone for all.
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
    Some(if is_all { vec!["*".to_owned()] } else { names })
}
