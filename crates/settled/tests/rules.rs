//! `settled rules`, and `--rules` in other commands.

use insta::assert_snapshot;

use crate::support::{Directory, settled, status};

const PACK: &str = "\
apiVersion: settled.dev/v1alpha1
kind: RulePack
rules:
  # The phase says it all.
  - match: {group: example.com, kind: Widget}
    failed: {when: status.phase == 'Broken', reason: Broken, message: \"${status.message}\"}
    current: status.phase == 'Up'
";

const WIDGETS: &str = "\
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
status: {phase: Broken, message: no disk}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: b}
status: {phase: Up}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: c}
";

#[test]
fn the_users_rules_decide() {
    let directory = Directory::new(&[("pack.yaml", PACK), ("widgets.yaml", WIDGETS)]);
    let run = || status("-f widgets.yaml --rules pack.yaml -o wide").dir(&directory);
    assert_snapshot!(run().transcript(), @"
    exit code: 1
    --- stdout ---
    STATUS      OBJECT    REASON    BASIS        CONFIDENCE     CLASS  SOURCE          MESSAGE
    Failed      Widget/a  Broken    custom-rule  verified-rule  other  widgets.yaml#0  no disk
    InProgress  Widget/c  NoStatus  custom-rule  verified-rule         widgets.yaml#2  the controller has not reported a status yet
    Current     Widget/b  Current   custom-rule  verified-rule         widgets.yaml#1  status.phase == 'Up'
    --- stderr ---
    3 objects: 1 Failed, 1 InProgress, 1 Current (1 file, [TIME])
    ");
    let run = || status("-f widgets.yaml -o wide").env("SETTLED_RULES", "pack.yaml").dir(&directory);
    assert_snapshot!(run().code(), @"1");
}

#[test]
fn wrong_rules_are_named_with_their_places() {
    let directory = Directory::new(&[(
        "pack.yaml",
        "apiVersion: settled.dev/v1alpha1\nkind: RulePack\nrules:\n- match: {group: example.com, kind: Widget}\n  \
         curent: status.phase == 'Up'\n- match: {group: example.com}\n  current: status.phase ==\n- match: {group: a.io, kind: B}\n  \
         current: isTru('Ready')\n",
    )]);
    assert_snapshot!(status("-f x.yaml --rules pack.yaml").dir(&directory).transcript(), @r#"
    exit code: 2
    --- stderr ---
    error: cannot use pack.yaml as rules
      pack.yaml:4:3: the rule says nothing: give it `failed`, `inProgress` or `current`
      pack.yaml:5:11: unknown key `curent`; did you mean `current`?
      pack.yaml:6:10: `kind` is missing; write `kind: "*"` for all kinds of the group
      pack.yaml:9:12: unknown function `isTru`; did you mean `isTrue`?
    "#);
    assert_snapshot!(status("-f x.yaml --rules gone.yaml").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: cannot read gone.yaml: No such file or directory
    ");
    assert_snapshot!(status("-f x.yaml --rules pack.yaml --profile kstatus").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: --rules has no effect in the profile `kstatus`, which is upstream to the letter
    hint: leave out --profile kstatus
    ");
}

/// What only a convention says passes no gate that asks for more; a rule of the user's does.
#[test]
fn a_gate_asks_for_confidence() {
    let pack = PACK.replace("'Up'", "'Ready'");
    let widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, status: {phase: Ready}}";
    let directory = Directory::new(&[("pack.yaml", &*pack), ("widget.yaml", widget)]);
    let run = |arguments: &str| status(&format!("-f widget.yaml {arguments}")).dir(&directory).transcript();
    assert_snapshot!(run("--require-confidence standard-condition"), @"
    exit code: 3
    --- stdout ---
    STATUS   OBJECT    REASON         MESSAGE
    Unknown  Widget/b  LowConfidence  Current (Ready) with confidence convention, required is standard-condition
    --- stderr ---
    1 object: 1 Unknown (1 file, [TIME])
    ");
    assert_snapshot!(run("--rules pack.yaml --require-confidence verified-rule -o wide"), @"
    exit code: 0
    --- stdout ---
    STATUS   OBJECT    REASON   BASIS        CONFIDENCE     SOURCE         MESSAGE
    Current  Widget/b  Current  custom-rule  verified-rule  widget.yaml#0  status.phase == 'Ready'
    --- stderr ---
    1 object: 1 Current (1 file, [TIME])
    ");
}

#[test]
fn rules_are_listed_with_where_they_come_from() {
    let directory = Directory::new(&[("pack.yaml", PACK)]);
    assert_snapshot!(settled("rules list widget --rules pack.yaml").dir(&directory).transcript(), @"
    exit code: 0
    --- stdout ---
    GROUP        KIND    ORIGIN  SOURCE
    example.com  Widget  user    pack.yaml:5
    ");
    assert_snapshot!(settled("rules list widget -o json --rules pack.yaml").dir(&directory).transcript(), @r#"
    exit code: 0
    --- stdout ---
    [
      {
        "basis": "custom-rule",
        "file": "pack.yaml",
        "group": "example.com",
        "kinds": [
          "Widget"
        ],
        "line": 5,
        "narrowed": "",
        "origin": "user",
        "reads": [
          "status.message",
          "status.phase"
        ],
        "source": null
      }
    ]
    "#);
    assert_snapshot!(settled("rules list nobody-has-this").transcript(), @"
    exit code: 2
    --- stderr ---
    error: no rule has a group or kind that contains `nobody-has-this`
    hint: kinds without a rule are evaluated by their conditions and phases
    ");
}

#[test]
fn rules_are_shown_as_they_are_written() {
    let directory = Directory::new(&[("pack.yaml", PACK)]);
    assert_snapshot!(settled("rules show example.com/Widget --rules pack.yaml").dir(&directory).transcript(), @r#"
    exit code: 0
    --- stdout ---
    # user rule, pack.yaml:5
    # The phase says it all.
    - match: {group: example.com, kind: Widget}
      failed: {when: status.phase == 'Broken', reason: Broken, message: "${status.message}"}
      current: status.phase == 'Up'
    "#);
    assert_snapshot!(settled("rules show example.com/Gadget").transcript(), @"
    exit code: 2
    --- stderr ---
    error: no rule for example.com/Gadget
    hint: the kind has a built-in rule, or is evaluated by its conditions and phase; docs/rules.md describes how to write a rule
    ");
    assert_snapshot!(settled("rules show Gadget").transcript(), @"
    exit code: 2
    --- stderr ---
    error: `Gadget` is not a group and kind
    hint: write the API group, a slash and the kind: cert-manager.io/Certificate; for the core group /Pod
    ");
}

#[test]
fn an_explanation_names_what_decided_and_what_it_saw() {
    let directory = Directory::new(&[("pack.yaml", PACK), ("widgets.yaml", WIDGETS)]);
    let run = settled("rules explain -f widgets.yaml --rules pack.yaml").dir(&directory);
    assert_snapshot!(run.transcript(), @"
    exit code: 0
    --- stdout ---
    Widget/a: Failed Broken: no disk
      basis: custom-rule, confidence: verified-rule
      rule pack.yaml:5 example.com/Widget
        => failed: status.phase == 'Broken'  [true]
        saw
          status.phase = 'Broken'
          status.message = 'no disk'

    Widget/b: Current Current: status.phase == 'Up'
      basis: custom-rule, confidence: verified-rule
      rule pack.yaml:5 example.com/Widget
           failed: status.phase == 'Broken'  [false]
        => current: status.phase == 'Up'  [true]
        saw
          status.phase = 'Up'

    Widget/c: InProgress NoStatus: the controller has not reported a status yet
      basis: custom-rule, confidence: verified-rule
      rule pack.yaml:5 example.com/Widget
           failed: status.phase == 'Broken'  [false: status.phase is absent]
           current: status.phase == 'Up'  [false: status.phase is absent]
        saw
          status.phase = absent
    ");
}

#[test]
fn cases_are_run_and_their_differences_shown() {
    let cases = |phase: &str| {
        format!(
            "apiVersion: settled.dev/v1alpha1\nkind: RuleTest\ncases:\n- name: up\n  object: {{apiVersion: example.com/v1, kind: \
             Widget, status: {{phase: {phase}}}}}\n  expect: {{status: Current}}\n"
        )
    };
    let directory = Directory::new(&[("pack.yaml", PACK), ("pack.test.yaml", &cases("Up"))]);
    assert_snapshot!(settled("rules test").dir(&directory).transcript(), @"
    exit code: 0
    --- stderr ---
    warning: ./pack.yaml:5: no case reaches failed: status.phase == 'Broken'
    1 case in 1 file: 0 failed, 0 errors, 1 warning
    ");
    assert_snapshot!(settled("rules test --strict").dir(&directory).code(), @"1");
    directory.write("pack.test.yaml", &cases("Down"));
    assert_snapshot!(settled("rules test pack.test.yaml").dir(&directory).transcript(), @"
    exit code: 1
    --- stdout ---
    pack.test.yaml:4: up
      - status: Current
      + status: InProgress
      - reason: (any)
      + reason: NotCurrent
      - message: (any)
      + message: not yet: status.phase == 'Up'
      - basis: (any)
      + basis: custom-rule
    --- stderr ---
    warning: pack.yaml:5: no case reaches failed: status.phase == 'Broken'
    warning: pack.yaml:5: no case reaches current: status.phase == 'Up'
    1 case in 1 file: 1 failed, 0 errors, 2 warnings
    ");
    directory
        .write("pack.test.yaml", "apiVersion: settled.dev/v1alpha1\nkind: RuleTest\ncases:\n- nam: up\n");
    assert_snapshot!(settled("rules test").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: ./pack.test.yaml:4:8: unknown key `nam`; did you mean `name`?
    error: ./pack.test.yaml:4:3: `object` is missing
    1 case in 1 file: 0 failed, 2 errors, 0 warnings
    ");
    assert_snapshot!(settled("rules test nowhere").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: cannot read nowhere: No such file or directory
    ");
}

#[test]
fn the_example_rules_are_right() {
    assert_snapshot!(settled("rules test docs/rules --strict").transcript(), @"
    exit code: 0
    --- stderr ---
    7 cases in 1 file: 0 failed, 0 errors, 0 warnings
    ");
}

#[test]
fn annotations_say_when_an_object_is_done_and_who_waits() {
    let objects = "\
apiVersion: example.com/v1
kind: Gadget
metadata: {name: a, annotations: {settled.dev/current: status.ok == true}}
status: {ok: true}
---
apiVersion: example.com/v1
kind: Gadget
metadata: {name: b, annotations: {settled.dev/ignore: 'true'}}
status: {phase: Failed}
";
    let directory = Directory::new(&[("objects.yaml", objects)]);
    assert_snapshot!(status("-f objects.yaml -o wide").dir(&directory).transcript(), @"
    exit code: 0
    --- stdout ---
    STATUS   OBJECT    REASON   BASIS              CONFIDENCE     CLASS  SOURCE          MESSAGE
    Failed   Gadget/b  Failed   phase-word         convention     other  objects.yaml#1  status.phase is Failed
    Current  Gadget/a  Current  object-annotation  verified-rule         objects.yaml#0  status.ok == true
    --- stderr ---
    2 objects: 1 Failed, 1 Current (1 file, [TIME])
    hint: 1 object not counted for the exit code: annotations ask not to wait for them; --no-annotations counts them
    ");
    assert_snapshot!(status("-f objects.yaml --no-annotations").dir(&directory).transcript(), @"
    exit code: 1
    --- stdout ---
    STATUS   OBJECT    REASON    MESSAGE
    Failed   Gadget/b  Failed    status.phase is Failed
    Unknown  Gadget/a  NoSignal  the status holds neither a condition nor a phase that is understood
    --- stderr ---
    2 objects: 1 Failed, 1 Unknown (1 file, [TIME])
    hint: --assume-current counts objects without a status (NoSignal) as Current
    ");
}

#[test]
fn a_hostile_rule_ends_and_costs_nothing_else() {
    let pack = "\
apiVersion: settled.dev/v1alpha1
kind: RulePack
rules:
  - match: {group: example.com, kind: Widget}
    current: lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))
";
    let directory = Directory::new(&[("pack.yaml", pack), ("widgets.yaml", WIDGETS)]);
    let objects = [WIDGETS, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}\n"].concat();
    directory.write("widgets.yaml", &objects);
    assert_snapshot!(status("-f widgets.yaml --rules pack.yaml").dir(&directory).transcript(), @"
    exit code: 3
    --- stdout ---
    STATUS   OBJECT       REASON        MESSAGE
    Unknown  Widget/a     RuleFailed    rule pack.yaml:4 example.com/Widget, current: it needs more than 100000 steps
    Unknown  Widget/b     RuleFailed    rule pack.yaml:4 example.com/Widget, current: it needs more than 100000 steps
    Unknown  Widget/c     RuleFailed    rule pack.yaml:4 example.com/Widget, current: it needs more than 100000 steps
    Current  ConfigMap/d  NoStatusKind  ConfigMap has no status to wait for
    --- stderr ---
    4 objects: 3 Unknown, 1 Current (1 file, [TIME])
    ");
}

/// A gate that reads nothing must not open.
#[test]
fn nothing_to_do_is_an_error() {
    let directory = Directory::new(&[("empty.test.yaml", ""), ("widgets.yaml", WIDGETS)]);
    std::fs::create_dir(directory.path().join("none")).unwrap();
    for (arguments, code, says) in [
        ("rules test empty.test.yaml", 2, "error: no test cases found"),
        ("rules test none", 2, "error: there is no file in none that could be read"),
        ("status -f widgets.yaml --rules none", 2, "error: there is no file in none that could be read"),
        (
            "rules explain -f widgets.yaml --name nobody",
            2,
            "error: no object matches the filters; read 3 objects",
        ),
        ("rules explain -f widgets.yaml --status Terminating", 0, ""),
    ] {
        let output = settled(arguments).dir(&directory).output();
        assert_eq!(output.status.code(), Some(code), "{arguments}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr.lines().next().unwrap_or_default(), says, "{arguments}");
    }
    let malformed = settled("rules explain -f -").stdin("kind: [\n").output();
    assert_eq!(malformed.status.code(), Some(2));
    assert!(malformed.stdout.is_empty(), "{malformed:?}");
    let stderr = String::from_utf8(malformed.stderr).unwrap();
    assert!(stderr.starts_with("error: standard input: line 2, column 1: "), "{stderr}");
}

/// A rule that no case has met at all is missing one as much as a branch is.
#[test]
fn a_rule_without_a_case_is_warned_of() {
    let more = "  - match: {group: example.com, kind: Gadget}\n    current: status.done == true\n";
    let case = "apiVersion: settled.dev/v1alpha1\nkind: RuleTest\ncases:\n- name: up\n  object: {apiVersion: example.com/v1, \
                kind: Widget, status: {phase: Up}}\n  expect: {status: Current}\n";
    let directory = Directory::new(&[("pack.yaml", &[PACK, more].concat()), ("pack.test.yaml", case)]);
    let output = settled("rules test pack.test.yaml").dir(&directory).output();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("no case reaches current: status.done == true"), "{stderr}");
}

/// As `resource_customizations` of Argo CD's repository: beside the health checks are tests, their data, and scripts for actions.
#[test]
fn directories_of_argo_cd_load_as_they_are_published() {
    let health = "hs = {}\nhs.status = \"Healthy\"\nhs.message = obj.status.phase\nreturn hs\n";
    let test = "tests:\n- healthStatus:\n    status: Healthy\n  inputPath: testdata/up.yaml\n";
    let action = "actions = {}\nactions[\"restart\"] = {}\nreturn actions\n";
    let directory = Directory::new(&[
        ("rc/example.com/Widget/health.lua", health),
        ("rc/example.com/Widget/health_test.yaml", test),
        ("rc/example.com/Widget/testdata/up.yaml", "apiVersion: example.com/v1\nkind: Widget\n"),
        ("rc/example.com/Widget/actions/discovery.lua", action),
        ("rc/example.com/Widget/actions/action_test.yaml", "discoveryTests: []\n"),
        ("rc/example.com/Widget/actions/restart/action.lua", "return obj\n"),
        ("rc/example.com/Widget/actions/testdata/x.yaml", "a: b\n"),
        // A kind with actions alone.
        ("rc/apps/Deployment/actions/discovery.lua", action),
        ("rc/apps/Deployment/actions/restart/action.lua", "return obj\n"),
        (
            "widgets.yaml",
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nstatus: {phase: Up}\n",
        ),
    ]);
    assert_snapshot!(status("-f widgets.yaml --rules rc -o wide").dir(&directory).transcript(), @"
    exit code: 0
    --- stdout ---
    STATUS   OBJECT    REASON   BASIS        CONFIDENCE     SOURCE          MESSAGE
    Current  Widget/a  Healthy  custom-rule  verified-rule  widgets.yaml#0  Up
    --- stderr ---
    1 object: 1 Current (1 file, [TIME])
    ");
}

/// The schema of the CRD and the live objects give a draft; with its cases it can be tried at once.
#[test]
fn a_kind_without_a_rule_gets_a_draft() {
    let definition = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets}
  versions:
  - name: v1
    storage: true
    schema: {openAPIV3Schema: {properties: {status: {properties: {phase: {enum: [Pending, Running, Failed, Paused, Odd]}}}}}}
";
    let objects = "\
{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}, status: {phase: Running, conditions: [{type: Degraded, status: \"False\"}]}}
---
{apiVersion: example.com/v1, kind: Gadget, metadata: {name: b}, status: {phase: Failed, conditions: [{type: Degraded, status: \"True\"}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: d}, status: {phase: Odd}}
";
    let directory = Directory::new(&[("crd.yaml", definition), ("objects.yaml", objects)]);
    let run = settled("rules propose -f objects.yaml -f crd.yaml").dir(&directory);
    assert_snapshot!(run.transcript(), @r#"
    exit code: 0
    --- stdout ---
    # example.com/Gadget: 2 objects, 2 judged by conventions or not at all
    #   status.phase: Failed 1, Odd (schema), Paused (schema), Pending (schema), Running 1
    #   condition Degraded: False 1, True 1
    #   not used, the meaning is not known: Odd
    apiVersion: settled.dev/v1alpha1
    kind: RulePack
    rules:
      # Draft for Gadget: check it against the controller's source.
      - match: {group: example.com, kind: Gadget}
        source: {unverified: "drafted from the CRD and live objects, not checked against the controller's source"}
        suspended: status.phase in ['Paused']
        failed:
          - when: isTrue('Degraded')
            from: Degraded
          - when: status.phase in ['Failed']
            reason: '${status.phase}'
        inProgress:
          - when: status.phase in ['Pending']
            reason: '${status.phase}'
        current:
          - when: status.phase in ['Running']
            reason: '${status.phase}'
    ---
    # What the drafts say of the states that were seen. Correct what the controller means otherwise.
    apiVersion: settled.dev/v1alpha1
    kind: RuleTest
    cases:
      - name: "Gadget: phase=Failed Degraded=True"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"},"status":{"conditions":[{"status":"True","type":"Degraded"}],"phase":"Failed"}}
        expect: {status: Failed}
      - name: "Gadget: phase=Running Degraded=False"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"},"status":{"conditions":[{"status":"False","type":"Degraded"}],"phase":"Running"}}
        expect: {status: Current}
      - name: "Gadget: phase=Failed"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"},"status":{"phase":"Failed"}}
        expect: {status: Failed}
      - name: "Gadget: phase=Odd"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"},"status":{"phase":"Odd"}}
        expect: {status: InProgress}
      - name: "Gadget: phase=Paused"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"},"status":{"phase":"Paused"}}
        expect: {status: Current}
      - name: "Gadget: phase=Pending"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"},"status":{"phase":"Pending"}}
        expect: {status: InProgress}
      - name: "Gadget: phase=Running"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"},"status":{"phase":"Running"}}
        expect: {status: Current}
      - name: "Gadget: older generation"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"generation":2,"name":"example"},"status":{"conditions":[{"status":"False","type":"Degraded"}],"observedGeneration":1,"phase":"Running"}}
        expect: {status: InProgress}
      - name: "Gadget: new"
        object: {"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"example"}}
        expect: {status: InProgress}
    --- stderr ---
    5 objects: 1 kind without a rule, 1 draft
    "#);
    let draft = settled("rules propose -f objects.yaml -f crd.yaml").dir(&directory).stdout();
    let directory = Directory::new(&[("draft.yaml", &*draft), ("objects.yaml", objects)]);
    let tested = settled("rules test draft.yaml --rules draft.yaml --strict").dir(&directory).transcript();
    assert!(tested.starts_with("exit code: 0\n"), "{tested}");
    assert_snapshot!(settled("rules propose -f gone.yaml").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: cannot read gone.yaml: No such file or directory
    0 objects: 0 kinds without a rule, 0 drafts
    ");
    assert_snapshot!(settled("rules propose widgets").dir(&directory).transcript(), @"
    exit code: 2
    --- stderr ---
    error: unexpected argument `widgets`
    hint: settled rules propose reads all custom resources of the cluster; -f FILE reads files
    ");
}
