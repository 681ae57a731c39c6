//! Load balancer addresses for Services: requested with `spec.loadBalancerIP`, or chosen by the controller.
//!
//! The effect comes first: kube-proxy and clients act on an address as soon as status shows it, so it is announced by then. A refusal is a
//! condition, not the absence of an address. A Service that asks for another address keeps the old one until the new one is announced.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use settled_controller::decision::policy::{Decided, act_first, finalizer_first};
use settled_controller::decision::pool::{AddressRange, Grants};
use settled_controller::decision::{
    Allocation, Answer, Decision, Denial, IdempotencyKey, Permit, RepairScan,
};
use settled_controller::status::{StatusWriter, WriteError};
use settled_controller::{Clock, finalizer};
use tokio::sync::Mutex;

/// Keeps a Service until its address is withdrawn. It is the finalizer of the cloud controllers.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The condition with the answer.
pub const CONDITION: &str = "example.com/AddressAllocated";
/// How often orphaned addresses are looked for, and for how long an address has to be orphaned.
const REPAIR_PERIOD: Duration = Duration::from_secs(60);
const REPAIR_GRACE: Duration = Duration::from_secs(300);
/// The controller's name as field manager.
const MANAGER: &str = "load-balancer-controller";

/// What announces addresses to the network.
pub trait Announcer: Send + Sync + 'static {
    /// Announces an address under the permit's key. It succeeds if that is done already, and fails if the address is announced under
    /// another key.
    fn announce(&self, permit: &Permit, address: IpAddr) -> impl Future<Output = Result<(), Error>> + Send;

    /// Withdraws an address that is announced under the permit's key. It succeeds if it is not announced.
    fn withdraw(&self, permit: &Permit, address: IpAddr) -> impl Future<Output = Result<(), Error>> + Send;

    /// What is announced.
    fn announced(&self) -> impl Future<Output = Result<Vec<(IdempotencyKey, IpAddr)>, Error>> + Send;
}

/// Why a reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request, or could not be reached.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The finalizer could not be written.
    #[error(transparent)]
    Finalizer(#[from] finalizer::Error),
    /// The network refused it.
    #[error("cannot announce {address}: {reason}")]
    Announce {
        /// The address.
        address: IpAddr,
        /// Why.
        reason: String,
    },
    /// The status could not be written: the Service may have been written by others since it was read.
    #[error(transparent)]
    Status(#[from] WriteError),
}

/// What reconciles share.
pub struct Context<A> {
    client: Client,
    status: StatusWriter<Service>,
    announcer: A,
    pool: AddressRange,
    clock: Clock,
    /// The grants: read once, then kept here, and read again after a failure. Nobody else allocates from this pool.
    grants: Mutex<Option<Grants<IdempotencyKey, IpAddr>>>,
}

impl<A> Context<A> {
    /// The context of a controller that has just started.
    pub fn new(client: Client, announcer: A, pool: AddressRange, clock: Clock) -> Self {
        let status = StatusWriter::new(client.clone(), MANAGER).attempts(1).clock(clock.clone());
        Self { client, status, announcer, pool, clock, grants: Mutex::new(None) }
    }
}

/// Runs until `stop`.
pub async fn run<A: Announcer>(
    client: Client,
    announcer: A,
    pool: AddressRange,
    clock: Clock,
    config: watcher::Config,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let context = Arc::new(Context::new(client.clone(), announcer, pool, clock));
    let controller = Controller::new(Api::<Service>::all(client), config)
        .graceful_shutdown_on(stop)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::clone(&context))
        .for_each(|_| std::future::ready(()));
    let repairs = async {
        let mut scan = RepairScan::new(REPAIR_GRACE);
        let mut interval = tokio::time::interval(REPAIR_PERIOD);
        loop {
            interval.tick().await;
            if let Err(error) = repair(&context, &mut scan).await {
                *context.grants.lock().await = None;
                tracing::warn!(%error, "failed to look for orphaned addresses");
            }
        }
    };
    tokio::select! {
        () = controller => {}
        () = repairs => {}
    }
}

