//! Conformance suite for providers: the process ends between any two calls, each call is repeated, hosts are deleted while they are created, and
//! responses are lost.
//!
//! A [`Subject`] makes the provider as a new process would, lets time pass, and counts what is left. [`check`] runs all cases.

use std::time::Duration;

use futures::future::BoxFuture;

use super::{Desired, Host, HostKey, HostState, Observed, Plan, Progress, Provider, ProviderError, Request};

/// How many calls a case may need.
const MAX_CALLS: usize = 200;

/// A provider under test, with its world outside of the process.
pub trait Subject {
    /// The provider, as a new process starts it: with nothing in memory.
    fn restart(&self) -> Box<dyn Provider>;

    /// Makes the next call that changes something lose its response: it is performed, and its caller gets a transient error.
    fn lose_response(&self);

    /// Lets time pass.
    fn pass(&self, time: Duration) -> BoxFuture<'_, ()>;

    /// What exists outside: names of hosts, disks, addresses, processes.
    fn leftovers(&self) -> BoxFuture<'_, Vec<String>>;

    /// A request that is valid.
    fn desired(&self) -> Desired;

    /// One that a host of [`desired`](Self::desired) gets to in place.
    fn in_place(&self) -> Desired;

    /// One that needs another host.
    fn replaced(&self) -> Option<Desired>;

    /// One that cannot be had.
    fn unsupported(&self) -> Option<Desired>;
}

/// What a provider did wrong, with the name of the case.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{case}: {problem}")]
pub struct Failure {
    /// The case.
    pub case: String,
    /// What was wrong.
    pub problem: String,
}

/// What disturbs a case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Disturbance {
    /// Nothing.
    None,
    /// The process ends after the call with this number.
    Kill(usize),
    /// The call with this number is made twice.
    Repeat(usize),
    /// The response of the call with this number is lost.
    Lose(usize),
}

/// Runs all cases; the failures of all of them.
pub async fn check<S: Subject>(make: impl Fn() -> S) -> Vec<Failure> {
    check_share(make, usize::MAX, 0).await
}

/// The same with so many of the disturbances only, chosen by a seed: for providers whose calls take time.
pub async fn check_share<S: Subject>(make: impl Fn() -> S, share: usize, seed: u64) -> Vec<Failure> {
    let mut failures = Vec::new();
    let calls = match lifecycle(&make(), Disturbance::None).await {
        Ok(calls) => calls,
        Err(problem) => return vec![Failure { case: "lifecycle".to_owned(), problem }],
    };
    let mut disturbances: Vec<Disturbance> = Vec::new();
    for call in 1..=calls {
        disturbances.extend([Disturbance::Kill(call), Disturbance::Repeat(call), Disturbance::Lose(call)]);
    }
    if share < disturbances.len() {
        // FNV-1a of their names.
        let rank = |disturbance: &Disturbance| {
            let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            format!("{disturbance:?}").bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ seed, hash)
        };
        disturbances.sort_by_key(rank);
        disturbances.truncate(share);
    }
    for disturbance in disturbances {
        if let Err(problem) = lifecycle(&make(), disturbance).await {
            failures.push(Failure { case: format!("lifecycle with {disturbance:?}"), problem });
        }
    }
    for waits in 0..4 {
        if let Err(problem) = delete_during_create(&make(), waits).await {
            failures.push(Failure { case: format!("delete during create, after {waits} looks"), problem });
        }
    }
    if let Err(problem) = plans(&make()).await {
        failures.push(Failure { case: "plans".to_owned(), problem });
    }
    if let Err(problem) = two_hosts(&make()).await {
        failures.push(Failure { case: "two hosts".to_owned(), problem });
    }
    failures
}

/// Calls of one case, with its disturbance.
struct Calls<'s, S> {
    subject: &'s S,
    provider: Box<dyn Provider>,
    disturbance: Disturbance,
    count: usize,
}

