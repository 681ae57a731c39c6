//! Table output.

use insta::assert_snapshot;

use crate::support::{Directory, config_map, deleted_secret, failed_pod, pending_claim, silent, status};

fn all() -> String {
    [config_map("a"), pending_claim("b"), failed_pod("c"), deleted_secret("d"), silent("e")].join("\n")
}

#[test]
fn worst_first_and_one_line_each_in_a_pipe() {
    assert_snapshot!(status("-f -").stdin(all()).transcript(), @"
    exit code: 1
    --- stdout ---
    STATUS       NAMESPACE  OBJECT                   REASON               MESSAGE
    Failed       shop       Pod/c                    Evicted              Pod was evicted: The node was low on resource: memory.
    Unknown      web        Widget/e                 NoSignal             the object has no status, and its kind has no rule
    Terminating  shop       Secret/d                 FinalizersRemaining  being deleted, held by finalizer example.com/hold for 5m
    InProgress   shop       PersistentVolumeClaim/b  NotBound             PVC is Pending
    Current      shop       ConfigMap/a              NoStatusKind         ConfigMap has no status to wait for
    --- stderr ---
    5 objects: 1 Failed, 1 Unknown, 1 Terminating, 1 InProgress, 1 Current (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    ");
}

/// It has no name but that of its source.
#[test]
fn a_document_that_cannot_be_read_has_room_for_its_source() {
    let directory = Directory::new(&[("manifests.yaml", "kind: [")]);
    assert_snapshot!(status("-f manifests.yaml --width 80").dir(&directory).transcript(), @"
    exit code: 3
    --- stdout ---
    STATUS   OBJECT            REASON
    Unknown  manifests.yaml#0  Malformed
             line 1, column 8: did not find expected node content
    --- stderr ---
    1 object: 1 Unknown (1 file, [TIME])
    ");
}

#[test]
fn wide() {
    assert_snapshot!(status("-f - -o wide").stdin(all()).transcript(), @"
    exit code: 1
    --- stdout ---
    STATUS       NAMESPACE  OBJECT                   REASON               BASIS           CONFIDENCE     CLASS        SOURCE  MESSAGE
    Failed       shop       Pod/c                    Evicted              kind-rule       verified-rule  scheduling!  -#2     Pod was evicted: The node was low on resource: memory.
    Unknown      web        Widget/e                 NoSignal             nothing         none                        -#4     the object has no status, and its kind has no rule
    Terminating  shop       Secret/d                 FinalizersRemaining  deletion        verified-rule  deletion     -#3     being deleted, held by finalizer example.com/hold for 5m
    InProgress   shop       PersistentVolumeClaim/b  NotBound             kind-rule       verified-rule  storage      -#1     PVC is Pending
    Current      shop       ConfigMap/a              NoStatusKind         no-status-kind  verified-rule               -#0     ConfigMap has no status to wait for
    --- stderr ---
    5 objects: 1 Failed, 1 Unknown, 1 Terminating, 1 InProgress, 1 Current (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    ");
}

#[test]
fn one_namespace_needs_no_column() {
    let input = [config_map("a"), pending_claim("b")].join("\n");
    assert_snapshot!(status("-f -").stdin(input).transcript(), @"
    exit code: 3
    --- stdout ---
    STATUS      OBJECT                   REASON        MESSAGE
    InProgress  PersistentVolumeClaim/b  NotBound      PVC is Pending
    Current     ConfigMap/a              NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    2 objects in shop: 1 InProgress, 1 Current (1 file, [TIME])
    ");
}

#[test]
fn terminals_of_any_width() {
    for width in [140, 80, 40] {
        let name = format!("table-{width}");
        assert_snapshot!(name, status(&format!("-f - --width {width}")).stdin(all()).transcript());
        let name = format!("wide-{width}");
        assert_snapshot!(name, status(&format!("-f - -o wide --width {width}")).stdin(all()).transcript());
    }
    for width in 1..200 {
        let limit = width.max(20);
        let output = status(&format!("-f - --width {width}")).stdin(all()).stdout();
        assert!(output.lines().all(|line| line.chars().count() <= limit), "{width}:\n{output}");
    }
}

/// It is broken, where the width is limited, rather than all rows being laid out in another way.
#[test]
fn one_long_name_leaves_the_others_alone() {
    let name = "a-name-of-a-length-that-nobody-types-by-hand-but-that-generators-like-6b8c9d7f5";
    let input = [config_map("a"), pending_claim(name), failed_pod("c"), silent("d")].join("\n");
    assert_snapshot!(status("-f - --width 130").stdin(input.clone()).transcript(), @"
    exit code: 1
    --- stdout ---
    STATUS      NAMESPACE  OBJECT                                       REASON        MESSAGE
    Failed      shop       Pod/c                                        Evicted       Pod was evicted: The node was low on resource:
                                                                                      memory.
    Unknown     web        Widget/d                                     NoSignal      the object has no status, and its kind has no
                                                                                      rule
    InProgress  shop       PersistentVolumeClaim/a-name-of-a-length-th  NotBound      PVC is Pending
                           at-nobody-types-by-hand-but-that-generators
                           -like-6b8c9d7f5
    Current     shop       ConfigMap/a                                  NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    4 objects: 1 Failed, 1 Unknown, 1 InProgress, 1 Current (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    ");
    assert_snapshot!(status("-f - --width 90").stdin(input).transcript(), @"
    exit code: 1
    --- stdout ---
    STATUS      NAMESPACE  OBJECT                                                 REASON
    Failed      shop       Pod/c                                                  Evicted
                Pod was evicted: The node was low on resource: memory.
    Unknown     web        Widget/d                                               NoSignal
                the object has no status, and its kind has no rule
    InProgress  shop       PersistentVolumeClaim/a-name-of-a-length-that-nobody-  NotBound
                           types-by-hand-but-that-generators-like-6b8c9d7f5
                PVC is Pending
    Current     shop       ConfigMap/a                                            NoStatusKind
    --- stderr ---
    4 objects: 1 Failed, 1 Unknown, 1 InProgress, 1 Current (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    ");
}

#[test]
fn hostile_text_cannot_drive_the_terminal() {
    let evil = r"\u001b[2J\u001b]0;owned\u0007\u009b31m\r\n\tnext\u202eback\u007f";
    let input = format!(
        r#"{{"apiVersion":"v1","kind":"Pod{evil}","metadata":{{"namespace":"n{evil}","name":"x{evil}"}},"status":{{"conditions":[{{"type":"Ready","status":"False","reason":"R{evil}","message":"M{evil}"}}]}}}}"#
    );
    for output in ["table", "wide", "json", "jsonl", "yaml"] {
        for more in ["--width=30", "--width=0"] {
            let result = status("-f - -o").arg(output).arg(more).stdin(input.clone()).transcript();
            let harmful = result.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(harmful, None, "{output}: {result:?}");
        }
    }
    let row = status("-f - -o jsonl").stdin(input).stdout();
    let row: serde_json::Value = serde_json::from_str(&row).unwrap();
    assert!(row["name"].as_str().unwrap().starts_with("x\u{1b}[2J"));
}

#[test]
fn huge_values_do_not_make_every_row_huge() {
    let huge = "x".repeat(1 << 20);
    let input = [config_map(&huge), config_map("a"), failed_pod("b")].join("\n");
    let output = status("-f -").stdin(input.clone()).stdout();
    let lengths: Vec<_> = output.lines().map(str::len).collect();
    // The heading, the failed Pod, the small and the huge ConfigMap.
    assert!(lengths[..3].iter().all(|length| *length < 300) && lengths[3] > 1 << 20, "{lengths:?}");
    let output = status("-f - --width 80").stdin(input).stdout();
    assert!(output.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn wide_characters_keep_the_columns_straight() {
    let input = [config_map("日本語"), config_map("plain"), config_map("grüße")].join("\n");
    assert_snapshot!(status("-f -").stdin(input).stdout(), @"
    STATUS   OBJECT            REASON        MESSAGE
    Current  ConfigMap/grüße   NoStatusKind  ConfigMap has no status to wait for
    Current  ConfigMap/plain   NoStatusKind  ConfigMap has no status to wait for
    Current  ConfigMap/日本語  NoStatusKind  ConfigMap has no status to wait for
    ");
}

/// Sorting in next to no memory gives the same: what is spilled to disk comes back.
#[test]
fn a_table_is_the_same_when_it_does_not_fit_in_memory() {
    let mut input = String::new();
    for number in 0..2_000 {
        let name = format!("n{}", number * 7919 % 2_003);
        let object = match number % 4 {
            0 => failed_pod(&name),
            1 => pending_claim(&name),
            2 => silent(&name),
            _ => config_map(&name),
        };
        input += &object;
        input.push('\n');
    }
    let directory = Directory::new(&[("many.jsonl", &input)]);
    for arguments in [
        "",
        "-o wide --sort kind",
        "-o jsonl --sort status",
        "-o json --sort name",
        "-o yaml --sort namespace",
    ] {
        let run = |memory: &str| {
            status(&format!("-f many.jsonl {arguments} --sort-memory {memory}")).dir(&directory).stdout()
        };
        let expected = run("64MiB");
        assert!(expected.lines().count() >= 2_000);
        assert!(run("1KiB") == expected, "{arguments}");
        assert!(run("20KiB") == expected, "{arguments}");
    }
    // The table says the same as the sorted lines for programs.
    let table = status("-f many.jsonl").dir(&directory).stdout();
    let lines = status("-f many.jsonl -o jsonl --sort status").dir(&directory).stdout();
    for (row, line) in table.lines().skip(1).zip(lines.lines()) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let cells: Vec<_> = row.split_whitespace().take(4).collect();
        let object = format!("{}/{}", text("kind"), text("name"));
        assert_eq!(cells, [text("status"), text("namespace"), object, text("reason")]);
    }
}
