//! Kubelets: for each file in `tests/kubelet`, the statuses that a Pod goes through and the Events about it.
//!
//! A file has sections that begin with `=== NAME`: `objects` (YAML documents; the first Pod is the one that is
//! followed), `scenario`, `then` (commands: `at 20s create`, with YAML, `at 20s resize`, with the new spec, `at 20s delete`, or
//! `at 20s remove NAME` for another Pod), `for` (how long it is followed), `statuses` and `events`: what is expected, from the source of Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Event as CoreEvent, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::ApiResource;
use settled_simulator::scenario::Scenario;

use crate::support::{cluster, pass};

fn sections(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for section in text.split("=== ").skip(1) {
        let (name, rest) = section.split_once('\n').expect("a name and a line");
        sections.entry(name.trim()).or_default().push(rest);
    }
    sections
}

fn documents(yaml: &str) -> Vec<DynamicObject> {
    let texts = yaml.split("\n---\n").map(str::trim).filter(|text| !text.is_empty());
    let parse = |text: &str| {
        let mut json = Vec::new();
        settled_manifest::yaml_to_json(text.as_bytes(), &mut json).expect("YAML");
        serde_json::from_slice(&json).expect("an object")
    };
    texts.map(parse).collect()
}

async fn create(client: &Client, object: &DynamicObject) {
    let TypeMeta { api_version, kind } = object.types.clone().expect("apiVersion and kind");
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = if matches!(&*kind, "PersistentVolume" | "Namespace") {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::default_namespaced_with(client.clone(), &resource)
    };
    api.create(&PostParams::default(), object).await.expect("created");
}

fn container(status: &ContainerStatus) -> String {
    let state = status.state.clone().unwrap_or_default();
    let mut text = format!("{}=", status.name);
    if let Some(running) = state.running {
        assert!(running.started_at.is_some() && status.container_id.is_some());
        text += "Running";
    } else if let Some(ended) = state.terminated {
        write!(text, "{}({})", ended.reason.unwrap_or_default(), ended.exit_code).expect("written");
    } else if let Some(waiting) = state.waiting {
        text += &waiting.reason.unwrap_or_default();
    }
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    if let Some(last) = last {
        write!(text, "<{}({})", last.reason.clone().unwrap_or_default(), last.exit_code).expect("written");
    }
    if status.restart_count > 0 {
        write!(text, " restarts={}", status.restart_count).expect("written");
    }
    text += if status.ready { " ready" } else { "" };
    text
}

/// What a container has, and what it was given if that is something else: ` cpu=1<2`.
fn resources(status: &ContainerStatus) -> String {
    let has = status.resources.as_ref().and_then(|resources| resources.requests.clone()).unwrap_or_default();
    let given = status.allocated_resources.clone().unwrap_or_default();
    let text = has.iter().map(|(name, has)| match given.get(name) {
        Some(given) if given != has => format!(" {name}={}<{}", has.0, given.0),
        _ => format!(" {name}={}", has.0),
    });
    text.collect()
}

