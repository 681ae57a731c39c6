//! Rules in annotations of CRDs that are in the input: before their objects, after them, in another file, on standard input.

use crate::support::{Directory, augment, settled, status};

/// A CRD whose annotation is a rule of one line.
fn definition(rule: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
  annotations:
    settled.dev/rule: |
      {rule}
spec:
  group: example.com
  names: {{kind: Widget, plural: widgets}}
status:
  conditions: [{{type: Established, status: 'True'}}, {{type: NamesAccepted, status: 'True'}}]
"
    )
}

fn up() -> String {
    definition("current: {when: status.knobs > 0, reason: Turned, message: it has knobs}")
}

fn widget(name: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nstatus: {{knobs: 1}}\n")
}

fn documents(parts: &[String]) -> String {
    parts.join("---\n")
}

/// Name and reason of each Widget, in the order of the output.
fn reasons(jsonl: &str) -> Vec<(String, String)> {
    let rows = jsonl.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    rows.filter(|row| row["kind"] == "Widget").map(|row| (text(&row["name"]), text(&row["reason"]))).collect()
}

fn expected<const N: usize>(rows: [(&str, &str); N]) -> Vec<(String, String)> {
    rows.map(|(name, reason)| (name.to_owned(), reason.to_owned())).to_vec()
}

#[test]
fn a_definition_in_a_file_counts_for_all_objects_wherever_it_stands() {
    let files = [
        ("before.yaml", documents(&[up(), widget("a")])),
        ("after.yaml", documents(&[widget("b"), up()])),
        ("z-crds/widgets.yml", up()),
        ("widgets.yaml", widget("c")),
    ];
    let directory = Directory::new(&[]);
    std::fs::create_dir(directory.path().join("z-crds")).unwrap();
    files.iter().for_each(|(name, content)| directory.write(name, content));
    let run = |arguments: &str| reasons(&status(&format!("{arguments} -o jsonl")).dir(&directory).stdout());
    assert_eq!(run("-f before.yaml"), expected([("a", "Turned")]));
    assert_eq!(run("-f after.yaml"), expected([("b", "Turned")]));
    // In another file, which comes later, and in a directory.
    assert_eq!(run("-f widgets.yaml -f z-crds/widgets.yml"), expected([("c", "Turned")]));
    assert_eq!(run("-f ."), expected([("b", "Turned"), ("a", "Turned"), ("c", "Turned")]));
    // Without it, nothing is known of the kind.
    assert_eq!(run("-f widgets.yaml"), expected([("c", "NoSignal")]));
    assert_eq!(run("-f after.yaml --no-annotations"), expected([("b", "NoSignal")]));
    assert_ne!(run("-f after.yaml --profile kstatus"), expected([("b", "Turned")]));
}

#[test]
fn a_definition_counts_in_lists_and_in_json() {
    let (definition, widget) = (up(), widget("a"));
    let mut json = Vec::new();
    let items = [widget, definition].map(|yaml| {
        json.clear();
        settled_manifest::yaml_to_json(yaml.as_bytes(), &mut json).unwrap();
        serde_json::from_slice::<serde_json::Value>(&json).unwrap()
    });
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    let directory = Directory::new(&[("list.json", &serde_json::to_string_pretty(&list).unwrap())]);
    assert_eq!(
        reasons(&status("-f list.json -o jsonl").dir(&directory).stdout()),
        expected([("a", "Turned")])
    );
}

#[test]
fn on_standard_input_a_definition_counts_for_the_objects_after_it() {
    let input = documents(&[widget("a"), up(), widget("b")]);
    for threads in ["1", "3"] {
        let run = status(&format!("-f - -o jsonl --threads {threads}")).stdin(input.as_str());
        assert_eq!(reasons(&run.stdout()), expected([("a", "NoSignal"), ("b", "Turned")]), "{threads}");
    }
    // In whatever batch they are: 4 MB before it and after it.
    let filler = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":{{\"a\":\"{}\"}}}}\n",
        "x".repeat(4000)
    );
    let mut json = Vec::new();
    let [first, last] = ["a", "b"].map(|name| {
        json.clear();
        settled_manifest::yaml_to_json(widget(name).as_bytes(), &mut json).unwrap();
        String::from_utf8(json.clone()).unwrap()
    });
    json.clear();
    settled_manifest::yaml_to_json(up().as_bytes(), &mut json).unwrap();
    let definition = String::from_utf8(json).unwrap();
    let input =
        [&first, "\n", &filler.repeat(1000), &definition, "\n", &filler.repeat(1000), &last, "\n"].concat();
    for threads in ["1", "2", "5"] {
        let run = status(&format!("-f - -o jsonl --kind Widget --threads {threads}")).stdin(input.as_str());
        assert_eq!(reasons(&run.stdout()), expected([("a", "NoSignal"), ("b", "Turned")]), "{threads}");
    }
    // A definition of a file counts for standard input, too.
    let directory = Directory::new(&[("crd.yaml", &up())]);
    let run = status("-f - -f crd.yaml -o jsonl").dir(&directory).stdin(widget("a"));
    assert_eq!(reasons(&run.stdout()), expected([("a", "Turned")]));
}

#[test]
fn a_broken_annotation_is_a_warning_with_its_place() {
    let broken = definition("current: status.knobs >");
    let directory = Directory::new(&[
        ("objects.yaml", &documents(&[widget("a"), broken.clone()])),
        ("fine.yaml", &documents(&[widget("b")])),
    ]);
    let output = status("-f objects.yaml -f fine.yaml -o jsonl").dir(&directory).output();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(reasons(&stdout), expected([("a", "NoSignal"), ("b", "NoSignal")]));
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{stderr}");
    // The annotation's text begins on line 11 of the file.
    assert!(
        warnings[0].starts_with("warning: objects.yaml:11:")
            && warnings[0].contains("annotation of CRD widgets.example.com ignored: "),
        "{stderr}"
    );

    let output = status("-f - -o jsonl").stdin(documents(&[broken, widget("a")])).output();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(reasons(&stdout), expected([("a", "NoSignal")]));
    assert_eq!(stderr.matches("warning: standard input:6:").count(), 1, "{stderr}");
}

#[test]
fn explain_and_augment_read_definitions_too() {
    let directory =
        Directory::new(&[("after.yaml", &documents(&[widget("a"), definition("failed: status.knobs > 0")]))]);
    let explained = settled("rules explain -f after.yaml --kind Widget").dir(&directory).stdout();
    assert!(explained.contains("failed: status.knobs > 0"), "{explained}");
    let augmented = augment("-f after.yaml -o json").dir(&directory).stdout();
    assert!(augmented.contains("Stalled"), "{augmented}");
}
