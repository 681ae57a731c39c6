//! The profile `kstatus`: upstream's rules.
//!
//! Followed is `sigs.k8s.io/cli-utils/pkg/kstatus/status` of October 2025: the order of the checks, every branch of
//! the rules for its 16 kinds, reasons, messages and error texts, with the defects that its users have come to know.
//! What is better done otherwise is done so in the profile `settled`. Errors of upstream become `Malformed`.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;

use crate::fields::Field;
use crate::go_text::{GoValue, kind_name, type_name};
use crate::node::{Kind, Node, Shown};
use crate::object::{ConditionFields, Found, Object};
use crate::reason;
use crate::spans::Member;
use crate::text::text;
use crate::verdict::{Basis, RECONCILING, STALLED, Status, Text, Verdict};

/// Upstream's limit for unschedulable Pods, in seconds.
const SCHEDULE_WINDOW: i64 = 15;

/// An error of upstream's `Compute`, as it reads there.
type Result<T> = std::result::Result<T, String>;

/// The verdict of the profile `kstatus`. An `Err` holds upstream's error text.
pub(crate) fn compute(object: &Object<'_>, now: Timestamp) -> Result<Verdict> {
    if let Some(verdict) = deletion(object)? {
        return Ok(verdict);
    }
    if let Some(verdict) = generation(object)? {
        return Ok(verdict);
    }
    let (conditions, standard) = Conditions::read(object)?;
    if let Some(verdict) = standard {
        return Ok(verdict);
    }
    let (group, kind) = object.group_kind();
    let verdict = match key(&group, &kind) {
        (b"", b"Secret" | b"ConfigMap") | (b"batch", b"CronJob") => rule_current("Resource is always ready"),
        (b"", b"Service") => service(object),
        (b"", b"Pod") => pod(object, &conditions, now)?,
        (b"", b"PersistentVolumeClaim") => persistent_volume_claim(object),
        (b"apps", b"StatefulSet") => stateful_set(object),
        (b"apps" | b"extensions", b"DaemonSet") => daemon_set(object)?,
        (b"apps" | b"extensions", b"Deployment") => deployment(object, &conditions),
        (b"apps" | b"extensions", b"ReplicaSet") => replica_set(object, &conditions),
        (b"policy", b"PodDisruptionBudget") => rule_current("AllowedDisruptions has been computed."),
        (b"batch", b"Job") => job(object, &conditions),
        (b"apiextensions.k8s.io", b"CustomResourceDefinition") => custom_resource_definition(&conditions),
        _ => return Ok(ready_condition(&conditions)),
    };
    Ok(verdict)
}

/// Upstream looks rules up by `kind`, or `group/kind` outside the core group, joined: a core object whose kind is
/// literally `apps/Deployment` finds the rule too.
fn key<'k>(group: &'k [u8], kind: &'k [u8]) -> (&'k [u8], &'k [u8]) {
    if !group.is_empty() {
        return (group, kind);
    }
    match kind.iter().position(|byte| *byte == b'/') {
        Some(at) => (kind.get(..at).unwrap_or_default(), kind.get(at + 1..).unwrap_or_default()),
        None => (group, kind),
    }
}

fn current(basis: Basis, message: impl Into<Text>) -> Verdict {
    Verdict::new(Status::Current, basis, "Current", message)
}

fn rule_current(message: impl Into<Text>) -> Verdict {
    current(Basis::KindRule, message)
}

fn in_progress(reason: &'static str, message: impl Into<Text>) -> Verdict {
    Verdict::new(Status::InProgress, Basis::KindRule, reason, message)
}

fn failed(reason: impl Into<Text>, message: impl Into<Text>) -> Verdict {
    Verdict::new(Status::Failed, Basis::KindRule, reason, message)
}

// The checks before the kinds.

fn deletion(object: &Object<'_>) -> Result<Option<Verdict>> {
    let value = look_up(object, Field::DeletionTimestamp, "string", Kind::String)?;
    Ok(value.filter(|value| !value.is("")).map(|_| {
        Verdict::new(Status::Terminating, Basis::Deletion, "Terminating", "Resource scheduled for deletion")
    }))
}

