//! Snapshots of all help texts.

use insta::assert_snapshot;

use crate::support::settled;

#[test]
fn help() {
    for (name, arguments) in [
        ("settled", "--help"),
        ("settled-wait", "wait --help"),
        ("settled-wait-short", "wait -h"),
        ("settled-why", "why -h"),
        ("settled-tree", "tree -h"),
        ("settled-events", "events -h"),
        ("settled-apply", "apply -h"),
        ("settled-status", "status --help"),
        ("settled-status-short", "status -h"),
        ("settled-augment", "augment --help"),
        ("settled-rules", "rules --help"),
        ("settled-rules-list", "rules list --help"),
        ("settled-rules-show", "rules show --help"),
        ("settled-rules-explain", "rules explain -h"),
        ("settled-rules-test", "rules test --help"),
        ("settled-rules-import", "rules import --help"),
        ("settled-rules-propose", "rules propose --help"),
        ("settled-cluster", "cluster --help"),
        ("settled-cluster-plan", "cluster plan -h"),
        ("settled-cluster-apply", "cluster apply -h"),
        ("settled-cluster-describe", "cluster describe -h"),
        ("settled-cluster-upgrade", "cluster upgrade -h"),
        ("settled-cluster-scale", "cluster scale -h"),
        ("settled-cluster-rollout", "cluster rollout --help"),
        ("settled-cluster-diff", "cluster diff --help"),
        ("settled-cluster-sync", "cluster sync -h"),
        ("settled-cluster-validate", "cluster validate -h"),
        ("settled-cluster-export", "cluster export -h"),
        ("settled-cluster-import", "cluster import -h"),
        ("settled-cluster-adopt", "cluster adopt -h"),
        ("settled-netpol", "netpol --help"),
        ("settled-netpol-check", "netpol check --help"),
        ("settled-netpol-check-short", "netpol check -h"),
        ("settled-netpol-reach", "netpol reach --help"),
        ("settled-netpol-diff", "netpol diff -h"),
        ("settled-netpol-explain", "netpol explain -h"),
        ("settled-netpol-matrix", "netpol matrix --help"),
        ("settled-netpol-profiles", "netpol profiles --help"),
        ("settled-rehearse", "rehearse --help"),
        ("settled-demo", "demo --help"),
        ("settled-play", "play --help"),
        ("settled-serve", "serve --help"),
        ("settled-store", "store --help"),
        ("settled-store-check", "store check --help"),
        ("settled-completions", "completions --help"),
        ("settled-man", "man --help"),
    ] {
        assert_snapshot!(name, settled(arguments).transcript());
    }
}

#[test]
fn short_help_fits_a_screen() {
    for command in ["wait", "status", "apply", "why", "tree", "events", "netpol check", "netpol reach"] {
        let text = settled(&format!("{command} -h")).stdout();
        let lines = text.lines().count();
        assert!((15..=42).contains(&lines), "{command}: {lines} lines\n{text}");
        assert!(text.contains("\nExamples:\n") && text.ends_with(": --help\n"), "{text}");
    }
}

#[test]
fn no_arguments_give_help() {
    let output = settled("").output();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: settled"));
}

#[test]
fn version_is_data() {
    assert_snapshot!(settled("--version").transcript().replace(env!("CARGO_PKG_VERSION"), "[VERSION]"), @"
    exit code: 0
    --- stdout ---
    settled [VERSION]
    commit      unknown
    date        unknown
    Kubernetes  v1.36.3+settled (settled serve)
    ");
    assert_eq!(settled("version").stdout(), settled("--version").stdout());
    assert_eq!(settled("-V").stdout(), format!("settled {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn commands_of_other_tools_lead_to_ours() {
    for (command, hint) in [
        ("get pods", "settled status"),
        ("diff -f x.yaml", "settled apply -f FILE --dry-run --diff"),
        ("rollout status deploy/web", "settled wait deploy/NAME"),
    ] {
        let text = settled(command).transcript();
        let name = command.split(' ').next().unwrap();
        let expected =
            format!("exit code: 2\n--- stderr ---\nerror: there is no command `{name}`\nhint: {hint} ");
        assert!(text.starts_with(&expected), "{text}");
    }
    let text = settled("wait deploy/web -x").transcript();
    assert!(text.contains("unexpected argument '-x'") && !text.contains("as a value"), "{text}");
}

#[cfg(unix)]
#[test]
fn as_a_kubectl_plugin_it_says_kubectl() {
    use std::os::unix::process::CommandExt as _;
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_settled"))
        .arg0("/usr/local/bin/kubectl-settled")
        .args(["status", "--help"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: kubectl settled status"));
}
