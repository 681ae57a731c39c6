//! Published benchmark results: printed during the run, and written to `docs/performance.md` with `--write-docs`.
//!
//! A published section is enclosed by two markers. The first one has a checksum of the section, so that a test detects
//! edited figures.

use std::fs;
use std::process::Command;

use crate::measure::{Table, cores};
use crate::{Outcome, corpora};

/// The page of all benchmarks.
const DOCUMENT: &str = "docs/performance.md";

/// The section of one benchmark.
pub(crate) struct Page {
    name: &'static str,
    text: String,
    write: bool,
}

impl Page {
    /// A section with this name; `write` makes [`Page::publish`] write it to the page.
    pub(crate) fn new(name: &'static str, write: bool) -> Self {
        Self { name, text: String::new(), write }
    }

    /// Records the machine, its load and the measured commit.
    pub(crate) fn machine(&mut self, command: &str) -> Outcome<()> {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(1).collect();
        let git = |words: &[&str]| {
            let output = Command::new("git").args(words).current_dir(corpora::root()).output();
            let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
            text.and_then(|text| String::from_utf8(text).ok()).map(|text| text.trim().to_owned())
        };
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let processor = model.map(|(_, model)| format!(" ({})", model.trim())).unwrap_or_default();
        let commit = git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        // Of this program, and of the binary that was built with it.
        let is_profiled =
            option_env!("CARGO_ENCODED_RUSTFLAGS").is_some_and(|options| options.contains("profile-use"));
        self.line(&format!(
            "Printed by `{command}` at commit {commit}, in one run, on {} cores{processor} with a load of {} at the start; built {} a profile.",
            cores(),
            load.concat(),
            if is_profiled { "with" } else { "without" },
        ));
        Ok(())
    }

    /// Adds a paragraph or heading after an empty line.
    pub(crate) fn line(&mut self, text: &str) {
        println!("\n{text}");
        self.text.push('\n');
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Adds a table after an empty line.
    pub(crate) fn table(&mut self, table: &Table) {
        self.line(table.text().trim_end());
    }

    /// Writes the section to the page, if requested.
    pub(crate) fn publish(self) -> Outcome<()> {
        if !self.write {
            return Ok(());
        }
        let path = corpora::root().join(DOCUMENT);
        let text = fs::read_to_string(&path)?;
        let replaced = replace(&text, self.name, &self.text)
            .ok_or_else(|| format!("{DOCUMENT} has no place for bench:{}", self.name))?;
        fs::write(&path, replaced)?;
        println!("\n{DOCUMENT} has the tables of `bench {}`", self.name);
        Ok(())
    }
}

fn checksum(text: &str) -> String {
    let hash = text
        .trim()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

/// Positions of a section: start and end of its first marker, and start of the last one.
fn marks(document: &str, name: &str) -> Option<(usize, usize, usize)> {
    let start = document.find(&format!("<!-- bench:{name} "))?;
    let inside = start + document[start..].find("-->")? + "-->".len();
    let end = inside + document[inside..].find(&format!("<!-- /bench:{name} -->"))?;
    Some((start, inside, end))
}

fn replace(document: &str, name: &str, part: &str) -> Option<String> {
    let (start, _, end) = marks(document, name)?;
    let part = part.trim();
    Some(format!(
        "{}<!-- bench:{name} {} -->\n\n{part}\n\n{}",
        &document[..start],
        checksum(part),
        &document[end..]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_between_its_marks() {
        let document = "a\n<!-- bench:x 0 -->\n\nold\n\n<!-- /bench:x -->\nb\n";
        let new = replace(document, "x", "\nnew\n").unwrap_or_default();
        assert_eq!(new, format!("a\n<!-- bench:x {} -->\n\nnew\n\n<!-- /bench:x -->\nb\n", checksum("new")));
        assert_eq!(replace(document, "y", "new"), None);
    }

    /// Figures are generated, never edited.
    #[test]
    fn published_parts_are_as_they_were_printed() -> Outcome<()> {
        let document = fs::read_to_string(corpora::root().join(DOCUMENT))?;
        let mut names: Vec<&str> = Vec::new();
        for (at, _) in document.match_indices("<!-- bench:") {
            let words: Vec<&str> = document[at + "<!-- bench:".len()..].split_whitespace().take(2).collect();
            let [name, sum] = words[..] else { return Err("a mark without a checksum".into()) };
            let (_, inside, end) =
                marks(&document, name).ok_or_else(|| format!("{name}: the part has no end"))?;
            assert_eq!(sum, checksum(&document[inside..end]), "the part bench:{name} was edited by hand");
            names.push(name);
        }
        let wait = ["wait-detect", "wait-fail", "wait-requests", "wait-memory", "wait-large"];
        for name in
            ["verdict", "rules", "status", "apiserver", "cache", "faults", "netpol"].iter().chain(&wait)
        {
            assert!(names.contains(name), "{DOCUMENT} has no part bench:{name}");
        }
        Ok(())
    }
}
