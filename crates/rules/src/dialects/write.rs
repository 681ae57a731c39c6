//! Rules written as YAML of a rule pack.

use std::fmt::Write as _;

use settled_cel::Function;

use super::check;
use crate::cel::source::Names;
use crate::document::{LoadError, Sourced};
use crate::draft::{Check, Draft, DraftBranch, DraftWords, Says};
use crate::matching::Match;
use crate::provenance::Provenance;

impl Draft {
    /// The rule as an item of the list `rules`.
    ///
    /// # Errors
    /// When an expression uses names that a pack can't have.
    pub(crate) fn to_yaml(&self) -> Result<String, LoadError> {
        let mut yaml = format!("  - match: {}\n", match_of(&self.matches));
        if let Some(provenance) = &self.provenance {
            line(&mut yaml, 4, "source", &source(provenance));
        }
        let mut checks = Vec::new();
        for (key, check) in [("deletion", &self.checks_deletion), ("generation", &self.checks_generation)] {
            match check {
                Check::On => {}
                Check::Off => checks.push(format!("{key}: false")),
                Check::When(when) => checks.push(format!("{key}: {}", quoted(&self.expression(when)?))),
            }
        }
        if !checks.is_empty() {
            line(&mut yaml, 4, "checks", &format!("{{{}}}", checks.join(", ")));
        }
        for says in Says::ALL {
            let branches: Vec<&DraftBranch> =
                self.branches.iter().filter(|branch| branch.says == says).collect();
            match branches.as_slice() {
                [] => {}
                [one] if is_bare(&one.words) => {
                    line(&mut yaml, 4, says.key(), &scalar(&self.expression(&one.when)?, 4));
                }
                several => {
                    let _ = writeln!(yaml, "    {}:", says.key());
                    for branch in several {
                        line(&mut yaml, 6, "- when", &scalar(&self.expression(&branch.when)?, 8));
                        words(&mut yaml, 8, &branch.words);
                    }
                }
            }
        }
        if let Some(otherwise) = &self.otherwise {
            yaml.push_str("    otherwise:\n");
            words(&mut yaml, 6, otherwise);
        }
        Ok(yaml)
    }

    /// An expression as a pack has it: there, only the known fields are names.
    fn expression(&self, expression: &Sourced) -> Result<String, LoadError> {
        let text = expression.text.trim();
        if self.names == Names::Known || check(expression, Names::Known).is_ok() {
            return Ok(text.to_owned());
        }
        let known = with_self(text);
        match check(&expression.with(known.clone()), Names::Known) {
            Ok(()) => Ok(known),
            Err(error) => Err(expression.error(0, error.message)),
        }
    }
}

fn line(yaml: &mut String, indent: usize, key: &str, value: &str) {
    let _ = writeln!(yaml, "{:indent$}{key}: {value}", "");
}

/// The map of a rule's source, in one line.
fn source(provenance: &Provenance) -> String {
    match provenance {
        Provenance::Unverified(reason) => format!("{{unverified: {}}}", quoted(reason)),
        Provenance::Checked(source) => {
            let paths: Vec<String> = source.paths.iter().map(|path| quoted(path)).collect();
            format!(
                "{{repository: {}, version: {}, paths: [{}], generation: {}}}",
                quoted(&source.repository),
                quoted(&source.version),
                paths.join(", "),
                source.generation.name()
            )
        }
    }
}

fn is_bare(words: &DraftWords) -> bool {
    let DraftWords { from, reason, message, class, terminal } = words;
    from.is_none() && reason.is_none() && message.is_none() && class.is_none() && !terminal
}

fn words(yaml: &mut String, indent: usize, words: &DraftWords) {
    for (key, text) in [("from", &words.from), ("reason", &words.reason), ("message", &words.message)] {
        if let Some(text) = text {
            line(yaml, indent, key, &scalar(&text.text, indent));
        }
    }
    if let Some(class) = words.class {
        line(yaml, indent, "class", class.as_str());
    }
    if words.terminal {
        line(yaml, indent, "terminal", "true");
    }
}

/// The map of a match, in one line.
pub(super) fn match_of(matches: &Match) -> String {
    let word = |text: &str| {
        let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'/'))
            && is_text(text);
        if is_plain { text.to_owned() } else { quoted(text) }
    };
    let words = |texts: &[Box<str>]| match texts {
        [one] => word(one),
        several => format!("[{}]", several.iter().map(|text| word(text)).collect::<Vec<_>>().join(", ")),
    };
    let mut parts = vec![
        format!("group: {}", word(&matches.group.to_string())),
        format!("kind: {}", matches.kinds.as_deref().map_or_else(|| word("*"), words)),
    ];
    if !matches.versions.is_empty() {
        parts.push(format!("version: {}", words(&matches.versions)));
    }
    for (key, text) in [("name", &matches.name), ("namespace", &matches.namespace)] {
        parts.extend(text.as_ref().map(|text| format!("{key}: {}", word(text))));
    }
    if !matches.labels.is_empty() {
        let labels = matches.labels.iter().map(|(key, value)| format!("{}: {}", word(key), word(value)));
        parts.push(format!("labels: {{{}}}", labels.collect::<Vec<_>>().join(", ")));
    }
    format!("{{{}}}", parts.join(", "))
}

/// Whether a plain scalar of YAML stays a text, whatever the reader's version.
fn is_text(text: &str) -> bool {
    !matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    )
}

