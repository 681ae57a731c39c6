//! `netpol matrix`, `profiles`, `explain`, `reach` and `diff` with files, and mistakes in arguments.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{MYEGRESS, PLAIN, directory, errors, json, netpol};
use crate::support::{Directory, settled};

#[test]
fn the_matrix_has_all_features_and_providers() {
    let (code, matrix) = json(netpol("matrix -o json"));
    assert_eq!(code, 0);
    let providers = matrix["providers"].as_array().unwrap();
    let features = matrix["features"].as_array().unwrap();
    assert!(providers.len() >= 13 && features.len() >= 40, "{} {}", providers.len(), features.len());
    for line in features.iter().chain(matrix["limits"].as_array().unwrap()) {
        assert_eq!(line["cells"].as_array().unwrap().len(), providers.len(), "{line}");
    }
    // Each variant is a column.
    let names: Vec<&str> = providers.iter().map(|provider| provider["provider"].as_str().unwrap()).collect();
    assert!(
        names.iter().any(|name| name.starts_with("azure-npm@") && name.ends_with("/windows")),
        "{names:?}"
    );
}

#[test]
fn the_matrix_is_limited_to_what_is_asked_about() {
    let arguments = "matrix --provider cilium@1.15 --provider cilium@1.16 --feature port.end";
    assert_snapshot!(netpol(arguments).transcript(), @"
    exit code: 0
    --- stdout ---
    FEATURE   cilium@1.15  cilium@1.16
    port.end  less         yes
    ");
    let text = netpol(&format!("{arguments} -o markdown")).stdout();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("| feature | cilium@1.15 | cilium@1.16 |").map(|line| line.replace('@', "\\@")).as_deref()
    );
    assert_eq!(lines.next(), Some("|---|---|---|"));
    assert!(lines.next().unwrap().ends_with("`port.end` | less[^1] | yes |"), "{text}");
    assert!(
        text.contains("\n[^1]: ") && text.contains("Supported since 1.16.") && text.contains("<https://"),
        "{text}"
    );
    let (code, text) = errors(netpol("matrix --feature port.ned"));
    assert_eq!(code, 2);
    assert!(text.starts_with("error: unknown feature `port.ned`; did you mean `port.end`?\n"), "{text}");
    let (code, matrix) = json(netpol("matrix --provider cilium@99 --feature port.end -o json"));
    assert_eq!((code, &matrix["features"][0]["cells"][0]["summary"]), (3, &json!("unknown")), "{matrix}");
}

#[test]
fn profiles_are_listed_and_shown() {
    let list = netpol("profiles").stdout();
    assert!(list.starts_with("NAME "), "{list}");
    for name in [
        "antrea",
        "aws-vpc-cni",
        "azure-npm",
        "calico",
        "cilium",
        "flannel",
        "kube-router",
        "ovn-kubernetes",
        "weave",
    ] {
        assert!(list.contains(&format!("\n{name} ")), "{name}: {list}");
    }
    let one = netpol("profiles cilium").stdout();
    for words in ["detected by DaemonSet cilium", "conditions  cilium.io/Accepted", "port.end", "enable-sctp"]
    {
        assert!(one.contains(words), "{words}: {one}");
    }
    let (_, value) = json(netpol("profiles -o json"));
    assert!(value.as_array().unwrap().iter().all(|profile| profile["features"].as_u64().unwrap() > 0));
    let (code, text) = errors(netpol("profiles celium"));
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("known providers: "), "{text}");
}

#[test]
fn policies_are_explained() {
    let directory = directory();
    let (code, value) = json(netpol("explain plain -f k8s -o json").dir(&directory));
    assert_eq!((code, &value[0]["name"]), (0, &json!("plain")), "{value}");
    let sentences = value[0]["sentences"].as_array().unwrap();
    assert!(sentences.iter().any(|sentence| sentence["path"] == "spec.ingress[0]"), "{value}");
    let (code, value) = json(
        netpol("explain NetworkPolicy/myegress -n shop -f k8s --provider cilium@1.15 -o json")
            .dir(&directory),
    );
    assert_eq!((code, &value[0]["providers"][0]["status"]), (1, &json!("PartialFailure")), "{value}");
    for missing in
        ["explain nobody -f k8s", "explain plain -n other -f k8s", "explain adminnetworkpolicy/plain -f k8s"]
    {
        let (code, text) = errors(netpol(missing).dir(&directory));
        assert_eq!(code, 2, "{missing}: {text}");
        assert!(text.starts_with("error: no policy "), "{text}");
    }
}

