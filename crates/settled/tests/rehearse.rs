//! Rehearsals: what becomes of manifests without a cluster, and what is found in them.

use serde_json::Value;

use crate::support::{Directory, Run, settled};

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: nginx
";

fn rehearse(directory: &Directory, arguments: &str) -> Run {
    settled(&format!("rehearse {arguments}")).dir(directory)
}

/// Exit code and report.
fn json(directory: &Directory, arguments: &str) -> (i32, Value) {
    let output = rehearse(directory, &format!("{arguments} -o json")).output();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), report)
}

/// `CHECK FILE:LINE:COLUMN FIELD` of each finding.
fn findings(report: &Value) -> Vec<String> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = report["findings"].as_array().unwrap().iter();
    rows.map(|row| {
        let place = format!("{}:{}:{}", text(row, "source"), row["line"], row["column"]);
        format!("{} {place} {}", text(row, "check"), text(row, "field"))
    })
    .collect()
}

#[test]
fn a_deployment_becomes_ready() {
    let directory = Directory::new(&[("web.yaml", WEB)]);
    let (code, report) = json(&directory, "-f web.yaml");
    assert_eq!((code, &report["outcome"]), (0, &"settled".into()), "{report}");
    assert_eq!(findings(&report), Vec::<String>::new());
    // The same seed, the same lines.
    let lines = |arguments: &str| {
        let output = rehearse(&directory, &format!("-f web.yaml {arguments}")).output();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("Deployment/web"), "{text}");
        text
    };
    assert_eq!(lines("--seed 7"), lines("--seed 7"));
}

#[test]
fn all_refusals_are_reported_with_their_places() {
    let broken = WEB.replace("replicas: 2", "replicas: -2\n  replica: 3");
    let other =
        WEB.replace("name: web}", "name: other}").replace("app: web}}\n  template", "app: x}}\n  template");
    let directory = Directory::new(&[("a.yaml", &*broken), ("b.yaml", &*other)]);
    let (code, report) = json(&directory, "-f .");
    assert_eq!(code, 1, "{report}");
    let found = findings(&report);
    assert!(found.iter().any(|row| row.starts_with("unknown-field ./a.yaml:6:")), "{found:?}");
    assert!(
        found.iter().any(|row| row.starts_with("refused ./a.yaml:5:") && row.contains("spec.replicas")),
        "{found:?}"
    );
    assert!(
        found.iter().any(|row| row.starts_with("refused ./b.yaml:8:") && row.contains("spec.template")),
        "{found:?}"
    );
}

#[test]
fn references_that_resolve_to_nothing_are_found() {
    let web = format!("{WEB}          envFrom: [{{configMapRef: {{name: setings}}}}]\n");
    let settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}\n";
    let directory = Directory::new(&[("web.yaml", &*web), ("settings.yaml", settings)]);
    let (code, report) = json(&directory, "-f . --timeout 60s");
    assert_ne!(code, 0, "{report}");
    let row = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["check"] == "missing-reference")
        .unwrap();
    assert_eq!(row["field"], "spec.template.spec.containers[0].envFrom[0].configMapRef.name");
    assert_eq!((&row["line"], &row["source"]), (&13.into(), &"./web.yaml".into()));
    assert_eq!(row["remedy"], "there is a ConfigMap \"settings\"");
}

/// What `--report` writes has the findings, whatever the output shows.
#[test]
fn reports_have_the_findings() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {selector: {app: wep}, ports: [{port: 80}]}\n";
    let directory = Directory::new(&[("web.yaml", WEB), ("service.yaml", service)]);
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let all = "--report junit=a.xml --report json=a.json --report jsonl=a.jsonl --report github=a.md";
    rehearse(&directory, &format!("-f web.yaml -f service.yaml {all}")).output();
    assert!(
        read("a.xml").contains("<testcase name=\"empty-selector Service default/s\""),
        "{}",
        read("a.xml")
    );
    let report: Value = serde_json::from_str(&read("a.json")).unwrap();
    assert_eq!(findings(&report), ["empty-selector service.yaml:4:18 spec.selector"]);
    let events = read("a.jsonl");
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["finding"]["check"]), (&"finding".into(), &"empty-selector".into()));
    assert!(events.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{events}");
    assert!(
        read("a.md").contains("empty-selector") || read("a.md").contains("service.yaml:4:18"),
        "{}",
        read("a.md")
    );

    // Nothing is applied, so there is nothing to wait for.
    let refused = Directory::new(&[("web.yaml", &*WEB.replace("replicas: 2", "replicas: -2"))]);
    rehearse(&refused, "-f web.yaml --report junit=a.xml").output();
    let written = std::fs::read_to_string(refused.path().join("a.xml")).unwrap();
    assert!(written.contains("<testcase name=\"refused Deployment default/web\""), "{written}");
}

