//! Rules of other tools: `dialects/NAME.yaml` in the tool's own format, `dialects/NAME.cases.yaml` with the verdicts.

use std::fs;
use std::path::Path;

use kstatus::{Options, Status};
use settled_rules::{Builder, RuleSet, import, run_cases};

fn read(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialects");
    fs::read_to_string(directory.join(name)).unwrap()
}

fn now() -> Options {
    Options::new("2026-11-21T12:00:00Z".parse().unwrap())
}

fn add(builder: Builder, file: &str, text: &str) -> Builder {
    builder.add(file, text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Gives what the cases do not reach.
fn check_cases(rules: &RuleSet, cases: &str) -> Vec<String> {
    let report = run_cases(rules, &[(cases, &read(cases))], now().now);
    let failures: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert!(report.cases > 0, "{cases}: no cases");
    report.warnings
}

#[test]
fn verdicts_are_the_tools() {
    for name in ["flux", "flux-guard", "kapp", "crds"] {
        let file = format!("{name}.yaml");
        let rules = add(RuleSet::builder(), &file, &read(&file)).build();
        assert_eq!(check_cases(&rules, &format!("{name}.cases.yaml")), [""; 0]);
    }
}

#[test]
fn an_imported_pack_gives_the_same_verdicts() {
    for name in ["flux", "flux-guard", "kapp", "crds"] {
        let file = format!("{name}.yaml");
        let pack = import(&file, &read(&file));
        let rules = add(RuleSet::builder(), "pack.yaml", &pack.yaml).build();
        check_cases(&rules, &format!("{name}.cases.yaml"));
        // A pack stays what it is.
        let again = import("pack.yaml", &pack.yaml);
        let without_comments = |yaml: &str| -> Vec<String> {
            yaml.lines().filter(|line| !line.trim().starts_with('#')).map(str::to_owned).collect()
        };
        assert_eq!(without_comments(&again.yaml), without_comments(&pack.yaml), "{name}");
        assert!(again.notes.is_empty(), "{:?}", again.notes);
    }
}

#[test]
fn an_import_can_be_read() {
    let flux = import("flux.yaml", &read("flux.yaml"));
    insta::assert_snapshot!(flux.yaml, @r#"
    apiVersion: settled.dev/v1alpha1
    kind: RulePack
    rules:
      # flux.yaml:16
      - match: {group: db.example.com, kind: Database}
        failed: "!(status.phase in ['Creating', 'Upgrading']) && (status.phase == 'Broken')"
        inProgress: status.phase in ['Creating', 'Upgrading']
        current: "!(status.phase in ['Creating', 'Upgrading']) && !(status.phase == 'Broken') && (status.phase == 'Up')"
      # flux.yaml:21
      - match: {group: example.org, kind: '*'}
        current: status.conditions.filter(e, e.type == 'Ready') .all(e, e.status == 'True')
      # flux.yaml:45
      - match: {group: net.example.com, kind: Route}
        failed: has(self.health.error) && self.health.error != ''
        current: "!(has(self.health.error) && self.health.error != '') && (self.health.routes.all(r, r.up) && 'r' in self.labels)"
    "#);
    let crds = import("crds.yaml", &read("crds.yaml"));
    insta::assert_snapshot!(crds.yaml, @r#"
    apiVersion: settled.dev/v1alpha1
    kind: RulePack
    rules:
      # crds.yaml:10
      - match: {group: example.com, kind: Bucket}
        failed:
          - when: observed() && status.condition == 'failed'
            message: '${status.message}'
          - when: observed() && status.quota.filter(x, has(x.resource) && x.resource == 'cpu')[0].exceeded == true
            message: no CPU $${left}
        current: observed() && status.condition == 'success' && status['replicas-ready'] == 3
      # crds.yaml:29
      - match: {group: example.com, kind: Queue}
        failed:
          - when: observed() && condition('Failed').status == 'True'
            message: "${condition('Failed').message}"
        current: observed() && condition('Ready').status == 'True'
      # crds.yaml:38
      - match: {group: example.com, kind: Topic}
        suspended: default(spec.paused, false)
        failed:
          - when: status.state == 'dead'
            reason: Dead
            message: '${status.why}'
            terminal: true
        current: status.state == 'live'
    "#);
    let argo = import("argocd-cm.yaml", &read("argocd-cm.yaml"));
    let first: Vec<&str> = argo.yaml.lines().take(8).collect();
    insta::assert_snapshot!(first.join("\n"), @r#"
    apiVersion: settled.dev/v1alpha1
    kind: RulePack
    rules: []
      # argocd-cm.yaml:13: Lua is not translated. Write what it calls Degraded, Progressing and Healthy:
      # - match: {group: example.com, kind: Certificate}
      #   failed:
      #   inProgress:
      #   current:
    "#);
    assert_eq!(argo.notes.len(), 5);
    insta::assert_snapshot!(argo.notes[0], @"argocd-cm.yaml:13:1: example.com/Certificate: Lua is not translated; write it in CEL");
}

#[test]
fn what_is_passed_over_is_said() {
    let rules = add(RuleSet::builder(), "kapp.yaml", &read("kapp.yaml")).build();
    let notes: Vec<String> = rules.notes().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(notes.join("\n"), @r#"
    kapp.yaml:28:5: skipped for example.com/Gadget: an earlier rule applies
    kapp.yaml:45:7: skipped: Starlark is not supported; write the rule in CEL
    kapp.yaml:55:9: skipped: `notMatcher` has no equivalent; specify groups and kinds
    kapp.yaml:52:5: skipped in part: a rule needs an API group; put an `apiGroupKindMatcher` into an `andMatcher`
    "#);
}

#[cfg(feature = "lua")]
#[test]
fn health_checks_in_lua() {
    let rules = add(RuleSet::builder(), "argocd-cm.yaml", &read("argocd-cm.yaml")).build();
    check_cases(&rules, "argocd-cm.cases.yaml");
    // A script beside an annotation: the annotation decides, and the engine compares the generations.
    let object = br#"{"apiVersion":"example.com/v1","kind":"Certificate","metadata":{"generation":2,
        "annotations":{"settled.dev/current":"true"}},"status":{"observedGeneration":1}}"#;
    assert_eq!(rules.compute(object, &now()).status, Status::InProgress);
}

#[cfg(feature = "lua")]
#[test]
fn files_of_lua_are_named_after_their_kind() {
    let script = "return {status = 'Suspended', message = obj.kind}";
    for (file, group, kind, fits) in [
        ("resource_customizations/example.com/Widget/health.lua", "example.com", "Widget", true),
        ("example.com/Widget/health.lua", "example.com", "Widget", true),
        ("_.example.com/_/health.lua", "a.example.com", "Any", true),
        ("_.example.com/_/health.lua", "example.com", "Any", false),
        ("resource_customizations/Claim/health.lua", "", "Claim", true),
        ("rules/example.com_Widget.lua", "example.com", "Widget", true),
        ("Claim.lua", "", "Claim", true),
        // Small letters are a kind's where the directory above is a group's.
        ("acid.zalan.do/postgresql/health.lua", "acid.zalan.do", "postgresql", true),
    ] {
        let rules = add(RuleSet::builder(), file, script).build();
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let object = format!(r#"{{"apiVersion":"{version}","kind":"{kind}"}}"#);
        let verdict = rules.compute(object.as_bytes(), &now());
        assert_eq!(verdict.reason == "Suspended", fits, "{file}: {verdict:?}");
    }
    for file in ["health.lua", "widget.lua", "a_b_c.lua", "rules/widget/health.lua", "_/_/health.lua"] {
        let errors = RuleSet::builder().add(file, script).unwrap_err().to_string();
        assert!(errors.contains("name the file"), "{errors}");
    }
}

#[test]
fn errors_have_a_place() {
    let krane = |value: &str| {
        format!(
            "kind: CustomResourceDefinition\nmetadata:\n  annotations:\n    \
             krane.shopify.io/instance-rollout-conditions: '{value}'\n\
             spec: {{group: example.com, names: {{kind: W}}}}\n"
        )
    };
    let crd = |value: &str| {
        format!(
            "kind: CustomResourceDefinition\nspec: {{group: example.com, names: {{kind: W}}}}\nmetadata:\n  annotations:\n    \
             settled.dev/rule: {value}\n"
        )
    };
    for (file, text, wanted) in [
        (
            "flux.yaml",
            "- apiVersion: a/v1\n  kind: W\n  failed: 'status.phase = 1'\n  current: has(status.up)\n".to_owned(),
            "flux.yaml:3:25: unexpected \"=\"",
        ),
        ("flux.yaml", "healthCheckExprs:\n- apiVersion: a/v1\n  failed: 'true'\n".to_owned(), "flux.yaml:2:3: `current` is missing"),
        (
            "flux.yaml",
            "- {apiVersion: a/v1, name: x, current: 'true'}".to_owned(),
            "flux.yaml:1:28: unknown key `name`",
        ),
        (
            "kapp.yaml",
            "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nwaitRules:\n- conditionMatchers: [{type: Ready, success: true}]\n".to_owned(),
            "kapp.yaml:4:23: `status` is missing",
        ),
        (
            "kapp.yaml",
            "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nwaitRules:\n- resourceMatchers: [{oddMatcher: {}}]\n  conditionMatchers: [{type: Ready, status: 'True', success: true}]\n".to_owned(),
            "kapp.yaml:4:22: unknown matcher `oddMatcher`",
        ),
        (
            "kapp.yaml",
            "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nwaitRules:\n- conditionMatchers: [{type: F, status: 'True', failure: true, timeout: soon}]\n".to_owned(),
            "kapp.yaml:4:73: expected a duration such as `5m` or `90s`",
        ),
        ("crd.yaml", krane("no"), "crd.yaml:4:51: expected `true` or JSON"),
        ("crd.yaml", krane("{}"), "crd.yaml:4:51: `success_conditions` needs at least one condition"),
        (
            "crd.yaml",
            krane(r#"{"success_conditions": [{"path": "$..phase", "value": 1}]}"#),
            "crd.yaml:4:51: `$..phase`: .. cannot be converted; write the rule in CEL",
        ),
        (
            "crd.yaml",
            krane(r#"{"success_conditions": [{"path": "$.a", "value": null}]}"#),
            "crd.yaml:4:51: `value: null` cannot be converted; write the rule in CEL",
        ),
        ("crd.yaml", crd("|\n      current: stat.up\n"), "crd.yaml:6:16: unknown name `stat`"),
        ("crd.yaml", crd("|\n      current: 'true'\n      curent: 'true'\n"), "crd.yaml:7:15: unknown key `curent`"),
        ("crd.yaml", crd("|\n      failed:\n        - when: true ==\n"), "crd.yaml:7:"),
        ("crd.yaml", crd("|\n      current: [\n"), "crd.yaml:"),
        ("crd.yaml", crd("''"), "expected one rule"),
        ("other.yaml", "apiVersion: v1\nkind: Service\n".to_owned(), "other.yaml:1:1: no rules"),
    ] {
        let errors = RuleSet::builder().add(file, &text).unwrap_err().to_string();
        assert!(errors.contains(wanted), "expected {wanted}\nfound {errors}");
    }
}

#[test]
fn lua_needs_lua() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\ndata:\n  \
                resource.customizations.health.Claim: |\n    local hs = {}\n    hs.status == 1\n    return hs\n";
    let errors = RuleSet::builder().add("cm.yaml", text).unwrap_err().to_string();
    let wanted = if cfg!(feature = "lua") {
        "cm.yaml:7:1: Lua: syntax error"
    } else {
        "cm.yaml:6:1: this program was built without Lua: build it with the cargo feature `lua`"
    };
    assert!(errors.starts_with(wanted), "{errors}");
}

#[test]
fn annotations_of_objects() {
    let rules = RuleSet::default();
    check_cases(&rules, "annotations.cases.yaml");
    let without = RuleSet::builder().annotations(false).build();
    let object = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":
        {"settled.dev/failed":"true","settled.dev/ignore":"true"}}}"#;
    let [with, without] = [&rules, &without].map(|rules| rules.compute(object, &now()));
    assert_eq!((with.status, with.blocking), (Status::Failed, false));
    assert_eq!((without.status, without.blocking), (Status::Current, true));
}

#[test]
fn wrong_annotations_are_passed_over() {
    let rules = RuleSet::default();
    for (annotation, value, wanted) in [
        ("settled.dev/current", "stat.up", "unknown name `stat`"),
        ("settled.dev/failed", "status.up ==", "at character 13"),
        ("settled.dev/current", "", "the expression is empty"),
        ("pulumi.com/waitFor", "Ready", "expected `jsonpath={.path}`"),
        ("pulumi.com/waitFor", "jsonpath={.a}=b=c", "expected one value after `=`"),
        ("pulumi.com/waitFor", "jsonpath={.a..b}", "cannot be converted"),
        ("pulumi.com/waitFor", "[1]", "expected a JSON list of texts"),
        ("pulumi.com/waitFor", "[]", "the list is empty"),
        (
            "helm.sh/readiness-success",
            r#"["{.a} == 1"]"#,
            "it counts only together with helm.sh/readiness-failure",
        ),
        (
            "helm.sh/readiness-failure",
            r#"["{.a} == 1"]"#,
            "it counts only together with helm.sh/readiness-success",
        ),
        ("kluctl.io/is-ready", "yes", "expected \"true\" or \"false\""),
        ("settled.dev/current", &"x".repeat(20_000), "longer than 16384 bytes"),
    ] {
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {annotation: value}}
        });
        for _ in 0..2 {
            let verdict = rules.compute(object.to_string().as_bytes(), &now());
            assert_eq!(verdict.status, Status::Current, "{annotation}: {value}");
            let [problem] = verdict.problems.as_slice() else {
                panic!("{annotation}: {:?}", verdict.problems)
            };
            assert_eq!(problem.path, format!(".metadata.annotations['{annotation}']"));
            assert!(problem.message.contains(wanted), "{annotation}: {}", problem.message);
        }
    }
    // The tool behind still counts.
    let object = br#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":
        {"settled.dev/current":"1 +","kluctl.io/is-ready":"false"}}}"#;
    let verdict = rules.compute(object, &now());
    assert_eq!((&*verdict.message, verdict.problems.len()), ("kluctl.io/is-ready is false", 1));
}

