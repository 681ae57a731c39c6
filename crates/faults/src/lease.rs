//! Lost Leases: another instance acquires, holds and releases the Lease.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::checks::fencing::{OTHER, Takeover};
use crate::cluster::{ObjectKey, text};
use crate::control::{Control, Writer};
use crate::edits::perform_next;
use crate::request;
use crate::trace::Actor;
use crate::world::World;

/// Duration for which it holds the Lease.
const HELD: Duration = Duration::from_secs(40);
/// Renewal interval.
const RENEWED: Duration = Duration::from_secs(5);

/// Acquires all Leases that have a holder.
pub(crate) async fn take<W: World>(control: &Arc<Control<W>>) {
    let leases: Vec<ObjectKey> = {
        let inner = control.inner();
        let held = |lease: &Value| !["", OTHER].contains(&text(lease, "/spec/holderIdentity"));
        inner
            .cluster
            .objects()
            .filter(|(key, lease)| key.is_lease() && held(lease))
            .map(|(key, _)| key.clone())
            .collect()
    };
    if leases.is_empty() {
        return;
    }
    let since = Instant::now();
    control.inner().takeover = Some(Takeover::new(since, since + HELD));
    for (index, lease) in leases.into_iter().enumerate() {
        control.note(Actor::Other, None, || format!("takes over {lease}"));
        write(control, &lease, json!(OTHER), true).await;
        tokio::spawn(hold(control.clone(), lease, index == 0));
    }
}

/// Renews the Lease until it is released. Meanwhile the next edit is made, on which the controller must not act.
async fn hold<W: World>(control: Arc<Control<W>>, lease: ObjectKey, edits: bool) {
    let begin = Instant::now();
    let mut edits = edits;
    while begin.elapsed() + RENEWED < HELD {
        tokio::time::sleep(RENEWED).await;
        write(&control, &lease, json!(OTHER), false).await;
        if edits && begin.elapsed() > control.options.lease_grace {
            edits = false;
            perform_next(&control).await;
        }
    }
    tokio::time::sleep(RENEWED).await;
    {
        let mut inner = control.inner();
        (inner.takeover, inner.changed_at) = (None, Instant::now());
    }
    control.note(Actor::Other, None, || format!("releases {lease}"));
    write(&control, &lease, Value::Null, false).await;
}

async fn write<W: World>(control: &Control<W>, lease: &ObjectKey, holder: Value, takes: bool) {
    let now = control.now();
    let transitions = {
        let inner = control.inner();
        let known =
            inner.cluster.get(lease).and_then(|lease| lease.pointer("/spec/leaseTransitions")?.as_i64());
        known.unwrap_or_default() + i64::from(takes)
    };
    let time = format!("{now:.6}");
    let mut spec = json!({"holderIdentity": holder, "renewTime": time, "leaseTransitions": transitions});
    if takes {
        spec["acquireTime"] = json!(time);
    }
    let path = request::path(lease, "v1", "");
    request::patch(&control.server, &path, &json!({"spec": spec})).await;
    control.observe(Writer::Other(Actor::Other));
}