/// Withdraws the addresses of Services that are gone although nobody released them: users remove finalizers.
pub async fn repair<A: Announcer>(
    context: &Context<A>,
    scan: &mut RepairScan<IdempotencyKey>,
) -> Result<(), Error> {
    // The inventory first: what is announced afterwards is not in it.
    let announced = context.announcer.announced().await?;
    let services = Api::<Service>::all(context.client.clone()).list(&ListParams::default()).await?;
    let uids: Vec<String> = services.iter().filter_map(|service| service.uid()).collect();
    let live = uids.iter().map(|uid| IdempotencyKey::new("lb", uid));
    let inventory = announced.iter().map(|(holder, _)| holder.clone());
    for permit in scan.release(inventory, live, context.clock.now()) {
        for (_, address) in announced.iter().filter(|(holder, _)| holder == permit.key()) {
            context.announcer.withdraw(&permit, *address).await?;
        }
        if let Some(grants) = context.grants.lock().await.as_mut() {
            grants.release(permit.key());
        }
    }
    Ok(())
}

async fn reconcile<A: Announcer>(service: Arc<Service>, context: Arc<Context<A>>) -> Result<Action, Error> {
    let result = answer_request(service, Arc::clone(&context)).await;
    if result.is_err() {
        // What has failed may have been carried out all the same.
        *context.grants.lock().await = None;
    }
    result
}

async fn answer_request<A: Announcer>(
    service: Arc<Service>,
    context: Arc<Context<A>>,
) -> Result<Action, Error> {
    let Some(key) = IdempotencyKey::of("lb", service.as_ref()) else { return Ok(Action::await_change()) };
    let namespace = service.namespace().unwrap_or_default();
    let api: Api<Service> = Api::namespaced(context.client.clone(), &namespace);
    let wants_address =
        service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));

    let protected = match finalizer_first::resume(key, service.as_ref(), FINALIZER) {
        finalizer_first::State::Gone => return Ok(Action::await_change()),
        finalizer_first::State::Unprotected(_) if !wants_address => return Ok(Action::await_change()),
        finalizer_first::State::Unprotected(unprotected) => {
            // What is written next brings the next event.
            unprotected
                .protect(async || finalizer::add(&api, service.as_ref(), FINALIZER).await.map(drop))
                .await?;
            return Ok(Action::await_change());
        }
        finalizer_first::State::Protected(protected) if wants_address => protected,
        // The type was changed.
        finalizer_first::State::Protected(protected) => {
            return release(&api, &service, &context, protected.abandon()).await;
        }
        finalizer_first::State::Releasing(releasing) => {
            return release(&api, &service, &context, releasing).await;
        }
    };

    // Services have no generation: each reconcile decides anew, and the same request is granted the same address.
    let (key, generation) = protected.request();
    let act_first::State::Undecided(request) =
        act_first::resume::<IpAddr>(key.clone(), generation, &Allocation::default())
    else {
        return Ok(Action::await_change());
    };
    match request.decide(decide(&service, key, &context).await?) {
        Decided::Granted(granted) => {
            let address = *granted.value();
            let permit = granted
                .act(async |permit, address| context.announcer.announce(&permit, address).await)
                .await?
                .acknowledge(async |answer| acknowledge(&service, &context, &[address], &answer).await)
                .await?;
            withdraw_replaced(&context, &permit, Some(address)).await?;
            Ok(Action::await_change())
        }
        Decided::Denied(denied) => {
            let retry = match &denied.answer().decision {
                // Nothing wakes this Service up when another one releases an address.
                Decision::Deferred(denial) => {
                    Action::requeue(denial.retry_after.unwrap_or(Duration::from_secs(30)))
                }
                _ => Action::await_change(),
            };
            // An address that was granted before stays: its clients use it.
            let held = published(&service);
            let shown: Vec<IpAddr> = held.into_iter().collect();
            let write = async |answer: Answer<IpAddr>| acknowledge(&service, &context, &shown, &answer).await;
            let permit = denied.acknowledge(write).await?;
            withdraw_replaced(&context, &permit, held).await?;
            Ok(retry)
        }
    }
}

/// Withdraws what a Service has beside the address that its status shows: the one before, and those of attempts that failed.
async fn withdraw_replaced<A: Announcer>(
    context: &Context<A>,
    permit: &Permit,
    shown: Option<IpAddr>,
) -> Result<(), Error> {
    for (holder, address) in context.announcer.announced().await? {
        if holder == *permit.key() && Some(address) != shown {
            context.announcer.withdraw(permit, address).await?;
            if let Some(grants) = context.grants.lock().await.as_mut() {
                grants.release_replaced(&holder, &address);
            }
        }
    }
    Ok(())
}

