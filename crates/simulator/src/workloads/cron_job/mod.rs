//! CronJobs: Jobs at times of a schedule (`pkg/controller/cronjob` upstream).

mod due;
mod time_zone;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PropagationPolicy;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;
use settled_go::cron::{Schedule, split_time_zone};

use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::workloads::job::finished;

/// The annotation of a Job with its time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Reads a schedule; one with a time zone before it, which servers refuse, is an error.
fn parse(text: &str) -> Result<Schedule, String> {
    match split_time_zone(text) {
        (Some(_), _) => Err("time zones belong into spec.timeZone".to_owned()),
        (None, text) => Schedule::parse(text).map_err(|error| error.to_string()),
    }
}

/// The controller of CronJobs.
pub(crate) struct CronJobs;

impl Controller for CronJobs {
    const NAME: &'static str = "cronjob-controller";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::CronJob(change) => vec![change.key.clone()],
            AnyChange::Job(change) => {
                let jobs = change.new.iter().chain(&change.old);
                let mut keys: Vec<_> =
                    jobs.filter_map(|job| meta::controller_key(&**job, "CronJob")).collect();
                keys.dedup();
                keys
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(cron_job) = context.informers.cron_jobs.get(key) else { return Ok(Next::AwaitChange) };
        let spec = cron_job.spec.clone();
        let jobs = context.informers.controlled::<Job>(meta::uid(&*cron_job));
        let now = context.now();
        let mut sync = Sync { context, key, cron_job: CronJob::clone(&cron_job), spec, jobs, now };
        let next = sync.run().await;
        sync.clean_up().await?;
        let status = sync.status();
        status.active = status.active.take().filter(|active| !active.is_empty());
        if sync.cron_job.status.clone().unwrap_or_default() != cron_job.status.clone().unwrap_or_default() {
            context.update_status(key, &sync.cron_job).await?;
        }
        Ok(next?.map_or(Next::AwaitChange, Next::RequeueAfter))
    }
}

/// One reconcile of a CronJob.
struct Sync<'a> {
    context: &'a Context,
    key: &'a ObjectKey,
    cron_job: CronJob,
    spec: CronJobSpec,
    jobs: Vec<Arc<Job>>,
    now: Timestamp,
}