const PODS: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop","labels":{"app":"web"}},"spec":{},"status":{"podIP":"10.0.0.1"}}
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-0","namespace":"shop","labels":{"app":"db"}},"spec":{},"status":{"podIP":"10.0.0.2"}}
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other-0","namespace":"shop","labels":{"app":"other"}},"spec":{},"status":{"podIP":"10.0.0.3"}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}
{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.1"}]}}
"#;

fn dump() -> Directory {
    let directory = directory();
    directory.write("k8s/pods.jsonl", PODS);
    directory
}

#[test]
fn connections_are_evaluated_from_files() {
    let directory = dump();
    let ask = |arguments: &str| json(netpol(&format!("reach -f k8s {arguments} -o json")).dir(&directory));
    for (arguments, expected) in [
        ("--from other-0 -n shop --to db-0 --port 5432", 1),
        ("--from shop/db-0 --to shop/web-0 --port 80", 0),
        ("--from shop/web-0 --to 192.0.2.7 --port 30000", 0),
        ("--from shop/web-0 --to 192.0.2.7 --port 31000/tcp", 0),
        ("--from shop/web-0 --to 192.0.2.7 --port 31000/udp", 1),
        ("--from internet --to shop/db-0 --port 5432", 1),
        // The first port of the range is all that is left of it.
        ("--from shop/web-0 --to 192.0.2.7 --port 30000 --provider cilium@1.15", 0),
        ("--from shop/web-0 --to 192.0.2.7 --port 31000 --provider cilium@1.15", 1),
        ("--from shop/web-0 --to 192.0.2.7 --port 31000 --provider cilium@1.16", 0),
        ("--from shop/web-0 --to 192.0.2.7 --port 31000 --provider cilium@99", 3),
    ] {
        let (code, answer) = ask(arguments);
        assert_eq!(code, expected, "{arguments}: {answer}");
    }
    let (_, answer) = ask("--from shop/web-0 --to 192.0.2.7 --port 31000 --provider cilium@1.15");
    let connection = &answer["answers"][0]["connections"][0];
    assert_eq!(connection["asWritten"]["outcome"], "allowed", "{answer}");
    assert_eq!(connection["asCarriedOut"]["outcome"], "denied", "{answer}");
    assert_eq!(connection["because"][0]["feature"], "port.end", "{answer}");
    let text = netpol("reach -f k8s --from shop/web-0 --to 192.0.2.7 --port 31000 --provider cilium@1.15")
        .dir(&directory)
        .stdout();
    assert!(
        text.contains("as written: allowed") && text.contains("as carried out by cilium@1.15: denied"),
        "{text}"
    );
}

/// Two pods of a workload whose containers have another number for the same name, and one without it.
#[test]
fn a_port_is_named_as_users_name_it() {
    let directory = directory();
    let pod = |name: &str, ports: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"shop","labels":{{"app":"db","pod-template-hash":"5d9"}}}},"spec":{{"containers":[{{"name":"c","ports":[{ports}]}}]}},"status":{{"podIP":"10.0.1.{}"}}}}"#,
            name.len()
        ) + "\n"
    };
    let pods = [
        pod(
            "db-5d9-a",
            r#"{"name":"sql","containerPort":5432},{"name":"dns","containerPort":53,"protocol":"UDP"}"#,
        ),
        pod("db-5d9-bb", r#"{"name":"sql","containerPort":5433}"#),
        pod("db-5d9-ccc", ""),
    ];
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"db","namespace":"shop"},"spec":{"selector":{"app":"db"},"ports":[{"name":"postgres","port":15432,"targetPort":"sql"}]}}"#;
    directory.write("k8s/pods.jsonl", &format!("{PODS}{}{service}\n", pods.concat()));
    let ask = |arguments: &str| {
        json(netpol(&format!("reach -f k8s --from shop/web-0 {arguments} -o json")).dir(&directory))
    };
    // web may connect to 5432 by `plain`, and to 192.0.2.0/24 alone by `myegress`.
    directory.write("k8s/myegress.yaml", "");
    let found = |answer: &Value| -> Vec<(String, String)> {
        let connections = answer["answers"][0]["connections"].as_array().unwrap().iter();
        connections
            .map(|connection| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let port = format!("{}/{}", text(&connection["ports"][0]), text(&connection["protocol"]));
                (format!("{} {port}", text(&connection["to"])), text(&connection["asWritten"]["outcome"]))
            })
            .collect()
    };
    let expected = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(to, outcome)| ((*to).to_owned(), (*outcome).to_owned())).collect()
    };
    let both = expected(&[("shop/db-5d9-a 5432/TCP", "allowed"), ("shop/db-5d9-bb 5433/TCP", "denied")]);
    let remark = "port sql is not the same in all pods: missing in shop/db-5d9-ccc; 5432/TCP in shop/db-5d9-a; \
                  5433/TCP in shop/db-5d9-bb";
    for arguments in ["--to shop/db --port sql", "--to shop/db:sql", "--to shop/db:sql/tcp"] {
        let (code, answer) = ask(arguments);
        assert_eq!((code, found(&answer)), (1, both.clone()), "{arguments}: {answer}");
        assert_eq!(answer["answers"][0]["connections"][0]["remarks"][0], remark, "{arguments}: {answer}");
    }
    let (code, answer) = ask("--to shop/db-5d9-a:sql");
    assert_eq!((code, found(&answer)), (0, expected(&[("shop/db-5d9-a 5432/TCP", "allowed")])), "{answer}");
    assert_eq!(answer["answers"][0]["connections"][0]["remarks"], Value::Null, "{answer}");
    let (code, answer) = ask("--to shop/db --port dns");
    assert_eq!((code, found(&answer)), (1, expected(&[("shop/db-5d9-a 53/UDP", "denied")])), "{answer}");
    // Of a Service, its own name.
    let (code, answer) = ask("--to service/shop/db --port postgres");
    assert_eq!((code, found(&answer)), (1, both), "{answer}");
    let (code, answer) = ask("--to 10.9.0.1:443");
    assert_eq!((code, &answer["port"]), (0, &Value::from("443/TCP")), "{answer}");
    let text = netpol("reach -f k8s --from shop/web-0 --to shop/db --port sql").dir(&directory).output();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(&format!("note: {remark}")), "{text}");
    for (arguments, words) in [
        (
            "--to shop/db --port http",
            "shop/db has no port http; it has dns (53/UDP), sql (5432/TCP), sql (5433/TCP)",
        ),
        ("--to service/shop/db --port sql", "service/shop/db has no port sql; it has postgres (15432/TCP)"),
    ] {
        let (code, text) =
            errors(netpol(&format!("reach -f k8s --from shop/web-0 {arguments}")).dir(&directory));
        assert_eq!(code, 2, "{arguments}: {text}");
        assert!(text.contains(words), "{arguments}: {text}");
    }
}

