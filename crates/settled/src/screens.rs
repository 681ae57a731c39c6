//! Screen tests: rendered waits in three terminal sizes, during the wait and at its end.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use kstatus::{FailureClass, Status};
use settled_tracker::report::{Branch, Connection, Counts, Explanation, LogLines, LogTail, Snapshot, Step};
use settled_tracker::{Event, Outcome, Report, State, TargetReport};

use crate::live::screen::Size;
use crate::names::Names;
use crate::progress::{LiveView, Show};
use crate::render::explain::Explain;
use crate::scenes;
use crate::style::Palette;

/// A wait: what happens, how it stands then, and how it ends.
struct Scene {
    seconds: u64,
    events: Vec<Event>,
    snapshot: Snapshot,
    report: Report,
}

/// A terminal that can be looked at.
#[derive(Clone)]
struct Terminal(Rc<RefCell<vt100::Parser>>);

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().process(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The screens of a scene, of each size one while it lasts, and one at its end.
fn screens(scene: &Scene) -> String {
    type Measure = fn() -> Option<Size>;
    const SIZES: [(&str, Measure); 3] = [
        ("80x24", || Some(Size { columns: 80, rows: 24 })),
        ("120x40", || Some(Size { columns: 120, rows: 40 })),
        ("40x15", || Some(Size { columns: 40, rows: 15 })),
    ];
    let mut out = String::new();
    for (name, size) in SIZES {
        let Size { columns, rows } = size().unwrap();
        let parser = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0);
        let terminal = Terminal(Rc::new(RefCell::new(parser)));
        let mut view = LiveView::new(terminal.clone(), size, Palette::NONE);
        let elapsed = Duration::from_secs(scene.seconds);
        for event in &scene.events {
            view.event(elapsed, event).unwrap();
        }
        view.picture(elapsed, &|_| scene.snapshot.clone()).unwrap();
        let contents = || terminal.0.borrow().screen().contents().trim_end().to_owned();
        out.push_str(&format!("--- {name}, after {}s\n{}\n", scene.seconds, contents()));
        for target in &scene.report.targets {
            if target.state == State::Failed {
                view.event(scene.report.elapsed, &Event::Target(target.clone())).unwrap();
            }
        }
        view.event(scene.report.elapsed, &Event::Finished(scene.report.clone())).unwrap();
        let names = Names::of(scene.report.targets.iter().map(|target| &target.object));
        let width = Some(usize::from(columns));
        let explain = Explain { palette: Palette::NONE, width, names: &names, now: scenes::now() };
        let text = format!("\n{}", explain.report(&scene.report)).replace('\n', "\r\n");
        terminal.0.borrow_mut().process(text.as_bytes());
        out.push_str(&format!("--- {name}, at the end\n{}\n", contents()));
    }
    out
}

fn pod(name: &str, reason: &str, message: &str, summary: &str, class: FailureClass) -> Step {
    let mut step = scenes::step("Pod", name, Status::Failed, reason, message);
    step.summary = summary.to_owned();
    step.class = Some(class);
    step.since = scenes::ago(3);
    step
}

/// A Deployment whose Pods come to nothing for this reason: as it waits.
fn broken(name: &str, root: Step, count: usize, next: &str) -> (TargetReport, Branch) {
    let set_name = format!("{name}-54f8c9dbd6");
    let mut target = scenes::waiting(name, 0);
    target.verdict = Arc::new(kstatus::Verdict::new(
        Status::InProgress,
        kstatus::Basis::KindRule,
        "LessAvailable",
        format!("Available: 0/{count}"),
    ));
    target.fails_in = Some(Duration::from_secs(27));
    let counts = format!("Available: 0/{count}");
    let mut below = scenes::branch("ReplicaSet", &set_name, Status::InProgress, "LessAvailable", &counts);
    if root.object.is("", "Pod") {
        for number in 0..count {
            let name =
                if number == 0 { root.object.name.to_string() } else { format!("{set_name}-{number}") };
            let mut leaf = scenes::branch("Pod", &name, root.status, &root.reason, &root.message);
            leaf.summary.clone_from(&root.summary);
            below.children.push(leaf);
        }
    }
    let mut branch = scenes::branch("Deployment", name, Status::InProgress, "LessAvailable", &counts);
    let mut set = scenes::step("ReplicaSet", &set_name, Status::InProgress, "LessAvailable", &counts);
    set.since = scenes::ago(3);
    let chain =
        vec![scenes::step("Deployment", name, Status::InProgress, "LessAvailable", &counts), set, root];
    branch.children = vec![below];
    let others = (1..count).map(|number| format!("{set_name}-{number}")).collect();
    target.causes.push(Explanation {
        chain,
        count,
        others,
        next: vec![next.to_owned()],
        ..Explanation::default()
    });
    (target, branch)
}

