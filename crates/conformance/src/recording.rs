//! Recordings: the responses of a server, one file for each file of cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::target::Error;

/// Normalized responses for one file of cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// One response per step, for each case.
    pub cases: BTreeMap<String, Vec<Value>>,
}

impl Recording {
    /// Formats a recording: one response per line. A response that is equal to an earlier one of the case is the index
    /// of that step.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::from("{");
        for (at, (name, answers)) in self.cases.iter().enumerate() {
            text.push_str(if at == 0 { "\n" } else { ",\n" });
            text.push_str(&Value::from(name.as_str()).to_string());
            text.push_str(": [");
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for (step, answer) in answers.iter().enumerate() {
                text.push_str(if step == 0 { "\n" } else { ",\n" });
                let line = answer.to_string();
                match seen.get(&line) {
                    Some(before) => text.push_str(&before.to_string()),
                    None => {
                        text.push_str(&line);
                        seen.insert(line, step);
                    }
                }
            }
            text.push(']');
        }
        text.push_str("\n}\n");
        text
    }

    /// Parses the format of [`Recording::to_text`].
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the text is not a recording.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let raw: BTreeMap<String, Vec<Value>> =
            serde_json::from_str(text).map_err(|why| Error::file(name, why))?;
        let mut cases = BTreeMap::new();
        for (case, answers) in raw {
            let whole: Option<Vec<Value>> = answers
                .iter()
                .map(|answer| match answer.as_u64() {
                    Some(before) => answers.get(usize::try_from(before).ok()?).cloned(),
                    None => Some(answer.clone()),
                })
                .collect();
            let whole =
                whole.ok_or_else(|| Error::file(name, format!("{case} refers to a step it hasn't")))?;
            cases.insert(case, whole);
        }
        Ok(Self { cases })
    }
}

/// Reads all recordings of a directory, by the name of their file of cases.
///
/// # Errors
///
/// A file cannot be read, or is not a recording.
pub fn load_recordings(directory: &Path) -> Result<BTreeMap<String, Recording>, Error> {
    let shown = directory.display().to_string();
    let entries = fs::read_dir(directory).map_err(|why| Error::file(&shown, why))?;
    let mut recordings = BTreeMap::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(".json").or_else(|| file.strip_suffix(".json.zst")) else {
            continue;
        };
        let text = settled_golden::read_to_string(&path).map_err(|why| Error::file(&shown, why))?;
        recordings.insert(name.to_owned(), Recording::parse(name, &text)?);
    }
    Ok(recordings)
}
