//! Metrics in the Prometheus text format, under upstream's names.
//!
//! Not `prometheus-client`: it writes OpenMetrics only, where counters have other names than upstream's.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use settled_store::{At, Scope};
use tracing::Span;

use crate::http::fair::Seat;
use crate::http::limits::Gate;
use crate::http::stalled::SharedSeat;
use crate::http::trace;
use crate::request::{Query, RequestInfo};
use crate::state::State;
use crate::version;

/// The upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// More kinds of requests are counted together: CRDs may come and go without an end.
const MAX_SERIES: usize = 20_000;

/// What is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    series: Mutex<HashMap<String, Arc<Series>>>,
}

/// What is counted of one kind of requests.
#[derive(Default)]
struct Series {
    labels: Labels,
    /// How many ended with which code.
    codes: Mutex<Vec<(u16, u64)>>,
    buckets: [AtomicU64; BUCKETS.len()],
    microseconds: AtomicU64,
    /// How many watches run.
    running: AtomicI64,
    events: AtomicU64,
}

/// Labels of a request.
#[derive(Default)]
struct Labels {
    verb: &'static str,
    component: &'static str,
    dry_run: &'static str,
    scope: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

/// A request that runs. It is counted when this goes.
pub(crate) struct Running {
    series: Arc<Series>,
    started: Instant,
    code: u16,
    /// How many events a watch has sent.
    sent: u64,
    seat: SharedSeat,
    /// Ends with it, too.
    span: Span,
}

impl Running {
    /// How the request was answered. It is not over before its body is sent.
    pub(crate) fn answered(&mut self, code: u16) {
        self.code = code;
    }

    /// What it holds until then.
    pub(crate) fn holds(&mut self, seat: Option<Seat>) {
        self.seat = SharedSeat::new(seat);
    }

    /// What it holds, to be given back before.
    pub(crate) fn seat(&self) -> SharedSeat {
        self.seat.clone()
    }

    /// The span of the request, for what happens in it.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Some of a watch is sent: a line an event.
    pub(crate) fn sent(&mut self, chunk: &[u8]) {
        let lines = u64::try_from(memchr::memchr_iter(b'\n', chunk).count()).unwrap_or_default();
        self.sent += lines;
        self.series.events.fetch_add(lines, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let time = self.started.elapsed();
        self.series.ended(self.code, time);
        let events = (self.series.labels.verb == "WATCH").then_some(self.sent);
        trace::response(&self.span, self.code, time, events);
    }
}

impl Series {
    fn ended(&self, code: u16, time: Duration) {
        let seconds = time.as_secs_f64();
        if let Some(bucket) =
            BUCKETS.iter().position(|bound| seconds <= *bound).and_then(|at| self.buckets.get(at))
        {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.microseconds.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::Relaxed);
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        match codes.iter_mut().find(|(other, _)| *other == code) {
            Some((_, count)) => *count += 1,
            None => codes.push((code, 1)),
        }
    }
}

impl Labels {
    fn new(state: &State, info: &RequestInfo, query: &Query, apply: bool) -> Self {
        let mut labels = Self {
            verb: match info.verb {
                "get" => "GET",
                "list" => "LIST",
                "watch" => "WATCH",
                "create" | "post" => "POST",
                "update" | "put" => "PUT",
                "patch" if apply => "APPLY",
                "patch" => "PATCH",
                "delete" => "DELETE",
                "deletecollection" => "DELETECOLLECTION",
                "head" => "HEAD",
                "options" => "OPTIONS",
                _ => "other",
            },
            ..Self::default()
        };
        if !info.is_resource {
            let path = info.path.trim_matches('/');
            let first = path.split('/').next().unwrap_or_default();
            let (component, name) = match first {
                "healthz" | "livez" | "readyz" | "metrics" => ("", format!("/{first}")),
                "openapi" => ("", path.split('/').take(2).collect::<Vec<_>>().join("/")),
                "api" | "apis" | "version" => ("apiserver", first.to_owned()),
                // Anybody can make up paths: they get no series of their own.
                _ => ("", String::new()),
            };
            let known = first != "openapi" || matches!(name.as_str(), "openapi/v3" | "openapi/v2");
            labels.component = component;
            labels.subresource = if known { name } else { String::new() };
            return labels;
        }
        let catalog = state.catalog();
        let Some(definition) = catalog.find(&info.group, &info.version, &info.resource) else {
            return labels;
        };
        labels.component = "apiserver";
        labels.group.clone_from(&definition.names.group);
        labels.version.clone_from(&definition.names.version);
        labels.resource.clone_from(&definition.names.plural);
        if let Some(subresource) = definition.subresource(&info.subresource) {
            labels.subresource.clone_from(&subresource.name);
        }
        labels.scope = match () {
            () if !info.name.is_empty() || info.verb == "create" => "resource",
            () if !info.namespace.is_empty() => "namespace",
            () => "cluster",
        };
        labels.dry_run = if query.get("dryRun").is_empty() { "" } else { "All" };
        labels
    }