/// A text as a scalar of YAML: plain where it can be, else in quotes, its lines below where it has several.
fn scalar(text: &str, indent: usize) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.contains(|c: char| c.is_control())
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && is_text(text);
    if is_plain {
        return text.to_owned();
    }
    let is_block = text.contains('\n')
        && text.lines().all(|line| !line.is_empty() && line.trim_end() == line)
        && !text.starts_with(' ')
        && !text.ends_with('\n')
        && !text.contains(|c: char| c.is_control() && c != '\n');
    if is_block {
        let lines = text.lines().map(|line| format!("\n{:1$}{line}", "", indent + 2));
        return ["|-".to_owned()].into_iter().chain(lines).collect();
    }
    quoted(text)
}

fn quoted(text: &str) -> String {
    if text.contains('\'') && !text.contains(['"', '\\']) && !text.contains(|c: char| c.is_control()) {
        return format!("\"{text}\"");
    }
    if text.contains(|c: char| c.is_control()) {
        // What JSON writes, YAML reads.
        return serde_json::Value::from(text).to_string();
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Puts `self.` before the names that are fields of the object. What a comprehension binds stays as it is.
fn with_self(text: &str) -> String {
    const KNOWN: [&str; 7] = ["apiVersion", "kind", "metadata", "spec", "status", "data", "self"];
    const WORDS: [&str; 4] = ["true", "false", "null", "in"];
    if text.contains("'''") || text.contains("\"\"\"") {
        // Rare: the caller sees that nothing has changed.
        return text.to_owned();
    }
    let tokens = tokens(text);
    let at = |index: usize| tokens.get(index).copied().unwrap_or_default();
    let is_name = |token: &str| {
        token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut bound: Vec<&str> = Vec::new();
    let is_bound_at = |index: usize| {
        index >= 3
            && at(index - 1) == "("
            && matches!(at(index - 2), "all" | "exists" | "exists_one" | "map" | "filter")
            && at(index - 3) == "."
            && at(index + 1) == ","
    };
    bound.extend((0..tokens.len()).filter(|index| is_bound_at(*index)).map(at));
    let mut written = String::with_capacity(text.len() + 16);
    let mut rest = text;
    for (index, token) in tokens.iter().enumerate() {
        // White space and comments between tokens stay.
        if let Some(start) = rest.find(token) {
            written.push_str(rest.get(..start).unwrap_or_default());
            rest = rest.get(start + token.len()..).unwrap_or_default();
        }
        let is_member = index > 0
            && (at(index - 1) == "." || (index > 1 && at(index - 1) == "?" && at(index - 2) == "."));
        let is_call = at(index + 1) == "(";
        let is_library =
            at(index + 1) == "." && Function::named(&[token, ".", at(index + 2)].concat()).is_some();
        let is_field = is_name(token)
            && !is_member
            && !is_call
            && !is_library
            && !KNOWN.contains(token)
            && !WORDS.contains(token)
            && !bound.contains(token);
        if is_field {
            written.push_str("self.");
        }
        written.push_str(token);
    }
    written.push_str(rest);
    written
}

/// Names, texts, and single characters; white space and comments are left out.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if c.is_whitespace() => {
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
                continue;
            }
            '/' if rest.starts_with("//") => {
                rest = rest.find('\n').and_then(|end| rest.get(end..)).unwrap_or_default();
                continue;
            }
            '\'' | '"' => text_length(rest, first, false),
            c if c.is_ascii_alphanumeric() || c == '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let after = rest.get(end..).unwrap_or_default();
                // `r'…'`: the quotes belong to the word before.
                match after.chars().next() {
                    Some(quote @ ('\'' | '"')) if end <= 2 => {
                        let is_raw = rest.get(..end).is_some_and(|word| word.contains(['r', 'R']));
                        end + text_length(after, quote, is_raw)
                    }
                    _ => end,
                }
            }
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// The length of a text in quotes with which `rest` begins.
fn text_length(rest: &str, quote: char, is_raw: bool) -> usize {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' if !is_raw => drop(chars.next()),
            char if char == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_object_get_self() {
        for (text, written) in [
            ("health.ready", "self.health.ready"),
            ("status.health == health", "status.health == self.health"),
            ("has(health.ready) && !ready", "has(self.health.ready) && !self.ready"),
            (
                "webhooks.all(w, w.name != webhooks[0].?name.orValue('webhooks'))",
                "self.webhooks.all(w, w.name != self.webhooks[0].?name.orValue('webhooks'))",
            ),
            ("math.greatest(a, b) > 1 // math", "math.greatest(self.a, self.b) > 1 // math"),
            (r"r'\' in names", r"r'\' in self.names"),
            (r"'it\'s' in names", r"'it\'s' in self.names"),
            ("size(items) > 1e3", "size(self.items) > 1e3"),
        ] {
            assert_eq!(with_self(text), written);
        }
    }

    #[test]
    fn scalars_read_back() {
        for text in [
            "status.phase == 'Up'",
            "!ready",
            "'a' == \"b\"",
            "a: b",
            "true",
            "x # y",
            "one\ntwo",
            "one\n\ntwo",
            " a",
            "it's",
            "\"it's\" \\",
            "",
            "a\tb",
            "- a",
            "ends:",
        ] {
            let yaml = format!("key: {}\n", scalar(text, 0));
            let mut json = Vec::new();
            settled_manifest::yaml_to_json_with_places(yaml.as_bytes(), &mut json, &mut Vec::new()).unwrap();
            let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(value["key"], text, "{yaml}");
        }
    }
}