/// The same once it counts as failed.
fn failed(target: &TargetReport) -> TargetReport {
    let mut target = target.clone();
    target.state = State::Failed;
    target.fails_in = None;
    target
}

fn snapshot(seconds: u64, counts: Counts, open: Vec<(TargetReport, Branch)>) -> Snapshot {
    let (targets, branches) = open.into_iter().unzip();
    Snapshot {
        elapsed: Duration::from_secs(seconds),
        timeout: Some(Duration::from_secs(300)),
        synced: true,
        connection: Connection::Connected,
        counts,
        targets,
        branches,
    }
}

fn counts(total: usize, done: usize, failed: usize) -> Counts {
    Counts { total, done, waiting: total - done - failed, failed, skipped: 0 }
}

fn one_broken(root: Step, count: usize, next: &str) -> Scene {
    let (target, branch) = broken("web", root, count, next);
    let report = Report {
        outcome: Outcome::Failed,
        elapsed: Duration::from_secs(30),
        counts: counts(1, 0, 1),
        targets: vec![failed(&target)],
        unmatched: Vec::new(),
        notices: Vec::new(),
        changed_by_others: Vec::new(),
    };
    Scene {
        seconds: 3,
        events: vec![Event::Synced { counts: counts(1, 0, 0) }, Event::Target(target.clone())],
        snapshot: snapshot(3, counts(1, 0, 0), vec![(target, branch)]),
        report,
    }
}

fn bad_image(name: &str) -> Step {
    pod(
        name,
        "ImagePullBackOff",
        "container web: ImagePullBackOff: Back-off pulling image \"nginx:1.29-typo\": ErrImagePull: rpc error: code = \
         NotFound desc = failed to pull and unpack image \"nginx:1.29-typo\": manifest unknown",
        "cannot pull \"nginx:1.29-typo\": manifest unknown",
        FailureClass::Image,
    )
}

#[test]
fn an_image_that_does_not_exist() {
    let scene = one_broken(
        bad_image("web-54f8c9dbd6-tn964"),
        2,
        "kubectl set image deployment/web web=IMAGE -n shop",
    );
    assert_snapshot!(screens(&scene));
}

#[test]
fn a_quota_that_is_used_up() {
    let message = "pods \"web-54f8c9dbd6-2xk9r\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, \
                   limited: pods=1";
    let mut event = scenes::step("Event", "web-54f8c9dbd6.17b", Status::Failed, "FailedCreate", message);
    event.summary = "exceeded quota small: pods 1/1".to_owned();
    event.class = Some(FailureClass::Quota);
    event.times = Some(5);
    assert_snapshot!(screens(&one_broken(event, 3, "kubectl describe quota -n shop")));
}

#[test]
fn a_config_map_that_is_missing() {
    let root = pod(
        "web-54f8c9dbd6-tn964",
        "CreateContainerConfigError",
        "container web: CreateContainerConfigError: configmap \"settings\" not found",
        "ConfigMap \"settings\" not found",
        FailureClass::Configuration,
    );
    assert_snapshot!(screens(&one_broken(root, 1, "kubectl get configmaps -n shop")));
}

#[test]
fn two_broken_among_twenty() {
    let next = "kubectl logs svc-13-54f8c9dbd6-x1 -n shop -c app --previous";
    let mut crash = pod(
        "svc-13-54f8c9dbd6-x1",
        "CrashLoopBackOff",
        "container app: CrashLoopBackOff, last exit code 1, restarted 3 times: back-off 40s restarting failed container",
        "container app: exit code 1, 3 restarts",
        FailureClass::Crash,
    );
    crash.times = Some(3);
    let image = broken("svc-07", bad_image("svc-07-54f8c9dbd6-x1"), 1, "kubectl describe pod svc-07 -n shop");
    let mut crash = broken("svc-13", crash, 1, next);
    crash.0.fails_in = Some(Duration::from_secs(57));
    let mut open = vec![image.clone(), crash.clone()];
    let mut waiting = Vec::new();
    for number in (0..20).filter(|number| ![7, 13, 15].contains(number)) {
        let name = format!("svc-{number:02}");
        let message = "the controller has not observed the object yet";
        let target =
            scenes::target(State::Waiting, ("Deployment", &name), Status::InProgress, "NotObserved", message);
        let branch = scenes::branch("Deployment", &name, Status::InProgress, "NotObserved", message);
        waiting.push(target.clone());
        open.push((target, branch));
    }
    let done = scenes::done("Deployment", "svc-15");
    let mut targets = vec![failed(&image.0), crash.0];
    targets.extend(waiting.iter().skip(14).cloned());
    targets.extend((0..14).map(|number| scenes::done("Deployment", &format!("done-{number:02}"))));
    targets.push(done.clone());
    let scene = Scene {
        seconds: 2,
        events: vec![Event::Synced { counts: counts(20, 0, 0) }, Event::Target(done)],
        snapshot: snapshot(2, counts(20, 1, 0), open),
        report: Report {
            outcome: Outcome::Failed,
            elapsed: Duration::from_secs(30),
            counts: counts(20, 15, 1),
            targets,
            unmatched: Vec::new(),
            notices: Vec::new(),
            changed_by_others: Vec::new(),
        },
    };
    assert_snapshot!(screens(&scene));
}