    fn key(&self) -> String {
        let Self { verb, component, dry_run, scope, group, version, resource, subresource } = self;
        format!("{verb} {component} {dry_run} {scope} {group} {version} {resource} {subresource}")
    }
}

impl Metrics {
    /// A request begins.
    pub(crate) fn begin(&self, state: &State, info: &RequestInfo, query: &Query, apply: bool) -> Running {
        let labels = Labels::new(state, info, query, apply);
        let key = labels.key();
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let series = match all.get(&key) {
            Some(known) => known.clone(),
            None => {
                let made = Arc::new(Series { labels, ..Series::default() });
                if all.len() < MAX_SERIES {
                    all.insert(key, made.clone());
                }
                made
            }
        };
        drop(all);
        series.running.fetch_add(1, Ordering::Relaxed);
        let (started, span) = (Instant::now(), trace::span(info));
        Running { series, started, code: 499, sent: 0, seat: SharedSeat::default(), span }
    }

    /// `/metrics`.
    pub(crate) fn expose(&self, state: &State, gate: &Gate) -> String {
        let mut text = Text::default();
        let mut all: Vec<(String, Arc<Series>)> = {
            let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
            series.iter().map(|(key, series)| (key.clone(), series.clone())).collect()
        };
        all.sort_by(|one, other| one.0.cmp(&other.0));
        requests(&mut text, &all);
        let (reading, mutating) = gate.running();
        text.head("apiserver_current_inflight_requests", "gauge", "Requests that run now, by kind.");
        text.line("apiserver_current_inflight_requests", &[("request_kind", "mutating")], mutating);
        text.line("apiserver_current_inflight_requests", &[("request_kind", "readOnly")], reading);
        store(&mut text, state);
        text.head("kubernetes_build_info", "gauge", "The version that is followed.");
        let (version, platform) = (version::git_version(), version::platform());
        let labels = [("git_version", version.as_str()), ("platform", platform.as_str())];
        text.line("kubernetes_build_info", &labels, 1);
        process(&mut text);
        text.0
    }
}

/// The format: a head for each name, a line for each value.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text can't fail.
        let _infallible = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Labels hold names of resources and constants: nothing that would have to be escaped.
    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _infallible = write!(self.0, "{open}{label}=\"{value}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _infallible = writeln!(self.0, "{close} {value}");
    }
}

fn requests(text: &mut Text, all: &[(String, Arc<Series>)]) {
    let labels = |series: &Series| {
        let Labels { verb, component, dry_run, scope, group, version, resource, subresource } =
            &series.labels;
        [
            ("component", (*component).to_owned()),
            ("dry_run", (*dry_run).to_owned()),
            ("group", group.clone()),
            ("resource", resource.clone()),
            ("scope", (*scope).to_owned()),
            ("subresource", subresource.clone()),
            ("verb", (*verb).to_owned()),
            ("version", version.clone()),
        ]
    };
    let name = "apiserver_request_total";
    text.head(name, "counter", "Requests that were answered.");
    for (_, series) in all {
        let labels = labels(series);
        let codes = series.codes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (code, count) in codes {
            let code = code.to_string();
            let mut row = vec![("code", code.as_str())];
            row.extend(labels.iter().map(|(label, value)| (*label, value.as_str())));
            text.line(name, &row, count);
        }
    }
    let name = "apiserver_request_duration_seconds";
    text.head(name, "histogram", "How long requests took, until their answers were sent.");
    for (_, series) in all {
        let labels = labels(series);
        let row: Vec<(&str, &str)> = labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
        let total: u64 =
            series.codes.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(_, count)| count).sum();
        if total == 0 {
            continue;
        }
        let mut sum = 0;
        let bucket = format!("{name}_bucket");
        for (bound, count) in BUCKETS.iter().zip(&series.buckets) {
            sum += count.load(Ordering::Relaxed);
            let bound = bound.to_string();
            text.line(&bucket, &[&row[..], &[("le", bound.as_str())]].concat(), sum);
        }
        text.line(&bucket, &[&row[..], &[("le", "+Inf")]].concat(), total.max(sum));
        let seconds = Duration::from_micros(series.microseconds.load(Ordering::Relaxed)).as_secs_f64();
        text.line(&format!("{name}_sum"), &row, seconds);
        text.line(&format!("{name}_count"), &row, total.max(sum));
    }
    let name = "apiserver_longrunning_requests";
    text.head(name, "gauge", "Watches that run now.");
    let watches = || all.iter().filter(|(_, series)| series.labels.verb == "WATCH");
    for (_, series) in watches() {
        let labels = labels(series);
        let row: Vec<(&str, &str)> = labels
            .iter()
            .filter(|(label, _)| *label != "dry_run")
            .map(|(label, value)| (*label, value.as_str()))
            .collect();
        text.line(name, &row, series.running.load(Ordering::Relaxed));
    }
    let name = "apiserver_watch_events_total";
    text.head(name, "counter", "Events that were sent to watches.");
    let mut events: std::collections::BTreeMap<[&str; 3], u64> = std::collections::BTreeMap::new();
    for (_, series) in watches() {
        let Labels { group, resource, version, .. } = &series.labels;
        *events.entry([group, resource, version]).or_default() += series.events.load(Ordering::Relaxed);
    }
    for ([group, resource, version], count) in events {
        text.line(name, &[("group", group), ("resource", resource), ("version", version)], count);
    }
}

