//! Input of `netpol`: files, directories, standard input, malformed and half-valid policies, unknown providers, profiles of users.

use std::fmt::Write as _;

use insta::assert_snapshot;

use super::{MYEGRESS, PLAIN, directory, errors, json, netpol, row};
use crate::support::{Directory, config_map};

#[test]
fn an_unknown_provider_or_version_is_never_supported() {
    let directory = directory();
    let (code, text) = errors(netpol("check -f k8s --provider celium@1.16").dir(&directory));
    assert_eq!(code, 3, "{text}");
    assert!(text.starts_with("error: no profile for provider `celium`; known providers: "), "{text}");
    for version in ["9.0", "0.1", "latest", "sha256-abc"] {
        let (code, report) =
            json(netpol(&format!("check -f k8s --provider cilium@{version} -o json")).dir(&directory));
        assert_eq!(code, 3, "{version}: {report}");
        for name in ["myegress", "plain"] {
            assert_eq!(row(&report, name)["status"], "Unknown", "{version}: {report}");
        }
        assert!(report["providers"][0]["unknown"].is_string(), "{report}");
    }
    // Without a version, too.
    assert_eq!(netpol("check -f k8s --provider cilium").dir(&directory).code(), 3);
}

#[test]
fn a_provider_that_makes_no_sense_is_a_mistake() {
    let directory = directory();
    for provider in ["@1.16", "cilium@", "azure-npm@1.5/solaris", "cilium@1.16,warp-drive"] {
        let (code, text) = errors(netpol("check -f k8s --provider").arg(provider).dir(&directory));
        assert_eq!(code, 2, "{provider}: {text}");
        assert!(text.contains("hint: settled netpol profiles lists the providers"), "{text}");
    }
}

#[test]
fn what_is_no_policy_is_said() {
    let directory = Directory::new(&[("a.json", &config_map("a")), ("empty.yaml", "")]);
    assert_snapshot!(netpol("check -f a.json --provider cilium@1.16").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: no network policies found; read 1 object
    ");
    assert_snapshot!(netpol("check -f empty.yaml --provider cilium@1.16").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: no objects found in empty.yaml
    ");
    for quiet in ["-q", "-o table", "-o wide"] {
        let run = netpol(&format!("check -f gone.yaml --provider cilium@1.16 {quiet}")).dir(&directory);
        let error = "error: cannot read gone.yaml: No such file or directory\n";
        assert_eq!(errors(run), (2, error.to_owned()), "{quiet}");
    }
}

/// The place of a mistake, and all other policies.
#[test]
fn half_valid_policies_have_places_and_lose_nothing() {
    let invalid = MYEGRESS.replace("endPort: 32000", "endPort: 29999");
    let text = format!("{PLAIN}---\n{invalid}---\nkind: [\n---\n{}", PLAIN.replace("plain", "other"));
    let directory = Directory::new(&[("all.yaml", &text)]);
    let output = netpol("check -f all.yaml --provider cilium@1.16 -o json").dir(&directory).output();
    assert_eq!(output.status.code(), Some(2));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(messages.contains("error: all.yaml: line "), "{messages}");
    let report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row(&report, "plain")["status"], "Accepted");
    assert_eq!(row(&report, "other")["status"], "Accepted");
    let row = row(&report, "myegress");
    assert_eq!((&row["status"], &row["reason"]), (&"Invalid".into(), &"InvalidPolicy".into()), "{row}");
    let finding = &row["findings"][0];
    assert_eq!(finding["path"], "spec.egress[0].ports[0].endPort");
    // 11 lines of the first document, its separator, and the line in the second.
    let line = PLAIN.lines().count() + 1 + 17;
    assert_eq!(finding["line"], line, "{finding}");
    assert!(
        finding["message"].as_str().unwrap().contains("must be greater than or equal to `port`"),
        "{finding}"
    );
}

#[test]
fn policies_come_from_pipes_lists_and_lines() {
    let directory = directory();
    let check = "check -f - --provider cilium@1.16 -o jsonl";
    let object = |name: &str| {
        format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{{"name":"{name}"}},"spec":{{"podSelector":{{}}}}}}"#
        )
    };
    for input in [
        format!("{}\n{}\n", object("a"), object("b")),
        format!(r#"{{"apiVersion":"v1","kind":"List","items":[{},{}]}}"#, object("a"), object("b")),
        format!("{PLAIN}---\n{MYEGRESS}"),
    ] {
        let output = netpol(check).stdin(input.clone()).output();
        assert_eq!(output.status.code(), Some(0), "{input}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2, "{input}");
    }
    let named = netpol("check -f k8s -n other --provider cilium@1.16").dir(&directory).output();
    assert_eq!(named.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&named.stderr).contains("no network policies found in namespace other"));
    assert_eq!(netpol("check -f k8s -n shop --provider cilium@1.16 -q").dir(&directory).code(), 0);
}