#[test]
fn ends_and_ports_that_make_no_sense_are_mistakes() {
    let directory = dump();
    for (arguments, words) in [
        ("--from a/b/c --to shop/db-0", "--from: invalid endpoint"),
        ("--from shop/web-0 --to shop/db-0 --port Http!", "--port Http!: expected a port number or name"),
        ("--from shop/web-0 --to shop/db-0 --port http", "shop/db-0 has no port http; it declares none"),
        ("--from shop/web-0 --to internet --port http", "internet has no port http: only pods and Services"),
        ("--from shop/web-0 --to shop/db-0 --port 0", "--port 0: 0 is no port: expected 1 to 65535"),
        ("--from shop/web-0 --to shop/db-0 --port 80/icmp", "--port 80/icmp: icmp is no protocol with ports"),
        ("--from shop/web-0 --to shop/db-0:0", "--to 0: 0 is no port"),
        (
            "--from shop/web-0 --to shop/db-0:80 --port 81",
            "--to shop/db-0:80: the port is 80 here and 81 in --port",
        ),
        ("--from shop/web-0:80 --to shop/db-0", "--from shop/web-0:80: a source has no port"),
        ("--from shop/nobody --to shop/db-0", "shop/nobody not found"),
        ("--from service/shop/web --to shop/db-0", "service/shop/web"),
    ] {
        let (code, text) = errors(netpol(&format!("reach -f k8s {arguments}")).dir(&directory));
        assert_eq!(code, 2, "{arguments}: {text}");
        assert!(text.contains(words), "{arguments}: {text}");
    }
}

