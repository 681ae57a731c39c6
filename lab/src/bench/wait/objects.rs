//! Target objects, and their statuses.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::bench::waiters::Waited;

/// Injected failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Image,
    Crash,
    PodOfADeployment,
    Deadline,
}

impl Failure {
    pub(super) const ALL: [Self; 4] = [Self::Image, Self::Crash, Self::PodOfADeployment, Self::Deadline];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Image => "Pod: ImagePullBackOff",
            Self::Crash => "Pod: CrashLoopBackOff",
            Self::PodOfADeployment => "Deployment: its Pod's ImagePullBackOff",
            Self::Deadline => "Deployment: ProgressDeadlineExceeded",
        }
    }

    pub(super) fn kind(self) -> Waited {
        match self {
            Self::Image | Self::Crash => Waited::Pods,
            Self::PodOfADeployment | Self::Deadline => Waited::Deployments,
        }
    }

    /// Without grace periods.
    pub(super) fn without_grace(self) -> &'static [&'static str] {
        match self {
            Self::Image | Self::PodOfADeployment => &["--grace", "image=0s"],
            Self::Crash => &["--grace", "crash=0s"],
            Self::Deadline => &[],
        }
    }

    pub(super) fn status(self) -> Value {
        let waiting = |phase: &str, reason: &str, message: &str, restarts: u32| {
            let mut container = json!({
                "name": "app", "image": "registry.example/app:1", "imageID": "", "ready": false, "started": false,
                "restartCount": restarts, "state": {"waiting": {"reason": reason, "message": message}},
            });
            if restarts > 0 {
                container["lastState"] = json!({"terminated": {
                    "exitCode": 1, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z",
                }});
            }
            json!({
                "phase": phase,
                "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
                    {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
                ],
                "containerStatuses": [container],
            })
        };
        match self {
            Self::Image | Self::PodOfADeployment => waiting(
                "Pending",
                "ImagePullBackOff",
                "Back-off pulling image \"registry.example/app:1\": ErrImagePull: manifest unknown",
                0,
            ),
            Self::Crash => {
                waiting("Running", "CrashLoopBackOff", "back-off 5m0s restarting failed container=app", 6)
            }
            Self::Deadline => json!({
                "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1,
                "conditions": [
                    {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
                    {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet \"web\" has timed out progressing."},
                ],
            }),
        }
    }
}

/// Status of a Pod that pulls its image.
pub(super) fn starting() -> Value {
    json!({
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Initialized", "status": "True"},
            {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"},
        ],
        "containerStatuses": [{
            "name": "app", "image": "registry.example/app:1", "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }],
    })
}

/// The status of a ready object.
pub(super) fn done(kind: Waited) -> Value {
    match kind {
        Waited::Pods => json!({
            "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Initialized", "status": "True"},
                {"type": "ContainersReady", "status": "True"},
                {"type": "Ready", "status": "True"},
            ],
            "containerStatuses": [{
                "name": "app", "image": "registry.example/app:1", "imageID": "registry.example/app@sha256:0", "ready": true,
                "started": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }],
        }),
        Waited::Deployments => json!({
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ],
        }),
    }
}

/// An object that is not ready, optionally with the label, of about this size on the server.
pub(super) fn object(kind: Waited, name: &str, label: Option<&str>, bytes: usize) -> Bytes {
    let mut labels = json!({"app": "waited"});
    if let Some((key, value)) = label.and_then(|label| label.split_once('=')) {
        labels[key] = json!(value);
    }
    // On the server, including managed fields, a variable takes 157 bytes, and everything else 1,900.
    let variables: Vec<Value> = (0..bytes.saturating_sub(1900) / 157)
        .map(|at| json!({"name": format!("VARIABLE_{at:04}"), "value": format!("{name}-{at:04}-{}", "x".repeat(40))}))
        .collect();
    let spec = json!({"containers": [{"name": "app", "image": "registry.example/app:1", "env": variables}]});
    let metadata = json!({"name": name, "labels": labels});
    let object = match kind {
        Waited::Pods => json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
        Waited::Deployments => json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            // As written by its controller, for each ReplicaSet.
            "metadata": {"name": name, "labels": labels, "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "waited", "of": name}},
                "template": {"metadata": {"labels": {"app": "waited", "of": name}}, "spec": spec},
            },
        }),
    };
    object.to_string().into()
}