impl<'s, S: Subject> Calls<'s, S> {
    fn new(subject: &'s S, disturbance: Disturbance) -> Self {
        Self { subject, provider: subject.restart(), disturbance, count: 0 }
    }

    fn limit(&self) -> Result<(), String> {
        if self.count > MAX_CALLS { Err(format!("not done after {MAX_CALLS} calls")) } else { Ok(()) }
    }

    async fn observe(&self, key: &HostKey) -> Result<Observed, String> {
        self.provider.observe(key).await.map_err(|error| format!("observe: {error}"))
    }

    /// Makes a call as the disturbance wants it. Whether it is done.
    async fn call(
        &mut self,
        name: &str,
        call: impl AsyncFn(&dyn Provider) -> Result<Progress, ProviderError>,
    ) -> Result<bool, String> {
        self.count += 1;
        self.limit()?;
        if self.disturbance == Disturbance::Lose(self.count) {
            self.subject.lose_response();
        }
        let mut result = call(&*self.provider).await;
        if self.disturbance == Disturbance::Repeat(self.count) {
            result = call(&*self.provider).await;
        }
        if self.disturbance == Disturbance::Kill(self.count) {
            self.provider = self.subject.restart();
        }
        match result {
            Ok(Progress::Done) => Ok(true),
            Ok(Progress::Pending { retry_after }) => {
                self.subject.pass(retry_after).await;
                Ok(false)
            }
            Err(ProviderError::Transient(_)) => Ok(false),
            Err(error @ ProviderError::Terminal { .. }) => Err(format!("{name}: {error}")),
        }
    }

    /// Brings a host to what is asked for, as the machine controller does.
    async fn converge(&mut self, request: &Request) -> Result<Host, String> {
        loop {
            self.limit()?;
            let observed = self.observe(&request.key).await?;
            let Some(host) = observed.host() else {
                self.call("create", async |provider| provider.create(request).await).await?;
                continue;
            };
            match &host.state {
                HostState::Running => {}
                HostState::Creating => {
                    self.call("create", async |provider| provider.create(request).await).await?;
                    continue;
                }
                HostState::Failed(message) => return Err(format!("the host failed: {message}")),
                _ => {
                    self.count += 1;
                    self.subject.pass(Duration::from_secs(1)).await;
                    continue;
                }
            }
            match self.provider.plan(host, &request.desired) {
                Plan::NoOp => return Ok(host.clone()),
                Plan::InPlace { steps, .. } => {
                    let step = steps.first().ok_or("a plan in place without steps")?.clone();
                    self.call(&step.name.clone(), async |provider| provider.apply_step(request, &step).await)
                        .await?;
                }
                Plan::Replace { .. } => self.delete(&request.key).await?,
                Plan::Unsupported { reason } => return Err(format!("unsupported: {reason}")),
            }
        }
    }

    async fn delete(&mut self, key: &HostKey) -> Result<(), String> {
        loop {
            self.limit()?;
            self.call("delete", async |provider| provider.delete(key).await).await?;
            if self.observe(key).await? == Observed::Absent {
                return Ok(());
            }
        }
    }
}

fn request(uid: &str, generation: i64, desired: Desired) -> Request {
    Request {
        key: HostKey::new(uid),
        machine: format!("default/{uid}"),
        generation,
        desired,
        last_host: None,
    }
}

fn expect_nothing(leftovers: &[String]) -> Result<(), String> {
    if leftovers.is_empty() { Ok(()) } else { Err(format!("left over: {leftovers:?}")) }
}