#[test]
fn differences_are_those_of_connectivity() {
    let directory = Directory::new(&[
        ("a/plain.yaml", PLAIN),
        ("a/pods.jsonl", PODS),
        ("b/plain.yaml", &PLAIN.replace("port: 5432", "port: 5433")),
    ]);
    let output = netpol("diff a b").dir(&directory).output();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(
        lines,
        [
            "- shop/web-0 -> shop/db-0 TCP 5432: allowed -> denied",
            "+ shop/web-0 -> shop/db-0 TCP 5433: denied -> allowed",
        ],
        "{text}"
    );
    let (code, value) = json(netpol("diff a b -o json").dir(&directory));
    assert_eq!((code, value["results"][0]["changes"].as_array().unwrap().len()), (1, 2), "{value}");
    let (code, value) = json(netpol("diff a a -o json").dir(&directory));
    assert_eq!((code, &value["results"][0]["changes"]), (0, &Value::Array(Vec::new())), "{value}");
    // A provider for which it makes no difference.
    directory.write("c/myegress.yaml", MYEGRESS);
    directory.write("d/myegress.yaml", &MYEGRESS.replace("32000", "31000"));
    directory.write("c/pods.jsonl", PODS);
    assert_eq!(netpol("diff c d --provider cilium@1.16").dir(&directory).code(), 1);
    assert_eq!(netpol("diff c d --provider cilium@1.15").dir(&directory).code(), 0);
    // As written it changes, as carried out it does not; what a provider loses changes without a change of policies.
    let (code, value) =
        json(netpol("diff c d --provider cilium@1.15 --provider cilium@1.16 -o json").dir(&directory));
    assert_eq!(code, 1, "{value}");
    let results = value["results"].as_array().unwrap();
    let changes = |result: &Value| result["changes"].as_array().unwrap().len();
    assert_eq!(
        results
            .iter()
            .map(|result| (result["provider"].as_str().unwrap(), changes(result)))
            .collect::<Vec<_>>(),
        [("cilium@1.15", 0), ("cilium@1.16", 1)],
        "{value}"
    );
    let change = &results[1]["changes"][0];
    assert_eq!(
        [&change["from"], &change["to"], &change["before"], &change["after"]],
        ["shop/web-0", "192.0.2.0/24", "allowed", "denied"],
        "{value}"
    );
    assert_eq!(
        change["traffic"],
        serde_json::json!([{"protocol": "TCP", "ports": "31001-32000"}]),
        "{value}"
    );
    // A provider that carries out nothing: no change, whatever is written.
    assert_eq!(netpol("diff a b --provider flannel@0.25").dir(&directory).code(), 0);
    // Nothing connects where nothing is.
    let (code, text) = errors(netpol("diff b b").dir(&directory));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("have no pods"), "{text}");
}

#[test]
fn nonsense_is_a_clear_error() {
    assert_snapshot!(settled("netpol").output().status.code().unwrap(), @"2");
    let (code, text) = errors(netpol("chekc -f k8s"));
    assert_eq!(code, 2);
    assert!(text.contains("unrecognized subcommand 'chekc'") && text.contains("check"), "{text}");
    let (code, text) = errors(netpol("check --provdier cilium@1.16"));
    assert_eq!(code, 2);
    assert!(text.contains("--provider"), "{text}");
    let (code, text) = errors(netpol("diff a"));
    assert_eq!(code, 2, "{text}");
    let (code, _) = errors(netpol("diff"));
    assert_eq!(code, 2);
    let (code, _) = errors(netpol("diff a b -f c"));
    assert_eq!(code, 2);
}