fn strict_generation(object: &Object<'_>) -> Result<Option<i64>> {
    Ok(look_up(object, Field::Generation, "int64", Kind::Int)?.and_then(Node::as_int))
}

fn strict_observed_generation(object: &Object<'_>) -> Result<Option<i64>> {
    Ok(look_up(object, Field::ObservedGeneration, "int64", Kind::Int)?.and_then(Node::as_int))
}

fn generation(object: &Object<'_>) -> Result<Option<Verdict>> {
    let Some(generation) = strict_generation(object)? else { return Ok(None) };
    let Some(observed) = strict_observed_generation(object)? else { return Ok(None) };
    if generation == observed {
        return Ok(None);
    }
    let kind = object.kind().unwrap_or_default();
    let message = text!("{kind} generation is {generation}, but latest observed generation is {observed}");
    Ok(Some(Verdict::new(Status::InProgress, Basis::Generation, "LatestGenerationNotObserved", message)))
}

fn standard_condition(condition: &Condition<'_>) -> Option<Verdict> {
    let status = if condition.is(RECONCILING, "True") {
        Status::InProgress
    } else if condition.is(STALLED, "True") {
        Status::Failed
    } else {
        return None;
    };
    Some(Verdict::new(status, Basis::StandardCondition, condition.reason(), condition.message()))
}

fn ready_condition(conditions: &Conditions<'_, '_>) -> Verdict {
    for condition in conditions.iter().filter(|condition| condition.is_type("Ready")) {
        if condition.is_status("True") {
            return current(Basis::Ready, "Resource is Ready");
        }
        if condition.is_status("False") || condition.is_status("Unknown") {
            let (reason, message) = (condition.reason(), condition.message());
            return Verdict::new(Status::InProgress, Basis::Ready, reason, message);
        }
    }
    current(Basis::Nothing, "Resource is current")
}

// The rules by kind.

fn service(object: &Object<'_>) -> Verdict {
    let is_load_balancer = object.get(Field::SpecType).is_some_and(|kind| kind.is("LoadBalancer"));
    let has_ip = object.get(Field::ClusterIp).is_some_and(|ip| ip.kind() == Kind::String && !ip.is(""));
    if is_load_balancer && !has_ip {
        return in_progress("NoIPAssigned", "ClusterIP not set. Service type: LoadBalancer");
    }
    rule_current("Service is ready")
}

fn persistent_volume_claim(object: &Object<'_>) -> Verdict {
    let phase = string(object, Field::Phase, "unknown");
    if phase != "Bound" {
        return in_progress(reason::NOT_BOUND, text!("PVC is not Bound. phase: {phase}"));
    }
    rule_current("PVC is Bound")
}

fn pod(object: &Object<'_>, conditions: &Conditions<'_, '_>, now: Timestamp) -> Result<Verdict> {
    let phase = string(object, Field::Phase, "");
    Ok(match &*phase {
        "Succeeded" => rule_current("Pod has completed successfully"),
        "Failed" => rule_current("Pod has completed, but not successfully"),
        "Running" => running_pod(object, conditions)?,
        "Pending" => {
            let unscheduled = conditions.iter().find(|c| c.is("PodScheduled", "False"));
            if unscheduled.is_some_and(|c| c.is_reason("Unschedulable")) {
                if created_within(object, now, SCHEDULE_WINDOW) {
                    in_progress("PodNotScheduled", "Pod has not been scheduled")
                } else {
                    failed("PodUnschedulable", "Pod could not be scheduled")
                }
            } else {
                in_progress("PodPending", "Pod is in the Pending phase")
            }
        }
        "" => in_progress("PodNotObserved", "Pod phase not available"),
        phase => return Err(text!("unknown phase {phase}")),
    })
}

