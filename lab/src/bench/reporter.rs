//! The reporter of network policies on a running server: conditions of all policies of a large cluster, and the time from a change to its
//! conditions.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::Outcome;
use crate::bench::generate::Random;
use crate::bench::load::{Address, Client, Events, namespace, requests};
use crate::bench::page::Page;
use crate::bench::policies::{NAMESPACES, PROVIDER, SEED, namespace as team, policy};
use crate::bench::waiters::Waiter;
use crate::cluster::Place;
use crate::measure::{Rounds, Table, figure};
use crate::server::{self, Kind};

/// Number of policies, and of changes.
const POLICIES: usize = 10_000;
const CHANGES: usize = 200;
/// Maximum of the 99th percentile from a change to its conditions.
const BAR_MS: f64 = 50.0;
/// No process is as long without progress.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines of a watch.
struct Lines {
    events: Events,
    held: Vec<u8>,
}

impl Lines {
    /// The next object.
    async fn object(&mut self) -> Outcome<Value> {
        let end = loop {
            if let Some(end) = memchr::memchr(b'\n', &self.held) {
                break end;
            }
            let data = self.events.next().await?;
            self.held.extend_from_slice(&data);
        };
        let event: Value = serde_json::from_slice(&self.held[..end])?;
        self.held.drain(..=end);
        Ok(event["object"].clone())
    }

    /// The next object with conditions of its generation, which is at least this one.
    async fn reported(&mut self, generation: i64) -> Outcome<Value> {
        loop {
            let object = self.object().await?;
            let of_now = object["metadata"]["generation"].as_i64();
            let conditions = object["status"]["conditions"].as_array();
            let current = |one: &Value| one["observedGeneration"].as_i64() == of_now;
            if of_now >= Some(generation)
                && conditions.is_some_and(|all| !all.is_empty() && all.iter().all(current))
            {
                return Ok(object);
            }
        }
    }
}

/// Prints the table; false if the bar is missed.
pub(super) fn conditions(page: &mut Page, smoke: bool) -> Outcome<bool> {
    let (count, changes) = if smoke { (POLICIES / 20, CHANGES / 20) } else { (POLICIES, CHANGES) };
    let Some(server) = server::start(Kind::OursAlone)? else { return Ok(false) };
    let Some(place) = Place::new(&server, &[])? else { return Ok(false) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let address = Address::new(&server.url, &server.ca)?;
    println!("… {count} policies");
    let client = runtime.block_on(create(&address, count))?;

    let mut command = Command::new(server::binary()?);
    command.args(["netpol", "report", "--provider", PROVIDER]);
    place.environment(&mut command);
    let path = "/apis/networking.k8s.io/v1/networkpolicies?watch=true";
    // It begins with all that exist.
    let mut lines = runtime
        .block_on(async { Outcome::Ok(Lines { events: client.watch(path).await?, held: Vec::new() }) })?;
    let start = Instant::now();
    let reporter = Waiter::start(command, server.directory.join("reporter.log"), false)?;
    let measured: Outcome<(f64, Rounds)> = runtime.block_on(async {
        for _ in 0..count {
            tokio::time::timeout(PATIENCE, lines.reported(1)).await??;
        }
        let first = start.elapsed().as_secs_f64();
        let mut times = Rounds::default();
        for change in 0..changes {
            let index = change * count / changes;
            let millis = changed(&client, &mut lines, index).await?;
            times.push(millis * 1e6);
        }
        Ok((first, times))
    });
    let (first, times) = measured.map_err(|error| format!("{error}: {}", reporter.last_words()))?;
    let (cpu, peak) = reporter.used()?;
    drop(reporter);

    page.line(&format!(
        "`settled netpol report --provider {PROVIDER}` on `settled serve`, each in its process; the clock of a change starts when it is sent \
         and stops when the conditions of its generation arrive in a watch:"
    ));
    let mut table = Table::new([
        "policies",
        "conditions of all, s",
        "changes",
        "change, median, ms",
        "99th percentile, ms",
        "CPU, s",
        "peak memory, MB",
    ]);
    let slow = times.percentile(99) / 1e6;
    table.row([
        count.to_string(),
        figure(first),
        changes.to_string(),
        figure(times.median() / 1e6),
        figure(slow),
        figure(cpu.as_secs_f64()),
        figure(peak as f64 / 1e6),
    ]);
    page.table(&table);
    let met = slow < BAR_MS;
    page.line(&format!(
        "Bar: conditions within {BAR_MS} ms of a change: {}.",
        if met { "yes" } else { "NO" }
    ));
    Ok(met)
}

/// Creates all policies in their namespaces; a client for what follows.
async fn create(address: &Address, count: usize) -> Outcome<Client> {
    let client = address.connect().await?;
    for index in 0..NAMESPACES {
        namespace(&client, &team(index)).await?;
    }
    let mut random = Random::new(SEED);
    let bodies: Arc<[Bytes]> =
        (0..count).map(|index| policy(&mut random, index).to_string().into()).collect();
    let send = move |client: Client, number: usize| {
        let (path, body) = (path(number), bodies[number].clone());
        async move { client.expect(201, Method::POST, &path, body).await.map(drop) }
    };
    requests(address, 16, count, send).await?;
    Ok(client)
}

/// The collection of a policy.
fn path(index: usize) -> String {
    format!("/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies", team(index))
}

/// Changes a policy, and returns the milliseconds until its conditions arrive.
async fn changed(client: &Client, lines: &mut Lines, index: usize) -> Outcome<f64> {
    let body = json!({"spec": {"egress": [{"ports": [{"protocol": "TCP", "port": 1000, "endPort": 2000}]}]}});
    let path = format!("{}/policy-{index}", path(index));
    let start = Instant::now();
    client.expect(200, Method::PATCH, &path, body.to_string().into()).await?;
    let object = tokio::time::timeout(PATIENCE, lines.reported(2)).await??;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    if object["metadata"]["name"] != format!("policy-{index}") {
        return Err(
            format!("conditions of {} came instead of policy-{index}", object["metadata"]["name"]).into()
        );
    }
    Ok(millis)
}