/// A line for a status: phase and reason, containers, and the conditions that are not true.
fn line(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let mut text = status.phase.unwrap_or_default();
    if let Some(reason) = &status.reason {
        write!(text, "/{reason}").expect("written");
    }
    if pod.metadata.deletion_timestamp.is_some() {
        text += " deleting";
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    for one in containers {
        write!(text, "; {}", container(one)).expect("written");
        if pod.metadata.generation > Some(1) {
            text += &resources(one);
        }
    }
    for condition in status.conditions.iter().flatten().filter(|one| one.type_.starts_with("PodResize")) {
        write!(text, "; {} {}", condition.type_, condition.reason.as_deref().unwrap_or_default())
            .expect("written");
    }
    for condition in status.conditions.iter().flatten().filter(|condition| condition.status != "True") {
        let short = condition.type_.replace("PodReadyToStartContainers", "Sandbox");
        write!(text, "; !{short}").expect("written");
        if let Some(reason) = &condition.reason {
            write!(text, " {reason}").expect("written");
        }
    }
    text
}

/// Adds the Events that are new.
async fn collect(api: &Api<CoreEvent>, uid: &str, seen: &mut BTreeSet<String>, notes: &mut Vec<String>) {
    let mut events = api.list(&ListParams::default()).await.expect("Events").items;
    events.retain(|event| event.involved_object.uid.as_deref() == Some(uid));
    events.retain(|event| seen.insert(event.metadata.name.clone().unwrap_or_default()));
    let version = |event: &CoreEvent| event.metadata.resource_version.as_deref()?.parse::<u64>().ok();
    events.sort_by_key(version);
    for event in events {
        let path = event.involved_object.field_path.unwrap_or_default();
        let path = path.split_once('{').map_or("", |(_, name)| name.trim_end_matches('}'));
        let mut message = event.message.unwrap_or_default().replace(uid, "UID");
        if let Some((before, _)) = message.split_once("Image size: ") {
            message = format!("{before}Image size: SIZE bytes.");
        }
        let reason = event.reason.unwrap_or_default();
        let type_ = event.type_.unwrap_or_default();
        let about = if path.is_empty() { reason } else { format!("{reason} {path}") };
        let note = format!("{type_} {about}: {message}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// Follows a Pod: the lines that differ, and in the end its Events.
async fn follow(text: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
    let sections = sections(text);
    let one = |name: &str| sections.get(name).and_then(|all| all.first()).copied().unwrap_or_default();
    let scenario = Scenario::parse("scenario", one("scenario")).expect("a scenario");
    let cluster = cluster(|options| options.scenario = scenario.clone()).await;
    // The controllers of the server make the ServiceAccount.
    pass(1).await;
    let objects = documents(one("objects"));
    let mut name = String::new();
    for object in &objects {
        create(&cluster.client, object).await;
        if name.is_empty() && object.types.as_ref().is_some_and(|types| types.kind == "Pod") {
            name = object.metadata.name.clone().expect("a name");
        }
    }
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let first = pods.get(&name).await.expect("the Pod");
    let uid = first.metadata.uid.clone().expect("a UID");
    let seconds: u64 = one("for").trim().trim_end_matches('s').parse().expect("seconds");
    let events: Api<CoreEvent> = Api::default_namespaced(cluster.client.clone());
    let (mut lines, mut notes, mut seen) = (Vec::<String>::new(), Vec::new(), BTreeSet::new());
    for quarter in 0..seconds * 4 {
        for then in sections.get("then").into_iter().flatten() {
            let (command, yaml) = then.split_once('\n').unwrap_or((then, ""));
            let mut words = command.split_whitespace();
            let (at, verb, other) =
                (words.next().expect("a time"), words.next().expect("a verb"), words.next());
            if at.trim_end_matches('s').parse::<u64>().expect("seconds") * 4 != quarter {
                continue;
            }
            if verb == "delete" {
                pods.delete(&name, &DeleteParams::default()).await.expect("deleted");
            } else if verb == "remove" {
                pods.delete(other.expect("a name"), &DeleteParams::default()).await.expect("deleted");
            } else if verb == "resize" {
                let mut json = Vec::new();
                settled_manifest::yaml_to_json(yaml.as_bytes(), &mut json).expect("YAML");
                let spec: serde_json::Value = serde_json::from_slice(&json).expect("a spec");
                let patch = Patch::Strategic(serde_json::json!({"spec": spec}));
                let resized = pods.patch_subresource("resize", &name, &PatchParams::default(), &patch).await;
                resized.expect("resized");
            } else {
                for object in documents(yaml) {
                    create(&cluster.client, &object).await;
                }
            }
        }
        let now = pods.get_opt(&name).await.expect("read");
        let now = now.filter(|pod| pod.metadata.uid.as_ref() == Some(&uid));
        let new = now.as_ref().map_or_else(|| "gone".to_owned(), line);
        // Before the kubelet has seen it, there are no containers.
        if lines.last() != Some(&new) && new != "Pending" {
            lines.push(new);
        }
        if quarter % 4 == 3 {
            collect(&events, &uid, &mut seen, &mut notes).await;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let unmatched = scenario.unmatched().iter().map(ToString::to_string).collect();
    (lines, notes, unmatched)
}

async fn check(file: &str, text: &str) {
    let (lines, events, unmatched) = follow(text).await;
    let sections = sections(text);
    let expected = |name: &str| -> Vec<String> {
        let section = sections.get(name).and_then(|all| all.first()).copied().unwrap_or_default();
        section.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    let shown = |lines: &[String]| lines.join("\n");
    assert_eq!(shown(&lines), shown(&expected("statuses")), "statuses of {file}");
    // The same instant has an order of its own in each run of a real kubelet; here it is the order of the source.
    assert_eq!(shown(&events), shown(&expected("events")), "Events of {file}");
    assert_eq!(shown(&unmatched), shown(&expected("unmatched")), "{file}");
}

macro_rules! golden {
    ($($name:ident,)+) => {
        $(#[tokio::test(start_paused = true)]
        async fn $name() {
            let file = concat!("kubelet/", stringify!($name), ".txt");
            check(file, include_str!(concat!("kubelet/", stringify!($name), ".txt"))).await;
        })+
    };
}

golden! {
    runs,
    two_containers,
    image_not_found,
    image_comes_late,
    invalid_image,
    never_pulled,
    pulls_wait,
    pulls_in_parallel,
    missing_config_map,
    missing_volume,
    unbound_claim,
    crash_loop,
    job,
    job_fails,
    init_fails,
    sidecar,
    deadline,
    deleted,
    ignores_termination,
    readiness_probe,
    never_ready,
    liveness_probe,
    startup_probe_fails,
    readiness_gate,
    run_error,
    post_start_fails,
    evicted,
    annotated,
    resize,
    resize_deferred,
    resize_restarts,
    resize_fails,
}

#[tokio::test(start_paused = true)]
async fn logs_of_crashed_containers_can_be_read() {
    let scenario =
        "containers: [{crash: {after: 2s, times: 2, logs: [no database, giving up]}, logs: [starting]}]";
    let scenario = Scenario::parse("scenario", scenario).expect("a scenario");
    let cluster = cluster(|options| options.scenario = scenario).await;
    pass(1).await;
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {nodeName: node-1, containers: [{name: web, image: nginx}]}";
    for object in documents(pod) {
        create(&cluster.client, &object).await;
    }
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let log = async |previous, tail_lines| {
        let wanted = LogParams { previous, tail_lines, ..LogParams::default() };
        pods.logs("web", &wanted).await.map_err(|error| error.to_string())
    };
    let waiting = log(false, None).await.expect_err("no log");
    assert!(waiting.contains(r#"container "web" in pod "web" is waiting to start"#), "{waiting}");
    pass(60).await;
    assert_eq!(log(true, None).await.as_deref(), Ok("starting\nno database\ngiving up\n"));
    assert_eq!(log(true, Some(1)).await.as_deref(), Ok("giving up\n"));
    assert_eq!(log(false, None).await.as_deref(), Ok("starting\n"));
}
