//! The spans and events of a stream and of its requests, as a subscriber sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use jiff::Timestamp;
use tokio::sync::mpsc::channel;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::cluster::Cluster;
use crate::stream::{Decode, Scope, Update, follow};

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

/// An event: the names of its spans from the outermost on, and the fields of all of them and its own.
#[derive(Debug)]
struct Seen {
    level: String,
    spans: String,
    fields: BTreeMap<&'static str, String>,
}

/// The events of one thread: those of other tests are not looked at.
#[derive(Clone)]
struct Log {
    seen: Arc<Mutex<Vec<Seen>>>,
    thread: ThreadId,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if thread::current().id() != self.thread || !event.metadata().target().starts_with("settled_") {
            return;
        }
        let (mut fields, mut spans) = (Fields::default(), Vec::new());
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            spans.push(span.name());
            fields.0.extend(span.extensions().get::<Fields>().cloned().unwrap_or_default().0);
        }
        event.record(&mut fields);
        let level = event.metadata().level().to_string();
        self.seen.lock().unwrap().push(Seen { level, spans: spans.join(" "), fields: fields.0 });
    }
}

impl Log {
    /// The only event with this message in these spans, as `LEVEL field=value …` with the fields that are named.
    fn line(&self, spans: &str, message: &str, names: &[&str]) -> String {
        let all = self.seen.lock().unwrap();
        let is_it = |seen: &&Seen| seen.spans == spans && seen.fields["message"] == message;
        let found: Vec<&Seen> = all.iter().filter(is_it).collect();
        let [seen] = found[..] else { panic!("{} of {message:?} in {spans:?}: {all:#?}", found.len()) };
        let fields = names.iter().map(|name| format!(" {name}={}", seen.fields.get(name).map_or("-", |v| v)));
        seen.level.clone() + &fields.collect::<String>()
    }
}

/// Keeps nothing of an object but that it is there.
struct Nothing;

impl Decode for Nothing {
    type Item = ();

    fn decode(&self, _object: &[u8], _now: Timestamp) -> Option<((), u64)> {
        Some(((), 1))
    }
}

#[tokio::test]
async fn a_watch_is_a_span_and_so_is_each_of_its_requests() {
    let log = Log { seen: Arc::default(), thread: thread::current().id() };
    // For all threads: with one of its own, a callsite that another test's thread meets first would be off for good.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(log.clone())).unwrap();
    let server = settled_apiserver::Server::in_memory().await.unwrap();
    let cluster = Cluster::new(server.client());
    let resources = cluster.resources().await.unwrap();
    let namespaces = Arc::clone(resources.named("namespaces").unwrap());

    let (out, mut messages) = channel(16);
    let stream = tokio::spawn(follow(cluster.clone(), Scope::new(&namespaces, None), Nothing, 1_u32, out));
    let is_synced = |update: &Update<()>| matches!(update, Update::Synced);
    while !messages.recv().await.unwrap().updates.iter().any(is_synced) {}
    drop(messages);
    stream.await.unwrap();
    // The server notices that nobody reads the watch any more.
    server.stopped().await;

    assert_eq!(log.line("", "connected", &[]), "INFO");
    let in_watch = "stream watch";
    assert_eq!(
        log.line(
            "stream watch request",
            "response",
            &["resource", "namespace", "initial_list", "verb", "method", "code"]
        ),
        "DEBUG resource=namespaces namespace=- initial_list=true verb=watch method=GET code=200"
    );
    assert_eq!(log.line(in_watch, "listed", &["resource", "objects"]), "INFO resource=namespaces objects=4");
    // Four objects, and the bookmark behind them.
    assert_eq!(
        log.line(in_watch, "watch ended", &["initial_list", "resource_version", "events", "reason"]),
        "DEBUG initial_list=true resource_version=- events=5 reason=no receiver"
    );

    // A list that may not be read.
    let server = settled_apiserver::Server::in_memory().await.unwrap();
    let nobody = Cluster::new(server.client_as(&settled_apiserver::auth::User::new("nobody", [""; 0])));
    let (out, mut messages) = channel(16);
    tokio::spawn(follow(nobody, Scope::new(&namespaces, None), Nothing, 2_u32, out)).await.unwrap();
    assert!(matches!(messages.recv().await.unwrap().updates[..], [Update::Restart, Update::Forbidden(..)]));
    assert_eq!(
        log.line("stream", "forbidden; the stream ends", &["resource", "verb"]),
        "WARN resource=namespaces verb=list"
    );
}
