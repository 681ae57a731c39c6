//! NetworkPolicies with conditions: from the server to the verdict (KEP-2943, the first user story).

use serde_json::{Value, json};

use crate::live::Cluster;

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
