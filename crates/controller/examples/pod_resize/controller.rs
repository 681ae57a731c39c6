//! In-place resize of Pods, as a node agent does it: a user changes `spec.containers[].resources.requests.cpu` through the subresource
//! `resize`, the agent decides by what the node has left, and reports what it has allocated and what the containers have.
//!
//! The answer is accepted in status, then carried out, then final: `allocatedResources` is the acknowledgement, `resources` what is real.
//! A request that never fits is `Infeasible`, one that does not fit now is `Deferred`; deferred ones are decided again, oldest first.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use settled_controller::Clock;
use settled_controller::decision::policy::{Decided, ack_act_final};
use settled_controller::decision::{Allocation, Answer, Decision, Denial, IdempotencyKey, Permit};
use settled_controller::status::{StatusWriter, WriteError};
use tokio::sync::Mutex;

/// Upstream's condition for a request that is not accepted.
pub const PENDING: &str = "PodResizePending";
/// Upstream's condition for a request that is accepted and not carried out.
pub const IN_PROGRESS: &str = "PodResizeInProgress";
/// The controller's name as field manager.
const MANAGER: &str = "node-agent";

/// Processor time of each container, in thousandths of a processor.
pub type Cpu = BTreeMap<String, u64>;

/// What runs the containers.
pub trait Runtime: Send + Sync + 'static {
    /// Gives the containers of a Pod this much processor time. It succeeds if they have it.
    fn resize(&self, permit: &Permit, cpu: &Cpu) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Why a reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request, or could not be reached.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The container runtime failed.
    #[error("cannot resize the containers: {0}")]
    Runtime(String),
    /// The status could not be written: the Pod may have been written by others since it was read.
    #[error(transparent)]
    Status(#[from] WriteError),
}

/// What reconciles share.
pub struct Context<R> {
    client: Client,
    /// One attempt: an answer is for the object that was read. After a conflict, the next reconcile decides anew.
    status: StatusWriter<Pod>,
    runtime: R,
    node: String,
    /// The node's processor time, in thousandths.
    capacity: u64,
    clock: Clock,
    /// Held from a decision until its answer is stored: the statuses have all that is allocated.
    deciding: Mutex<()>,
}

/// Runs until `stop`.
pub async fn run<R: Runtime>(
    client: Client,
    runtime: R,
    node: &str,
    capacity: u64,
    clock: Clock,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let context = Context {
        client: client.clone(),
        status: StatusWriter::new(client.clone(), MANAGER).attempts(1).clock(clock.clone()),
        runtime,
        node: node.to_owned(),
        capacity,
        clock,
        deciding: Mutex::new(()),
    };
    let of_node = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    Controller::new(Api::<Pod>::all(client), of_node)
        .graceful_shutdown_on(stop)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(context))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile<R: Runtime>(pod: Arc<Pod>, context: Arc<Context<R>>) -> Result<Action, Error> {
    let Some(key) = IdempotencyKey::of("resize", pod.as_ref()) else { return Ok(Action::await_change()) };
    if is_finished(&pod) {
        write_finished(&pod, &context).await?;
        return Ok(Action::await_change());
    }
    if pod.metadata.deletion_timestamp.is_some() || !reports_all_containers(&pod) {
        // The kubelet stops it, or has not seen it yet.
        return Ok(Action::await_change());
    }
    let generation = pod.metadata.generation.unwrap_or_default();
    // As long as status says that it is in progress, the final status is not written.
    let actual = resources(&pod, actual_of).filter(|_| condition(&pod, IN_PROGRESS).is_none());
    match ack_act_final::resume(key, generation, &recorded(&pod), actual.as_ref()) {
        ack_act_final::State::Final => Ok(Action::await_change()),
        ack_act_final::State::Accepted(accepted) => carry_out(&pod, &context, accepted).await,
        // A refusal that stands: only another request, or another node, changes it.
        ack_act_final::State::Refused => Ok(Action::await_change()),
        ack_act_final::State::Undecided(request) => {
            let _deciding = context.deciding.lock().await;
            let decision = decide(&pod, &context).await?;
            match request.decide(decision) {
                Decided::Granted(granted) => {
                    let accept = async |answer: Answer<Cpu>| write_answer(&pod, &context, &answer).await;
                    // The write brings the next event: the Pod that is read then shows the acceptance.
                    drop(granted.accept(accept).await?);
                    Ok(Action::await_change())
                }
                Decided::Denied(denied) => {
                    let deferred = matches!(denied.answer().decision, Decision::Deferred(_));
                    denied.acknowledge(async |answer| write_answer(&pod, &context, &answer).await).await?;
                    Ok(if deferred {
                        Action::requeue(Duration::from_secs(10))
                    } else {
                        Action::await_change()
                    })
                }
            }
        }
    }
}