#[test]
fn policies_of_providers_are_not_passed_over_silently() {
    let own = "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: own}\nspec: {}\n";
    let directory = Directory::new(&[("k8s/own.yaml", own), ("k8s/plain.yaml", PLAIN)]);
    let output = netpol("check -f k8s --provider cilium@1.16 -o json").dir(&directory).output();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!([{
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "count": 1, "providers": ["Cilium"],
    }]);
    assert_eq!(report["notEvaluated"], expected);
    let messages = String::from_utf8(output.stderr).unwrap();
    let warning = "warning: not evaluated: 1 CiliumNetworkPolicy of cilium.io/v2, a kind of Cilium, which also decides what may connect";
    assert!(messages.contains(warning), "{messages}");
    assert_eq!(output.status.code(), Some(0));
}

/// Whose kinds they are, profiles say: the built-in ones, and those of users.
#[test]
fn kinds_of_providers_have_an_owner() {
    let object = |api_version: &str, kind: &str, name: &str| {
        format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{}}\n---\n")
    };
    let own = [
        object("projectcalico.org/v3", "GlobalNetworkPolicy", "a"),
        object("projectcalico.org/v3", "GlobalNetworkPolicy", "b"),
        object("k8s.ovn.org/v1", "EgressFirewall", "default"),
        object("mine.example.com/v1", "Wall", "w"),
        object("mine.example.com/v1", "Door", "d"),
        // Of the same group as policies, and none.
        object("cilium.io/v2", "CiliumNode", "n"),
    ];
    let profile = PROFILE.replace("features:", "own-kinds: [walls.mine.example.com]\nfeatures:");
    let directory = Directory::new(&[
        ("k8s/own.yaml", &*own.concat()),
        ("k8s/plain.yaml", PLAIN),
        ("profiles/mine.yaml", &profile),
    ]);
    let counted = |arguments: &str| {
        let run = netpol(&format!("check -f k8s --provider cilium@1.16 -o json {arguments}")).dir(&directory);
        let (code, report) = json(run);
        assert_eq!(code, 0, "{report}");
        let kinds = report["notEvaluated"].as_array().unwrap().iter();
        kinds
            .map(|kind| format!("{} {} {}", kind["count"], kind["kind"], kind["providers"]))
            .collect::<Vec<_>>()
    };
    let known = [
        r#"1 "EgressFirewall" ["OVN-Kubernetes of OpenShift","OVN-Kubernetes"]"#.to_owned(),
        r#"2 "GlobalNetworkPolicy" ["Calico"]"#.to_owned(),
    ];
    assert_eq!(counted(""), known);
    let mine = r#"1 "Wall" ["Mine"]"#.to_owned();
    assert_eq!(counted("--profiles profiles"), [known[0].clone(), mine, known[1].clone()]);
    for command in ["reach -f k8s --from shop/a --to shop/b", "diff k8s k8s"] {
        directory.write(
            "k8s/pods.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nstatus: {podIP: 10.0.0.1}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: shop}\nstatus: {podIP: 10.0.0.2}\n",
        );
        let (_, text) = errors(netpol(command).dir(&directory));
        assert!(text.contains("2 GlobalNetworkPolicies of projectcalico.org/v3, a kind of Calico"), "{text}");
    }
}

/// A dump has its provider in it: nothing is asked of a cluster.
#[test]
fn the_provider_of_a_dump_is_that_of_its_workloads() {
    let agent = r#"{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"cilium","namespace":"kube-system"},
        "spec":{"template":{"metadata":{"labels":{"k8s-app":"cilium"}},"spec":{"containers":[{"name":"cilium-agent","image":"quay.io/cilium/cilium:v1.15.1"}]}}}}"#;
    let directory = directory();
    directory.write("k8s/cilium.json", agent);
    let (code, report) = json(netpol("check -f k8s -o json").dir(&directory));
    assert_eq!(code, 1, "{report}");
    assert_eq!(row(&report, "myegress")["provider"], "cilium@v1.15.1");
    let other = agent.replace("cilium/cilium", "calico/node").replace("\"cilium\"", "\"calico-node\"");
    directory.write("k8s/calico.json", &other);
    let (code, text) = errors(netpol("check -f k8s").dir(&directory));
    assert_eq!(code, 5, "{text}");
    assert!(text.starts_with("error: several providers run in the cluster: "), "{text}");
}

/// In manifests, the templates of workloads stand for their pods.
#[test]
fn workloads_stand_for_their_pods() {
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    \
               metadata: {labels: {app: web}}\n    spec: {containers: [{name: app, image: web}]}\n";
    let directory = directory();
    directory.write("k8s/web.yaml", web);
    directory.write("k8s/db.yaml", &web.replace("web", "db"));
    directory.write("k8s/other.yaml", &web.replace("web", "other"));
    directory.write("k8s/open.yaml", &PLAIN.replace("plain", "open").replace("app: db", "app: other"));
    let ask = |to: &str| {
        netpol(&format!("reach -f k8s --from shop/db --to shop/{to} --port 5432")).dir(&directory).code()
    };
    assert_eq!(ask("web"), 0);
    assert_eq!(ask("other"), 1);
    assert_eq!(ask("nobody"), 2);
}

