//! kubectl's options: supported, or rejected with an alternative.

use std::net::TcpListener;

use crate::live::Cluster;
use crate::support::{Directory, settled};

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Refused,
}
use Fate::{Accepted, Refused};

/// `kubectl options` of 1.36, with a value.
const GLOBAL: [(&str, Fate); 32] = [
    ("--as=nobody", Accepted),
    ("--as=nobody --as-group=g", Accepted),
    ("--as=nobody --as-uid=u", Accepted),
    ("--as-user-extra=a=b", Refused),
    ("--cache-dir=/tmp", Refused),
    ("--certificate-authority=/dev/null", Accepted),
    ("--client-certificate=/dev/null --client-key=/dev/null", Accepted),
    ("--cluster=c", Accepted),
    ("--context=c", Accepted),
    ("--disable-compression", Accepted),
    ("--insecure-skip-tls-verify", Accepted),
    ("--kubeconfig=/nonexistent", Accepted),
    ("--kuberc=x", Refused),
    ("--log-flush-frequency=5s", Refused),
    ("--match-server-version", Refused),
    ("--namespace=n", Accepted),
    ("-n n", Accepted),
    ("--password=x", Refused),
    ("--profile-output=x", Refused),
    ("--request-timeout=5s", Accepted),
    ("--request-timeout=5", Accepted),
    ("--request-timeout=0", Accepted),
    ("--context=c -s https://127.0.0.1:1", Accepted),
    ("--context=c --server=https://127.0.0.1:1", Accepted),
    ("--tls-server-name=x", Accepted),
    ("--token=x", Accepted),
    ("--user=u", Accepted),
    ("--username=x", Refused),
    ("-v6", Accepted),
    ("--v=6", Accepted),
    ("--vmodule=x=1", Refused),
    ("--warnings-as-errors", Refused),
];

/// Those of `kubectl wait`.
const WAIT: [(&str, Fate); 25] = [
    ("pods --all", Accepted),
    ("pods --all -A", Accepted),
    ("pods --all --all-namespaces", Accepted),
    ("pod/x --allow-missing-template-keys=false", Refused),
    ("pods --field-selector=metadata.name=x", Accepted),
    ("-f FILE", Accepted),
    ("--filename=FILE", Accepted),
    ("pod/x --for=condition=Ready=false", Accepted),
    ("pod/x --for=jsonpath={.status.phase}=Running --for=create", Accepted),
    ("pod/x --for=delete", Accepted),
    ("pod/x --local", Refused),
    ("pod/x -o json", Accepted),
    ("pod/x -o yaml", Accepted),
    ("pod/x -o name", Accepted),
    ("pod/x -o kyaml", Refused),
    ("pod/x -o go-template={{.status}}", Refused),
    ("pod/x -o jsonpath={.status}", Refused),
    ("pod/x -o=jsonpath-as-json={.status}", Refused),
    ("pod/x --output=jsonpath-file=x", Refused),
    ("-R -f FILE", Accepted),
    ("pods -l app=x", Accepted),
    ("pods --selector=app=x", Accepted),
    ("pod/x --show-managed-fields", Refused),
    ("pod/x --template={{.status}}", Refused),
    ("pod/x --timeout=-1s", Accepted),
];

/// Those of `kubectl apply` that `kubectl wait` does not have.
const APPLY: [(&str, Fate); 20] = [
    ("--all", Refused),
    ("--cascade=orphan", Refused),
    ("--dry-run=server", Accepted),
    ("--field-manager=kubectl", Accepted),
    ("--force", Refused),
    ("--force-conflicts", Accepted),
    ("--grace-period=1", Refused),
    ("--openapi-patch=false", Refused),
    ("--overwrite", Refused),
    ("--prune --applyset=x", Accepted),
    ("--prune-allowlist=core/v1/ConfigMap", Refused),
    ("-l app=x", Refused),
    ("--selector=app=x", Refused),
    ("--server-side", Accepted),
    ("--subresource=status", Refused),
    ("--validate=strict", Refused),
    ("--timeout=1m", Accepted),
    ("--wait", Accepted),
    ("--profile=cpu", Refused),
    ("-o jsonpath={.x}", Refused),
];

