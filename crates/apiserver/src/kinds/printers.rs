//! Printer columns of built-in kinds, as upstream's printers fill them.
//!
//! What the columns are called is data: `printers/columns.txt`, a line a kind. The functions here are in its order of
//! columns.

use jiff::Timestamp;
use serde_json::Value;
use settled_apimachinery::labels::LabelSelector;

use crate::human;

/// Fills the cells of one object's row.
pub(crate) type Cells = fn(Row<'_>) -> Vec<Value>;

/// A line for each kind: group and kind, then the JSON of its column definitions. `*` is for all that have none.
const COLUMNS: &str = include_str!("printers/columns.txt");

/// The definitions and the printer of a kind, and whether they are those of kinds that have none of their own.
pub(crate) fn find(group: &str, kind: &str) -> (&'static str, Cells, bool) {
    let cells = printer(group, kind);
    let own = cells.and_then(|cells| Some((definitions(group, kind)?, cells, false)));
    own.unwrap_or_else(|| (definitions("", "*").unwrap_or("[]"), created_at, true))
}

fn definitions(group: &str, kind: &str) -> Option<&'static str> {
    let mut lines = COLUMNS.lines().filter_map(|line| line.split_once(' '));
    let matches = |name: &str| match name.split_once('/') {
        Some((its_group, its_kind)) => (its_group, its_kind) == (group, kind),
        None => name == kind,
    };
    lines.find(|(name, _)| matches(name)).map(|(_, definitions)| definitions)
}

/// What upstream says about a column that all kinds have: `Name` or `Age`.
pub(crate) fn description(column: &str) -> String {
    let definitions = definitions("", "ConfigMap").and_then(|json| serde_json::from_str::<Value>(json).ok());
    let definitions = definitions.as_ref().and_then(Value::as_array).into_iter().flatten();
    let mut found = definitions.filter(|definition| definition["name"] == column);
    found.next().and_then(|definition| definition["description"].as_str()).unwrap_or_default().to_owned()
}

/// An object, and when it is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) object: &'a Value,
    pub(crate) now: Timestamp,
}

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// The texts and numbers under JSON pointers; what is absent is empty or zero, as in Go.
trait Read {
    fn at(&self, pointer: &str) -> Option<&Value>;

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn text_or<'a>(&'a self, pointer: &str, default: &'a str) -> &'a str {
        self.at(pointer).and_then(Value::as_str).unwrap_or(default)
    }

    /// Another text where there is none, or an empty one.
    fn filled_or<'a>(&'a self, pointer: &str, default: &'a str) -> &'a str {
        Some(self.text(pointer)).filter(|text| !text.is_empty()).unwrap_or(default)
    }

    fn int(&self, pointer: &str) -> i64 {
        self.at(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn has(&self, pointer: &str) -> bool {
        self.at(pointer).is_some()
    }

    /// How many entries a map has.
    fn entries(&self, pointer: &str) -> usize {
        self.at(pointer).and_then(Value::as_object).map_or(0, |map| map.len())
    }

    /// A number, a text, or a quantity, as text.
    fn scalar(&self, pointer: &str, default: &str) -> String {
        match self.at(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => default.to_owned(),
        }
    }
}

impl Read for Value {
    fn at(&self, pointer: &str) -> Option<&Value> {
        self.pointer(pointer).filter(|value| !value.is_null())
    }
}

impl Read for Row<'_> {
    fn at(&self, pointer: &str) -> Option<&Value> {
        self.object.at(pointer)
    }
}

impl Row<'_> {
    fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    fn since(&self, pointer: &str) -> String {
        human::since(self.text(pointer), self.now)
    }

    fn age(&self) -> String {
        self.since("/metadata/creationTimestamp")
    }

    fn deleted(&self) -> bool {
        self.has("/metadata/deletionTimestamp")
    }
}

macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(Value::from($cell)),*] };
}

fn created_at(row: Row<'_>) -> Vec<Value> {
    let created = row.text_or("/metadata/creationTimestamp", "0001-01-01T00:00:00Z");
    cells![row.name(), created]
}

