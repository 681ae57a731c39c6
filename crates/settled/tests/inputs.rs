//! Input of files, directories and standard input: valid, malformed and hostile.

use std::fmt::Write as _;
use std::fs;

use insta::assert_snapshot;

use crate::support::{Directory, augment, config_map, failed_pod, pending_claim, status};

#[test]
fn several_files_are_one_run() {
    let directory = Directory::new(&[
        ("b.json", &config_map("b")),
        ("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"),
        ("named.txt", &config_map("named")),
    ]);
    assert_snapshot!(status("-f b.json a.yaml -f named.txt --sort none").dir(&directory).transcript(), @"
    exit code: 0
    --- stdout ---
    STATUS   OBJECT           REASON        MESSAGE
    Current  ConfigMap/b      NoStatusKind  ConfigMap has no status to wait for
    Current  ConfigMap/a      NoStatusKind  ConfigMap has no status to wait for
    Current  ConfigMap/named  NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    3 objects in shop: 3 Current (3 files, [TIME])
    ");
}

#[test]
fn a_directory_is_read_in_order() {
    let directory = Directory::new(&[
        ("dump/namespaces/shop/core/pods.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"),
        ("dump/namespaces/shop/apps/deployments.json", &config_map("two")),
        ("dump/namespaces/shop/pods/web/logs/current.log", "kind: Pod\n"),
        ("dump/version", "v1.31.0"),
        ("dump/.hidden.yaml", "kind: [\n"),
        ("dump/.git/config.yaml", "kind: [\n"),
        ("dump/A.YML", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: three}\n"),
        ("dump/lines.ndjson", &format!("{}\n{}\n", config_map("four"), config_map("five"))),
        ("dump/empty.yaml", ""),
    ]);
    assert_snapshot!(status("-f dump --sort none -o wide").dir(&directory).transcript(), @"
    exit code: 0
    --- stdout ---
    STATUS   NAMESPACE  OBJECT           REASON        BASIS           CONFIDENCE     SOURCE                                        MESSAGE
    Current             ConfigMap/three  NoStatusKind  no-status-kind  verified-rule  dump/A.YML#0                                  ConfigMap has no status to wait for
    Current  shop       ConfigMap/four   NoStatusKind  no-status-kind  verified-rule  dump/lines.ndjson#0                           ConfigMap has no status to wait for
    Current  shop       ConfigMap/five   NoStatusKind  no-status-kind  verified-rule  dump/lines.ndjson#1                           ConfigMap has no status to wait for
    Current  shop       ConfigMap/two    NoStatusKind  no-status-kind  verified-rule  dump/namespaces/shop/apps/deployments.json#0  ConfigMap has no status to wait for
    Current             ConfigMap/one    NoStatusKind  no-status-kind  verified-rule  dump/namespaces/shop/core/pods.yaml#0         ConfigMap has no status to wait for
    --- stderr ---
    5 objects: 5 Current (5 files, [TIME])
    ");
    assert_eq!(
        status("-f dump --sort source -o jsonl").dir(&directory).stdout(),
        status("-f dump -o jsonl").dir(&directory).stdout(),
    );
}

#[cfg(unix)]
#[test]
fn links_in_circles_end() {
    let directory = Directory::new(&[("dump/a/one.json", &config_map("one"))]);
    std::os::unix::fs::symlink("..", directory.path().join("dump/a/up")).unwrap();
    std::os::unix::fs::symlink("loop", directory.path().join("dump/a/loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("dump/a/dangling.yaml")).unwrap();
    std::os::unix::fs::symlink("one.json", directory.path().join("dump/a/two.json")).unwrap();
    assert_snapshot!(status("-f dump --sort none").dir(&directory).transcript(), @"
    exit code: 2
    --- stdout ---
    STATUS   OBJECT         REASON        MESSAGE
    Current  ConfigMap/one  NoStatusKind  ConfigMap has no status to wait for
    Current  ConfigMap/one  NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    error: cannot read dump/a/dangling.yaml: No such file or directory
    2 objects in shop: 2 Current (2 files, [TIME])
    ");
}

#[test]
fn unreadable_files_are_told_and_the_rest_goes_on() {
    let directory = Directory::new(&[("one.json", &config_map("one"))]);
    assert_snapshot!(status("-f missing.yaml one.json").dir(&directory).transcript(), @"
    exit code: 2
    --- stdout ---
    STATUS   OBJECT         REASON        MESSAGE
    Current  ConfigMap/one  NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    error: cannot read missing.yaml: No such file or directory
    1 object in shop: 1 Current (1 file, [TIME])
    ");
    assert_snapshot!(status("-f missing.yaml -q").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: cannot read missing.yaml: No such file or directory
    ");
}

#[test]
fn inputs_without_objects_are_an_error() {
    let directory = Directory::new(&[
        ("empty.yaml", ""),
        ("comment.yaml", "# nothing\n---\n"),
        ("dir/readme.md", "hello"),
    ]);
    assert_snapshot!(status("-f empty.yaml comment.yaml").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: no objects found in empty.yaml, comment.yaml
    ");
    assert_snapshot!(status("-f dir").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: no objects found in dir
    hint: in directories, only files ending in .yaml, .yml, .json, .jsonl or .ndjson are read
    ");
    assert_snapshot!(status("-f - -o json").transcript(), @"
    exit code: 2
    --- stdout ---
    []
    --- stderr ---
    error: no objects found in standard input
    ");
    assert_snapshot!(augment("-f -").transcript(), @"
    exit code: 2
    --- stderr ---
    error: no objects found in standard input
    ");
    let list = r#"{"apiVersion":"v1","kind":"List","items":[]}"#;
    assert_eq!(status("-f - -q").stdin(list).code(), 2);
}

#[test]
fn malformed_documents_do_not_hide_the_others() {
    #[track_caller]
    fn check(input: &str) -> String {
        let output = status("-f - -o jsonl").stdin(input).output();
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
        let mut lines = String::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let name = row.get("name").map_or("-", |name| name.as_str().unwrap());
            let _ = writeln!(
                lines,
                "{} {name} {} {}: {}",
                row["document"], row["status"], row["reason"], row["message"]
            );
        }
        lines
    }
    let good = config_map("good");
    assert_snapshot!(check(&format!("{good}\n{{\"kind\": }}\n{good}\n")), @r#"
    0 good "Current" "NoStatusKind": "ConfigMap has no status to wait for"
    1 - "Unknown" "Malformed": ".kind: missing: this is no Kubernetes object"
    2 good "Current" "NoStatusKind": "ConfigMap has no status to wait for"
    "#);
    assert_snapshot!(check("kind: Pod\n  bad: [\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n"), @r#"
    0 - "Unknown" "Malformed": "line 2, column 6: mapping values are not allowed in this context"
    1 good "Current" "NoStatusKind": "ConfigMap has no status to wait for"
    "#);
    assert_snapshot!(check(&format!("{good}\n[1, \"two\"]\n")), @r#"
    0 good "Current" "NoStatusKind": "ConfigMap has no status to wait for"
    1 - "Unknown" "Malformed": "line 2, column 2: expected an object as the item of a list"
    "#);
    assert_snapshot!(check(&format!("---\njust text\n---\n{good}\n---\n- 1\n")), @r#"
    0 - "Unknown" "Malformed": "line 2, column 1: expected an object, found a string"
    1 good "Current" "NoStatusKind": "ConfigMap has no status to wait for"
    2 - "Unknown" "Malformed": "line 6, column 1: expected an object as the item of a list"
    "#);
    assert_snapshot!(check(&format!("{good}\n{{\"kind\":\"Pod\",\"metadata\":{{")), @r#"
    0 good "Current" "NoStatusKind": "ConfigMap has no status to wait for"
    1 - "Unknown" "Malformed": "line 2, column 27: unexpected end of input"
    "#);
    assert_snapshot!(check(&format!("{good}\n\"\\ud800\"\n{{\"kind\":\"Pod\",\"metadata\":{{\"name\":7}}}}\n")), @r#"
    0 good "Current" "NoStatusKind": "ConfigMap has no status to wait for"
    1 - "Unknown" "Malformed": "line 2, column 1: expected a JSON object, or '---' before YAML"
    2 - "InProgress" "PodNotObserved": "Pod phase not available"
    "#);
}

#[test]
fn bytes_of_any_kind_give_an_answer() {
    for input in [
        &b"\x00\x00\x00"[..],
        b"\xff\xfe{\x00}\x00",
        b"\x80\x81\x82",
        b"{\"kind\":\"Pod\xff\",\"metadata\":{\"name\":\"\xc3\x28\"}}",
        b"\xef\xbb\xbf{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}",
        b"}}}}]]]]",
        b"&a [*a, *a]",
        b"\x7fELF\x02\x01\x01",
        b"%PDF-1.7",
    ] {
        for output in ["table", "wide", "json", "jsonl", "yaml"] {
            let result = status("-f - -o").arg(output).stdin(input).output();
            let stderr = String::from_utf8_lossy(&result.stderr);
            let code = result.status.code();
            assert!(matches!(code, Some(0 | 2 | 3)), "{code:?} {input:?} {stderr}");
            assert!(!stderr.contains("panicked"), "{input:?} {stderr}");
        }
        assert!(augment("-f -").stdin(input).code() <= 2, "{input:?}");
    }
}

#[test]
fn an_object_above_the_limit_is_malformed() {
    let large = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"large"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(100_000)
    );
    let input = format!("{}\n{large}\n{}\n", config_map("a"), config_map("b"));
    let run =
        |arguments: &str| status(&format!("-f - --sort none {arguments}")).stdin(input.clone()).transcript();
    assert_snapshot!(run("--max-object-size 64KiB"), @"
    exit code: 3
    --- stdout ---
    STATUS   NAMESPACE  OBJECT       REASON        MESSAGE
    Current  shop       ConfigMap/a  NoStatusKind  ConfigMap has no status to wait for
    Unknown             -#1          Malformed     line 2, column 1: the object is larger than the limit of 65536 bytes
    Current  shop       ConfigMap/b  NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    3 objects: 1 Unknown, 2 Current (1 file, [TIME])
    ");
    assert_snapshot!(run("--max-object-size 1MiB"), @"
    exit code: 0
    --- stdout ---
    STATUS   NAMESPACE  OBJECT           REASON        MESSAGE
    Current  shop       ConfigMap/a      NoStatusKind  ConfigMap has no status to wait for
    Current             ConfigMap/large  NoStatusKind  ConfigMap has no status to wait for
    Current  shop       ConfigMap/b      NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    3 objects: 3 Current (1 file, [TIME])
    ");
}

#[test]
fn deep_nesting_is_bounded() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let output = status("-f - -o jsonl").stdin(format!("{deep}\n{}", config_map("good"))).output();
    assert_eq!(output.status.code(), Some(3));
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(lines.contains("Malformed") && lines.contains("good"), "{lines}");
}

/// With many threads and small files the rows still come in the order of the input, and count within their file.
#[test]
fn order_is_the_inputs_whatever_the_threads() {
    let directory = Directory::new(&[]);
    let mut expected = Vec::new();
    for file in 0..60 {
        let name = format!("dump/{file:03}.jsonl");
        let mut content = String::new();
        for document in 0..(file * 7) % 50 {
            let object = match document % 3 {
                0 => config_map(&format!("{file}-{document}")),
                1 => pending_claim(&format!("{file}-{document}")),
                // Long ones make more than one batch of some files.
                _ => config_map(&format!("{file}-{document}"))
                    .replace("}}", &format!(r#","labels":{{"a":"{}"}}}}}}"#, "x".repeat(file * 400))),
            };
            content += &object;
            content.push('\n');
            expected.push(format!("{name}#{document} {file}-{document}"));
        }
        directory.write(&name, &content);
    }
    for threads in ["1", "2", "3", "8", "64"] {
        let output = status("-f dump -o jsonl --threads").arg(threads).dir(&directory).stdout();
        let found: Vec<_> = output
            .lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                let text = |key: &str| row[key].as_str().unwrap().to_owned();
                format!("{}#{} {}", text("source"), row["document"], text("name"))
            })
            .collect();
        assert_eq!(found, expected, "{threads} threads");
    }
}

#[test]
fn names_of_files_are_harmless_too() {
    let directory = Directory::new(&[("evil\u{1b}[31m\n.json", &failed_pod("web"))]);
    let output =
        status("-o wide -f").arg("evil\u{1b}[31m\n.json").arg("gone\u{1b}[31m").dir(&directory).transcript();
    assert!(!output.contains('\u{1b}'), "{output}");
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(status("-q -f").arg(path).code(), 1);
}
