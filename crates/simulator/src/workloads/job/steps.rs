//! Steps of a Job that is not finished: its end, its Pods, and what is counted.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use super::sync::{SUCCESS_MET, Sync, condition};
use super::{manage, track};
use crate::controller::{Context, Error};
use crate::meta;
use crate::workloads::claim;

/// Brings a Job that is not finished closer to its end.
pub(super) async fn run(context: &Context, key: &ObjectKey, job: &Job) -> Result<Next, Error> {
    let Some(spec) = job.spec.clone() else { return Ok(Next::AwaitChange) };
    let Some(selector) = spec.selector.clone() else { return Ok(Next::AwaitChange) };
    if !matches!(spec.completion_mode.as_deref(), None | Some("NonIndexed" | "Indexed")) {
        let note = "Skipped Job sync because completion mode is unknown".to_owned();
        context.event(job, EventType::Warning, "UnknownCompletionMode", "UnknownCompletionMode", note);
        return Ok(Next::AwaitChange);
    }
    let pods = claim::claim(context, key, job, &selector, |_: &Pod| true).await?;
    let mut sync = Sync::new(context, key, job.clone(), spec, pods);
    let managed = sync.decide().await;
    track::run(&mut sync).await?;
    managed?;
    Ok(sync.requeue.map_or(Next::AwaitChange, Next::RequeueAfter))
}

impl Sync<'_> {
    /// Whether the Job is finished; if not, Pods are created and deleted.
    async fn decide(&mut self) -> Result<(), Error> {
        self.find_end();
        let mut active = meta::count(self.active.len());
        let mut result = Ok(());
        if self.finished.is_some() {
            let deleted = manage::delete_active(self).await;
            if deleted.count != active {
                self.finished = None;
            }
            active -= deleted.count;
            self.terminating += deleted.count;
            self.ready -= deleted.ready;
            result = deleted.result;
        } else {
            let is_managed = !meta::is_deleting(&self.job);
            if is_managed {
                (active, result) = manage::run(self).await;
            }
            let is_complete = match self.spec.completions {
                None => self.succeeded > 0 && active == 0,
                Some(completions) => self.succeeded >= completions && active == 0,
            };
            if is_complete {
                let message = "Reached expected number of succeeded pods".to_owned();
                self.finished = Some(condition(SUCCESS_MET, "True", "CompletionsReached", message, self.now));
            } else if is_managed {
                self.report_suspension();
            }
        }
        let (ready, terminating) = (self.ready, self.terminating);
        let status = self.job.status.get_or_insert_default();
        status.active = meta::non_zero(active);
        status.ready = Some(ready);
        status.terminating = Some(terminating);
        result
    }
}
