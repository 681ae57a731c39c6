//! Test fixtures: snapshots and reports of waits.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kstatus::{Basis, FailureClass, Status, Verdict};
use settled_tracker::report::{
    Branch, Connection, Counts, EventNote, Explanation, Link, LogTail, Notice, Snapshot, Step,
};
use settled_tracker::{Event, ObjectId, Outcome, Report, State, TargetReport};

/// The present of all scenes.
pub(crate) fn now() -> Timestamp {
    "2026-11-21T10:05:00Z".parse().unwrap()
}

pub(crate) fn ago(seconds: i64) -> Option<Timestamp> {
    Some(now() - SignedDuration::from_secs(seconds))
}

pub(crate) fn id(kind: &str, name: &str) -> ObjectId {
    let group = match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => "apps",
        "Job" => "batch",
        _ => "",
    };
    ObjectId::new(group, kind, "shop", name)
}

pub(crate) fn target(
    state: State,
    (kind, name): (&str, &str),
    status: Status,
    reason: &str,
    message: &str,
) -> TargetReport {
    TargetReport {
        object: id(kind, name),
        state,
        verdict: Verdict::new(status, Basis::KindRule, reason.to_owned(), message.to_owned()).into(),
        own: None,
        since: ago(130),
        created: ago(130),
        fails_in: None,
        note: None,
        causes: Vec::new(),
        same_as: None,
    }
}

pub(crate) fn done(kind: &str, name: &str) -> TargetReport {
    target(State::Done, (kind, name), Status::Current, "Ready", "")
}

pub(crate) fn waiting(name: &str, ready: u32) -> TargetReport {
    target(
        State::Waiting,
        ("Deployment", name),
        Status::InProgress,
        "LessReady",
        &format!("Ready: {ready}/3"),
    )
}

pub(crate) fn step(kind: &str, name: &str, status: Status, reason: &str, message: &str) -> Step {
    Step {
        object: id(kind, name),
        link: Some(Link::Owns),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        summary: message.to_owned(),
        class: None,
        terminal: false,
        since: None,
        times: None,
    }
}

fn event(object: ObjectId, reason: &str, message: &str, count: u64, seconds: i64) -> EventNote {
    EventNote {
        object,
        type_: "Warning".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        count,
        first: ago(seconds + 60),
        last: ago(seconds),
        source: "kubelet".to_owned(),
    }
}

/// A Deployment whose image cannot be pulled.
pub(crate) fn image_failure() -> TargetReport {
    let message = "container app: ImagePullBackOff: Back-off pulling image \"registry.example.com/shop/web:1.9.0\": \
        ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image: manifest unknown";
    let mut pod = step("Pod", "web-7c9f6d5b8d-tz6lm", Status::Failed, "ImagePullBackOff", message);
    pod.since = ago(95);
    pod.class = Some(FailureClass::Image);
    pod.summary = "cannot pull \"registry.example.com/shop/web:1.9.0\": manifest unknown".to_owned();
    let mut target = waiting("web", 1);
    target.state = State::Failed;
    target.note = Some("ImagePullBackOff for 1m35s (grace for image: 1m)".into());
    target.causes.push(Explanation {
        chain: vec![
            step("Deployment", "web", Status::InProgress, "LessReady", "Ready: 1/3"),
            step("ReplicaSet", "web-7c9f6d5b8d", Status::InProgress, "LessReady", "Ready: 0/2"),
            pod,
        ],
        count: 2,
        others: vec!["web-7c9f6d5b8d-x8w2n".to_owned()],
        events: vec![
            event(
                id("ReplicaSet", "web-7c9f6d5b8d"),
                "SuccessfulCreate",
                "Created pod: web-7c9f6d5b8d-tz6lm",
                1,
                125,
            ),
            event(
                id("Pod", "web-7c9f6d5b8d-tz6lm"),
                "Failed",
                "Failed to pull image \"registry.example.com/shop/web:1.9.0\": manifest unknown",
                4,
                12,
            ),
        ],
        logs: Vec::new(),
        next: vec!["kubectl describe pod web-7c9f6d5b8d-tz6lm -n shop".to_owned()],
        remarks: vec!["check the image's name and tag: registry.example.com/shop/web:1.9.0".to_owned()],
    });
    target
}

fn report(outcome: Outcome, seconds: f64, targets: Vec<TargetReport>) -> Report {
    Report {
        outcome,
        elapsed: Duration::from_secs_f64(seconds),
        counts: count(&targets),
        targets,
        unmatched: Vec::new(),
        notices: Vec::new(),
        changed_by_others: Vec::new(),
    }
}

pub(crate) fn count(targets: &[TargetReport]) -> Counts {
    let of = |state| targets.iter().filter(|target| target.state == state).count();
    Counts {
        total: targets.len(),
        done: of(State::Done),
        waiting: of(State::Waiting),
        failed: of(State::Failed),
        skipped: of(State::Skipped),
    }
}

pub(crate) fn failed_rollout() -> Report {
    let mut database =
        target(State::Waiting, ("StatefulSet", "db"), Status::InProgress, "LessReady", "Ready: 0/1");
    database.note = Some("waits for PersistentVolumeClaim/data-db-0".into());
    report(
        Outcome::Failed,
        130.4,
        vec![database, image_failure(), done("Service", "web"), done("ConfigMap", "web")],
    )
}