fn printer(group: &str, kind: &str) -> Option<Cells> {
    let cells: Cells = match (group, kind) {
        ("", "Pod") => pod,
        ("", "PodTemplate") => |row| {
            let [names, images] = containers(row.list("/template/spec/containers"));
            cells![row.name(), names, images, labels(row.at("/template/metadata/labels"))]
        },
        ("policy", "PodDisruptionBudget") => |row| {
            cells![
                row.name(),
                row.scalar("/spec/minAvailable", "N/A"),
                row.scalar("/spec/maxUnavailable", "N/A"),
                row.int("/status/disruptionsAllowed"),
                row.age(),
            ]
        },
        ("", "ReplicationController") => |row| {
            let [names, images] = containers(row.list("/spec/template/spec/containers"));
            cells![
                row.name(),
                row.int("/spec/replicas"),
                row.int("/status/replicas"),
                row.int("/status/readyReplicas"),
                row.age(),
                names,
                images,
                labels(row.at("/spec/selector")),
            ]
        },
        ("apps", "ReplicaSet") => |row| {
            let [names, images] = containers(row.list("/spec/template/spec/containers"));
            cells![
                row.name(),
                row.int("/spec/replicas"),
                row.int("/status/replicas"),
                row.int("/status/readyReplicas"),
                row.age(),
                names,
                images,
                selector(row.at("/spec/selector")),
            ]
        },
        ("apps", "DaemonSet") => |row| {
            let [names, images] = containers(row.list("/spec/template/spec/containers"));
            cells![
                row.name(),
                row.int("/status/desiredNumberScheduled"),
                row.int("/status/currentNumberScheduled"),
                row.int("/status/numberReady"),
                row.int("/status/updatedNumberScheduled"),
                row.int("/status/numberAvailable"),
                labels(row.at("/spec/template/spec/nodeSelector")),
                row.age(),
                names,
                images,
                selector(row.at("/spec/selector")),
            ]
        },
        ("apps", "Deployment") => |row| {
            let [names, images] = containers(row.list("/spec/template/spec/containers"));
            let selector = match LabelSelector::from_object(row.at("/spec/selector").unwrap_or(&Value::Null))
            {
                Ok(selector) => selector.to_string(),
                Err(_) => "<invalid>".to_owned(),
            };
            cells![
                row.name(),
                format!("{}/{}", row.int("/status/readyReplicas"), row.int("/spec/replicas")),
                row.int("/status/updatedReplicas"),
                row.int("/status/availableReplicas"),
                row.age(),
                names,
                images,
                selector,
            ]
        },
        ("apps", "StatefulSet") => |row| {
            let [names, images] = containers(row.list("/spec/template/spec/containers"));
            let ready = format!("{}/{}", row.int("/status/readyReplicas"), row.int("/spec/replicas"));
            cells![row.name(), ready, row.age(), names, images]
        },
        ("apps", "ControllerRevision") => controller_revision,
        ("batch", "Job") => job,
        ("batch", "CronJob") => |row| {
            let [names, images] = containers(row.list("/spec/jobTemplate/spec/template/spec/containers"));
            let suspend = match row.at("/spec/suspend").and_then(Value::as_bool) {
                Some(true) => "True",
                Some(false) => "False",
                None => UNSET,
            };
            let last = match row.at("/status/lastScheduleTime") {
                Some(_) => row.since("/status/lastScheduleTime"),
                None => NONE.to_owned(),
            };
            cells![
                row.name(),
                row.text("/spec/schedule"),
                row.text_or("/spec/timeZone", NONE),
                suspend,
                row.list("/status/active").len(),
                last,
                row.age(),
                names,
                images,
                selector(row.at("/spec/jobTemplate/spec/selector")),
            ]
        },
        ("", "Service") => service,
        ("networking.k8s.io", "Ingress") => |row| {
            cells![
                row.name(),
                row.text_or("/spec/ingressClassName", NONE),
                hosts(row.list("/spec/rules")),
                load_balancer(row.list("/status/loadBalancer/ingress")),
                if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" },
                row.age(),
            ]
        },
        ("networking.k8s.io", "IngressClass") => |row| {
            let name = default_marked(row, &["ingressclass.kubernetes.io/is-default-class"]);
            let parameters = row.at("/spec/parameters").map(|parameters| {
                let dot = if parameters.has("/apiGroup") { "." } else { "" };
                let [kind, group, name] =
                    ["/kind", "/apiGroup", "/name"].map(|pointer| parameters.text(pointer));
                format!("{kind}{dot}{group}/{name}")
            });
            cells![
                name,
                row.text("/spec/controller"),
                parameters.unwrap_or_else(|| NONE.to_owned()),
                row.age(),
            ]
        },
        ("networking.k8s.io", "NetworkPolicy") => |row| {
            // Not a pointer upstream: absent is the same as empty.
            let empty = Value::Object(serde_json::Map::new());
            cells![row.name(), selector(Some(row.at("/spec/podSelector").unwrap_or(&empty))), row.age()]
        },
        ("networking.k8s.io", "ServiceCIDR") => {
            |row| cells![row.name(), join(row.list("/spec/cidrs"), "", ","), row.age()]
        }
        ("networking.k8s.io", "IPAddress") => |row| {
            let parent = row.at("/spec/parentRef").map_or_else(
                || NONE.to_owned(),
                |parent| {
                    let [group, resource] = ["/group", "/resource"].map(|pointer| parent.text(pointer));
                    let dot = if group.is_empty() { "" } else { "." };
                    let namespace = match parent.text("/namespace") {
                        "" => String::new(),
                        namespace => format!("/{namespace}"),
                    };
                    let resource = format!("{resource}{dot}{group}").to_lowercase();
                    format!("{resource}{namespace}/{}", parent.text("/name"))
                },
            );
            // One more than it has columns, as upstream.
            cells![row.name(), parent, row.age()]
        },
        ("", "Endpoints") => |row| cells![row.name(), endpoints(row.list("/subsets")), row.age()],
        ("discovery.k8s.io", "EndpointSlice") => |row| {
            let ports = row.list("/ports").iter().map(|port| match port.at("/port") {
                Some(number) => number.to_string(),
                None => port.text_or("/name", "*").to_owned(),
            });
            let addresses = row.list("/endpoints").iter().flat_map(|endpoint| endpoint.list("/addresses"));
            let addresses = addresses.map(|address| address.text("").to_owned());
            cells![
                row.name(),
                row.text("/addressType"),
                first_three(ports),
                first_three(addresses),
                row.age()
            ]
        },
        ("", "Node") => node,
        ("" | "events.k8s.io", "Event") => event,
        ("", "Namespace") => |row| cells![row.name(), row.text("/status/phase"), row.age()],
        ("", "Secret") => |row| cells![row.name(), row.text("/type"), row.entries("/data"), row.age()],
        ("", "ConfigMap") => {
            |row| cells![row.name(), row.entries("/data") + row.entries("/binaryData"), row.age()]
        }
        ("", "ServiceAccount")
        | ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate")
        | ("scheduling.k8s.io", "Workload") => |row| cells![row.name(), row.age()],
        ("", "PersistentVolume") => |row| {
            let claim = row.at("/spec/claimRef");
            let claim = claim.map(|claim| format!("{}/{}", claim.text("/namespace"), claim.text("/name")));
            cells![
                row.name(),
                row.scalar("/spec/capacity/storage", "0"),
                access_modes(row.list("/spec/accessModes")),
                row.text("/spec/persistentVolumeReclaimPolicy"),
                if row.deleted() { "Terminating" } else { row.text("/status/phase") },
                claim.unwrap_or_default(),
                storage_class(row),
                row.text_or("/spec/volumeAttributesClassName", UNSET),
                row.text("/status/reason"),
                row.age(),
                row.text_or("/spec/volumeMode", UNSET),
            ]
        },
        ("", "PersistentVolumeClaim") => |row| {
            let volume = row.text("/spec/volumeName");
            let bound = !volume.is_empty();
            cells![
                row.name(),
                if row.deleted() { "Terminating" } else { row.text("/status/phase") },
                volume,
                if bound { row.scalar("/status/capacity/storage", "0") } else { String::new() },
                if bound { access_modes(row.list("/status/accessModes")) } else { String::new() },
                storage_class(row),
                row.text_or("/spec/volumeAttributesClassName", UNSET),
                row.age(),
                row.text_or("/spec/volumeMode", UNSET),
            ]
        },
        ("", "ComponentStatus") => |row| {
            let healthy =
                row.list("/conditions").iter().find(|condition| condition.text("/type") == "Healthy");
            let status = match healthy.map(|condition| condition.text("/status")) {
                Some("True") => "Healthy",
                Some(_) => "Unhealthy",
                None => "Unknown",
            };
            let text = |pointer| healthy.map_or("", |condition| condition.text(pointer));
            cells![row.name(), status, text("/message"), text("/error")]
        },
        ("autoscaling", "HorizontalPodAutoscaler") => |row| {
            let [kind, name] = ["kind", "name"].map(|part| row.text(&format!("/spec/scaleTargetRef/{part}")));
            cells![
                row.name(),
                format!("{kind}/{name}"),
                metrics(row),
                row.scalar("/spec/minReplicas", UNSET),
                row.int("/spec/maxReplicas"),
                row.int("/status/currentReplicas"),
                row.age(),
            ]
        },
        ("autoscaling", "Scale") => {
            |row| cells![row.name(), row.int("/spec/replicas"), row.int("/status/replicas"), row.age()]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => |row| {
            let subjects = |kind: &str| -> String {
                let subjects = row.list("/subjects").iter().filter(|subject| subject.text("/kind") == kind);
                let names = subjects.map(|subject| match kind {
                    "ServiceAccount" => format!("{}/{}", subject.text("/namespace"), subject.text("/name")),
                    _ => subject.text("/name").to_owned(),
                });
                names.collect::<Vec<_>>().join(", ")
            };
            cells![
                row.name(),
                format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name")),
                row.age(),
                subjects("User"),
                subjects("Group"),
                subjects("ServiceAccount"),
            ]
        },
        ("certificates.k8s.io", "CertificateSigningRequest") => signing_request,
        ("certificates.k8s.io", "ClusterTrustBundle") => {
            |row| cells![row.name(), row.filled_or("/spec/signerName", NONE)]
        }
        ("certificates.k8s.io", "PodCertificateRequest") => |row| {
            let states = row.list("/status/conditions").iter().map(|condition| condition.text("/type"));
            let state = { states }.rfind(|state| matches!(*state, "Issued" | "Denied" | "Failed"));
            cells![
                row.name(),
                row.text("/spec/podName"),
                row.text("/spec/serviceAccountName"),
                row.text("/spec/nodeName"),
                row.text("/spec/signerName"),
                state.unwrap_or("Pending"),
                labels(row.at("/spec/unverifiedUserAnnotations")),
            ]
        },
        ("coordination.k8s.io", "Lease") => {
            |row| cells![row.name(), row.text("/spec/holderIdentity"), row.age()]
        }
        ("coordination.k8s.io", "LeaseCandidate") => |row| {
            cells![
                row.name(),
                row.text("/spec/leaseName"),
                row.text("/spec/binaryVersion"),
                row.text("/spec/emulationVersion"),
                row.age(),
            ]
        },
        ("storage.k8s.io", "StorageClass") => |row| {
            let marks = [
                "storageclass.kubernetes.io/is-default-class",
                "storageclass.beta.kubernetes.io/is-default-class",
            ];
            cells![
                default_marked(row, &marks),
                row.text("/provisioner"),
                row.text_or("/reclaimPolicy", "Delete"),
                row.text_or("/volumeBindingMode", "Immediate"),
                row.flag("/allowVolumeExpansion"),
                row.age(),
            ]
        },
        ("storage.k8s.io", "VolumeAttributesClass") => {
            |row| cells![row.name(), row.text("/driverName"), row.age()]
        }
        ("storage.k8s.io", "VolumeAttachment") => |row| {
            cells![
                row.name(),
                row.text("/spec/attacher"),
                row.text("/spec/source/persistentVolumeName"),
                row.text("/spec/nodeName"),
                row.flag("/status/attached"),
                row.age(),
            ]
        },
        ("storage.k8s.io", "CSINode") => |row| cells![row.name(), row.list("/spec/drivers").len(), row.age()],
        ("storage.k8s.io", "CSIDriver") => |row| {
            let modes = join(row.list("/spec/volumeLifecycleModes"), "", ",");
            let audiences = row
                .at("/spec/tokenRequests")
                .map(|_| join(row.list("/spec/tokenRequests"), "/audience", ","));
            cells![
                row.name(),
                row.at("/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true),
                row.flag("/spec/podInfoOnMount"),
                row.flag("/spec/storageCapacity"),
                audiences.unwrap_or_else(|| UNSET.to_owned()),
                row.flag("/spec/requiresRepublish"),
                if modes.is_empty() { NONE.to_owned() } else { modes },
                row.age(),
            ]
        },
        ("", "ResourceQuota") => quota,
        ("scheduling.k8s.io", "PriorityClass") => |row| {
            cells![
                row.name(),
                row.int("/value"),
                row.flag("/globalDefault"),
                row.age(),
                row.text("/preemptionPolicy"),
            ]
        },
        ("scheduling.k8s.io", "PodGroup") => |row| {
            let condition = |kind: &str| {
                row.list("/status/conditions").iter().rfind(|condition| condition.text("/type") == kind)
            };
            let status = match (condition("DisruptionTarget"), condition("PodGroupScheduled")) {
                (Some(disrupted), _) => disrupted.text("/reason"),
                (None, Some(scheduled)) if scheduled.text("/status") == "True" => "Scheduled",
                (None, Some(_)) => "Unschedulable",
                (None, None) => "Pending",
            };
            cells![
                row.name(),
                if row.has("/spec/schedulingPolicy/gang") { "Gang" } else { "Basic" },
                row.text_or("/spec/podGroupTemplateRef/workload/workloadName", NONE),
                status,
                row.age(),
            ]
        },
        ("node.k8s.io", "RuntimeClass") => |row| cells![row.name(), row.text("/handler"), row.age()],
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => |row| cells![row.name(), row.list("/webhooks").len(), row.age()],
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            |row| cells![row.name(), row.list("/spec/validations").len(), param_kind(row), row.age()]
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            |row| cells![row.name(), row.list("/spec/mutations").len(), param_kind(row), row.age()]
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => policy_binding,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => |row| {
            let conditions = row.list("/status/conditions");
            let dangling = conditions.iter().find(|condition| condition.text("/type") == "Dangling");
            cells![
                row.name(),
                row.text("/spec/priorityLevelConfiguration/name"),
                row.int("/spec/matchingPrecedence"),
                row.text_or("/spec/distinguisherMethod/type", NONE),
                row.age(),
                dangling.map_or("?", |condition| condition.text("/status")),
            ]
        },
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => |row| {
            let limited = |pointer: &str, there: &str| match row.has(there) {
                true => Value::from(row.int(&format!("{there}{pointer}"))),
                false => NONE.into(),
            };
            let queuing = "/spec/limited/limitResponse/queuing";
            cells![
                row.name(),
                row.text("/spec/type"),
                limited("/nominalConcurrencyShares", "/spec/limited"),
                limited("/queues", queuing),
                limited("/handSize", queuing),
                limited("/queueLengthLimit", queuing),
                row.age(),
            ]
        },
        ("internal.apiserver.k8s.io", "StorageVersion") => |row| {
            let versions = row.list("/status/storageVersions").iter();
            let versions = versions.map(|version| {
                format!("{}={}", version.text("/apiServerID"), version.text("/encodingVersion"))
            });
            cells![
                row.name(),
                row.text_or("/status/commonEncodingVersion", UNSET),
                first_three(versions),
                row.age(),
            ]
        },
        ("resource.k8s.io", "ResourceClaim") => |row| {
            let allocated = row.has("/status/allocation");
            let states = [
                (row.deleted(), "deleted"),
                (!allocated && !row.deleted(), "pending"),
                (allocated, "allocated"),
                (allocated && !row.list("/status/reservedFor").is_empty(), "reserved"),
            ];
            let states: Vec<&str> =
                states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).collect();
            cells![row.name(), states.join(","), row.age()]
        },
        ("resource.k8s.io", "ResourceSlice") => |row| {
            cells![
                row.name(),
                row.text("/spec/nodeName"),
                row.text("/spec/driver"),
                row.text("/spec/pool/name"),
                row.age(),
            ]
        },
        ("resource.k8s.io", "DeviceTaintRule") => |row| {
            let added = row.at("/spec/taint/timeAdded").map(|_| row.since("/spec/taint/timeAdded"));
            let [key, value, effect] =
                ["key", "value", "effect"].map(|part| row.text(&format!("/spec/taint/{part}")));
            cells![row.name(), key, value, effect, added.unwrap_or_default(), row.age()]
        },
        ("storagemigration.k8s.io", "StorageVersionMigration") => |row| {
            let [group, resource] =
                ["/spec/resource/group", "/spec/resource/resource"].map(|pointer| row.text(pointer));
            let conditions = row.list("/status/conditions").iter();
            let conditions = conditions.filter(|condition| condition.text("/status") == "True");
            let states = conditions.map(|condition| condition.text("/type"));
            let state = { states }.rfind(|state| matches!(*state, "Running" | "Failed" | "Succeeded"));
            let dot = if group.is_empty() { "" } else { "." };
            cells![row.name(), format!("{resource}{dot}{group}"), state.unwrap_or("Unknown")]
        },
        ("apiregistration.k8s.io", "APIService") => |row| {
            let service = row.at("/spec/service");
            let service =
                service.map(|service| format!("{}/{}", service.text("/namespace"), service.text("/name")));
            let conditions = row.list("/status/conditions");
            let available = conditions.iter().find(|condition| condition.text("/type") == "Available");
            let available = available.map_or_else(
                || "Unknown".to_owned(),
                |condition| match (condition.text("/status"), condition.text("/reason")) {
                    (status @ "True", _) | (status, "") => status.to_owned(),
                    (status, reason) => format!("{status} ({reason})"),
                },
            );
            cells![row.name(), service.unwrap_or_else(|| "Local".to_owned()), available, row.age()]
        },
        _ => return None,
    };
    Some(cells)
}

/// The texts under a pointer of each item, joined.
fn join(items: &[Value], pointer: &str, separator: &str) -> String {
    items.iter().map(|item| item.text(pointer)).collect::<Vec<_>>().join(separator)
}

/// The names and the images of containers.
fn containers(containers: &[Value]) -> [String; 2] {
    ["/name", "/image"].map(|pointer| join(containers, pointer, ","))
}

/// A map of labels as text.
fn labels(labels: Option<&Value>) -> String {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", value.text(""))).collect();
    if labels.is_empty() { NONE.to_owned() } else { labels.join(",") }
}

/// A label selector as text.
fn selector(selector: Option<&Value>) -> String {
    match LabelSelector::from_object(selector.unwrap_or(&Value::Null)) {
        Ok(selector) => {
            Some(selector.to_string()).filter(|text| !text.is_empty()).unwrap_or_else(|| NONE.to_owned())
        }
        Err(_) => "<error>".to_owned(),
    }
}

/// At most three, and how many more there are.
fn first_three(mut texts: impl Iterator<Item = String>) -> String {
    let first: Vec<String> = texts.by_ref().take(3).collect();
    let first = first.join(",");
    match texts.count() {
        0 if first.is_empty() => UNSET.to_owned(),
        0 => first,
        more => format!("{first} + {more} more..."),
    }
}

fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short = short.into_iter().filter(|(mode, _)| modes.iter().any(|given| given.text("") == *mode));
    short.map(|(_, short)| short).collect::<Vec<_>>().join(",")
}