const PROFILE: &str = "\
provider: mine
title: Mine
domain: mine.example.com
versions: {from: \"1.0\", through: \"1.9\"}
features:
  port.end:
  - {versions: \"*\", support: dropped, carried-out: policy-ignored, scope: policy, source: \"https://example.com\", checked: source}
unlisted: supported
";

#[test]
fn profiles_of_users_are_profiles() {
    let directory = Directory::new(&[
        ("profiles/mine.yaml", PROFILE),
        (
            "profiles/broken.yaml",
            &PROFILE.replace("mine", "broken").replace("support: dropped", "support: perhaps"),
        ),
        ("myegress.yaml", MYEGRESS),
    ]);
    let (code, text) = errors(netpol("profiles --profiles profiles").dir(&directory));
    assert_eq!(code, 2, "{text}");
    // The word stands in column 30 of line 7.
    assert!(text.starts_with("error: profiles/broken.yaml:7:30: "), "{text}");
    // Nothing else is lost.
    let list = netpol("profiles --profiles profiles").dir(&directory).stdout();
    assert!(list.contains("\nmine ") && list.contains("\ncilium ") && !list.contains("broken"), "{list}");
    let check = "check -f myegress.yaml --provider mine@1.2 --profiles profiles/mine.yaml -o json";
    let (code, report) = json(netpol(check).dir(&directory));
    assert_eq!((code, &row(&report, "myegress")["status"]), (1, &"Failure".into()), "{report}");
    // With a profile that cannot be used, what is checked is not what was asked for.
    let check = check.replace("profiles/mine.yaml", "profiles");
    let (code, report) = json(netpol(&check).dir(&directory));
    assert_eq!((code, &row(&report, "myegress")["status"]), (2, &"Failure".into()), "{report}");
    let (code, text) = errors(netpol("profiles --profiles gone.yaml").dir(&directory));
    assert_eq!(code, 2, "{text}");
    assert!(text.starts_with("error: gone.yaml: No such file or directory"), "{text}");
}

/// 10,000 policies of 2 KB each: nothing is lost, and the order is that of the input.
#[test]
fn twenty_megabytes_of_policies_are_checked() {
    const COUNT: usize = 10_000;
    let peers: Vec<String> =
        (0..48).map(|peer| format!(r#"{{"ipBlock":{{"cidr":"10.{peer}.0.0/16"}}}}"#)).collect();
    let peers = peers.join(",");
    let mut text = String::new();
    for number in 0..COUNT {
        let end = if number % 1000 == 0 { r#","endPort":6000"# } else { "" };
        let _ = writeln!(
            text,
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{{"name":"p{number}","namespace":"n{}"}},"spec":{{"podSelector":{{"matchLabels":{{"app":"a{number}"}}}},"policyTypes":["Ingress"],"ingress":[{{"from":[{peers}],"ports":[{{"protocol":"TCP","port":5432{end}}}]}}]}}}}"#,
            number % 100
        );
    }
    assert!(text.len() > 18 << 20, "{} bytes", text.len());
    let output = netpol("check -f - --provider cilium@1.15 -o jsonl").stdin(text).output();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    for (index, line) in lines.lines().enumerate() {
        assert!(line.contains(&format!(r#""name":"p{index}""#)), "{line}");
        let expected = if index % 1000 == 0 { "PartialFailure" } else { "Accepted" };
        assert!(line.contains(&format!(r#""status":"{expected}""#)), "{line}");
    }
    assert_eq!(lines.lines().count(), COUNT);
}

#[test]
fn bytes_of_any_kind_give_an_answer() {
    for input in [
        &b"\x00\x00\x00"[..],
        b"{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"NetworkPolicy\"}",
        b"{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"NetworkPolicy\",\"spec\":[]}",
        b"{\"apiVersion\":\"networking.k8s.io/v9\",\"kind\":\"NetworkPolicy\",\"spec\":{}}",
        b"{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"NetworkPolicy\",\"metadata\":7,\"spec\":{\"ingress\":[[[[]]]]}}",
        b"&a [*a, *a]",
    ] {
        for output in ["table", "wide", "json", "jsonl", "yaml", "sarif", "junit", "github"] {
            let result = netpol("check -f - --provider cilium@1.16 -o").arg(output).stdin(input).output();
            let errors = String::from_utf8_lossy(&result.stderr);
            assert!(matches!(result.status.code(), Some(0..=3)), "{input:?} {errors}");
            assert!(!errors.contains("panicked"), "{input:?} {errors}");
        }
    }
}
