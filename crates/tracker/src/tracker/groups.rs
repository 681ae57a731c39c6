//! Groups of targets that aren't done for the same reason, of which only the first keeps its causes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kstatus::FailureClass;

use crate::id::ObjectId;
use crate::report::TargetReport;

/// How many groups there may be: where each target has a reason of its own, nothing can be shared.
const GROUPS_MAX: usize = 1000;

/// The first target of each group, by what the group has in common.
#[derive(Default)]
pub(super) struct Groups {
    first: HashMap<String, ObjectId>,
}

impl Groups {
    /// Leaves out the causes of a target if one before has the same.
    pub(super) fn share_causes(&mut self, target: &mut TargetReport) {
        let Some(key) = key(target) else { return };
        let is_full = self.first.len() >= GROUPS_MAX;
        match self.first.entry(key) {
            Entry::Occupied(first) => {
                // What a line about it says.
                target.since = target.root_cause().map_or(target.since, |step| step.since);
                target.causes = Vec::new();
                target.same_as = Some(first.get().clone());
            }
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(place) => {
                place.insert(target.object.clone());
            }
        }
    }
}

/// What targets with the same reason have in common. None where the causes are about other objects, which they may explain as well,
/// or have evidence of their own.
fn key(target: &TargetReport) -> Option<String> {
    let [cause] = target.causes.as_slice() else { return None };
    let [step] = cause.chain.as_slice() else { return None };
    if !cause.events.is_empty() || !cause.logs.is_empty() {
        return None;
    }
    // Messages about crashes count restarts.
    let message = |text| if step.class == Some(FailureClass::Crash) { "" } else { text };
    let TargetReport { object, state, verdict, fails_in, .. } = target;
    Some(format!(
        "{state:?} {} {} {} {} {:?} {} {} {} {} {}",
        fails_in.is_some(),
        object.group,
        object.kind,
        step.status,
        step.class,
        step.reason,
        message(&step.summary),
        verdict.status,
        verdict.reason,
        message(&verdict.message),
    ))
}
