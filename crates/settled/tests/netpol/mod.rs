//! `settled netpol`: policies of files and clusters, providers, formats and exit codes.

mod cluster;
mod commands;
mod formats;
mod input;
mod stories;

use serde_json::Value;

use crate::support::{Directory, Run, settled};

/// The policy of the developer: egress to the NodePorts of another cluster.
pub(crate) const MYEGRESS: &str = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: myegress
  namespace: shop
spec:
  podSelector:
    matchLabels: {app: web}
  policyTypes: [Egress]
  egress:
  - to:
    - ipBlock:
        cidr: 192.0.2.0/24
    ports:
    - protocol: TCP
      port: 30000
      endPort: 32000
";

/// A policy that all providers with policies carry out.
pub(crate) const PLAIN: &str = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: plain, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector: {matchLabels: {app: web}}
    ports:
    - {protocol: TCP, port: 5432}
";

/// The policies in files of a directory.
pub(crate) fn directory() -> Directory {
    Directory::new(&[("k8s/myegress.yaml", MYEGRESS), ("k8s/plain.yaml", PLAIN)])
}

pub(crate) fn netpol(arguments: &str) -> Run {
    settled(&format!("netpol {arguments}"))
}

/// Exit code, and standard output as JSON.
#[track_caller]
pub(crate) fn json(run: Run) -> (i32, Value) {
    let output = run.output();
    let errors = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}\n{errors}", String::from_utf8_lossy(&output.stdout));
    });
    (output.status.code().unwrap(), value)
}

/// Exit code and standard error.
pub(crate) fn errors(run: Run) -> (i32, String) {
    let output = run.output();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The row of a policy.
#[track_caller]
pub(crate) fn row<'v>(report: &'v Value, name: &str) -> &'v Value {
    let rows = report["policies"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row of {name}: {report}"))
}