fn running_pod(object: &Object<'_>, conditions: &Conditions<'_, '_>) -> Result<Verdict> {
    if conditions.iter().any(|c| c.is("Ready", "True")) {
        return Ok(rule_current("Pod is Ready"));
    }
    let statuses = strict(object, Field::ContainerStatuses, "[]interface{}", Kind::List)?;
    let mut any = false;
    for status in statuses.into_iter().flat_map(Node::elements) {
        any |= crash_looping(status)?.is_some();
    }
    if !any {
        return Ok(in_progress("PodRunningNotReady", "Pod is running but is not Ready"));
    }
    let names = CrashLooping(statuses);
    Ok(failed("ContainerCrashLooping", text!("Containers in CrashLoop state: {names}")))
}

/// The names of the containers that crash, joined by commas.
struct CrashLooping<'a>(Option<Node<'a>>);

impl fmt::Display for CrashLooping<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for status in self.0.into_iter().flat_map(Node::elements) {
            if let Ok(Some(name)) = crash_looping(status) {
                write!(f, "{separator}{}", Shown(name))?;
                separator = ",";
            }
        }
        Ok(())
    }
}

/// The container's name where it is crash looping. Upstream asserts each type on the way and panics where it is
/// another, null included; the error is the text of that panic.
fn crash_looping(status: Node<'_>) -> Result<Option<Node<'_>>> {
    let asserted = |node: Node<'_>, kind: Kind| {
        if node.kind() == kind {
            return Ok(());
        }
        let is = if node.is_null() { "nil" } else { type_name(node.kind()) };
        Err(text!("interface conversion: interface {{}} is {is}, not {}", type_name(kind)))
    };
    asserted(status, Kind::Map)?;
    let Some(name) = status.get("name") else { return Ok(None) };
    asserted(name, Kind::String)?;
    let Some(state) = status.get("state") else { return Ok(None) };
    asserted(state, Kind::Map)?;
    let Some(waiting) = state.get("waiting") else { return Ok(None) };
    asserted(waiting, Kind::Map)?;
    let Some(reason) = waiting.get("reason") else { return Ok(None) };
    asserted(reason, Kind::String)?;
    Ok(reason.is("CrashLoopBackOff").then_some(name))
}

/// Whether the creation is less than so many seconds ago. A creation time that cannot be read is long ago.
fn created_within(object: &Object<'_>, now: Timestamp, seconds: i64) -> bool {
    let created = object
        .get(Field::CreationTimestamp)
        .and_then(Node::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok())
        .unwrap_or(Timestamp::MIN);
    now.duration_since(created) < jiff::SignedDuration::from_secs(seconds)
}

fn stateful_set(object: &Object<'_>) -> Verdict {
    let strategy = object.get(Field::UpdateStrategy);
    if strategy.and_then(|s| s.get("type")).is_some_and(|t| t.is("OnDelete")) {
        return rule_current("StatefulSet is using the ondelete update strategy");
    }
    let spec = int(object, Field::SpecReplicas, 1);
    let replicas = int(object, Field::Replicas, 0);
    let ready = int(object, Field::ReadyReplicas, 0);
    let updated = int(object, Field::UpdatedReplicas, 0);
    let current = int(object, Field::CurrentReplicas, 0);
    let partition = strategy
        .and_then(|s| s.get("rollingUpdate"))
        .and_then(|r| r.get("partition"))
        .and_then(Node::as_int)
        .unwrap_or(-1);
    if spec > replicas {
        return in_progress("LessReplicas", text!("Replicas: {replicas}/{spec}"));
    }
    if spec > ready {
        return in_progress("LessReady", text!("Ready: {ready}/{spec}"));
    }
    if replicas > spec {
        return in_progress("ExtraPods", text!("Pending termination: {}", replicas.wrapping_sub(spec)));
    }
    if partition != -1 {
        let expected = spec.wrapping_sub(partition);
        if updated < expected {
            return in_progress("PartitionRollout", text!("updated: {updated}/{expected}"));
        }
        return rule_current(text!("Partition rollout complete. updated: {updated}"));
    }
    if spec > current {
        return in_progress("LessCurrent", text!("current: {current}/{spec}"));
    }
    if string(object, Field::CurrentRevision, "") != string(object, Field::UpdateRevision, "") {
        return in_progress("RevisionMismatch", "Waiting for updated revision to match current");
    }
    rule_current(text!("All replicas scheduled as expected. Replicas: {replicas}"))
}

