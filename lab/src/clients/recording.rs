//! Recorded output of client commands, and its comparison with that of a run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::script::Script;

/// Maximum number and length of printed differing lines per command.
const MAX_DIFFERING_LINES: usize = 40;
pub(super) const MAX_LINE_LENGTH: usize = 400;
/// Output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) command: String,
    /// Marked lines of output, errors, and the exit code.
    pub(super) lines: Vec<String>,
}

#[derive(Default)]
pub(super) struct Compared {
    pub(super) equal: usize,
    /// Differences that the script accepts.
    pub(super) meant: Vec<String>,
    pub(super) wrong: Vec<String>,
    /// Accepted differences that did not occur.
    pub(super) never: Vec<String>,
}

pub(super) fn compare(script: &Script, recorded: &[Said], said: &[Said]) -> Compared {
    let mut outcome = Compared::default();
    if recorded.len() != said.len() {
        outcome.wrong.push(format!(
            "    {} commands are recorded, {} were run: record again",
            recorded.len(),
            said.len()
        ));
    }
    let mut differed = BTreeSet::new();
    for (recorded, said) in recorded.iter().zip(said) {
        if recorded == said {
            outcome.equal += 1;
        } else if let Some(begins) = script.differs.keys().find(|begins| said.command.starts_with(*begins)) {
            differed.insert(begins);
            outcome.meant.push(difference(recorded, said));
        } else {
            outcome.wrong.push(difference(recorded, said));
        }
    }
    outcome.never = script.differs.keys().filter(|begins| !differed.contains(begins)).cloned().collect();
    outcome
}

/// Lines that only one side has, in order.
fn difference(recorded: &Said, said: &Said) -> String {
    let mut text = format!("    $ {}", said.command.replace('\n', "\n      "));
    if recorded.command != said.command {
        text.push_str("\n    another command is recorded: record again");
        return text;
    }
    let (a, b) = (&recorded.lines, &said.lines);
    // Length of the common subsequence from here on: outputs have at most a few hundred lines.
    let mut alike = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            alike[i][j] =
                if a[i] == b[j] { alike[i + 1][j + 1] + 1 } else { alike[i + 1][j].max(alike[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut shown) = (0, 0, 0);
    while shown < MAX_DIFFERING_LINES && (i < a.len() || j < b.len()) {
        let (mark, line) = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x == y => {
                (i, j) = (i + 1, j + 1);
                continue;
            }
            (Some(x), y) if y.is_none() || alike[i + 1][j] >= alike[i][j + 1] => {
                i += 1;
                ("real", x)
            }
            (_, Some(y)) => {
                j += 1;
                ("ours", y)
            }
            _ => break,
        };
        let line: String = line.chars().take(MAX_LINE_LENGTH).collect();
        let _ = write!(text, "\n      {mark} {line}");
        shown += 1;
    }
    text
}

/// Commands begin with `$ `, their continuation lines with `> `; then their output.
pub(super) fn to_text(said: &[Said]) -> String {
    let mut text = String::new();
    for said in said {
        text.push_str("$ ");
        text.push_str(&said.command.trim_end().replace('\n', "\n> "));
        text.push('\n');
        for line in &said.lines {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

pub(super) fn from_text(text: &str) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Said { command: command.to_owned(), lines: Vec::new() });
        } else if let Some(last) = all.last_mut() {
            match line.strip_prefix("> ") {
                Some(more) => last.command = format!("{}\n{more}", last.command),
                None => last.lines.push(line.to_owned()),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Said {
        Said { command: "one\ntwo".to_owned(), lines: lines.iter().map(|line| (*line).to_owned()).collect() }
    }

    #[test]
    fn recordings_are_read_as_they_were_written() {
        let all = [said(&["  $ output", "! errors", "= 1"]), said(&[])];
        assert_eq!(from_text(&to_text(&all)), all);
    }

    #[test]
    fn only_lines_that_differ_are_shown() {
        let text = difference(&said(&["  a", "  b", "  c"]), &said(&["  a", "  c", "  d"]));
        assert_eq!(text, "    $ one\n      two\n      real   b\n      ours   d");
    }
}
