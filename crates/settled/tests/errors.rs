//! Invalid arguments and closed pipes.

use std::io::Read as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::support::{Directory, config_map, failed_pod, settled, status};

#[test]
fn files_and_clusters_are_two_questions() {
    assert_snapshot!(status("deploy/web").transcript(), @"
    exit code: 2
    --- stderr ---
    error: --now only applies to files
    ");
    assert_snapshot!(settled("augment deploy/web").transcript(), @"
    exit code: 2
    --- stderr ---
    error: `deploy/web`: settled augment reads files, and looks at no cluster
    hint: pass files with -f, or a pipe: kubectl get deploy/web -o yaml | settled augment -f -
    ");
}

#[test]
fn selectors_need_a_cluster() {
    assert_snapshot!(status("-f examples -l app=web").transcript(), @"
    exit code: 2
    --- stderr ---
    error: selectors only apply to objects of a cluster
    hint: name a type, as in settled status pods -l app=web; filter files with --kind and --name
    ");
}

#[test]
fn no_input_gives_a_hint() {
    assert_snapshot!(settled("status").transcript(), @"
    exit code: 2
    --- stderr ---
    error: no input
    hint: to read standard input, pass -f -: settled status -f -
    ");
    assert_snapshot!(settled("augment").transcript(), @"
    exit code: 2
    --- stderr ---
    error: no input
    hint: to read standard input, pass -f -: settled augment -f -
    ");
}

#[test]
fn wrong_values_name_the_right_ones() {
    assert_snapshot!(status("-f x -o xml").transcript(), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'xml' for '--output <FORMAT>'
      [possible values: table, wide, json, jsonl, yaml]

      tip: a similar value exists: 'yaml'

    For more information, try '--help'.
    ");
    assert_snapshot!(status("-f x --status Ready").transcript(), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'Ready' for '--status <STATUS>'
      [possible values: Failed, Unknown, NotFound, Terminating, InProgress, Current]

    For more information, try '--help'.
    ");
    assert_snapshot!(status("-f x --profile argo").transcript(), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'argo' for '--profile <PROFILE>'
      [possible values: settled, kstatus]

    For more information, try '--help'.
    ");
    assert_snapshot!(status("-f x --schedule-grace soon").transcript(), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'soon' for '--schedule-grace <DURATION>': expected a duration such as 15s or 1m30s

    For more information, try '--help'.
    ");
    assert_snapshot!(status("-f x --max-object-size 0").transcript(), @"
    exit code: 2
    --- stderr ---
    error: invalid value '0' for '--max-object-size <BYTES>': expected a size such as 65536, 512KiB or 16MiB

    For more information, try '--help'.
    ");
    assert_snapshot!(settled("status -f x --now yesterday").transcript(), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'yesterday' for '--now <TIMESTAMP>': expected a timestamp such as 2026-11-21T12:00:00Z

    For more information, try '--help'.
    ");
    assert_snapshot!(status("-f x --status Failed --not-current").transcript(), @"
    exit code: 2
    --- stderr ---
    error: the argument '--status <STATUS>' cannot be used with '--not-current'

    Usage: settled status --now <TIMESTAMP> --filename <FILE|DIR|URL|->... --status <STATUS> [TYPE/NAME]...

    For more information, try '--help'.
    ");
    assert_snapshot!(status("-f x --threads 0").transcript(), @"
    exit code: 2
    --- stderr ---
    error: invalid value '0' for '--threads <N>': 0 is not in 1..=1024

    For more information, try '--help'.
    ");
}

/// A reader that has enough closes the pipe: not an error, and not a reason to panic.
#[test]
fn a_closed_pipe_is_no_error() {
    let object = failed_pod("web") + "\n";
    let directory = Directory::new(&[("many.jsonl", &object.repeat(20_000))]);
    for output in ["table", "json", "jsonl", "yaml"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_settled"))
            .args(["status", "-f", "many.jsonl", "-o", output])
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let result = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&result.stderr);
        assert_eq!(result.status.code(), Some(1), "{output}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{output}: {stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let directory = Directory::new(&[("one.json", &config_map("one"))]);
    let output = Command::new(env!("CARGO_BIN_EXE_settled"))
        .args(["status", "-f", "one.json"])
        .current_dir(directory.path())
        .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_snapshot!(String::from_utf8_lossy(&output.stderr), @"error: cannot write the output: No space left on device");
}

#[test]
fn colours_are_for_terminals() {
    let colour = "\u{1b}[";
    let run = || status("-f -").stdin(failed_pod("web"));
    assert!(!run().transcript().contains(colour));
    assert!(run().arg("--color=always").transcript().contains(colour));
    assert!(run().arg("--color=always").env("NO_COLOR", "1").transcript().contains(colour));
    assert!(run().env("CLICOLOR_FORCE", "1").transcript().contains(colour));
    assert!(!run().env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").transcript().contains(colour));
    assert!(!run().env("CLICOLOR_FORCE", "1").arg("--color=never").transcript().contains(colour));
}