#[test]
fn services_without_endpoints_and_ports_are_found() {
    let service = |selector: &str, port: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec:\n  selector: {{app: {selector}}}\n  ports:\n  - port: 80\n    targetPort: {port}\n"
        )
    };
    let typo = Directory::new(&[("web.yaml", WEB), ("service.yaml", &service("wep", "80"))]);
    let (_, report) = json(&typo, "-f .");
    assert_eq!(findings(&report), ["empty-selector ./service.yaml:5:13 spec.selector"]);
    let port = Directory::new(&[("web.yaml", WEB), ("service.yaml", &service("web", "http"))]);
    let (_, report) = json(&port, "-f .");
    assert_eq!(findings(&report), ["missing-port ./service.yaml:8:17 spec.ports[0].targetPort"]);
}

#[test]
fn unknown_kinds_are_stored_and_said() {
    let custom = "apiVersion: example.com/v1\nkind: Price\nmetadata: {name: a, namespace: default}\nspec: {amount: 1}\n";
    let directory = Directory::new(&[("a.yaml", custom)]);
    let (code, report) = json(&directory, "-f a.yaml");
    assert_eq!(code, 0, "{report}");
    assert_eq!(findings(&report), ["missing-kind a.yaml:2:7 kind"]);
    assert_eq!(json(&directory, "-f a.yaml --strict").0, 1);
}

#[test]
fn removed_versions_name_what_took_their_place() {
    let ingress = "apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: a}\nspec: {}\n";
    let directory = Directory::new(&[("a.yaml", ingress)]);
    let (code, report) = json(&directory, "-f a.yaml");
    assert_eq!(code, 1, "{report}");
    let row = &report["findings"][0];
    assert_eq!((&row["check"], &row["remedy"]), (&"removed-api".into(), &"use networking.k8s.io/v1".into()));
}

#[test]
fn versions_that_the_meant_release_serves_are_warnings() {
    let budget = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {minAvailable: 1}\n";
    let directory = Directory::new(&[("a.yaml", budget)]);
    for (version, expected, severity) in [("1.24", 0, "warning"), ("1.25", 1, "error")] {
        let (code, report) = json(&directory, &format!("-f a.yaml --kubernetes {version}"));
        let row = &report["findings"][0];
        assert_eq!(
            (code, &row["check"], &row["severity"]),
            (expected, &"removed-api".into(), &severity.into())
        );
    }
}

#[test]
fn keys_that_do_not_exist_are_found() {
    let web = format!(
        "{WEB}          env: [{{name: A, valueFrom: {{configMapKeyRef: {{name: settings, key: colour}}}}}}]\n"
    );
    let settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: red}}\n";
    let directory = Directory::new(&[("web.yaml", &*web), ("settings.yaml", settings)]);
    let (code, report) = json(&directory, "-f . --timeout 5m");
    let field = "spec.template.spec.containers[0].env[0].valueFrom.configMapKeyRef.key";
    assert_eq!(code, 1, "{report}");
    let found = findings(&report);
    assert!(
        found.iter().any(|row| row.starts_with("missing-key ./web.yaml:13:") && row.ends_with(field)),
        "{found:?}"
    );
}

const BUDGET: &str = "\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 2
  selector: {matchLabels: {app: web}}
";