async fn decide<A: Announcer>(
    service: &Service,
    key: IdempotencyKey,
    context: &Context<A>,
) -> Result<Decision<IpAddr>, Error> {
    let requested = service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_ip.as_deref())
        .filter(|text| !text.is_empty());
    let requested: Option<IpAddr> = match requested.map(str::parse).transpose() {
        Ok(requested) => requested,
        Err(_) => {
            let denial = Denial::new("InvalidAddress", "spec.loadBalancerIP is not an IP address");
            return Ok(Decision::Refused(denial));
        }
    };
    let mut grants = context.grants.lock().await;
    let grants = match &mut *grants {
        Some(grants) => grants,
        empty => empty.insert(read_grants(context).await?),
    };
    Ok(grants.allocate(&context.pool, key, requested.as_ref()))
}

/// The grants that there are: what is announced, for whomever, and what the statuses show.
async fn read_grants<A: Announcer>(context: &Context<A>) -> Result<Grants<IdempotencyKey, IpAddr>, Error> {
    // Without a resourceVersion, a list is as new as the last write.
    let services = Api::<Service>::all(context.client.clone()).list(&ListParams::default()).await?;
    let mut services = services.items;
    services.sort_by_key(|service| (service.creation_timestamp(), service.uid()));
    let announced = context.announcer.announced().await?;
    // What status shows comes last: it is what a Service with two addresses goes on with.
    let shown = |service: &Service| Some((IdempotencyKey::of("lb", service)?, published(service)?));
    let (grants, contradictions) =
        Grants::new(announced.into_iter().chain(services.iter().filter_map(shown)));
    for contradiction in contradictions {
        tracing::warn!(address = %contradiction.value, holder = %contradiction.keeps, "address granted twice");
    }
    Ok(grants)
}

async fn release<A: Announcer>(
    api: &Api<Service>,
    service: &Service,
    context: &Context<A>,
    releasing: finalizer_first::Releasing,
) -> Result<Action, Error> {
    // Another finalizer may keep the Service: nobody else gets an address that it shows.
    if published(service).is_some() || answer(service).is_some() {
        write_status(service, context, &[], None).await?;
        return Ok(Action::await_change());
    }
    let withdraw = async |permit: Permit| {
        for (holder, address) in context.announcer.announced().await? {
            if holder == *permit.key() {
                context.announcer.withdraw(&permit, address).await?;
            }
        }
        if let Some(grants) = context.grants.lock().await.as_mut() {
            grants.release(permit.key());
        }
        Ok::<_, Error>(())
    };
    let released = releasing.release(withdraw).await?;
    released.unprotect(async || finalizer::remove(api, service, FINALIZER).await.map(drop)).await?;
    Ok(Action::await_change())
}

/// The address that status shows.
pub fn published(service: &Service) -> Option<IpAddr> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?;
    ingress.first()?.ip.as_ref()?.parse().ok()
}

fn answer(service: &Service) -> Option<&Condition> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == CONDITION)
}

async fn acknowledge<A>(
    service: &Service,
    context: &Context<A>,
    addresses: &[IpAddr],
    answer: &Answer<IpAddr>,
) -> Result<(), Error> {
    let mut condition = answer.condition(CONDITION, self::answer(service), context.clock.now());
    condition.observed_generation = service.metadata.generation;
    write_status(service, context, addresses, Some(condition)).await
}

async fn write_status<A>(
    service: &Service,
    context: &Context<A>,
    addresses: &[IpAddr],
    condition: Option<Condition>,
) -> Result<(), Error> {
    let mut status = service.status.clone().unwrap_or_default();
    let ingress = addresses
        .iter()
        .map(|address| LoadBalancerIngress { ip: Some(address.to_string()), ..Default::default() });
    let ingress: Vec<_> = ingress.collect();
    status.load_balancer = Some(LoadBalancerStatus { ingress: (!ingress.is_empty()).then_some(ingress) });
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|existing| existing.type_ != CONDITION);
    conditions.extend(condition);
    // One attempt: an answer is for the object that was read. After a conflict, the next reconcile decides anew.
    context.status.write(service, |_| Ok(status.clone())).await?;
    Ok(())
}
