//! Prepares the built-in pack for `src/pack.rs`: each rule in a compact form, so that neither YAML nor JSON is read when a program runs, and
//! the kinds that each is for, so that only the rules of kinds that are met are read. What only inspection reads is compressed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::key::{group_key, kind_key};

#[path = "src/key.rs"]
mod key;
mod packer;

/// How a rule of the pack begins; all that follows it is indented further.
const RULE: &str = "  - match:";
/// How the source of a rule begins.
const SOURCE: &str = "    source:";

/// A rule of a file.
struct Rule<'t> {
    /// The line it begins on, counted from 0.
    line: usize,
    text: &'t str,
}

/// What becomes of the pack.
#[derive(Default)]
struct Pack {
    /// Code: names of files, ends of their texts, and where each rule is.
    names: String,
    ends: String,
    places: String,
    /// The rules by their keys.
    index: Vec<(u32, usize)>,
    count: usize,
    rules: Vec<u8>,
    sources: Vec<u8>,
    texts: String,
    /// For each kind the status of an object that is done, a line each.
    examples: Vec<u8>,
}

/// Adds the status of the first case of each kind that is Current, unless that says only that it is suspended.
fn examples(file: &Path, out: &mut Vec<u8>) -> io::Result<()> {
    let Ok(text) = fs::read_to_string(file) else { return Ok(()) };
    let cases = json_of(&text).map_err(io::Error::other)?;
    let cases: serde_json::Value = serde_json::from_slice(&cases)?;
    let mut seen = std::collections::BTreeSet::new();
    for case in cases["cases"].as_array().into_iter().flatten() {
        let (object, expect) = (&case["object"], &case["expect"]);
        let is_done = expect["status"] == "Current" && expect["reason"] != "Suspended";
        let status = object["status"].as_object().filter(|status| is_done && !status.is_empty());
        let (Some(status), Some(version), Some(kind)) =
            (status, object["apiVersion"].as_str(), object["kind"].as_str())
        else {
            continue;
        };
        let group = version.split_once('/').map_or("", |(group, _)| group);
        if seen.insert((group.to_owned(), kind.to_owned())) {
            serde_json::to_writer(&mut *out, &(group, kind, status))?;
            out.push(b'\n');
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=rules");
    let directory = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("rules");
    let mut groups = Vec::new();
    for entry in fs::read_dir(&directory)? {
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
        let file = directory.join(format!("{group}.yaml"));
        let text = fs::read_to_string(&file)?;
        let wrong =
            |line: usize, error: &str| io::Error::other(format!("{}:{}: {error}", file.display(), line + 1));
        for rule in rules(&text).map_err(|(line, error)| wrong(line, error))? {
            pack.add(number, group, &rule).map_err(|error| wrong(rule.line, &error))?;
        }
        pack.texts.push_str(&text);
        examples(&directory.join(format!("{group}.test.yaml")), &mut pack.examples)?;
        writeln!(pack.names, "    \"builtin:{group}.yaml\",").map_err(io::Error::other)?;
        writeln!(pack.ends, "    {},", pack.texts.len()).map_err(io::Error::other)?;
    }
    pack.index.sort_unstable();
    // About one key in each part: none is searched for.
    const PART_SHIFT: u32 = 22;
    let parts = 0..=u32::MAX >> PART_SHIFT;
    let ends = parts.map(|part| pack.index.partition_point(|(key, _)| key >> PART_SHIFT <= part));
    let part_ends: Vec<usize> = ends.collect();
    let suffixes: Vec<&String> = groups.iter().filter(|group| group.starts_with('_')).collect();
    let Pack { names, ends, places, index, count, rules, sources, texts, examples } = pack;
    let code = format!(
        "pub(crate) const COUNT: usize = {count};\n\
         static NAMES: [&str; {}] = [\n{names}];\n\
         static ENDS: [u32; {}] = [\n{ends}];\n\
         pub(crate) static SUFFIXES: &[&str] = &{suffixes:?};\n\
         static PLACES: [Place; COUNT] = [\n{places}];\n\
         static INDEX: [(u32, u16); {}] = {index:?};\n\
         const PART_SHIFT: u32 = {PART_SHIFT};\n\
         static PART_ENDS: [u16; {}] = {part_ends:?};\n\
         static RULES: &[u8] = include_bytes!(\"rules.bin\");\n",
        groups.len(),
        groups.len(),
        index.len(),
        part_ends.len(),
    );
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let write = |name: &str, bytes: &[u8]| fs::write(Path::new(&out).join(name), bytes);
    write("rules.bin", &rules)?;
    write("sources.deflate", &compressed(&sources)?)?;
    write("texts.deflate", &compressed(texts.as_bytes())?)?;
    write("examples.deflate", &compressed(&examples)?)?;
    write("pack.rs", code.as_bytes())
}

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

impl Pack {
    fn add(&mut self, file: usize, group: &str, rule: &Rule<'_>) -> Result<(), String> {
        let (body, source) = without_source(rule.text);
        let (start, source_start) = (self.rules.len(), self.sources.len());
        let json = json_of(&body)?;
        // The text is a list of one.
        let json = serde_json::from_slice(inside(&json, b"[", b"]")?).map_err(|error| error.to_string())?;
        packer::pack(&json, &mut self.rules)?;
        let mut is_verified = false;
        if !source.is_empty() {
            let json = json_of(&source)?;
            let source = inside(&json, b"{\"source\":", b"}")?;
            is_verified = !source.starts_with(b"{\"unverified\":");
            self.sources.extend_from_slice(source);
        }
        let kinds =
            kinds(rule.text).ok_or("write `kind: A`, `kind: [A, B]` on one line, or a list of lines")?;
        let group = group_key(group);
        self.index.extend(kinds.iter().map(|kind| (kind_key(group, kind), self.count)));
        self.count += 1;
        let (line, place, source) =
            (rule.line, (start, self.rules.len()), (source_start, self.sources.len()));
        writeln!(
            self.places,
            "    Place {{ file: {file}, line: {line}, rule: {place:?}, source: {source:?}, is_verified: {is_verified} }},"
        )
        .map_err(|error| error.to_string())
    }
}

fn json_of(yaml: &str) -> Result<Vec<u8>, String> {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(yaml.as_bytes(), &mut json).map_err(|error| error.to_string())?;
    Ok(json)
}

fn inside<'j>(json: &'j [u8], before: &[u8], after: &[u8]) -> Result<&'j [u8], String> {
    let found = json.strip_prefix(before).and_then(|json| json.strip_suffix(after));
    found.ok_or_else(|| format!("unexpected JSON: {}", String::from_utf8_lossy(json)))
}

/// A rule without its source, and the source: a line, with those that are indented further.
fn without_source(rule: &str) -> (String, String) {
    let (mut body, mut source) = (String::new(), String::new());
    let mut is_source = false;
    for line in rule.split_inclusive('\n') {
        let is_deeper = line.starts_with("     ") || line.trim().is_empty();
        is_source = line.starts_with(SOURCE) || is_source && is_deeper;
        if is_source { source.push_str(line) } else { body.push_str(line) }
    }
    (body, source)
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
