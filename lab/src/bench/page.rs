//! Published benchmark results: printed during the run, and written to `docs/performance.md` with `--write-docs`.
//!
//! A published part stands between two marks. The first one carries a checksum of what is between them, so that a test notices
//! when somebody edits a figure.

use std::fs;
use std::process::Command;

use crate::measure::{Table, cores};
use crate::{Outcome, corpora};

/// Where all benchmarks publish.
const DOCUMENT: &str = "docs/performance.md";

/// One benchmark's part of the document.
pub(crate) struct Page {
    name: &'static str,
    text: String,
    write: bool,
}

impl Page {
    /// A part with this name; `write` puts it into the document at the end.
    pub(crate) fn new(name: &'static str, write: bool) -> Self {
        Self { name, text: String::new(), write }
    }

    /// States the machine, its load and the commit that is measured.
    pub(crate) fn machine(&mut self, command: &str) -> Outcome<()> {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(1).collect();
        let git = |words: &[&str]| {
            let output = Command::new("git").args(words).current_dir(corpora::root()).output();
            let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
            text.and_then(|text| String::from_utf8(text).ok()).map(|text| text.trim().to_owned())
        };
        let commit = git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        self.line(&format!(
            "Printed by `{command}` at commit {commit}, in one run, on {} cores with a load of {} at the start.",
            cores(),
            load.concat(),
        ));
        Ok(())
    }

    /// Adds a paragraph, or a heading, with an empty line before it.
    pub(crate) fn line(&mut self, text: &str) {
        println!("\n{text}");
        self.text.push('\n');
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Adds a table, with an empty line before it.
    pub(crate) fn table(&mut self, table: &Table) {
        self.line(table.text().trim_end());
    }

    /// Publishes what was added, if that is asked for.
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

/// The places of a part: where its first mark begins and ends, and where the last one begins.
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

    /// Figures come out of a run; nobody edits them.
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
        for name in ["verdict", "rules", "status", "apiserver", "cache"].iter().chain(&wait) {
            assert!(names.contains(name), "{DOCUMENT} has no part bench:{name}");
        }
        Ok(())
    }
}