fn annotation<'a>(row: Row<'a>, name: &str) -> Option<&'a str> {
    row.object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

fn storage_class(row: Row<'_>) -> String {
    let beta = annotation(row, "volume.beta.kubernetes.io/storage-class");
    beta.unwrap_or_else(|| row.text("/spec/storageClassName")).to_owned()
}

/// The name, marked if an annotation makes the class the default one.
fn default_marked(row: Row<'_>, annotations: &[&str]) -> String {
    let default = annotations.iter().any(|name| annotation(row, name) == Some("true"));
    format!("{}{}", row.name(), if default { " (default)" } else { "" })
}

fn param_kind(row: Row<'_>) -> String {
    let kind = row.at("/spec/paramKind");
    let kind = kind.map(|kind| format!("{}/{}", kind.text("/apiVersion"), kind.text("/kind")));
    kind.unwrap_or_else(|| UNSET.to_owned())
}

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

fn pod(row: Row<'_>) -> Vec<Value> {
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

fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.int("/status/succeeded");
    let completions = match (row.at("/spec/completions"), row.int("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let time = |pointer: &str| human::parse(row.text(pointer));
    let duration = match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human::duration(end.unwrap_or(row.now).as_nanosecond() - start.as_nanosecond()),
    };
    // The first condition of a type counts.
    let holds = |kind: &str| {
        let mut conditions = row.list("/status/conditions").iter();
        let condition = conditions.find(|condition| condition.text("/type") == kind);
        condition.is_some_and(|condition| condition.text("/status") == "True")
    };
    let statuses = [
        (holds("Complete"), "Complete"),
        (holds("Failed"), "Failed"),
        (row.deleted(), "Terminating"),
        (holds("Suspended"), "Suspended"),
        (holds("FailureTarget"), "FailureTarget"),
        (holds("SuccessCriteriaMet"), "SuccessCriteriaMet"),
    ];
    let status = statuses.into_iter().find(|(holds, _)| *holds).map_or("Running", |(_, status)| status);
    let [names, images] = containers(row.list("/spec/template/spec/containers"));
    cells![
        row.name(),
        status,
        completions,
        duration,
        row.age(),
        names,
        images,
        selector(row.at("/spec/selector"))
    ]
}

/// The addresses of a load balancer. Columns are always those of wide output, so nothing is cut.
fn load_balancer(ingress: &[Value]) -> String {
    let mut addresses: Vec<&str> =
        ingress.iter().map(|point| point.filled_or("/ip", point.text("/hostname"))).collect();
    addresses.retain(|address| !address.is_empty());
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

fn service(row: Row<'_>) -> Vec<Value> {
    let kind = row.text("/spec/type");
    let external_ips = join(row.list("/spec/externalIPs"), "", ",");
    let external = match kind {
        "ClusterIP" | "NodePort" if external_ips.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => external_ips,
        "LoadBalancer" => {
            let addresses = [load_balancer(row.list("/status/loadBalancer/ingress")), external_ips];
            let addresses: Vec<String> = addresses.into_iter().filter(|text| !text.is_empty()).collect();
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        _ => human::UNKNOWN.to_owned(),
    };
    let ports = row.list("/spec/ports").iter().map(|port| {
        let (number, node_port, protocol) =
            (port.int("/port"), port.int("/nodePort"), port.text("/protocol"));
        if node_port > 0 {
            format!("{number}:{node_port}/{protocol}")
        } else {
            format!("{number}/{protocol}")
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    let internal = row.text_or("/spec/clusterIPs/0", row.filled_or("/spec/clusterIP", NONE));
    let ports = if ports.is_empty() { NONE } else { &ports };
    cells![row.name(), kind, internal, external, ports, row.age(), labels(row.at("/spec/selector"))]
}

fn hosts(rules: &[Value]) -> String {
    let mut list = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == 3;
        let host = rule.text("/host");
        if !more && !host.is_empty() {
            list.push(host);
        }
    }
    match list.len() {
        0 => "*".to_owned(),
        _ if more => format!("{} + {} more...", list.join(","), rules.len() - 3),
        _ => list.join(","),
    }
}

fn endpoints(subsets: &[Value]) -> String {
    let mut list = Vec::new();
    let mut count = 0;
    for subset in subsets {
        let addresses = subset.list("/addresses");
        let ports: Vec<Option<i64>> = match subset.list("/ports") {
            [] => vec![None],
            ports => ports.iter().map(|port| Some(port.int("/port"))).collect(),
        };
        for port in ports {
            count += addresses.len();
            let room = 3_usize.saturating_sub(list.len());
            list.extend(addresses.iter().take(room).map(|address| match (address.text("/ip"), port) {
                (ip, None) => ip.to_owned(),
                (ip, Some(port)) if ip.contains(':') => format!("[{ip}]:{port}"),
                (ip, Some(port)) => format!("{ip}:{port}"),
            }));
        }
    }
    match count.saturating_sub(3) {
        _ if subsets.is_empty() => NONE.to_owned(),
        0 => list.join(","),
        more => format!("{} + {more} more...", list.join(",")),
    }
}

fn node(row: Row<'_>) -> Vec<Value> {
    let ready = row.list("/status/conditions").iter().rfind(|condition| condition.text("/type") == "Ready");
    let ready = match ready.map(|condition| condition.text("/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let status =
        format!("{ready}{}", if row.flag("/spec/unschedulable") { ",SchedulingDisabled" } else { "" });
    let labels = row.at("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let roles = if roles.is_empty() { NONE.to_owned() } else { roles.join(",") };
    let address = |kind: &str| {
        let found = row.list("/status/addresses").iter().find(|address| address.text("/type") == kind);
        found.map_or(NONE, |address| address.text("/address")).to_owned()
    };
    let info = |field: &str| row.filled_or(&format!("/status/nodeInfo/{field}"), human::UNKNOWN).to_owned();
    let kernel = match row.text("/status/nodeInfo/architecture") {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    cells![
        row.name(),
        status,
        roles,
        row.age(),
        row.text("/status/nodeInfo/kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        kernel,
        info("containerRuntimeVersion"),
    ]
}

/// Events of either group: the older names come first.
fn event(row: Row<'_>) -> Vec<Value> {
    let either = |old: &str, new: &str| row.filled_or(old, row.text(new)).to_owned();
    let since = |pointers: &[&str]| {
        let mut times = pointers.iter().map(|pointer| row.since(pointer));
        times.find(|time| time != human::UNKNOWN).unwrap_or_else(|| human::UNKNOWN.to_owned())
    };
    let first = since(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]);
    let mut last = since(&["/lastTimestamp", "/deprecatedLastTimestamp"]);
    if last == human::UNKNOWN {
        last.clone_from(&first);
    }
    let mut count = row.int("/count").max(row.int("/deprecatedCount"));
    if row.has("/series") {
        last = row.since("/series/lastObservedTime");
        count = row.int("/series/count");
    } else if count == 0 {
        count = 1;
    }
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let object = match either("/involvedObject/name", "/regarding/name").as_str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let or = |first: String, second: String| if first.is_empty() { second } else { first };
    let component = or(
        either("/source/component", "/deprecatedSource/component"),
        either("/reportingComponent", "/reportingController"),
    );
    let host =
        or(either("/source/host", "/deprecatedSource/host"), row.text("/reportingInstance").to_owned());
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    cells![
        last,
        row.text("/type"),
        row.text("/reason"),
        object,
        either("/involvedObject/fieldPath", "/regarding/fieldPath"),
        source,
        either("/message", "/note").trim(),
        first,
        count,
        row.name(),
    ]
}

fn signing_request(row: Row<'_>) -> Vec<Value> {
    let has =
        |kind: &str| row.list("/status/conditions").iter().any(|condition| condition.text("/type") == kind);
    let mut status = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = row.at("/spec/expirationSeconds").and_then(Value::as_i64);
    let duration = duration.map(|seconds| human::duration(i128::from(seconds) * 1_000_000_000));
    cells![
        row.name(),
        row.age(),
        row.filled_or("/spec/signerName", NONE),
        row.text("/spec/username"),
        duration.unwrap_or_else(|| NONE.to_owned()),
        status,
    ]
}

fn controller_revision(row: Row<'_>) -> Vec<Value> {
    let owners = row.list("/metadata/ownerReferences").iter();
    let controller = { owners }.find(|owner| owner.flag("/controller")).map(|owner| {
        let group = owner.text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        let kind = format!("{}{dot}{group}", owner.text("/kind")).to_lowercase();
        format!("{kind}/{}", owner.text("/name"))
    });
    cells![row.name(), controller.unwrap_or_else(|| NONE.to_owned()), row.int("/revision"), row.age()]
}

fn quota(row: Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in row.at("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = row.at("/status/used").and_then(|used| used.get(resource));
        let used = used.map_or_else(|| "0".to_owned(), |used| used.scalar("", "0"));
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", hard.scalar("", "0")));
    }
    cells![row.name(), requests.join(", "), limits.join(", "), row.age()]
}

fn policy_binding(row: Row<'_>) -> Vec<Value> {
    let parameter = match (row.text("/spec/paramRef/namespace"), row.text("/spec/paramRef/name")) {
        (_, "") => match row.at("/spec/paramRef/selector") {
            Some(selector) => go_selector(selector),
            None => UNSET.to_owned(),
        },
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    cells![row.name(), row.text("/spec/policyName"), parameter, row.age()]
}

/// A label selector as Go prints a protobuf message.
fn go_selector(selector: &Value) -> String {
    let labels = selector.at("/matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.text(""))).collect();
    let expressions = selector.list("/matchExpressions").iter().map(|expression| {
        let [key, operator] = ["/key", "/operator"].map(|pointer| expression.text(pointer));
        let values = join(expression.list("/values"), "", " ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// The metrics of an autoscaler beside what they are now.
fn metrics(row: Row<'_>) -> String {
    let older;
    let (specs, statuses) = match row.at("/spec/targetCPUUtilizationPercentage") {
        // `autoscaling/v1`: one metric, in fields of its own.
        Some(target) => {
            let metric = |utilization: &Value, place: &str| {
                serde_json::json!([{
                    "type": "Resource",
                    "resource": {"name": "cpu", place: {"averageUtilization": utilization}},
                }])
            };
            let current = row.at("/status/currentCPUUtilizationPercentage");
            older = (metric(target, "target"), current.map(|current| metric(current, "current")));
            (older.0.list(""), older.1.as_ref().map_or(&[][..], |current| current.list("")))
        }
        None => (row.list("/spec/metrics"), row.list("/status/currentMetrics")),
    };
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let texts = specs.iter().enumerate().map(|(index, spec)| metric(spec, statuses.get(index)));
    let first: Vec<String> = { texts }.take(2).collect();
    match specs.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} + {more} more...", first.join(", ")),
    }
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let field = match spec.text("/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |name: &str| spec.at(&format!("/{field}/target/{name}")).map(|value| value.scalar("", "0"));
    let source = status.and_then(|status| status.at(&format!("/{field}")));
    let unknown = || human::UNKNOWN.to_owned();
    // A quantity of a source that is there is never unknown.
    let current = |name: &str| source.map(|source| source.scalar(&format!("/current/{name}"), "<nil>"));
    let known = |name: &str| {
        source.and_then(|source| source.at(&format!("/current/{name}"))).map(|value| value.scalar("", "0"))
    };
    let is_resource = matches!(field, "resource" | "containerResource");
    let name =
        if is_resource { format!("{}: ", spec.text(&format!("/{field}/name"))) } else { String::new() };
    match (field, target("averageValue")) {
        ("pods", average) => {
            let average = average.unwrap_or_else(|| "<nil>".to_owned());
            format!("{}/{average}", current("averageValue").unwrap_or_else(unknown))
        }
        ("external" | "object", Some(average)) => {
            format!("{}/{average} (avg)", known("averageValue").unwrap_or_else(unknown))
        }
        (_, Some(average)) => format!("{name}{}/{average}", current("averageValue").unwrap_or_else(unknown)),
        ("external" | "object", None) => {
            let value = target("value").unwrap_or_else(|| "<nil>".to_owned());
            format!("{}/{value}", current("value").unwrap_or_else(unknown))
        }
        (_, None) => {
            let percent = |value: Option<String>, absent: &str| {
                value.map_or_else(|| absent.to_owned(), |value| format!("{value}%"))
            };
            let now = percent(known("averageUtilization"), human::UNKNOWN);
            format!("{name}{now}/{}", percent(target("averageUtilization"), "<auto>"))
        }
    }
}
