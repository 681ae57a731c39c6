//! What a log shows of reconciles: a span for each, with its object, and an event for what fails.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use settled_controller::queue::{Backoff, Queue};
use settled_controller::worker::{self, Next};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The events of one thread, as `LEVEL spans: message field=value`.
struct Log {
    thread: ThreadId,
    ids: AtomicU64,
    spans: Mutex<HashMap<u64, String>>,
    entered: Mutex<Vec<u64>>,
    lines: Arc<Mutex<Vec<String>>>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let separator = if self.0.is_empty() { "" } else { " " };
        match field.name() {
            "message" => write!(self.0, "{separator}{value:?}"),
            name => write!(self.0, "{separator}{name}={value:?}"),
        }
        .unwrap();
    }
}

impl Log {
    fn is_own(&self) -> bool {
        thread::current().id() == self.thread
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        if self.is_own() {
            let mut fields = Fields(String::new());
            span.record(&mut fields);
            self.spans.lock().unwrap().insert(id, format!("{}{{{}}}", span.metadata().name(), fields.0));
        }
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if self.is_own() {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            let spans = self.spans.lock().unwrap();
            let entered = self.entered.lock().unwrap();
            let entered: Vec<&str> = entered.iter().filter_map(|id| Some(spans.get(id)?.as_str())).collect();
            let line = format!("{} {}: {}", event.metadata().level(), entered.join(" "), fields.0);
            self.lines.lock().unwrap().push(line);
        }
    }

    fn enter(&self, span: &Id) {
        if self.is_own() {
            self.entered.lock().unwrap().push(span.into_u64());
        }
    }

    fn exit(&self, span: &Id) {
        if self.is_own() {
            let mut entered = self.entered.lock().unwrap();
            let last = entered.iter().rposition(|id| *id == span.into_u64());
            last.map(|index| entered.remove(index));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_is_a_span_and_its_failure_an_event() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    // For all threads: with a subscriber of its own, a callsite that another test's thread meets first would be off for good.
    let log = Log {
        thread: thread::current().id(),
        ids: AtomicU64::new(0),
        spans: Mutex::default(),
        entered: Mutex::default(),
        lines: Arc::clone(&lines),
    };
    tracing::subscriber::set_global_default(log).unwrap();

    let queue = Queue::new(Backoff { first: Duration::from_secs(1), max: Duration::from_secs(60) });
    for name in ["good", "poison", "panic"] {
        queue.add(name, 0);
    }
    let reconcile = async |name: &'static str| {
        tracing::info!("at work");
        // A panic that is meant: the message is in the output of the test.
        assert!(name != "panic", "a bug in the reconciler");
        if name == "poison" { Err("it never works") } else { Ok(Next::AwaitChange) }
    };
    let shut_down = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        queue.shut_down();
    };
    tokio::join!(worker::run(&queue, 1, None, reconcile), shut_down);
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    let expected = [
        r#"INFO reconcile{object="good"}: at work"#,
        r#"INFO reconcile{object="poison"}: at work"#,
        r#"ERROR reconcile{object="poison"}: failed to reconcile error=it never works took=0ns retry=1s"#,
        r#"INFO reconcile{object="panic"}: at work"#,
        r#"ERROR reconcile{object="panic"}: panicked while reconciling panic="a bug in the reconciler" took=0ns retry=1s"#,
    ];
    assert_eq!(lines, expected);
}
