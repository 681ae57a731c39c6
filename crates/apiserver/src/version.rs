//! Version of Kubernetes that the server reports.

use serde_json::{Value, json};

const MAJOR: &str = "1";
const MINOR: &str = "36";
const PATCH: &str = "3";
/// The oldest minor version whose clients and objects are understood.
const OLDEST_MINOR: &str = "35";

/// `v1.36.3+settled`: the version of Kubernetes that is followed. What follows `+` changes no comparison, while a `-`
/// would make it a version before.
pub fn git_version() -> String {
    format!("v{MAJOR}.{MINOR}.{PATCH}+settled")
}

/// `linux/amd64`, as Go writes it.
pub(crate) fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    format!("{system}/{machine}")
}

/// `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": OLDEST_MINOR,
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "",
        // Builds are reproducible: they have no date.
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(),
    })
}
