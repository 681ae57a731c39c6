//! When things go wrong with a pool: each row of the table in docs/machines.md is a test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_machines::provider::{
    HostKey, HostState, Observed, Plan, Progress, Provider as _, ProviderError, Request, Step,
};
use settled_machines::types::ErrorReason;

use super::hosts::{Machine, Network, wait};
use super::world::{FixedJoin, Provider, World, desired, request};

/// An agent that never starts.
const BROKEN: &str = "echo no such thing >&2; exit 1";
/// One that takes two seconds.
const SLOW: &str = "sleep 2; echo VERSION >\"$SETTLED_READY_FILE\"; exec sleep 100000";

fn terminal(result: Result<Progress, ProviderError>) -> (ErrorReason, String) {
    match result {
        Err(ProviderError::Terminal { reason, message }) => (reason, message),
        other => panic!("not terminal: {other:?}"),
    }
}

fn transient(result: Result<impl std::fmt::Debug, ProviderError>) -> String {
    match result {
        Err(ProviderError::Transient(message)) => message,
        other => panic!("not transient: {other:?}"),
    }
}

async fn observe(provider: &Provider, uid: &str) -> Result<Observed, ProviderError> {
    provider.observe(&HostKey::new(uid)).await
}

async fn running(provider: &Provider, uid: &str) -> settled_machines::provider::Host {
    let observed = observe(provider, uid).await.expect("an answer");
    let host = observed.host().expect("a host").clone();
    assert_eq!(host.state, HostState::Running);
    host
}

async fn delete(provider: &Provider, uid: &str) {
    assert_eq!(provider.delete(&HostKey::new(uid)).await, Ok(Progress::Done));
    assert_eq!(observe(provider, uid).await, Ok(Observed::Absent));
}