#[test]
fn many_pods_that_wait_for_a_node() {
    let message = "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, \
                   2 node(s) didn't match Pod's node affinity/selector.";
    let summary = "0/3 nodes available: 1 untolerated taint {node-role.kubernetes.io/control-plane}, 2 without disktype=ssd";
    let waiting = |number: usize| {
        let name = format!("pod-{number:03}");
        let mut target =
            scenes::target(State::Waiting, ("Pod", &name), Status::InProgress, "PodNotScheduled", message);
        let mut step = pod(&name, "PodNotScheduled", message, summary, FailureClass::Scheduling);
        step.status = Status::InProgress;
        target.causes.push(Explanation { chain: vec![step], count: 1, ..Explanation::default() });
        let mut branch = scenes::branch("Pod", &name, Status::InProgress, "PodNotScheduled", message);
        branch.summary = summary.to_owned();
        (target, branch)
    };
    let open: Vec<(TargetReport, Branch)> = (0..98).map(waiting).collect();
    let done = (0..98).map(|number| Event::Target(scenes::done("Pod", &format!("done-{number}"))));
    let mut events = vec![Event::Synced { counts: counts(200, 98, 0) }];
    events.extend(done);
    events.extend(["a", "b", "c", "d"].map(|name| Event::Target(scenes::done("Pod", name))));
    let scene = Scene {
        seconds: 12,
        events,
        report: Report {
            outcome: Outcome::TimedOut,
            elapsed: Duration::from_secs(300),
            counts: counts(200, 102, 0),
            targets: open.iter().map(|(target, _)| target.clone()).collect(),
            unmatched: Vec::new(),
            notices: Vec::new(),
            changed_by_others: Vec::new(),
        },
        snapshot: snapshot(12, counts(200, 102, 0), open),
    };
    assert_snapshot!(screens(&scene));
}

#[test]
fn a_connection_that_is_lost() {
    let target = scenes::waiting("web", 2);
    let branch = scenes::branch("Deployment", "web", Status::InProgress, "LessReady", "Ready: 2/3");
    let mut snapshot = snapshot(75, counts(3, 2, 0), vec![(target.clone(), branch)]);
    snapshot.connection = Connection::Lost {
        since: Duration::from_secs(63),
        error: "https://shop.example.com:6443: tcp connect error: Connection refused (os error 111)"
            .to_owned(),
    };
    let scene = Scene {
        seconds: 75,
        events: vec![Event::Synced { counts: counts(3, 0, 0) }, Event::Target(target.clone())],
        snapshot,
        report: Report {
            outcome: Outcome::Interrupted,
            elapsed: Duration::from_secs(80),
            counts: counts(3, 2, 0),
            targets: vec![target],
            unmatched: Vec::new(),
            notices: Vec::new(),
            changed_by_others: Vec::new(),
        },
    };
    assert_snapshot!(screens(&scene));
}

#[test]
fn a_crash_loop_with_its_logs() {
    let name = "web-54f8c9dbd6-g628t";
    let mut root = pod(
        name,
        "CrashLoopBackOff",
        "container app: CrashLoopBackOff, last exit code 1, restarted 6 times: back-off 5m0s restarting failed \
         container=app",
        "container app: exit code 1, 6 restarts",
        FailureClass::Crash,
    );
    root.times = Some(6);
    let lines: Vec<String> = [
        "2026-11-22T07:00:19Z INFO  starting step 19",
        "2026-11-22T07:00:20Z INFO  starting step 20",
        "\u{1b}[31mpanic: dial tcp 10.0.0.5:5432: connect: connection refused\u{1b}[0m",
        "goroutine 1 [running]:",
        "\tmain.main()",
        "exit status 2",
    ]
    .map(str::to_owned)
    .into();
    let mut scene = one_broken(root, 2, "kubectl logs web-54f8c9dbd6-g628t -n shop -c app --previous");
    let pod = scenes::id("Pod", name);
    let log = LogLines { pod: pod.clone(), container: "app".to_owned(), lines: lines.clone(), left_out: 4 };
    scene.events.push(Event::Log(log));
    scene.report.targets[0].causes[0].logs =
        vec![LogTail { pod, container: "app".to_owned(), previous: true, lines, error: None }];
    assert_snapshot!(screens(&scene));
}
