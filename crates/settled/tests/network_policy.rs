//! NetworkPolicies with conditions: from the server to the verdict (KEP-2943, the first user story).

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::live::Cluster;
use crate::serve::Served;
use crate::support::Directory;

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";

fn send(cluster: &Cluster, content_type: &str, head: &str, body: &Value) {
    let answer = cluster.server.request_of_type(content_type, head, &body.to_string());
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

fn report(cluster: &Cluster, conditions: &Value) {
    let head = format!("PATCH {POLICIES}/egress/status");
    send(cluster, "application/merge-patch+json", &head, &json!({"status": {"conditions": conditions}}));
}

fn condition(type_: &str, reason: &str, message: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": "True", "reason": reason, "message": message, "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Status and reason, as `settled status -o jsonl` has them.
fn status(cluster: &Cluster, options: &str) -> (String, String) {
    let output = cluster.settled(&format!("status netpol/egress -o jsonl {options}")).stdout();
    let line: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    let text = |key: &str| line[key].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn conditions_decide() {
    let cluster = Cluster::start();
    let policy = json!({
        "metadata": {"name": "egress"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 30000, "endPort": 32000}]}]},
    });
    send(&cluster, "application/json", &format!("POST {POLICIES}"), &policy);
    // Nobody reports: there is nothing to wait for.
    assert_eq!(status(&cluster, ""), pair("Current", "NoStatusKind"));
    assert_eq!(cluster.settled("wait netpol/egress --timeout=60s -q").code(), 0);

    report(&cluster, &json!([condition("PartialFailure", "FeatureNotSupported", "endPort is ignored", 1)]));
    let text = cluster.transcript("wait netpol/egress --timeout=60s --grace configuration=0s");
    assert!(text.starts_with("exit code: 1\n"), "{text}");
    assert!(text.contains("PartialFailure") && text.contains("endPort is ignored"), "{text}");

    // A condition of the generation before is no evidence.
    let spec = json!({"spec": {"policyTypes": ["Egress", "Ingress"]}});
    send(&cluster, "application/merge-patch+json", &format!("PATCH {POLICIES}/egress"), &spec);
    assert_eq!(status(&cluster, ""), pair("InProgress", "LatestGenerationNotObserved"));
    let failure = condition("cilium.io/Failure", "FeatureNotSupported", "endPort is not supported", 2);
    report(&cluster, &json!([condition("Accepted", "RuleApplied", "", 1), failure]));
    let text = cluster.transcript("wait netpol/egress --timeout=60s --grace configuration=0s");
    assert!(text.starts_with("exit code: 1\n"), "{text}");
    assert!(text.contains("cilium.io: endPort is not supported"), "{text}");

    report(&cluster, &json!([condition("cilium.io/Accepted", "RuleApplied", "in force", 2)]));
    assert_eq!(status(&cluster, ""), pair("Current", "Accepted"));
    assert_eq!(cluster.settled("wait netpol/egress --timeout=60s -q").code(), 0);
}

/// `settled netpol report` as a process; killed when dropped.
struct Reporter(Child);

impl Reporter {
    fn start(cluster: &Cluster, provider: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_settled"));
        command.args(["netpol", "report", "--provider", provider]).env_remove("RUST_LOG");
        command.env("KUBECONFIG", &cluster.server.kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Without the field of the conditions, a report beside the policy has them, and all commands read it as the status of the policy: the
/// developer's story, and the administrator's upgrade.
#[test]
fn a_report_is_the_status_of_its_policy() {
    let server = Served::start(&["--memory", "--feature-gates", "NetworkPolicyStatus=false"]);
    let cluster = Cluster { server, directory: Directory::new(&[]) };
    cluster.directory.write("crd.yaml", &cluster.settled("netpol report --print-crd").stdout());
    let policy = json!({
        "metadata": {"name": "egress"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 30000, "endPort": 32000}]}]},
    });
    send(&cluster, "application/json", &format!("POST {POLICIES}"), &policy);
    assert_eq!(status(&cluster, ""), pair("Current", "NoStatusKind"));
    // With the kind of reports, and without a report, it is the same.
    assert_eq!(cluster.settled("apply -f crd.yaml --wait -q").code(), 0);
    assert_eq!(status(&cluster, ""), pair("Current", "NoStatusKind"));
    assert_eq!(cluster.settled("wait netpol/egress --timeout=60s -q").code(), 0);

    let reported = |generation: u64| {
        let condition = format!("--for=jsonpath={{.status.policyGeneration}}={generation}");
        let run = cluster.settled("wait netpolreport/egress --timeout=60s -q").arg(condition);
        assert_eq!(run.code(), 0, "a report of generation {generation}");
    };
    let old = Reporter::start(&cluster, "cilium@1.15");
    reported(1);
    let (found, reason) = status(&cluster, "");
    assert_eq!((found != "Current", &*reason), (true, "PartialFailure"), "{found}");
    let message = "allows only port 30000 of 30000-32000";
    let text = cluster.transcript("wait netpol/egress --timeout=60s --grace configuration=0s");
    assert!(text.starts_with("exit code: 1\n"), "{text}");
    assert!(text.contains("PartialFailure") && text.contains(message), "{text}");
    let why = cluster.settled("why netpol/egress").output();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("NetworkPolicyReport/egress") && why.contains(message), "{why}");
    let tree = cluster.settled("tree netpol/egress").output();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("NetworkPolicy/egress") && tree.contains("NetworkPolicyReport/egress"), "{tree}");
    assert!(tree.contains(message), "{tree}");

    // A report of the generation before is no evidence.
    drop(old);
    let spec = json!({"spec": {"policyTypes": ["Egress", "Ingress"]}});
    send(&cluster, "application/merge-patch+json", &format!("PATCH {POLICIES}/egress"), &spec);
    assert_eq!(status(&cluster, ""), pair("InProgress", "LatestGenerationNotObserved"));
    assert_eq!(cluster.settled("wait netpol/egress --timeout=0 -q --grace configuration=0s").code(), 3);

    // The upgrade.
    let new = Reporter::start(&cluster, "cilium@1.16");
    assert_eq!(cluster.settled("wait netpol/egress --timeout=60s -q").code(), 0);
    assert_eq!(status(&cluster, ""), pair("Current", "Accepted"));
    let tree = cluster.settled("tree netpol/egress --full").stdout();
    assert!(tree.contains("NetworkPolicyReport/egress"), "{tree}");
    drop(new);
    // Without the report, nobody reports again.
    let reports = "/apis/netpol.settled.dev/v1alpha1/namespaces/default/networkpolicyreports";
    send(&cluster, "application/json", &format!("DELETE {reports}/egress"), &json!({}));
    assert_eq!(status(&cluster, ""), pair("Current", "NoStatusKind"));
}
