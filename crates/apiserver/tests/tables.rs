//! Tables against those of kube-apiserver 1.36.3: the same objects, the same cells.
//!
//! Each line of `golden/tables.jsonl.zst` is a list as the real server answered it, and its Table at the same moment.

use serde_json::Value;
use settled_apiserver::testing;

const TABLES: &[u8] = include_bytes!("golden/tables.jsonl.zst");

#[test]
fn tables_are_those_of_the_real_server() {
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in settled_golden::decompress(TABLES).unwrap().lines() {
        let golden: Value = serde_json::from_str(line).expect("a line is JSON");
        let [group, kind, now] =
            ["group", "kind", "now"].map(|field| golden[field].as_str().expect("a text"));
        let now = now.parse().expect("a time");
        let custom = Some(&golden["printerColumns"]).filter(|columns| !columns.is_null());
        let objects = golden["objects"].as_array().expect("a list");
        let table = testing::table(group, kind, custom, objects, now);
        if table["columnDefinitions"] != golden["columnDefinitions"] {
            wrong.push(format!(
                "{group} {kind}: {}\n  {}",
                table["columnDefinitions"], golden["columnDefinitions"]
            ));
        }
        for (index, object) in objects.iter().enumerate() {
            rows += 1;
            let name = &object["metadata"]["name"];
            let row = &table["rows"][index];
            if row["cells"] != golden["cells"][index] {
                wrong.push(format!(
                    "{group} {kind} {name}:\n  {}\n  {}",
                    row["cells"], golden["cells"][index]
                ));
            }
            if row.get("conditions").unwrap_or(&Value::Null) != &golden["conditions"][index] {
                wrong.push(format!("{group} {kind} {name}: conditions {}", row["conditions"]));
            }
        }
    }
    assert!(rows > 150, "only {rows} rows");
    assert!(wrong.is_empty(), "ours, then upstream's:\n{}", wrong.join("\n"));
}