/// A host is created, updated in place, replaced if the provider can, and deleted. The number of calls.
async fn lifecycle<S: Subject>(subject: &S, disturbance: Disturbance) -> Result<usize, String> {
    let mut calls = Calls::new(subject, disturbance);
    let first = request("uid-1", 1, subject.desired());
    let created = calls.converge(&first).await?;
    if created.id.is_empty() {
        return Err("a running host without an id".to_owned());
    }
    if created.versions != first.desired.versions {
        return Err(format!("created with {:?}", created.versions));
    }
    let listed = calls.provider.list().await.map_err(|error| error.to_string())?;
    if listed.len() != 1 || listed[0].key != first.key || listed[0].id != created.id {
        return Err(format!("listed: {listed:?}"));
    }
    let updated = calls.converge(&request("uid-1", 2, subject.in_place())).await?;
    if updated.id != created.id {
        return Err("an update in place has changed the id of the host".to_owned());
    }
    if updated.versions != subject.in_place().versions {
        return Err(format!("updated to {:?}", updated.versions));
    }
    // And back: a downgrade is the same path.
    calls.converge(&first).await?;
    if let Some(desired) = subject.replaced() {
        let replaced = calls.converge(&request("uid-1", 3, desired)).await?;
        if replaced.versions.kubelet.is_empty() {
            return Err("the new host has no versions".to_owned());
        }
    }
    calls.delete(&first.key).await?;
    expect_nothing(&subject.leftovers().await)?;
    // Deleting what is gone is done.
    match calls.provider.delete(&first.key).await {
        Ok(Progress::Done) => Ok(calls.count),
        other => Err(format!("deleting what is gone: {other:?}")),
    }
}

/// A host is deleted while it is created.
async fn delete_during_create<S: Subject>(subject: &S, looks: usize) -> Result<(), String> {
    let mut calls = Calls::new(subject, Disturbance::None);
    let request = request("uid-1", 1, subject.desired());
    calls.call("create", async |provider| provider.create(&request).await).await?;
    for _ in 0..looks {
        calls.observe(&request.key).await?;
        subject.pass(Duration::from_millis(700)).await;
    }
    calls.delete(&request.key).await?;
    // What was started for the creation has come to its end.
    subject.pass(Duration::from_secs(600)).await;
    if calls.observe(&request.key).await? != Observed::Absent {
        return Err("the host came back".to_owned());
    }
    expect_nothing(&subject.leftovers().await)
}

/// Plans are pure, and have their outcomes.
async fn plans<S: Subject>(subject: &S) -> Result<(), String> {
    let mut calls = Calls::new(subject, Disturbance::None);
    let first = request("uid-1", 1, subject.desired());
    let host = calls.converge(&first).await?;
    let plan = |desired: &Desired| calls.provider.plan(&host, desired);
    if plan(&subject.desired()) != Plan::NoOp {
        return Err("a plan for what there is".to_owned());
    }
    if !matches!(plan(&subject.in_place()), Plan::InPlace { .. }) {
        return Err(format!("not in place: {:?}", plan(&subject.in_place())));
    }
    if let Some(desired) = subject.replaced()
        && !matches!(plan(&desired), Plan::Replace { .. })
    {
        return Err(format!("not replaced: {:?}", plan(&desired)));
    }
    if let Some(desired) = subject.unsupported()
        && !matches!(plan(&desired), Plan::Unsupported { .. })
    {
        return Err(format!("not unsupported: {:?}", plan(&desired)));
    }
    match calls.observe(&first.key).await? {
        Observed::Host(now) if *now == host => Ok(()),
        now => Err(format!("planning has changed the host: {now:?}")),
    }
}

/// Hosts of two Machines are two, and one is deleted without the other.
async fn two_hosts<S: Subject>(subject: &S) -> Result<(), String> {
    let mut calls = Calls::new(subject, Disturbance::None);
    let mut desired = subject.desired();
    let one = calls.converge(&request("uid-1", 1, desired.clone())).await?;
    desired.node_name.push_str("-2");
    let other = calls.converge(&request("uid-2", 1, desired)).await?;
    if one.id == other.id {
        return Err(format!("two Machines share the host {}", one.id));
    }
    calls.delete(&HostKey::new("uid-1")).await?;
    match calls.observe(&HostKey::new("uid-2")).await? {
        Observed::Host(host) if host.state == HostState::Running => {}
        other => return Err(format!("the other host: {other:?}")),
    }
    calls.delete(&HostKey::new("uid-2")).await?;
    expect_nothing(&subject.leftovers().await)
}