impl Sync<'_> {
    fn status(&mut self) -> &mut CronJobStatus {
        self.cron_job.status.get_or_insert_default()
    }

    fn event(&self, type_: EventType, reason: &str, note: String) {
        self.context.event(&self.cron_job, type_, reason, reason, note);
    }

    fn is_active(&self, uid: &str) -> bool {
        let mut active = self.cron_job.status.iter().flat_map(|status| status.active.iter().flatten());
        active.any(|job| job.uid.as_deref() == Some(uid))
    }

    fn remove_active(&mut self, uid: &str) {
        if let Some(active) = &mut self.status().active {
            active.retain(|job| job.uid.as_deref() != Some(uid));
        }
    }

    /// Brings the status up to date, and creates a Job if one is due: when the next one is.
    async fn run(&mut self) -> Result<Option<Duration>, Error> {
        self.observe();
        if meta::is_deleting(&self.cron_job) {
            return Ok(None);
        }
        let zone = match self.spec.time_zone.as_deref() {
            None | Some("" | "UTC") => TimeZone::UTC,
            Some(name) => match time_zone::zone(name) {
                Some(zone) => zone,
                None => {
                    let note = format!("invalid timeZone: {name:?}: unknown time zone {name}");
                    self.event(EventType::Warning, "UnknownTimeZone", note);
                    return Ok(None);
                }
            },
        };
        if self.spec.suspend == Some(true) {
            return Ok(None);
        }
        let schedule = match parse(&self.spec.schedule) {
            Ok(schedule) => schedule,
            Err(error) => {
                let note = format!("unparseable schedule: {:?} : {error}", self.spec.schedule);
                self.event(EventType::Warning, "UnparseableSchedule", note);
                return Ok(None);
            }
        };
        let due = due::Due { schedule: &schedule, zone: &zone, earliest: self.earliest(), now: self.now };
        let deadline = self.spec.starting_deadline_seconds;
        let next = due.until_next();
        let missed = due.most_recent(deadline);
        let Some(time) = missed.time else { return Ok(next) };
        if missed.is_many {
            let note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.event(EventType::Warning, "TooManyMissedTimes", note.to_owned());
        }
        if deadline.is_some_and(|seconds| time.as_second().saturating_add(seconds) < self.now.as_second()) {
            let text = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
            self.event(
                EventType::Warning,
                "MissSchedule",
                format!("Missed scheduled time to start a job: {text}"),
            );
            return Ok(next);
        }
        let name = format!("{}-{}", self.key.name, time.as_second() / 60);
        let status = self.cron_job.status.clone().unwrap_or_default();
        let active = status.active.unwrap_or_default();
        let is_done = status.last_schedule_time.is_some_and(|last| last.0 == time);
        if is_done || active.iter().any(|job| job.name.as_deref() == Some(&name)) {
            return Ok(next);
        }
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let note =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.event(EventType::Normal, "JobAlreadyActive", note.to_owned());
                return Ok(next);
            }
            Some("Replace") => {
                for job in active {
                    let key = ObjectKey::new(&self.key.namespace, job.name.as_deref().unwrap_or_default());
                    match self.context.informers.jobs.get(&key) {
                        Some(job) => self.delete(&job).await?,
                        None => self.remove_active(job.uid.as_deref().unwrap_or_default()),
                    }
                }
            }
            _ => {}
        }
        self.create(name, time, &zone).await?;
        Ok(next)
    }

    /// From when on schedules count.
    fn earliest(&self) -> Timestamp {
        let last = self.cron_job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
        let created = self.cron_job.metadata.creation_timestamp.as_ref();
        last.or(created).map_or(self.now, |time| time.0)
    }

    /// What became of the Jobs.
    fn observe(&mut self) {
        for job in self.jobs.clone() {
            let (uid, name) = (meta::uid(&*job), meta::name(&*job));
            let Some(condition) = finished(&job) else {
                if !self.is_active(uid) {
                    let note = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.event(EventType::Warning, "UnexpectedJob", note);
                }
                continue;
            };
            if self.is_active(uid) {
                self.remove_active(uid);
                let note = format!("Saw completed job: {name}, condition: {}", condition.type_);
                self.event(EventType::Normal, "SawCompletedJob", note);
            }
            let completed = job.status.as_ref().and_then(|status| status.completion_time.as_ref());
            if let Some(Time(completed)) = completed.filter(|_| condition.type_ == "Complete") {
                let last = &mut self.status().last_successful_time;
                if last.as_ref().is_none_or(|last| last.0 < *completed) {
                    *last = Some(Time(*completed));
                }
            }
        }
        for active in self.cron_job.status.clone().unwrap_or_default().active.into_iter().flatten() {
            let uid = active.uid.unwrap_or_default();
            if !self.jobs.iter().any(|job| meta::uid(&**job) == uid) {
                let note = format!("Active job went missing: {}", active.name.unwrap_or_default());
                self.event(EventType::Normal, "MissingJob", note);
                self.remove_active(&uid);
            }
        }
    }

    async fn create(&mut self, name: String, time: Timestamp, zone: &TimeZone) -> Result<(), Error> {
        let given = self.spec.job_template.metadata.clone().unwrap_or_default();
        let mut annotations = given.annotations.unwrap_or_default();
        let text = time.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        annotations.insert(SCHEDULED.to_owned(), text.replace("+00:00", "Z"));
        let job = Job {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: self.cron_job.metadata.namespace.clone(),
                labels: given.labels,
                annotations: Some(annotations),
                owner_references: Some(vec![meta::controller_reference(&self.cron_job)]),
                ..ObjectMeta::default()
            },
            spec: self.spec.job_template.spec.clone(),
            status: None,
        };
        let created = match self.context.create(self.key, &job).await {
            Ok(created) => {
                self.event(EventType::Normal, "SuccessfulCreate", format!("Created job {name}"));
                created
            }
            Err(error) if Error::is_namespace_terminating(&error) => return Ok(()),
            Err(error) if Error::is_code(&error, 409) => {
                // Created before a restart, or by somebody else.
                let exists: Job = self.context.fresh(&job).await?;
                let is_own =
                    meta::controller(&exists).is_some_and(|owner| owner.uid == meta::uid(&self.cron_job));
                if !is_own || self.is_active(meta::uid(&exists)) {
                    return Ok(());
                }
                exists
            }
            Err(error) => {
                let note = format!("Error creating job: {}", Error::text(&error));
                self.event(EventType::Warning, "FailedCreate", note);
                return Err(error.into());
            }
        };
        let mut reference = meta::reference(&created);
        reference.resource_version.clone_from(&created.metadata.resource_version);
        let status = self.status();
        status.active.get_or_insert_default().push(reference);
        status.last_schedule_time = Some(Time(time));
        Ok(())
    }

    async fn delete(&mut self, job: &Job) -> Result<(), Error> {
        let name = meta::name(job);
        match self.context.delete_propagating(self.key, job, PropagationPolicy::Background).await {
            Ok(_) => {
                self.remove_active(meta::uid(job));
                self.event(EventType::Normal, "SuccessfulDelete", format!("Deleted job {name}"));
                Ok(())
            }
            Err(error) => {
                let note = format!("Deleted job: {}", Error::text(&error));
                self.event(EventType::Warning, "FailedDelete", note);
                Err(error.into())
            }
        }
    }

    /// Deletes the oldest finished Jobs beyond the limits.
    async fn clean_up(&mut self) -> Result<(), Error> {
        let limits = [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ];
        for (type_, limit) in limits {
            let Some(limit) = limit else { continue };
            let is_of_type =
                |job: &&Arc<Job>| finished(job).is_some_and(|condition| condition.type_ == type_);
            let mut jobs: Vec<_> = self.jobs.iter().filter(is_of_type).cloned().collect();
            jobs.sort_by_key(|job| {
                let start =
                    job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
                (start.is_none(), start, meta::name(&**job).to_owned())
            });
            let excess = jobs.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
            for job in jobs.into_iter().take(excess).filter(|job| !meta::is_deleting(&**job)) {
                self.delete(&job).await?;
            }
        }
        Ok(())
    }
}