async fn carry_out<R: Runtime>(
    pod: &Pod,
    context: &Context<R>,
    accepted: ack_act_final::Accepted<Cpu>,
) -> Result<Action, Error> {
    let acted = accepted.act(async |permit, cpu| context.runtime.resize(&permit, &cpu).await).await?;
    acted.finish(async |cpu| write_final(pod, context, &cpu).await).await?;
    Ok(Action::await_change())
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn reports_all_containers(pod: &Pod) -> bool {
    let statuses =
        pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let reported = |name: &str| statuses.iter().any(|status| status.name == name);
    pod.spec.iter().flat_map(|spec| &spec.containers).all(|container| reported(&container.name))
}

/// What the containers ask for.
fn desired(pod: &Pod) -> Cpu {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.map(|container| (container.name.clone(), cpu_of(container.resources.as_ref()))).collect()
}

fn cpu_of(resources: Option<&ResourceRequirements>) -> u64 {
    let cpu = resources.and_then(|resources| resources.requests.as_ref()?.get("cpu"));
    cpu.map_or(0, millis)
}

/// A quantity of processor time in thousandths, rounded up as the scheduler does.
fn millis(quantity: &Quantity) -> u64 {
    let text = quantity.0.as_str();
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().unwrap_or(0),
        None => text.parse::<f64>().map_or(0, |processors| (processors * 1000.0).ceil() as u64),
    }
}

fn actual_of(status: &ContainerStatus) -> Option<u64> {
    Some(millis(status.resources.as_ref()?.requests.as_ref()?.get("cpu")?))
}

fn allocated_of(status: &ContainerStatus) -> Option<u64> {
    Some(millis(status.allocated_resources.as_ref()?.get("cpu")?))
}

/// What status says about all containers; None if it says nothing about one of them.
fn resources(pod: &Pod, read: impl Fn(&ContainerStatus) -> Option<u64>) -> Option<Cpu> {
    let containers = &pod.spec.as_ref()?.containers;
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let of = |name: &str| statuses.iter().find(|status| status.name == name).and_then(&read);
    containers.iter().map(|container| Some((container.name.clone(), of(&container.name)?))).collect()
}

/// The recorded answer: what is allocated, and the condition of a request that was not accepted.
pub fn recorded(pod: &Pod) -> Allocation<Cpu> {
    let mut allocation = Allocation::default();
    let status = pod.status.as_ref();
    let generation = status.and_then(|status| status.observed_generation).unwrap_or_default();
    if let Some(allocated) = resources(pod, allocated_of) {
        allocation.record(Decision::Granted(allocated).at(generation));
    }
    if let Some(pending) = condition(pod, PENDING) {
        let denial = Denial::new(
            pending.reason.clone().unwrap_or_default(),
            pending.message.clone().unwrap_or_default(),
        );
        let decision = if denial.reason == "Infeasible" {
            Decision::Refused(denial)
        } else {
            Decision::Deferred(denial)
        };
        allocation.record(decision.at(pending.observed_generation.unwrap_or_default()));
    }
    allocation
}

fn condition<'p>(pod: &'p Pod, name: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == name)
}

async fn decide<R>(pod: &Pod, context: &Context<R>) -> Result<Decision<Cpu>, Error> {
    let wanted = desired(pod);
    let total: u64 = wanted.values().sum();
    let capacity = context.capacity;
    if total > capacity {
        let message = format!("the node has {capacity}m of cpu, the Pod requests {total}m");
        return Ok(Decision::Refused(Denial::new("Infeasible", message)));
    }
    let pods = pods_of_node(context).await?;
    // One that is being deleted has its containers until it is gone.
    let others = pods.iter().filter(|other| other.uid() != pod.uid() && !is_finished(other));
    let others: u64 =
        others.filter_map(|other| resources(other, allocated_of)).flat_map(Cpu::into_values).sum();
    if others + total > capacity {
        let left = capacity.saturating_sub(others);
        let message = format!("the node has {left}m of cpu left, the Pod requests {total}m");
        return Ok(Decision::Deferred(Denial::new("Deferred", message)));
    }
    // An older request that waits goes first, if it fits.
    if let Some(older) = older_waiting(pod, &pods, capacity - others) {
        let message = format!("{older} has waited for longer");
        return Ok(Decision::Deferred(Denial::new("Deferred", message)));
    }
    Ok(Decision::Granted(wanted))
}