/// From a directory, from standard input as Helm and kustomize print it, and from a kustomization.
#[test]
fn budgets_that_block_every_drain_are_found() {
    let all = format!("{WEB}---\n{BUDGET}");
    let kustomization = "resources: [web.yaml, budget.yaml]\n";
    let directory = Directory::new(&[
        ("k8s/web.yaml", WEB),
        ("k8s/budget.yaml", BUDGET),
        ("overlay/web.yaml", WEB),
        ("overlay/budget.yaml", BUDGET),
        ("overlay/kustomization.yaml", kustomization),
    ]);
    let runs = [
        ("./k8s/budget.yaml:5:", rehearse(&directory, "-f ./k8s -o json")),
        ("-:18:", rehearse(&directory, "-f - -o json").stdin(all.as_bytes())),
        ("overlay:", rehearse(&directory, "-k overlay -o json")),
    ];
    for (place, run) in runs {
        let output = run.output();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        // What is not done because of it is reported, too.
        assert_eq!(output.status.code(), Some(3), "{report}");
        let found = findings(&report);
        let is_it = |row: &String| {
            row.starts_with(&format!("blocked-drain {place}")) && row.ends_with(" spec.minAvailable")
        };
        assert!(found.iter().any(is_it), "{place}: {found:?}");
    }
}

#[test]
fn quotas_and_capacity_that_are_too_small_are_found() {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small}\nspec: {hard: {pods: \"1\"}}\n";
    let directory = Directory::new(&[("quota.yaml", quota), ("web.yaml", WEB)]);
    let (code, report) = json(&directory, "-f . --timeout 15m");
    assert_eq!((code, findings(&report)), (1, vec!["exceeded-quota ./web.yaml:1:1 ".to_owned()]), "{report}");
    let large = format!("{WEB}          resources: {{requests: {{cpu: \"3\"}}}}\n");
    let directory = Directory::new(&[("web.yaml", &*large)]);
    let (code, report) = json(&directory, "-f . --nodes 1x4cpu,16Gi --timeout 15m");
    assert_eq!((code, findings(&report)), (1, vec!["unschedulable ./web.yaml:1:1 ".to_owned()]), "{report}");
    assert_eq!(json(&directory, "-f . --nodes 2x4cpu,16Gi").0, 0);
}

#[test]
fn availability_that_is_lost_on_the_way_is_found() {
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n";
    let version = |tag: &str, strategy: &str| {
        WEB.replace("image: nginx", &format!("image: nginx:{tag}"))
            .replace("  replicas: 2\n", &format!("  replicas: 2\n  strategy: {{type: {strategy}}}\n"))
            + service
    };
    let files = |strategy: &str| {
        let (old, new) = (version("1", strategy), version("2", strategy));
        Directory::new(&[("old/web.yaml", &*old), ("new/web.yaml", &*new)])
    };
    let (code, report) = json(&files("Recreate"), "--from old -f new");
    assert_eq!((code, &report["outcome"]), (1, &"settled".into()), "{report}");
    let row = &report["findings"][0];
    assert_eq!((&row["check"], &row["object"]), (&"lost-availability".into(), &"Service default/web".into()));
    let message = row["message"].as_str().unwrap();
    assert!(message.starts_with("has no ready endpoints during the rollout (after "), "{message}");
    // A rolling update keeps one at least.
    let (code, report) = json(&files("RollingUpdate"), "--from old -f new");
    assert_eq!((code, findings(&report)), (0, Vec::new()), "{report}");
}

#[test]
fn a_namespace_that_nobody_creates_is_assumed() {
    let web = WEB.replace("{name: web}\nspec", "{name: web, namespace: shop}\nspec");
    let directory = Directory::new(&[("web.yaml", &*web)]);
    let (code, report) = json(&directory, "-f web.yaml");
    assert_eq!(code, 0, "{report}");
    assert_eq!(findings(&report), ["missing-namespace web.yaml:3:34 metadata.namespace"]);
}

#[test]
fn immutable_fields_are_found_on_the_way_from_the_old_version() {
    let new = WEB.replace("app: web", "app: shop");
    let directory = Directory::new(&[("old/web.yaml", WEB), ("new/web.yaml", &*new)]);
    let (code, report) = json(&directory, "--from old -f new");
    assert_eq!(code, 1, "{report}");
    assert!(
        findings(&report)
            .iter()
            .any(|row| row.starts_with("immutable-field new/web.yaml:6:13 spec.selector")),
        "{report}"
    );
}

#[test]
fn network_policies_are_checked_against_a_provider() {
    let policy = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: egress}
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress:
  - ports:
    - port: 30000
      endPort: 32000
";
    let directory = Directory::new(&[("policy.yaml", policy)]);
    let (_, report) = json(&directory, "-f policy.yaml --provider cilium@1.15");
    assert_eq!(findings(&report), ["network-policy policy.yaml:10:16 spec.egress[0].ports[0].endPort"]);
    let (code, report) = json(&directory, "-f policy.yaml --provider cilium@1.16");
    assert_eq!((code, findings(&report)), (0, Vec::new()));
}