pub(crate) fn crash() -> Report {
    let mut target = target(
        State::Failed,
        ("Job", "migrate"),
        Status::Failed,
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    );
    let mut pod =
        step("Pod", "migrate-x7w4n", Status::Failed, "Error", "container migrate: Error (exit code 2)");
    pod.times = Some(7);
    target.causes.push(Explanation {
        chain: vec![step("Job", "migrate", Status::Failed, "BackoffLimitExceeded", ""), pod],
        count: 1,
        logs: vec![LogTail {
            pod: id("Pod", "migrate-x7w4n"),
            container: "migrate".to_owned(),
            previous: true,
            error: None,
            lines: vec![
                "goroutine 1 [running]:".to_owned(),
                "\tmain.go:12 \u{1b}[2J\u{1b}]0;owned\u{7}".to_owned(),
                String::new(),
                "::error::not a command, and much longer than the eighty columns that a terminal has"
                    .to_owned(),
            ],
        }],
        next: vec!["kubectl logs job/migrate -n shop".to_owned()],
        ..Explanation::default()
    });
    let mut report = report(Outcome::Failed, 45.0, vec![target]);
    report.notices.push(Notice { message: "can't list events".to_owned(), remedy: None });
    report
}

pub(crate) fn settled() -> Report {
    let skipped = target(State::Skipped, ("Job", "seed"), Status::InProgress, "Running", "");
    let targets = vec![done("Deployment", "web"), done("Service", "web"), done("Job", "migrate"), skipped];
    report(Outcome::Settled, 12.34, targets)
}

pub(crate) fn many(number: usize) -> Report {
    let targets = (0..number).map(|at| waiting(&format!("web-{at:03}"), 0)).collect();
    report(Outcome::TimedOut, 300.0, targets)
}

/// A branch below another.
pub(crate) fn branch(kind: &str, name: &str, status: Status, reason: &str, message: &str) -> Branch {
    Branch {
        object: id(kind, name),
        link: Some(Link::Owns),
        verdict: Verdict::new(status, Basis::KindRule, reason.to_owned(), message.to_owned()).into(),
        summary: message.to_owned(),
        created: ago(130),
        children: Vec::new(),
        hidden: 0,
        hidden_kinds: Vec::new(),
    }
}

/// Two Deployments of a release on their way, at this time of the wait.
pub(crate) fn rollout(seconds: u64) -> Snapshot {
    let mut pod = branch(
        "Pod",
        "web-7c9f6d5b8d-tz6lm",
        Status::InProgress,
        "ErrImagePull",
        "container app: ErrImagePull: manifest unknown",
    );
    pod.summary = "cannot pull \"web:1.9.0\": manifest unknown".to_owned();
    pod.verdict = Arc::new((*pod.verdict).clone().failure(FailureClass::Image, false));
    let mut set = branch("ReplicaSet", "web-7c9f6d5b8d", Status::InProgress, "LessReady", "Ready: 0/2");
    set.children = vec![pod.clone()];
    set.hidden = 1;
    let mut web = waiting("web", 1);
    web.fails_in = Some(Duration::from_secs(48));
    web.note = Some("fails in 48s unless it recovers".into());
    let mut root =
        step("Pod", "web-7c9f6d5b8d-tz6lm", Status::InProgress, "ErrImagePull", &pod.verdict.message);
    root.summary.clone_from(&pod.summary);
    root.class = Some(FailureClass::Image);
    web.causes.push(Explanation { chain: vec![root], count: 1, ..Explanation::default() });
    let mut web_branch = branch("Deployment", "web", Status::InProgress, "LessReady", "Ready: 1/3");
    web_branch.children = vec![set];
    let search = waiting("search", 2);
    let search_branch = branch("Deployment", "search", Status::InProgress, "LessReady", "Ready: 2/3");
    Snapshot {
        elapsed: Duration::from_secs(seconds),
        timeout: Some(Duration::from_secs(300)),
        synced: true,
        connection: Connection::Connected,
        counts: Counts { total: 5, done: 3, waiting: 2, failed: 0, skipped: 0 },
        targets: vec![web, search],
        branches: vec![web_branch, search_branch],
    }
}

/// A wait with so many Deployments, none of which is done.
pub(crate) fn crowd(number: usize) -> Snapshot {
    let targets: Vec<TargetReport> = (0..number).map(|at| waiting(&format!("web-{at:03}"), 0)).collect();
    let branches = targets
        .iter()
        .map(|target| {
            let name = &target.object.name;
            let mut branch = branch("Deployment", name, Status::InProgress, "LessReady", "Ready: 0/3");
            branch.children = ["a", "b", "c"]
                .map(|pod| {
                    let name = format!("{name}-{pod}");
                    self::branch("Pod", &name, Status::InProgress, "ContainersNotReady", "not ready: app")
                })
                .into();
            branch
        })
        .collect();
    Snapshot {
        elapsed: Duration::from_secs(7),
        timeout: None,
        synced: true,
        connection: Connection::Connected,
        counts: Counts { total: number, done: 0, waiting: number, failed: 0, skipped: 0 },
        targets,
        branches,
    }
}

/// What happens in a wait that fails.
pub(crate) fn failing() -> Vec<(f64, Event)> {
    let report = failed_rollout();
    let counts = Counts { total: 4, done: 1, waiting: 3, failed: 0, skipped: 0 };
    let mut script = vec![
        (0.2, Event::Synced { counts }),
        (0.2, Event::Target(waiting("web", 0))),
        (0.2, Event::Target(done("ConfigMap", "web"))),
        (
            0.3,
            Event::Notice(Notice {
                message: "events cannot be listed in namespace shop".to_owned(),
                remedy: Some("allow `list` on `events`".to_owned()),
            }),
        ),
        (4.0, Event::Target(waiting("web", 1))),
        (12.3, Event::Target(done("Service", "web"))),
        (95.0, Event::Target(image_failure())),
    ];
    script.push((95.0, Event::Finished(report)));
    script
}