/// Probes until something is true: the cache of the provider may not have what the test has just changed.
async fn probe_until(provider: &Provider, is_true: impl AsyncFn() -> bool) {
    let began = Instant::now();
    loop {
        provider.probe_all().await;
        if is_true().await {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "not within 20 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn first() -> Request {
    request("uid-1", desired("v1.36.0"))
}

async fn kubelet(provider: &Provider, version: &str) -> Result<Progress, ProviderError> {
    provider.apply_step(&first(), &Step::new("kubelet", version)).await
}

/// Nothing is left, on the hosts and of the hosts.
fn sweep(machines: impl IntoIterator<Item = Machine>) {
    for machine in machines {
        assert_eq!(machine.leftovers(), Vec::<String>::new(), "{}", machine.log());
        machine.end();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_host_is_left_for_another_one() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host(), network.host()];
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    machines[0].cut_off(true);
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    assert_eq!(running(&provider, "uid-1").await.pool_host.as_deref(), Some("h2"));
    assert_eq!(world.reason("Host", "h1", "Reachable").await, "Unreachable");
    // Once it runs, it stays with its host.
    machines[1].cut_off(true);
    let began = Instant::now();
    transient(observe(&provider, "uid-1").await);
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "half-open connections are noticed: {:?}",
        began.elapsed()
    );
    transient(observe(&provider, "uid-1").await);
    assert_eq!(world.reason("Host", "h2", "Reachable").await, "Unreachable");
    assert_eq!(world.claim_of("h2").await.as_deref(), Some("uid-1"));
    for machine in &machines {
        machine.cut_off(false);
        wait("it answers", || std::net::TcpStream::connect((machine.address.as_str(), 22)).is_ok());
    }
    running(&provider, "uid-1").await;
    assert_eq!(world.reason("Host", "h2", "Ready").await, "AsExpected");
    // The other one is free again as soon as it answers.
    probe_until(&provider, async || world.reason("Host", "h1", "Prepared").await == "Free").await;
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_taken_by_someone_else_is_left_alone() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host(), network.host()];
    let other = World::start(&network, &machines[..1]).await;
    let others = other.provider();
    assert_eq!(others.create(&request("uid-9", desired("v1.36.0"))).await, Ok(Progress::Done));

    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    assert_eq!(running(&provider, "uid-1").await.pool_host.as_deref(), Some("h2"));
    assert_eq!(world.reason("Host", "h1", "Prepared").await, "Taken");
    assert_eq!(world.claim_of("h1").await, None);
    running(&others, "uid-9").await;
    // A second Host object for a machine that is in use.
    let mut alias = machines[1].object();
    alias["metadata"]["name"] = "alias".into();
    world.create(alias).await;
    let (reason, message) = terminal(provider.create(&request("uid-2", desired("v1.36.0"))).await);
    assert_eq!(reason, ErrorReason::InsufficientResources);
    assert!(message.contains("2 Taken, 1 claimed"), "{message}");
    delete(&others, "uid-9").await;
    probe_until(&provider, async || world.reason("Host", "h1", "Prepared").await == "Free").await;
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_is_reported() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    let wrong = network.other_key();
    world.set_key(&wrong).await;
    let (reason, message) = terminal(provider.create(&first()).await);
    assert_eq!(reason, ErrorReason::InsufficientResources);
    assert!(message.contains("1 KeyRefused"), "{message}");
    let host = world.get("Host", "h1").await.expect("there");
    assert_eq!(world.reason("Host", "h1", "Stalled").await, "KeyRefused");
    // Nothing of the key is in a status.
    let secret = wrong.lines().nth(1).expect("a line").to_owned();
    assert!(!host.to_string().contains(&secret));
    world.set_key("no key at all").await;
    provider.probe_all().await;
    assert!(["KeyRefused", "KeyNotFound"].contains(&world.reason("Host", "h1", "Stalled").await.as_str()));
    world.delete("Secret", "ssh").await;
    probe_until(&provider, async || world.reason("Host", "h1", "Stalled").await == "KeyNotFound").await;
    world.set_key(&network.key()).await;
    probe_until(&provider, async || world.reason("Host", "h1", "Prepared").await == "Free").await;
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_host_key_is_never_trusted() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host(), network.host()];
    let world = World::start(&network, &[]).await;
    let mut object = machines[0].object();
    object["spec"]["hostKeys"] = json!([machines[1].host_key]);
    world.create(object).await;
    let provider = world.provider();
    for keys in [json!([machines[1].host_key]), json!(null)] {
        world.patch("Host", "h1", json!({"spec": {"hostKeys": keys}})).await;
        let stalled = async || world.reason("Host", "h1", "Stalled").await == "HostKeyVerificationFailed";
        probe_until(&provider, stalled).await;
        let (_, message) = terminal(provider.create(&first()).await);
        assert!(message.contains("HostKeyVerificationFailed"), "{message}");
        assert_eq!(world.reason("Host", "h1", "Stalled").await, "HostKeyVerificationFailed");
    }
    assert!(!machines[0].log().contains("Accepted"), "nothing was sent to it: {}", machines[0].log());
    world.patch("Host", "h1", json!({"spec": {"hostKeys": [machines[0].host_key]}})).await;
    probe_until(&provider, async || world.reason("Host", "h1", "Prepared").await == "Free").await;
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_start_is_stepped_back_from() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    world.artifact("kubelet-v1.38.0", BROKEN);
    world.artifact("runtime-containerd-3.0.0", "echo it is another version");
    let (reason, message) = terminal(provider.create(&request("uid-1", desired("v1.38.0"))).await);
    assert_eq!(reason, ErrorReason::CreateError);
    assert!(
        message.contains("kubelet v1.38.0 does not work") && message.contains("no such thing"),
        "{message}"
    );
    assert_eq!(world.reason("Host", "h1", "Prepared").await, "DoesNotStart");
    // With another version, the creation goes on.
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    let (reason, message) = terminal(kubelet(&provider, "v1.38.0").await);
    assert_eq!(reason, ErrorReason::UpdateError);
    assert!(message.contains("the version before runs again"), "{message}");
    let (reason, _) =
        terminal(provider.apply_step(&first(), &Step::new("container-runtime", "containerd 3.0.0")).await);
    assert_eq!(reason, ErrorReason::UpdateError);
    let host = running(&provider, "uid-1").await;
    assert_eq!(provider.plan(&host, &desired("v1.36.0")), Plan::NoOp, "both old versions run");
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_leaves_what_runs_alone() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host_with("1m")];
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    world.artifact("kubelet-v1.39.0", &format!("exit 0\n{}", "#".repeat(2_000_000)));
    let message = transient(kubelet(&provider, "v1.39.0").await);
    assert!(message.contains("No space left on device"), "{message}");
    assert_eq!(world.reason("Host", "h1", "Prepared").await, "DiskFull");
    assert_eq!(running(&provider, "uid-1").await.versions.kubelet, "v1.36.0");
    assert_eq!(
        machines[0].shell("ls -A /var/lib/settled/bin"),
        "kubelet-v1.36.0\nruntime-containerd@2.1.0\n"
    );
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_machines_never_get_one_host() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let world = World::start(&network, &machines).await;
    // Two processes, which know nothing of each other.
    let (one, other) = (world.provider(), world.provider());
    let second = request("uid-2", desired("v1.36.0"));
    let first = first();
    let results = tokio::join!(one.create(&first), other.create(&second));
    let done = [&results.0, &results.1].iter().filter(|result| ***result == Ok(Progress::Done)).count();
    assert_eq!(done, 1, "{results:?}");
    let (winner, loser) = if results.0.is_ok() { ("uid-1", results.1) } else { ("uid-2", results.0) };
    assert_eq!(terminal(loser).0, ErrorReason::InsufficientResources);
    assert_eq!(world.claim_of("h1").await.as_deref(), Some(winner));
    delete(&one, winner).await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_deleted_during_its_creation_leaves_nothing() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let world = World::start(&network, &machines).await;
    world.artifact("kubelet-v1.36.0", &SLOW.replace("VERSION", "v1.36.0"));
    for millis in [50, 300, 800] {
        let provider = world.provider();
        let creation = first();
        // The process ends there.
        let cut = tokio::time::timeout(Duration::from_millis(millis), provider.create(&creation)).await;
        assert!(cut.is_err(), "{cut:?}");
        drop(provider);
        let provider = world.provider();
        delete(&provider, "uid-1").await;
        assert_eq!(world.claim_of("h1").await, None);
        assert_eq!(machines[0].leftovers(), Vec::<String>::new());
    }
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_pool_is_reported() {
    let Some(network) = Network::new() else { return };
    let world = World::start(&network, &[]).await;
    let provider = world.provider();
    let (reason, message) = terminal(provider.create(&first()).await);
    assert_eq!(reason, ErrorReason::InsufficientResources);
    assert_eq!(message, "there is no Host in namespace \"default\" with pool=a");
    let machine = network.host();
    let mut object = machine.object();
    object["spec"]["unschedulable"] = true.into();
    world.create(object).await;
    let (_, message) = terminal(provider.create(&first()).await);
    assert_eq!(message, "no Host is free in namespace \"default\" with pool=a: 1 unschedulable");
    sweep([machine]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_survives_the_end_of_sshd() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    world.artifact("kubelet-v1.37.1", &SLOW.replace("VERSION", "v1.37.1"));
    let step = tokio::spawn({
        let provider = provider.clone();
        async move { kubelet(&provider, "v1.37.1").await }
    });
    let machine = &machines[0];
    wait("the step has begun", || machine.path("/var/lib/settled/previous/kubelet").exists());
    machine.shell("kill -9 $(pgrep sshd)");
    // Lost, or refused while sshd starts again: either way it is tried again.
    transient(step.await.expect("no panic"));
    wait("sshd listens", || std::net::TcpStream::connect((machine.address.as_str(), 22)).is_ok());
    assert_eq!(kubelet(&provider, "v1.37.1").await, Ok(Progress::Done));
    assert_eq!(running(&provider, "uid-1").await.versions.kubelet, "v1.37.1");
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_be_cleaned_stays_unavailable() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    machines[0].shell("mkdir /var/lib/settled/kept && mount -t tmpfs tmpfs /var/lib/settled/kept");
    let message = transient(provider.delete(&HostKey::new("uid-1")).await);
    assert!(message.contains("cannot be removed"), "{message}");
    assert_eq!(world.reason("Host", "h1", "Prepared").await, "NotClean");
    assert_eq!(world.claim_of("h1").await.as_deref(), Some("uid-1"), "the Machine waits");
    // After a while, the Machine goes, and the host stays unavailable.
    let impatient =
        world.provider_as(&world.client, Arc::new(FixedJoin), |options| options.clean = Duration::ZERO);
    delete(&impatient, "uid-1").await;
    let (_, message) = terminal(provider.create(&request("uid-2", desired("v1.36.0"))).await);
    assert!(message.contains("1 NotClean"), "{message}");
    machines[0].shell("umount /var/lib/settled/kept");
    probe_until(&provider, async || world.reason("Host", "h1", "Prepared").await == "Free").await;
    assert_eq!(world.claim_of("h1").await, None);
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_is_started_again() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    assert_eq!(provider.create(&first()).await, Ok(Progress::Done));
    // With its supervisor, as a reboot does.
    machines[0].shell("kill -9 -$(cut -d' ' -f1 /var/lib/settled/run/pid)");
    let host = running(&provider, "uid-1").await;
    let plan = provider.plan(&host, &desired("v1.36.0"));
    assert_eq!(plan, Plan::InPlace { steps: vec![Step::new("kubelet", "v1.36.0")], disruptive: false });
    assert_eq!(kubelet(&provider, "v1.36.0").await, Ok(Progress::Done));
    // Without it, it does so by itself.
    machines[0].shell("pkill -9 -f 'sleep 100000'");
    let ready = machines[0].path("/var/lib/settled/run/ready");
    wait("it runs again", || std::fs::read_to_string(&ready).is_ok_and(|text| text.trim() == "v1.36.0"));
    delete(&provider, "uid-1").await;
    sweep(machines);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_statuses_are_rebuilt_and_hosts_claimed_again() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host(), network.host()];
    let world = World::start(&network, &machines).await;
    let created = world.create(machine_object("a")).await;
    let uid = created["metadata"]["uid"].as_str().expect("a UID").to_owned();
    let provider = world.provider();
    let mut request = request(&uid, desired("v1.36.0"));
    request.last_host = Some("h2".to_owned());
    assert_eq!(provider.create(&request).await, Ok(Progress::Done));
    assert_eq!(running(&provider, &uid).await.pool_host.as_deref(), Some("h2"));
    let agent = || std::fs::read_to_string(machines[1].path("/var/lib/settled/run/pid")).expect("it runs");
    let before = agent();
    // The status of the Host is lost: what runs is found, and belongs to its Machine again.
    world.patch_status("Host", "h2", json!({"status": null})).await;
    probe_until(&provider, async || world.claim_of("h2").await == Some(uid.clone())).await;
    running(&provider, &uid).await;
    // Before the probe, the Machine claims the Host that it had, and nothing is started again.
    world.patch_status("Host", "h2", json!({"status": null})).await;
    assert_eq!(provider.create(&request).await, Ok(Progress::Done));
    assert_eq!(running(&provider, &uid).await.pool_host.as_deref(), Some("h2"));
    assert_eq!(agent(), before);
    // Without its Machine, it is cleaned.
    world.delete("Machine", "a").await;
    world.patch_status("Host", "h2", json!({"status": null})).await;
    probe_until(&provider, async || world.reason("Host", "h2", "Prepared").await == "Free").await;
    sweep(machines);
}

fn machine_object(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "versions": {"kubelet": "v1.36.0", "containerRuntime": {"name": "containerd", "version": "2.1.0"}},
            "providerSpec": {"value": {
                "apiVersion": settled_hosts::ssh::API_VERSION, "kind": settled_hosts::ssh::KIND,
                "hostSelector": {"matchLabels": {"pool": "a"}},
            }},
        },
    })
}
