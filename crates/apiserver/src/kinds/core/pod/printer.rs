//! The row of a Pod in tables (`printPod` upstream).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::human;
use crate::kinds::printers::{NONE, Read as _, Row, cells};

/// How many times containers were restarted, and when the last of them was terminated.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(status.int("/restartCount"));
        let finished = human::parse(status.text("/lastState/terminated/finishedAt"));
        self.last = self.last.max(finished.filter(|time| !human::is_zero(*time)));
    }
}

/// Why a container was terminated: a reason, a signal or an exit code.
fn termination(terminated: &Value) -> String {
    match (terminated.text("/reason"), terminated.int("/signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.int("/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

pub(crate) fn print_pod(row: Row<'_>) -> Vec<Value> {
    let conditions = row.list("/status/conditions");
    let condition = |kind: &str| conditions.iter().find(|condition| condition.text("/type") == kind);
    let phase = row.text("/status/phase");
    let mut reason = row.filled_or("/status/reason", phase).to_owned();
    let gated = |condition: &Value| {
        condition.text("/type") == "PodScheduled" && condition.text("/reason") == "SchedulingGated"
    };
    if conditions.iter().any(gated) {
        reason = "SchedulingGated".to_owned();
    }

    let init_containers = row.list("/spec/initContainers");
    // Of two of one name the last one counts, as in a Go map.
    let restartable = |name: &str| {
        let container = init_containers.iter().rfind(|container| container.text("/name") == name);
        container.is_some_and(|container| container.text("/restartPolicy") == "Always")
    };
    let sidecars =
        init_containers.iter().filter(|container| container.text("/restartPolicy") == "Always").count();
    let total = row.list("/spec/containers").len() + sidecars;
    let mut ready = 0;
    let (mut restarts, mut sidecar_restarts) = (Restarts::default(), Restarts::default());

    let mut initializing = false;
    for (index, status) in row.list("/status/initContainerStatuses").iter().enumerate() {
        restarts.add(status);
        let is_sidecar = restartable(status.text("/name"));
        if is_sidecar {
            sidecar_restarts.add(status);
        }
        let terminated = status.at("/state/terminated");
        if terminated.is_some_and(|terminated| terminated.int("/exitCode") == 0) {
            continue;
        }
        if is_sidecar && status.flag("/started") {
            ready += usize::from(status.flag("/ready"));
            continue;
        }
        let waiting = status.text("/state/waiting/reason");
        reason = if let Some(terminated) = terminated {
            format!("Init:{}", termination(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", init_containers.len())
        };
        initializing = true;
        break;
    }

    let initialized = condition("Initialized").is_some_and(|condition| condition.text("/status") == "True");
    if !initializing || initialized {
        restarts = sidecar_restarts;
        let mut running = false;
        let mut error = None;
        for status in row.list("/status/containerStatuses").iter().rev() {
            restarts.add(status);
            let waiting = status.text("/state/waiting/reason");
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if let Some(terminated) = status.at("/state/terminated") {
                reason = termination(terminated);
                if terminated.int("/exitCode") != 0 {
                    error = Some(reason.clone());
                }
            } else if status.flag("/ready") && status.has("/state/running") {
                running = true;
                ready += 1;
            }
        }
        // With a container still running, the Pod is not completed.
        if reason == "Completed" {
            let is_ready =
                |condition: &Value| condition.text("/type") == "Ready" && condition.text("/status") == "True";
            if running && conditions.iter().any(is_ready) {
                reason = "Running".to_owned();
            } else if let Some(error) = error {
                reason = error;
            } else if running {
                reason = "NotReady".to_owned();
            }
        }
    }
    if row.deleted() {
        if row.text("/status/reason") == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(phase, "Failed" | "Succeeded") {
            reason = "Terminating".to_owned();
        }
    }

    let restarts = match restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            let ago = human::duration(row.now.as_nanosecond() - last.as_nanosecond());
            format!("{count} ({ago} ago)")
        }
        Restarts { count, .. } => count.to_string(),
    };
    let gates = row.list("/spec/readinessGates");
    let open = gates.iter().filter(|gate| {
        condition(gate.text("/conditionType")).is_some_and(|condition| condition.text("/status") == "True")
    });
    let gates = match gates.len() {
        0 => NONE.to_owned(),
        all => format!("{}/{all}", open.count()),
    };
    let ip = row.filled_or("/status/podIPs/0/ip", row.filled_or("/status/podIP", NONE));
    cells![
        row.name(),
        format!("{ready}/{total}"),
        reason,
        restarts,
        row.age(),
        ip,
        row.filled_or("/spec/nodeName", NONE),
        row.filled_or("/status/nominatedNodeName", NONE),
        gates,
    ]
}

/// Pods that are done say so.
pub(super) fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.pointer("/status/phase")?.as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}