async fn pods_of_node<R>(context: &Context<R>) -> Result<Vec<Pod>, Error> {
    let of_node = ListParams::default().fields(&format!("spec.nodeName={}", context.node));
    Ok(Api::<Pod>::all(context.client.clone()).list(&of_node).await?.items)
}

/// A Pod whose request was deferred before this one's, and would fit.
fn older_waiting(pod: &Pod, pods: &[Pod], free: u64) -> Option<String> {
    let since = |pod: &Pod| -> Option<Timestamp> {
        let pending =
            condition(pod, PENDING).filter(|pending| pending.reason.as_deref() == Some("Deferred"))?;
        Some(pending.last_transition_time.as_ref()?.0)
    };
    let own = since(pod)?;
    let waits = |other: &&Pod| other.metadata.deletion_timestamp.is_none() && !is_finished(other);
    let older = pods.iter().filter(waits).filter(|other| since(other).is_some_and(|other| other < own));
    let fitting = older.filter(|other| desired(other).values().sum::<u64>() <= free);
    fitting.min_by_key(|other| since(other)).map(|other| other.name_any())
}

async fn write_answer<R>(pod: &Pod, context: &Context<R>, answer: &Answer<Cpu>) -> Result<(), Error> {
    let mut status = pod.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != PENDING && condition.type_ != IN_PROGRESS);
    let (name, reason, message) = match &answer.decision {
        Decision::Granted(cpu) => {
            set_cpu(&mut status, cpu, |status, cpu| {
                status.allocated_resources.get_or_insert_default().insert("cpu".to_owned(), cpu);
            });
            (IN_PROGRESS, None, None)
        }
        Decision::Deferred(denial) | Decision::Refused(denial) => {
            (PENDING, Some(denial.reason.clone()), Some(denial.message.clone()))
        }
    };
    let since = condition(pod, name).and_then(|previous| previous.last_transition_time.clone());
    status.conditions.get_or_insert_default().push(PodCondition {
        type_: name.to_owned(),
        status: "True".to_owned(),
        reason,
        message,
        observed_generation: Some(answer.generation),
        last_transition_time: since.or_else(|| Some(Time(context.clock.now()))),
        ..PodCondition::default()
    });
    status.observed_generation = Some(answer.generation);
    context.status.write(pod, |_| Ok(status.clone())).await?;
    Ok(())
}

async fn write_final<R>(pod: &Pod, context: &Context<R>, cpu: &Cpu) -> Result<(), Error> {
    let mut status = pod.status.clone().unwrap_or_default();
    set_cpu(&mut status, cpu, |status, cpu| {
        let requests = status.resources.get_or_insert_default().requests.get_or_insert_default();
        requests.insert("cpu".to_owned(), cpu);
    });
    status.conditions.get_or_insert_default().retain(|condition| condition.type_ != IN_PROGRESS);
    context.status.write(pod, |_| Ok(status.clone())).await?;
    Ok(())
}

/// What has ended waits for nothing.
async fn write_finished<R>(pod: &Pod, context: &Context<R>) -> Result<(), Error> {
    let mut status = pod.status.clone().unwrap_or_default();
    let ours = |condition: &PodCondition| [PENDING, IN_PROGRESS].contains(&condition.type_.as_str());
    status.conditions.iter_mut().for_each(|conditions| conditions.retain(|condition| !ours(condition)));
    status.observed_generation = pod.metadata.generation;
    context.status.write(pod, |_| Ok(status.clone())).await?;
    Ok(())
}

fn set_cpu(status: &mut PodStatus, cpu: &Cpu, set: impl Fn(&mut ContainerStatus, Quantity)) {
    for container in status.container_statuses.iter_mut().flatten() {
        if let Some(cpu) = cpu.get(&container.name) {
            set(container, Quantity(format!("{cpu}m")));
        }
    }
}
