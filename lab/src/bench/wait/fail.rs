//! Latency from a failure to the exit.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::bench::{Bar, Bench, Setting, Started, Written, on, progress, timed_out};
use super::objects::{Failure, object};
use crate::Outcome;
use crate::bench::waiters::{Tool, Waited};
use crate::measure::{Rounds, Table, figure};

impl Bench {
    /// From a failure to an exit that reports it.
    pub(super) fn fail(&mut self) -> Outcome<Vec<Bar>> {
        let plan = self.plan;
        self.page.line(&format!("### From a failure to an exit other than 0{}", on(self.kind)));
        self.page.line(&format!(
            "In ms, median (worst) of {} rounds. Each tool has {} seconds to exit. By default, `settled wait` gives image and crash failures a \
             grace period; \"without grace\" is with `--grace image=0s` or `--grace crash=0s`. Tools that do not exit in time run once more \
             with {} seconds; these results are in seconds.",
            plan.rounds,
            plan.failure_limit.as_secs(),
            plan.patience.as_secs(),
        ));
        let mut table = Table::new([
            "failure",
            "settled wait",
            "without grace",
            "kubectl wait",
            "rollout status",
            "helm --wait",
        ]);
        let (mut rows, mut late) = (Vec::new(), Vec::new());
        for failure in Failure::ALL {
            progress(failure.name());
            let kind = failure.kind();
            let mut cells = Vec::new();
            let mut unnoticed = Vec::new();
            for (at, (tool, more)) in [
                (Tool::Settled, &[][..]),
                (Tool::Settled, failure.without_grace()),
                (Tool::KubectlWait, &[]),
                (Tool::RolloutStatus, &[]),
                (Tool::Helm, &[]),
            ]
            .into_iter()
            .enumerate()
            {
                if !self.tools.contains(&tool) || !tool.knows(kind) {
                    cells.push("-".to_owned());
                    continue;
                }
                let mut rounds = Rounds::default();
                for _ in 0..plan.rounds {
                    let limit = plan.failure_limit;
                    let setting = Setting { kind, count: 1, limit, more, ..Setting::default() };
                    match self.fail_once(tool, failure, &setting)? {
                        Some(took) => rounds.push(took),
                        None => break,
                    }
                }
                cells.push(match rounds.len() {
                    0 => {
                        unnoticed.push((failure, at, tool, more));
                        format!("not in {} s", plan.failure_limit.as_secs())
                    }
                    _ => format!("{} ({})", figure(rounds.median()), figure(rounds.percentile(99))),
                });
            }
            rows.push((failure, cells));
            late.extend(unnoticed);
        }
        for (failure, at, cell) in self.fail_at_last(&late)? {
            if let Some((_, cells)) = rows.iter_mut().find(|(row, _)| *row == failure) {
                cells[at] = cell;
            }
        }
        for (failure, cells) in rows {
            let [a, b, c, d, e] = <[String; 5]>::try_from(cells).unwrap_or_default();
            table.row([failure.name().to_owned(), a, b, c, d, e]);
        }
        self.page.table(&table);
        Ok(vec![])
    }

    /// Repeats all tools that have not detected a failure, concurrently, with a longer timeout.
    fn fail_at_last(
        &mut self,
        unnoticed: &[(Failure, usize, Tool, &'static [&'static str])],
    ) -> Outcome<Vec<(Failure, usize, String)>> {
        let limit = self.plan.patience;
        if limit.is_zero() {
            return Ok(vec![]);
        }
        let mut running = Vec::new();
        for &(failure, at, tool, more) in unnoticed {
            let setting = Setting { kind: failure.kind(), count: 1, limit, more, ..Setting::default() };
            let started = self.start(tool, &setting)?;
            let written = self.write_failure(failure, &started)?;
            running.push((failure, at, tool, started, written));
        }
        let mut cells = Vec::new();
        for (failure, at, tool, mut started, written) in running {
            let ended = started.waiter.ended(limit + Duration::from_secs(10));
            let ended = ended.ok_or_else(|| format!("{} does not end", tool.name()))?;
            cells.push((
                failure,
                at,
                if timed_out(tool, ended, &started) {
                    format!("not in {} s", limit.as_secs())
                } else {
                    format!("{} s", figure(written.until(ended) / 1e3))
                },
            ));
        }
        Ok(cells)
    }

    /// Writes a failure to the status of the target, or of its Pod.
    fn write_failure(&mut self, failure: Failure, started: &Started) -> Outcome<Written> {
        let (path, names) = if failure == Failure::PodOfADeployment {
            self.generated(started)?
        } else {
            (started.path.clone(), started.names.clone())
        };
        self.write(&path, &names, &failure.status())
    }

    /// Milliseconds from the failure to the exit; `None` if the tool times out.
    fn fail_once(&mut self, tool: Tool, failure: Failure, setting: &Setting<'_>) -> Outcome<Option<f64>> {
        let mut started = self.start(tool, setting)?;
        let written = self.write_failure(failure, &started)?;
        let ended = started.waiter.ended(setting.limit + Duration::from_secs(10));
        let ended = ended.ok_or_else(|| format!("{} does not end", tool.name()))?;
        if ended.code == Some(0) {
            return Err(format!(
                "{} takes a failure for success: {}",
                tool.name(),
                started.waiter.last_words()
            )
            .into());
        }
        let timed_out = timed_out(tool, ended, &started);
        if timed_out && !setting.more.is_empty() {
            println!("{} noticed no failure, and says:\n{}", tool.name(), started.waiter.said());
        }
        Ok((!timed_out).then(|| written.until(ended)))
    }

    /// The objects of a Deployment's controllers: a ReplicaSet, and a Pod, whose name is returned.
    fn generated(&self, started: &Started) -> Outcome<(String, Vec<String>)> {
        let name = started.names.first().ok_or("there is no Deployment")?;
        let uid = |path: String| -> Outcome<String> {
            let answer = self.runtime.block_on(self.client.expect(200, Method::GET, &path, Bytes::new()))?;
            let object: Value = serde_json::from_slice(&answer.body)?;
            Ok(object.pointer("/metadata/uid").and_then(Value::as_str).ok_or("no uid")?.to_owned())
        };
        let owned = |api: &str, kind: &str, uid: &str| json!([{"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
        let owner = owned("apps/v1", "Deployment", &uid(format!("{}/{name}", started.path))?);
        let mut set: Value = serde_json::from_slice(&object(Waited::Deployments, name, None, 0))?;
        set["kind"] = json!("ReplicaSet");
        set["metadata"]["ownerReferences"] = owner;
        let labels = set["spec"]["template"]["metadata"]["labels"].clone();
        set["metadata"]["labels"] = labels.clone();
        let sets = format!("/apis/apps/v1/namespaces/{}/replicasets", started.namespace);
        self.create(&sets, vec![set.to_string().into()])?;
        let owner = owned("apps/v1", "ReplicaSet", &uid(format!("{sets}/{name}"))?);
        let mut pod: Value = serde_json::from_slice(&object(Waited::Pods, name, None, 0))?;
        pod["metadata"]["ownerReferences"] = owner;
        pod["metadata"]["labels"] = labels;
        let pods = Waited::Pods.path(&started.namespace);
        self.create(&pods, vec![pod.to_string().into()])?;
        let waiting = json!({
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1,
            "conditions": [
                {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
                {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"},
            ],
        });
        self.write(&started.path, &started.names, &waiting)?;
        self.write(
            &sets,
            &started.names,
            &json!({"observedGeneration": 1, "replicas": 1, "fullyLabeledReplicas": 1}),
        )?;
        Ok((pods, started.names.clone()))
    }
}