proptest::proptest! {
    #[test]
    fn any_text_can_be_imported(text in "[-a-z0-9{}\\[\\]:'\"|$.?@=( )\n]{0,120}") {
        for begin in ["", "healthCheckExprs:\n", "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\nwaitRules:\n"] {
            let pack = import("any.yaml", &format!("{begin}{text}"));
            proptest::prop_assert!(RuleSet::builder().add("pack.yaml", &pack.yaml).is_ok(), "{}", pack.yaml);
        }
    }

    #[test]
    fn any_annotation_can_be_read(value in "[a-z0-9{}\\[\\]:'\"|$.?@=( )]{0,60}", which in 0..8usize) {
        let key = [
            "settled.dev/current", "settled.dev/failed", "settled.dev/in-progress", "settled.dev/suspended",
            "helm.sh/readiness-success", "helm.sh/readiness-failure", "pulumi.com/waitFor", "kluctl.io/is-ready",
        ][which];
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": {key: value}}});
        let verdict = RuleSet::default().compute(object.to_string().as_bytes(), &now());
        proptest::prop_assert!(verdict.problems.len() <= 1);
    }
}

#[test]
fn many_different_annotations_are_bounded() {
    let rules = RuleSet::default();
    for number in 0..3000 {
        let object = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"annotations":{{"settled.dev/current":"{number} > 9"}}}}}}"#
        );
        let verdict = rules.compute(object.as_bytes(), &now());
        assert_eq!(verdict.status == Status::Current, number > 9);
    }
}