#[test]
fn every_option_is_accepted_or_refused_with_a_remedy() {
    let directory = Directory::new(&[(
        "web.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}}",
    )]);
    let global = GLOBAL.iter().map(|(options, fate)| (format!("wait pod/x {options}"), *fate));
    let wait = WAIT.iter().map(|(options, fate)| (format!("wait {options}"), *fate));
    let apply = APPLY.iter().map(|(options, fate)| (format!("apply -f FILE {options}"), *fate));
    for (command, fate) in global.chain(wait).chain(apply) {
        let run = settled(&command.replace("FILE", "web.yaml")).env("KUBECONFIG", "/nonexistent");
        let output = run.dir(&directory).output();
        let errors = String::from_utf8(output.stderr).unwrap();
        // What is accepted gets as far as the missing kubeconfig.
        match fate {
            Accepted => assert_eq!(output.status.code(), Some(4), "{command}: {errors}"),
            Refused => {
                assert_eq!(output.status.code(), Some(2), "{command}: {errors}");
                assert!(errors.starts_with("error: -"), "{command}: {errors}");
                assert!(errors.contains(" is not supported"), "{command}: {errors}");
                assert!(errors.contains("\nhint: "), "{command}: {errors}");
            }
        }
    }
    // Elsewhere these options may be others'.
    let text = settled("serve --cache-dir x").transcript();
    assert!(text.contains("unexpected argument"), "{text}");
}

#[test]
fn requests_are_printed_from_level_6_on() {
    let cluster = Cluster::with_objects();
    let errors = |arguments: &str| String::from_utf8(cluster.settled(arguments).output().stderr).unwrap();
    let address = &cluster.server.address;
    let text = errors("wait cm/web -n shop -v 6");
    assert!(text.contains(&format!("GET https://{address}/apis 200 OK in ")), "{text}");
    assert!(text.contains(&format!("GET https://{address}/api/v1/namespaces/shop/configmaps")), "{text}");
    assert!(!errors("wait cm/web -n shop -v 5").contains("GET "));
    let forbidden = errors("status cm/web -n shop --as nobody --v=9");
    assert!(forbidden.contains(" 403 Forbidden in "), "{forbidden}");
}

#[test]
fn a_request_ends_with_its_timeout() {
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{{name: here, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"http://{}\"}}}}]\n",
        silent.local_addr().unwrap()
    );
    let directory = Directory::new(&[("config", &config)]);
    let path = directory.path().join("config");
    let run = settled("status pods --request-timeout=1").env("KUBECONFIG", path.to_str().unwrap());
    let text = run.transcript();
    assert!(text.starts_with("exit code: 4\n"), "{text}");
    assert!(text.contains("no answer within 1s"), "{text}");
}

#[test]
fn apply_prints_the_warnings_of_the_server_once() {
    let cluster = Cluster::start();
    let hooks: Vec<String> = ["a", "b"]
        .iter()
        .map(|name| {
            format!(
                "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {{name: {name}}}, \
                 webhooks: [{{name: x.example.com, sideEffects: None, admissionReviewVersions: [v1], \
                 clientConfig: {{url: 'https://example.com/x'}}}}]}}"
            )
        })
        .collect();
    cluster.directory.write("hooks.yaml", &hooks.join("\n---\n"));
    let run = |arguments: &str| {
        let output = cluster.settled(arguments).output();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let warning = "Warning: stored but not enforced: this server does not call admission webhooks\n";
    assert_eq!(run("apply -f hooks.yaml"), (0, warning.to_owned()));
    assert_eq!(run("apply -f hooks.yaml -q"), (0, String::new()));
    let (_, colored) = run("apply -f hooks.yaml --color always");
    assert!(colored.starts_with("\u{1b}["), "{colored:?}");
}