#[test]
fn reports_have_all_forms() {
    let directory = Directory::new(&[
        ("web.yaml", WEB),
        (
            "a.yaml",
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {b: c}, ports: [{port: 80}]}}\n",
        ),
    ]);
    let sarif: Value = serde_json::from_str(&rehearse(&directory, "-f . -o sarif").stdout()).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"empty-selector".into(), &"error".into()), "{sarif}");
    let junit = rehearse(&directory, "-f . -o junit").stdout();
    assert!(
        junit.contains("<testsuite name=\"settled wait\"")
            && junit.contains("<failure type=\"empty-selector\""),
        "{junit}"
    );
    let github = rehearse(&directory, "-f . -o github").stdout();
    assert!(github.contains("::error file=./a.yaml,line=1,col="), "{github}");
    let last = rehearse(&directory, "-f . -o jsonl").stdout();
    assert!(last.lines().last().unwrap().starts_with("{\"event\":\"finding\""), "{last}");
}

#[test]
fn recordings_are_shown_again() {
    let directory = Directory::new(&[("web.yaml", WEB)]);
    assert_eq!(rehearse(&directory, "-f web.yaml --record web.cast -q").code(), 0);
    let shown = settled("play web.cast --speed max").dir(&directory).stdout();
    assert!(shown.contains("Deployment/web") && shown.contains("Current"), "{shown}");
    directory.write("bad.cast", "{\"version\": 1}\n");
    let text = settled("play bad.cast").dir(&directory).transcript();
    assert!(text.starts_with("exit code: 2\n") && text.contains("bad.cast:1: not a recording"), "{text}");
}

#[test]
fn nonsense_is_an_error_with_its_place() {
    let directory =
        Directory::new(&[("a.yaml", "a: [\n"), ("b.yaml", "kind: X\n"), ("empty/readme.txt", "")]);
    let text = rehearse(&directory, "-f a.yaml").transcript();
    assert!(text.starts_with("exit code: 2\n") && text.contains("a.yaml:"), "{text}");
    let text = rehearse(&directory, "-f b.yaml").transcript();
    assert!(text.starts_with("exit code: 2\n") && text.contains("apiVersion and kind"), "{text}");
    let text = rehearse(&directory, "-f empty").transcript();
    assert!(text.starts_with("exit code: 2\n") && text.contains("no objects found"), "{text}");
    assert!(rehearse(&directory, "-f b.yaml --speed fast").transcript().contains("expected max"));
    // Said before anything is played.
    directory.write("web.yaml", WEB);
    let text = rehearse(&directory, "-f web.yaml --provider foo").transcript();
    assert!(text.starts_with("exit code: 2\n") && text.contains("no profile for provider `foo`"), "{text}");
    assert!(!text.contains("deployment.apps/web"), "{text}");
}

#[test]
fn demos_need_no_file() {
    let directory = Directory::new(&[]);
    let text = settled("demo good").dir(&directory).transcript();
    assert!(text.starts_with("exit code: 0\n"), "{text}");
    let text = settled("demo finalizer").dir(&directory).transcript();
    assert!(text.starts_with("exit code: 3\n") || text.starts_with("exit code: 1\n"), "{text}");
    assert!(text.contains("held by finalizer example.com/upload"), "{text}");
    assert!(settled("demo quota --print").dir(&directory).stdout().contains("kind: ResourceQuota"));
}