fn deployment(object: &Object<'_>, conditions: &Conditions<'_, '_>) -> Verdict {
    const NO_DEADLINE: i64 = i32::MAX as i64;
    let mut progressing = int(object, Field::ProgressDeadline, NO_DEADLINE) == NO_DEADLINE;
    let mut available = false;
    for condition in conditions.iter() {
        if condition.is_type("Progressing") {
            if condition.is_reason("ProgressDeadlineExceeded") {
                let mut verdict = failed(condition.reason(), "Progress deadline exceeded");
                verdict.condition_message = Some(condition.message().into());
                return verdict;
            }
            if condition.is_status("True") && condition.is_reason("NewReplicaSetAvailable") {
                progressing = true;
            }
        }
        if condition.is("Available", "True") {
            available = true;
        }
    }
    let spec = int(object, Field::SpecReplicas, 1);
    let replicas = int(object, Field::Replicas, 0);
    let updated = int(object, Field::UpdatedReplicas, 0);
    let ready = int(object, Field::ReadyReplicas, 0);
    let available_replicas = int(object, Field::AvailableReplicas, 0);
    if spec > replicas {
        return in_progress("LessReplicas", text!("Replicas: {replicas}/{spec}"));
    }
    if spec > updated {
        return in_progress("LessUpdated", text!("Updated: {updated}/{spec}"));
    }
    if replicas > spec {
        return in_progress("ExtraPods", text!("Pending termination: {}", replicas.wrapping_sub(spec)));
    }
    if updated > available_replicas {
        return in_progress("LessAvailable", text!("Available: {available_replicas}/{updated}"));
    }
    if spec > ready {
        return in_progress("LessReady", text!("Ready: {ready}/{spec}"));
    }
    if !progressing {
        return in_progress("ReplicaSetNotAvailable", "ReplicaSet not Available");
    }
    if !available {
        return in_progress("DeploymentNotAvailable", "Deployment not Available");
    }
    rule_current(text!("Deployment is available. Replicas: {replicas}"))
}

fn replica_set(object: &Object<'_>, conditions: &Conditions<'_, '_>) -> Verdict {
    if conditions.iter().any(|c| c.is("ReplicaFailure", "True")) {
        return in_progress("ReplicaFailure", "Replica Failure condition. Check Pods");
    }
    let spec = int(object, Field::SpecReplicas, 1);
    let replicas = int(object, Field::Replicas, 0);
    let labelled = int(object, Field::FullyLabeledReplicas, 0);
    let available = int(object, Field::AvailableReplicas, 0);
    let ready = int(object, Field::ReadyReplicas, 0);
    if spec > labelled {
        return in_progress("LessLabelled", text!("Labelled: {labelled}/{spec}"));
    }
    if spec > available {
        return in_progress("LessAvailable", text!("Available: {available}/{spec}"));
    }
    if spec > ready {
        return in_progress("LessReady", text!("Ready: {ready}/{spec}"));
    }
    if replicas > spec {
        return in_progress("ExtraPods", text!("Pending termination: {}", replicas.wrapping_sub(spec)));
    }
    rule_current(text!("ReplicaSet is available. Replicas: {replicas}"))
}

