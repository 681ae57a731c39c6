//! The cases and recordings of the repository are as they must be.

use std::path::PathBuf;

fn directory(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/apiserver").join(name)
}

/// Every case has a recording with as many answers as it has steps that are recorded.
#[test]
fn recordings_fit_their_cases() {
    let files = settled_conformance::load(&directory("cases")).unwrap();
    let recordings = settled_conformance::load_recordings(&directory("recorded")).unwrap();
    assert!(!files.is_empty());
    for file in &files {
        let recording = recordings.get(&file.name).unwrap_or_else(|| panic!("{} is not recorded", file.name));
        assert_eq!(recording.cases.len(), file.cases.len(), "{}", file.name);
        for case in &file.cases {
            let steps = case.steps.iter().filter(|step| step.is_recorded()).count() + case.readers.len();
            let answers = recording.cases.get(&case.name).map_or(0, Vec::len);
            assert_eq!(answers, steps, "{}/{}: record it anew", file.name, case.name);
        }
    }
}
