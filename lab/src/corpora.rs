//! Test corpora: locations and readers.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Outcome;

/// The golden file of the repository, which every clone has.
const GOLDEN: &str = "crates/kstatus/tests/golden/kstatus-answers-grown.jsonl.zst";

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Optional directory of corpora beside the repository.
fn shared() -> PathBuf {
    root().join("../shared/corpora")
}

/// Files of upstream's answers: all of the corpora if available, otherwise the repository's golden file.
pub(crate) fn recorded_answers() -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    if let Ok(entries) = fs::read_dir(shared()) {
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("kstatus-answers-") && name.ends_with(".jsonl.zst") {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        files.push(root().join(GOLDEN));
    }
    Ok(files)
}

/// Content of a file; decompressed if its name ends in `.zst`.
pub(crate) fn read(path: &Path) -> Outcome<Vec<u8>> {
    Ok(settled_golden::read(path)?)
}

/// A real object with the health that its kind's published tests expect.
pub(crate) struct Expected {
    /// Group and kind.
    pub(crate) kind: String,
    /// The name of the case.
    pub(crate) name: String,
    /// A status of kstatus.
    pub(crate) expect: String,
    /// The original health status.
    pub(crate) argo: String,
    pub(crate) object: Vec<u8>,
}

/// An object of the built-in pack's own cases, with the expected verdict.
pub(crate) struct PackCase {
    /// Group and kind.
    pub(crate) kind: String,
    /// The file and the name of the case.
    pub(crate) name: String,
    /// A status of kstatus; `None` if the case does not expect a status.
    pub(crate) expect: Option<String>,
    /// The time at which it is evaluated, if the case names one.
    pub(crate) now: Option<String>,
    pub(crate) object: Value,
}

/// The cases of the pack's rules, which every clone has.
pub(crate) fn pack_cases() -> Outcome<Vec<PackCase>> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("crates/rules/rules"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.to_string_lossy().ends_with(".test.yaml"));
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut json = Vec::new();
        settled_manifest::yaml_to_json(&fs::read(&path)?, &mut json)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let mut document: Value = serde_json::from_slice(&json)?;
        let list = document.pointer_mut("/cases").and_then(Value::as_array_mut).map(std::mem::take);
        for mut case in list.ok_or_else(|| format!("{file} has no cases"))? {
            let object = case["object"].take();
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let api_version = object["apiVersion"].as_str().unwrap_or_default();
            let group = api_version.rsplit_once('/').map_or("core", |(group, _)| group);
            cases.push(PackCase {
                kind: format!("{group}/{}", object["kind"].as_str().unwrap_or_default()),
                name: format!("{file}: {}", case["name"].as_str().unwrap_or_default()),
                expect: text(&case["expect"]["status"]),
                now: text(&case["now"]),
                object,
            });
        }
    }
    if cases.is_empty() {
        return Err("crates/rules/rules has no cases".into());
    }
    Ok(cases)
}

/// A case of an examination.
#[derive(Deserialize)]
pub(crate) struct ExaminationCase {
    /// Group and kind.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// A status of kstatus.
    pub(crate) expect: String,
    /// Whether its author expects others to differ.
    #[serde(default)]
    pub(crate) opinion: bool,
    pub(crate) object: Box<RawValue>,
}

/// The cases of authors who had not seen the rules, which every clone has: JSON lines.
pub(crate) fn examination(number: usize) -> Outcome<Vec<ExaminationCase>> {
    let text = read(&root().join(format!("lab/cases/examination-{number}.jsonl.zst")))?;
    let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(serde_json::from_slice).collect::<serde_json::Result<_>>()?)
}

/// The real objects of the corpus, as compact JSON; `None` if the corpus is not available.
pub(crate) fn health_cases() -> Outcome<Option<Vec<Vec<u8>>>> {
    Ok(expected_health()?.map(|cases| cases.into_iter().map(|case| case.object).collect()))
}

/// The real objects of the corpus with expected verdicts; `None` if the corpus is not available.
pub(crate) fn expected_health() -> Outcome<Option<Vec<Expected>>> {
    #[derive(Deserialize)]
    struct Case<'a> {
        kind: String,
        case: String,
        expect: String,
        argo: Argo,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Argo {
        status: String,
    }

    let path = shared().join("health-cases.jsonl");
    if !path.exists() {
        return Ok(None);
    }
    let text = read(&path)?;
    let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    let objects = lines.map(|line| {
        let case: Case<'_> = serde_json::from_slice(line)?;
        Ok(Expected {
            kind: case.kind,
            name: case.case,
            expect: case.expect,
            argo: case.argo.status,
            object: case.object.get().as_bytes().to_vec(),
        })
    });
    Ok(Some(objects.collect::<serde_json::Result<_>>()?))
}