fn daemon_set(object: &Object<'_>) -> Result<Verdict> {
    let kind = || object.kind().unwrap_or_default();
    if strict_generation(object)?.is_none() {
        return Ok(in_progress("NoGeneration", text!("{} metadata.generation not found", kind())));
    }
    if strict_observed_generation(object)?.is_none() {
        let message = text!("{} status.observedGeneration not found", kind());
        return Ok(in_progress("NoObservedGeneration", message));
    }
    let desired = int(object, Field::DesiredNumberScheduled, -1);
    if desired == -1 {
        return Ok(in_progress("NoDesiredNumber", "Missing .status.desiredNumberScheduled"));
    }
    for (field, reason, label) in [
        (Field::CurrentNumberScheduled, "LessCurrent", "Current"),
        (Field::UpdatedNumberScheduled, "LessUpdated", "Updated"),
        (Field::NumberAvailable, "LessAvailable", "Available"),
        (Field::NumberReady, "LessReady", "Ready"),
    ] {
        let number = int(object, field, 0);
        if desired > number {
            return Ok(in_progress(reason, text!("{label}: {number}/{desired}")));
        }
    }
    Ok(rule_current(text!("All replicas scheduled as expected. Replicas: {desired}")))
}

fn job(object: &Object<'_>, conditions: &Conditions<'_, '_>) -> Verdict {
    let parallelism = int(object, Field::Parallelism, 1);
    let completions = int(object, Field::Completions, parallelism);
    let succeeded = int(object, Field::Succeeded, 0);
    let active = int(object, Field::Active, 0);
    let failures = int(object, Field::FailedCount, 0);
    for condition in conditions.iter() {
        if condition.is("Complete", "True") {
            return rule_current(text!("Job Completed. succeeded: {succeeded}/{completions}"));
        }
        if condition.is("Failed", "True") {
            return failed("JobFailed", text!("Job Failed. failed: {failures}/{completions}"));
        }
        if condition.is("Suspended", "True")
            && object.get(Field::Suspend).and_then(Node::as_bool) == Some(true)
        {
            return rule_current("Job is suspended");
        }
    }
    if string(object, Field::StartTime, "").is_empty() {
        return in_progress("JobNotStarted", "Job not started");
    }
    rule_current(text!("Job in progress. success:{succeeded}, active: {active}, failed: {failures}"))
}

fn custom_resource_definition(conditions: &Conditions<'_, '_>) -> Verdict {
    for condition in conditions.iter() {
        let names_refused = condition.is("NamesAccepted", "False");
        let not_established = condition.is("Established", "False") && !condition.is_reason("Installing");
        if names_refused || not_established {
            return failed(condition.reason(), condition.message());
        }
        if condition.is("Established", "True") {
            return rule_current("CRD is established");
        }
    }
    in_progress("Installing", "Install in progress")
}

// Field access as upstream.

/// A field that is of another type than asked for counts as absent: `GetIntField`.
fn int(object: &Object<'_>, field: Field, default: i64) -> i64 {
    object.get(field).and_then(Node::as_int).unwrap_or(default)
}

/// As [`int`], for strings: `GetStringField`.
fn string<'a>(object: &Object<'a>, field: Field, default: &'static str) -> Cow<'a, str> {
    object.get(field).and_then(Node::as_str).unwrap_or(Cow::Borrowed(default))
}

/// A field whose type is insisted on: `unstructured.NestedString` and the like. Absent is no error, null is one.
fn strict<'a>(
    object: &Object<'a>,
    field: Field,
    expected: &'static str,
    kind: Kind,
) -> std::result::Result<Option<Node<'a>>, AccessorError<'a>> {
    match object.find(field) {
        Found::Absent => Ok(None),
        Found::Value(value) if value.kind() == kind => Ok(Some(value)),
        Found::Value(value) => Err(AccessorError { field, value, expected }),
        Found::BadParent(parent) => {
            Err(AccessorError { field, value: parent, expected: "map[string]interface{}" })
        }
    }
}

/// As [`strict`], for the fields that upstream looks up before anything else and names in the error.
fn look_up<'a>(
    object: &Object<'a>,
    field: Field,
    expected: &'static str,
    kind: Kind,
) -> Result<Option<Node<'a>>> {
    strict(object, field, expected, kind).map_err(|error| {
        let parent = field.parent().path().trim_start_matches('.');
        text!("looking up {parent}.{} from resource: {error}", field.key())
    })
}

