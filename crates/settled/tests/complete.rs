//! Shell completion with and without a cluster.

use std::net::TcpListener;
use std::process::{Command, Output};

use insta::assert_snapshot;

use crate::live::Cluster;
use crate::support::{Directory, Run, settled};

/// The words of a command line; `|` stands for an empty word at its end.
fn complete(run: impl Fn(&str) -> Run, words: &str) -> String {
    let words = words.strip_suffix('|').map(|words| (words, true)).unwrap_or((words, false));
    let run = run(&format!("__complete {}", words.0));
    offered(&if words.1 { run.arg("") } else { run }.output())
}

/// The values without what explains them, and the directive: `web db :4`.
fn offered(output: &Output) -> String {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing may disturb the prompt");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let values: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
    values.join(" ")
}

const RELEASES: &str = r#"{"apiVersion":"v1","kind":"Secret","type":"helm.sh/release.v1","metadata":{"name":"sh.helm.release.v1.store.v2",
    "namespace":"shop","labels":{"owner":"helm","name":"store","version":"2","status":"deployed"}}}
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"parent","namespace":"shop","labels":{"applyset.kubernetes.io/id":"applyset-x-v1"}}}"#;

#[test]
fn values_come_from_the_cluster() {
    let cluster = Cluster::with_objects();
    cluster.directory.write("releases.json", RELEASES);
    assert_eq!(cluster.settled("apply -f releases.json -q").code(), 0);
    let cases = [
        // Types, with short names for those who begin one.
        ("wait dep", "deploy deployments :4"),
        ("status po,dep", "po,deploy po,deployments :4"),
        ("why deploy/web stat", "statefulsets/ :6"),
        ("status --kind dep", "deploy deployments :4"),
        ("tree events.ev", "events.events.k8s.io :4"),
        // Names.
        ("wait -n shop deploy/", "deploy/web :4"),
        ("wait deploy/", ":4"),
        ("wait deploy/web -n default deploy/", ":4"),
        ("wait --namespace=shop cm/w", "cm/web :4"),
        ("wait -n shop deploy |", "web :4"),
        ("wait -n shop deploy web |", ":4"),
        ("wait -n shop cm/web cm/", "cm/kube-root-ca.crt :4"),
        ("wait -n default,shop cm,deploy |", "kube-root-ca.crt web :4"),
        ("status ns s", "shop :4"),
        ("wait -n shop deploy --all |", ":4"),
        ("wait -n shop deploy -l app=web |", ":4"),
        ("wait -n shop --as nobody deploy/", ":4"),
        ("wait -n shop nonsense/", ":4"),
        ("augment dep", ":4"),
        // Namespaces, also as lists.
        ("wait -n sh", "shop :4"),
        ("apply -n sh", "shop :4"),
        ("status --namespace=shop,def", "--namespace=shop,default :4"),
        ("events -nsh", "-nshop :4"),
        // The kubeconfig.
        ("wait --context |", "settled :4"),
        ("wait --cluster s", "settled :4"),
        ("wait --user nobody", ":4"),
        // Releases.
        ("wait --release |", "helm/ kustomization/ helmrelease/ application/ inventory/ applyset/ :6"),
        ("wait -n shop --release helm/", "helm/store :4"),
        ("wait -n shop --release applyset/", "applyset/parent :4"),
        ("wait -n shop --release kustomization/", ":4"),
        ("wait --release helm/", ":4"),
        // What the program knows itself.
        ("wait --for c", "current create condition= cel= :4"),
        ("wait --for condition=A", "condition=Available condition=Accepted :4"),
        ("wait --fail-fast=image,cr", "--fail-fast=image,crash :4"),
        ("wait --grace im", "image= :6"),
        ("wait --logs |", "tail live none :4"),
        ("wait --report j", "junit= jsonl= json= :6"),
        ("status --status Failed,Un", "Failed,Unknown :4"),
        (
            "rules show cert-manager.io/Certificate",
            "cert-manager.io/Certificate cert-manager.io/CertificateRequest :4",
        ),
        ("wait --time", "--timeout :4"),
        ("wai", "wait :4"),
        ("completions z", "zsh :4"),
        // Files are the shell's.
        ("wait -f |", ":0"),
        ("wait -k |", ":16"),
        ("wait --report junit=o", ":0"),
        ("serve --memory -- go |", ":0"),
    ];
    for (words, expected) in cases {
        assert_eq!(complete(|words| cluster.settled(words), words), expected, "{words}");
    }
    // Options for those who begin one, each with its help.
    let options = cluster.settled("__complete wait --stab").stdout();
    assert_snapshot!(options, @r"
    --stable	Time that all objects must stay done
    :4
    ");
}

#[test]
fn kubectl_asks_by_the_name_of_the_program() {
    use std::os::unix::process::CommandExt as _;
    let output = Command::new(env!("CARGO_BIN_EXE_settled"))
        .env_clear()
        .arg0("/usr/local/bin/kubectl_complete-settled")
        .args(["wait", "--logs", "t"])
        .output()
        .unwrap();
    assert_eq!(offered(&output), "tail :4");
}

/// A kubeconfig with this server and user.
fn kubeconfig(server: &str, user: &str) -> Directory {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}, {{name: \"bad $(name)\"}}, {{name: 'arn:aws:eks:x:1:cluster/y'}}]\n\
         clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {user}}}]\n"
    );
    Directory::new(&[("config", &text)])
}

#[test]
fn without_a_cluster_there_are_the_built_in_types() {
    let cluster = Cluster::start();
    let all = complete(|words| cluster.settled(words), "wait |");
    assert!(all.starts_with("apiservices ") && all.contains(" pods "), "{all}");
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("https://{}", silent.local_addr().unwrap());
    let refused = format!("https://{refused}");
    let plugin = |script: &str, mode: &str| {
        format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, \"{script}\"], interactiveMode: {mode}}}}}"
        )
    };
    let clusters = [
        (&refused, "{}".to_owned()),
        (&silent, "{}".to_owned()),
        (&refused, plugin("sleep 600", "Never")),
        (&refused, plugin("echo Password: >&2; exit 1", "IfAvailable")),
        (&refused, plugin("cat >&2", "Always")),
    ];
    for (server, user) in &clusters {
        let directory = kubeconfig(server, user);
        let path = directory.path().join("config");
        let run = |words: &str| {
            settled(words).env("KUBECONFIG", path.to_str().unwrap()).env("PATH", "/usr/bin:/bin")
        };
        assert_eq!(complete(run, "wait |"), all, "{server} {user}");
        assert_eq!(complete(run, "wait deploy/"), ":4");
        // What a shell would run is left out.
        assert_eq!(complete(run, "wait --context |"), "here arn:aws:eks:x:1:cluster/y :4");
    }
    let nowhere = |words: &str| settled(words).env("KUBECONFIG", "/nonexistent");
    assert_eq!(complete(nowhere, "wait dep"), "deploy deployments :4");
    assert_eq!(complete(nowhere, "wait --context |"), ":4");
}