fn store(text: &mut Text, state: &State) {
    let catalog = state.catalog();
    let counts: Vec<(&str, &str, usize)> = catalog
        .preferred()
        .iter()
        .filter(|definition| definition.verbs.contains(&"list"))
        .filter_map(|definition| {
            let snapshot = state.store.snapshot(&definition.resource, At::Latest).ok()?;
            Some((
                definition.names.group.as_str(),
                definition.names.plural.as_str(),
                snapshot.len(&Scope::All),
            ))
        })
        .collect();
    let name = "apiserver_storage_objects";
    text.head(name, "gauge", "Objects that are stored, by resource.");
    for (group, resource, count) in &counts {
        let dot = if group.is_empty() { "" } else { "." };
        text.line(name, &[("resource", &format!("{resource}{dot}{group}"))], count);
    }
    let name = "apiserver_resource_objects";
    text.head(name, "gauge", "Objects that are stored, by group and resource.");
    for (group, resource, count) in &counts {
        text.line(name, &[("group", group), ("resource", resource)], count);
    }
    let (stats, queue) = (state.store.stats(), state.store.queue_stats());
    let of = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    let rows: [(&str, &str, &str, u64); 12] = [
        ("settled_store_revision", "gauge", "The newest revision.", stats.current_revision.0),
        (
            "settled_store_compact_revision",
            "gauge",
            "The oldest revision that can be read.",
            stats.compact_revision.0,
        ),
        ("settled_store_live_bytes", "gauge", "Bytes of keys and values.", of(stats.live_bytes)),
        (
            "settled_store_history_events",
            "gauge",
            "Events that watches can begin with.",
            of(stats.history_events),
        ),
        ("settled_store_watchers", "gauge", "Watchers of the store.", of(stats.watchers)),
        ("settled_store_waiting_writes", "gauge", "Writes that wait.", of(queue.waiting_writes)),
        ("settled_store_writes_total", "counter", "Writes that were applied.", stats.written),
        ("settled_store_conflicts_total", "counter", "Writes that were conflicts.", stats.conflicts),
        (
            "settled_store_watchers_closed_total",
            "counter",
            "Watchers that were too slow.",
            stats.watchers_closed,
        ),
        ("settled_store_batches_total", "counter", "Batches that were stored.", queue.batches),
        (
            "settled_store_failed_batches_total",
            "counter",
            "Batches that could not be stored.",
            queue.failed_batches,
        ),
        (
            "settled_store_dropped_bytes",
            "gauge",
            "Bytes of an unfinished write that the start of this process dropped.",
            queue.dropped.map_or(0, |dropped| dropped.bytes),
        ),
    ];
    for (name, kind, help, value) in rows {
        text.head(name, kind, help);
        text.line(name, &[], value);
    }
}

/// Process metrics, on Linux only.
fn process(text: &mut Text) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
    };
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the process is in brackets and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    // Linux counts in hundredths of a second for programs, whatever it does itself.
    let cpu = field(11).zip(field(12)).map(|(user, system)| (user + system) / 100.0);
    let boot = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let boot: Option<f64> =
        boot.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|time| time.trim().parse().ok());
    let started = field(19).zip(boot).map(|(ticks, boot)| boot + ticks / 100.0);
    let files = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count());
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let max_files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let rows: [(&str, &str, &str, Option<String>); 6] = [
        ("process_cpu_seconds_total", "counter", "CPU time of the process.", cpu.map(|it| it.to_string())),
        ("process_max_fds", "gauge", "Files that may be open.", max_files.map(|it| it.to_string())),
        ("process_open_fds", "gauge", "Files that are open.", files.map(|it| it.to_string())),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Memory that is in use.",
            bytes("VmRSS:").map(|it| it.to_string()),
        ),
        ("process_start_time_seconds", "gauge", "When the process began.", started.map(|it| it.to_string())),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Memory that is mapped.",
            bytes("VmSize:").map(|it| it.to_string()),
        ),
    ];
    for (name, kind, help, value) in rows {
        if let Some(value) = value {
            text.head(name, kind, help);
            text.line(name, &[], value);
        }
    }
}