/// A field, or the parent of one, that is of another type than it must be.
struct AccessorError<'a> {
    field: Field,
    value: Node<'a>,
    expected: &'static str,
}

impl fmt::Display for AccessorError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parent, key) = (self.field.parent().path(), self.field.key());
        let (value, type_) = (GoValue(self.value), type_name(self.value.kind()));
        write!(f, "{parent}.{key} accessor error: {value} is of the type {type_}, expected {}", self.expected)
    }
}

impl From<AccessorError<'_>> for String {
    fn from(error: AccessorError<'_>) -> Self {
        text!("{error}")
    }
}

/// `status.conditions` as `Augment` reads it: a list, or absent.
pub(crate) fn conditions_list<'a>(object: &Object<'a>) -> Result<Option<Node<'a>>> {
    Ok(strict(object, Field::Conditions, "[]interface{}", Kind::List)?)
}

/// `status.conditions`, all checked.
struct Conditions<'o, 'a> {
    object: &'o Object<'a>,
}

impl<'o, 'a> Conditions<'o, 'a> {
    /// Checks what upstream's converter checks, in its order: the first bad field of the first bad element wins. On
    /// the way it meets the first standard condition, which decides when all have passed.
    fn read(object: &'o Object<'a>) -> Result<(Self, Option<Verdict>)> {
        match object.find(Field::Conditions) {
            Found::Absent => {}
            Found::Value(list) => match list.kind() {
                Kind::Null | Kind::List => {}
                kind => return Err(text!("cannot restore slice from {}", kind_name(kind))),
            },
            Found::BadParent(status) => {
                return Err(text!("cannot restore struct from: {}", kind_name(status.kind())));
            }
        }
        let mut standard = None;
        for fields in object.conditions() {
            match fields.element().kind() {
                Kind::Map => {
                    let condition = Condition::read(fields);
                    condition.check()?;
                    if standard.is_none() {
                        standard = standard_condition(&condition);
                    }
                }
                Kind::Null => {}
                kind => return Err(text!("cannot restore struct from: {}", kind_name(kind))),
            }
        }
        Ok((Self { object }, standard))
    }

    fn iter(&self) -> impl Iterator<Item = Condition<'o>> + use<'o, 'a> {
        self.object.conditions().map(Condition::read)
    }
}

/// One condition. Fields that are absent or null are empty strings.
struct Condition<'a> {
    type_: Option<Node<'a>>,
    status: Option<Node<'a>>,
    reason: Option<Node<'a>>,
    message: Option<Node<'a>>,
}

impl<'a> Condition<'a> {
    fn read(fields: ConditionFields<'a>) -> Self {
        Self {
            type_: fields.member(Member::Type),
            status: fields.member(Member::Status),
            reason: fields.member(Member::Reason),
            message: fields.member(Member::Message),
        }
    }

    fn check(&self) -> Result<()> {
        let fields = [
            (self.type_, "string"),
            (self.status, "v1.ConditionStatus"),
            (self.reason, "string"),
            (self.message, "string"),
        ];
        for (node, target) in fields {
            match node.map(Node::kind) {
                None | Some(Kind::String) => {}
                Some(Kind::Int) => return Err(text!("cannot convert int64 to {target}")),
                Some(_) => return Err("unrecognized type: string".to_owned()),
            }
        }
        Ok(())
    }

    fn is_type(&self, word: &str) -> bool {
        self.type_.is_some_and(|node| node.is(word))
    }

    fn is_status(&self, word: &str) -> bool {
        self.status.is_some_and(|node| node.is(word))
    }

    fn is_reason(&self, word: &str) -> bool {
        self.reason.is_some_and(|node| node.is(word))
    }

    fn is(&self, type_: &str, status: &str) -> bool {
        self.is_type(type_) && self.is_status(status)
    }

    fn reason(&self) -> String {
        self.reason.and_then(Node::as_str).unwrap_or_default().into_owned()
    }

    fn message(&self) -> String {
        self.message.and_then(Node::as_str).unwrap_or_default().into_owned()
    }
}