/// What bash offers, as it splits this command line into words.
fn bash(cluster: &Cluster, words: &[&str]) -> String {
    let bin = cluster.directory.path().join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_settled"), bin.join("settled")).unwrap();
    }
    let script = r#"
        source <(settled completions bash) || exit
        COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _settled_complete
        printf '%s\n' "${COMPREPLY[@]}"
        complete -p settled
    "#;
    let output = Command::new("bash")
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("KUBECONFIG", &cluster.server.kubeconfig)
        .args(["--norc", "-c", script, "bash"])
        .args(words)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let (values, registered) = text.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(registered, "complete -o default -F _settled_complete settled");
    values.replace('\n', " ")
}

#[test]
fn bash_completes() {
    let cluster = Cluster::with_objects();
    let cases: [(&[&str], &str); 8] = [
        (&["settled", "wait", "dep"], "deploy deployments"),
        (&["settled", "wait", "-n", "shop", "deploy/"], "deploy/web"),
        (&["settled", "wait", "-n", "shop", "deploy", ""], "web"),
        // Where bash splits words, only what follows is replaced.
        (&["settled", "wait", "--namespace", "=", "sh"], "shop"),
        (&["settled", "wait", "--namespace", "="], "default kube-node-lease kube-public kube-system shop"),
        (&["settled", "wait", "--for", "=", "condition", "=", "Av"], "Available"),
        (&["~/settled", "wait", "--logs", "l"], "live"),
        (&["settled", "wait", "-f", ""], ""),
    ];
    for (words, expected) in cases {
        assert_eq!(bash(&cluster, words), expected, "{words:?}");
    }
}

#[test]
fn providers_and_features_are_known_without_a_cluster() {
    for (words, expected) in [
        ("netpol ma", "matrix :4"),
        ("netpol check --provider cil", "cilium@1.20 :4"),
        ("netpol check --provider cilium@", "cilium@1.8 cilium@1.20 :4"),
        ("netpol check --from-provider=weav", "--from-provider=weave@2.9 :4"),
        ("netpol matrix --feature port.e", "port.end :4"),
        ("netpol profiles fla", "flannel :4"),
        ("netpol check -o sa", "sarif :4"),
    ] {
        assert_eq!(complete(settled, words), expected, "{words}");
    }
}
