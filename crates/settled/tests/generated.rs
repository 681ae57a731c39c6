//! Completions and manual pages.

use std::fs;

use insta::assert_snapshot;

use crate::support::{Directory, settled};

#[test]
fn every_shell_gets_completions() {
    for (shell, word) in [
        ("bash", "__complete"),
        ("elvish", "not-current"),
        ("fish", "__complete"),
        ("powershell", "not-current"),
        ("zsh", "__complete"),
    ] {
        let script = settled(&format!("completions {shell}")).stdout();
        assert!(script.contains(word), "{shell}");
    }
}

#[test]
fn manual_pages_are_there_for_all_commands() {
    let directory = Directory::new(&[]);
    assert_snapshot!(settled("man --dir man/deep").dir(&directory).transcript(), @"exit code: 0");
    let mut names: Vec<_> = fs::read_dir(directory.path().join("man/deep"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_snapshot!(names.join("\n"), @"
    settled-apply.1
    settled-augment.1
    settled-cluster-adopt.1
    settled-cluster-agent.1
    settled-cluster-apply.1
    settled-cluster-create.1
    settled-cluster-delete.1
    settled-cluster-describe.1
    settled-cluster-diff.1
    settled-cluster-export.1
    settled-cluster-get-kubeconfig.1
    settled-cluster-get.1
    settled-cluster-import.1
    settled-cluster-move.1
    settled-cluster-plan.1
    settled-cluster-repair.1
    settled-cluster-rollout-pause.1
    settled-cluster-rollout-restart.1
    settled-cluster-rollout-resume.1
    settled-cluster-rollout-status.1
    settled-cluster-rollout-undo.1
    settled-cluster-rollout.1
    settled-cluster-run.1
    settled-cluster-scale.1
    settled-cluster-sync.1
    settled-cluster-upgrade.1
    settled-cluster-validate.1
    settled-cluster.1
    settled-completions.1
    settled-demo.1
    settled-events.1
    settled-man.1
    settled-netpol-check.1
    settled-netpol-diff.1
    settled-netpol-explain.1
    settled-netpol-matrix.1
    settled-netpol-profiles.1
    settled-netpol-reach.1
    settled-netpol-report.1
    settled-netpol.1
    settled-play.1
    settled-rehearse.1
    settled-rules-explain.1
    settled-rules-import.1
    settled-rules-list.1
    settled-rules-propose.1
    settled-rules-show.1
    settled-rules-test.1
    settled-rules.1
    settled-serve.1
    settled-status.1
    settled-store-check.1
    settled-store.1
    settled-tree.1
    settled-wait.1
    settled-why.1
    settled.1
    ");
    let page = fs::read_to_string(directory.path().join("man/deep/settled-status.1")).unwrap();
    assert!(page.contains(".TH settled-status 1"), "{page}");
    assert!(page.contains(".SH \"EXIT CODES\"\n.nf\n"), "{page}");
    let page = settled("man").stdout();
    assert!(page.contains(".TH settled 1") && !page.contains("help(1)"), "{page}");
}
