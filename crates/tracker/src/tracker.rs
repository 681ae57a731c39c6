//! The driver: starts streams, passes what they report to the graph and the policy, and reports what comes of it.

mod discovery;
mod ending;
mod groups;
mod index;
mod live_logs;
mod log;
mod missing;
mod overview;
mod reading;
mod recovery;
mod related;
mod reports;
mod request;
mod state;
mod streams;
mod targets;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use settled_watch::{Cluster, RequestError, Resources, no_answer};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;

use crate::condition::WaitCondition;
use crate::evaluator::Evaluator;
use crate::events::{EvidenceOptions, FetchedEvidence};
use crate::evidence::evidence;
use crate::explain;
use crate::graph::Graph;
use crate::id::{ObjectId, POLICY_REPORT_GROUP, POLICY_REPORT_KIND, Uid};
use crate::ids::{IdVec, StreamId, TargetId};
use crate::limits::{Limits, Missing};
use crate::logs::{LogFollower, LogMessage};
use crate::observation::{Evidence, Now, Observation, Reported};
use crate::policy::Policy;
use crate::record::Record;
use crate::report::{Event, Notice, Outcome, Report, State};
use crate::stream::Message;
use crate::target::{KindName, Target};
use crate::unmatched::Unmatched;
use index::{TargetIndex, Targets};
pub use overview::Overview;
use reading::Patience;
pub use request::{Causes, EvaluationOptions, Request, StartError};
use state::{Answer, Covered, Denied, Down, Followed, Phase, Queued, Role, Stream, Urgency};
use streams::is_of_reports;

/// How long to wait before a server is asked again that did not answer to the first question.
const START_BACKOFF: Duration = Duration::from_millis(250);
/// The longest pause between two questions for the kinds there are.
const REDISCOVER_MAX: Duration = Duration::from_secs(5);
/// How long a survey waits for what belongs to objects, once they were read.
const SURVEY_MAX: Duration = Duration::from_secs(10);
/// How long the watch of one kind may be interrupted before the user is notified.
const NOTIFY_AFTER: Duration = Duration::from_secs(5);
/// Of how many targets that are done at most a remark is looked for.
const MAX_ADVISED: usize = 50;

/// Follows targets until the wait for them is over.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use settled_tracker::{Cluster, Event, Outcome, Request, Target, Tracker};
/// # let server = settled_apiserver::Server::in_memory().await?;
///
/// let cluster = Cluster::new(server.client());
/// let request = Request::new([Target::object("namespace", None, "default")]);
/// let mut tracker = Tracker::start(cluster, request).await?;
/// while let Some(event) = tracker.next().await {
///     match event {
///         Event::Target(target) => println!("{} {}", target.object, target.verdict),
///         Event::Finished(report) => assert_eq!(report.outcome, Outcome::Settled),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tracker {
    cluster: Cluster,
    evaluator: Arc<Evaluator>,
    resources: Resources,
    graph: Graph,
    policy: Policy,
    limits: Limits,
    evidence_options: EvidenceOptions,
    /// Which causes the final report has.
    keep_causes: Causes,
    started: Instant,
    /// Boxed: a list of thousands of large elements leaves as much behind when it grows.
    targets: Targets,
    index: TargetIndex,
    /// Targets whose state depends on who uses them.
    claims: Vec<TargetId>,
    streams: IdVec<StreamId, Stream>,
    /// Targets whose kinds the server does not have yet, as they were named.
    unknown: Vec<(TargetId, KindName)>,
    rediscover: Option<(Instant, Duration)>,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    answers: Receiver<Answer>,
    answer_to: Sender<Answer>,
    /// Follows logs, if that is asked for.
    follower: Option<LogFollower>,
    logs: Receiver<LogMessage>,
    batch: Vec<Message>,
    dirty: BTreeSet<TargetId>,
    /// Hashes what was reported of targets.
    fingerprints: RandomState,
    /// The related kinds that are watched.
    covered: HashMap<(String, String), Covered>,
    /// What targets refer to, and which targets do.
    referred: HashMap<ObjectId, BTreeSet<TargetId>>,
    /// The UIDs of referenced objects whose dependents are watched.
    explored: HashSet<Uid>,
    /// Searches for dependents in other groups.
    searches: discovery::Searches,
    evidence: HashMap<(Arc<str>, Arc<str>), Option<Evidence>>,
    events: VecDeque<Queued>,
    notices: Vec<Notice>,
    synced_reported: bool,
    /// How long an answer is waited for.
    patience: Patience,
    /// Since when the connection is lost, if that was reported.
    lost_reported: Option<Instant>,
    silence_reported: bool,
    /// It is looked at once, and nothing ends it.
    surveying: bool,
    missing: missing::Missing,
    prefetch: ending::Prefetch,
    /// What the overview is made of, if one was asked for.
    overview: Option<Overview>,
    /// How it ended.
    ended: Option<Outcome>,
    phase: Phase,
}

impl Drop for Tracker {
    fn drop(&mut self) {
        for stream in self.streams.iter() {
            stream.task.abort();
        }
    }
}

impl Tracker {
    /// Starts to follow: asks which kinds there are, and opens what has to be watched.
    ///
    /// # Errors
    /// The cluster cannot be asked, or it does not have a kind that was named.
    pub fn start(cluster: Cluster, request: Request) -> BoxFuture<'static, Result<Self, StartError>> {
        // Boxed, so that it is compiled here, and not again in each program.
        Box::pin(Self::started(cluster, request))
    }

    async fn started(cluster: Cluster, request: Request) -> Result<Self, StartError> {
        let Request {
            targets,
            conditions,
            limits,
            rules,
            evidence,
            live_logs,
            namespace,
            evaluation,
            causes,
            started,
            request_timeout,
        } = request;
        let started = started.unwrap_or_else(Instant::now);
        let patience = Patience::new(&limits, request_timeout);
        let resources = patience.resources(&cluster, started).await.map_err(StartError::Cluster)?;
        let evaluator = Evaluator::new(rules, conditions.clone())
            .profile(evaluation.profile)
            .assume_current(evaluation.assume_current)
            .require_address(evaluation.require_address);
        let (sender, messages) = mpsc::channel(256);
        let (answer_to, answers) = mpsc::channel(16);
        let (log_to, logs) = mpsc::channel(64);
        let mut tracker = Self {
            evaluator: Arc::new(evaluator),
            resources,
            graph: Graph::default(),
            policy: Policy::new(limits.clone(), conditions),
            limits,
            evidence_options: evidence,
            keep_causes: causes,
            started,
            targets: Targets::default(),
            index: TargetIndex::default(),
            claims: Vec::new(),
            streams: IdVec::default(),
            unknown: Vec::new(),
            rediscover: None,
            messages,
            sender,
            answers,
            answer_to,
            follower: live_logs.then(|| LogFollower::new(cluster.clone(), log_to)),
            logs,
            batch: Vec::new(),
            dirty: BTreeSet::new(),
            fingerprints: RandomState::new(),
            covered: HashMap::new(),
            referred: HashMap::new(),
            explored: HashSet::new(),
            searches: discovery::Searches::default(),
            evidence: HashMap::new(),
            events: VecDeque::new(),
            notices: Vec::new(),
            synced_reported: false,
            patience,
            lost_reported: None,
            silence_reported: false,
            surveying: false,
            missing: missing::Missing::default(),
            prefetch: ending::Prefetch::default(),
            overview: None,
            ended: None,
            phase: Phase::Following,
            cluster,
        };
        let default = namespace.unwrap_or_else(|| tracker.cluster.default_namespace());
        let mut named = Vec::new();
        for target in targets {
            match target {
                Target::Object { kind, namespace, name, min_version } => {
                    let namespace = namespace.unwrap_or_else(|| default.clone());
                    named.extend(tracker.add_object(kind, &namespace, &name, min_version)?);
                }
                Target::Select(selection) => tracker.add_selection(&selection, &default)?,
            }
        }
        // The question how many others there are must not take longer than the wait.
        let by = started + tracker.patience.answer;
        if tokio::time::timeout_at(by, tracker.watch_objects(&named)).await.is_err() {
            let late = no_answer(tracker.patience.answer);
            return Err(StartError::Cluster(RequestError::Transport(late.into())));
        }
        if !tracker.streams.iter().any(|stream| stream.role == Role::Selection) {
            tracker.policy.close();
        }
        if !tracker.unknown.is_empty() {
            tracker.await_kinds();
        }
        Ok(tracker)
    }

    /// The target that is an object.
    fn target_id(&self, object: &ObjectId) -> Option<TargetId> {
        self.index.find(object, &self.targets)
    }

    fn now(&self) -> Now {
        Now { elapsed: self.started.elapsed(), wall: self.cluster.now() }
    }

    /// What happens next; nothing after [`Event::Finished`]. May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.events.pop_front() {
                Some(Queued::Event(event)) => return Some(*event),
                Some(Queued::Target(number)) => {
                    let open = matches!(self.policy.state(number), Some(State::Waiting | State::Failed));
                    let causes = if open { self.causes(number) } else { Vec::new() };
                    match self.report_on(number, self.now(), causes) {
                        Some(report) => return Some(Event::Target(report)),
                        // It is none any more.
                        None => continue,
                    }
                }
                None => {}
            }
            match &self.phase {
                Phase::Over => return None,
                Phase::Looking(outcome, until) => {
                    let outcome = *outcome;
                    if self.all_looked_at() && self.dirty.is_empty() || Instant::now() >= *until {
                        self.conclude(outcome);
                        continue;
                    }
                }
                Phase::Gathering(outcome, until) if Instant::now() >= *until => {
                    self.finish_with_causes(*outcome);
                    continue;
                }
                Phase::Following | Phase::Gathering(..) => {}
            }
            self.step().await;
        }
    }

    /// Follows to the end without reports on changes on the way; nothing if the end was reported already. May be dropped and called again.
    pub async fn finished(&mut self) -> Option<Report> {
        loop {
            self.events.retain(|queued| matches!(queued, Queued::Event(_)));
            if let Event::Finished(report) = self.next().await? {
                return Some(report);
            }
        }
    }

    /// Goes on until everything that explains the targets was seen once, for a look at one moment.
    pub async fn survey(&mut self) {
        self.surveying = true;
        let seen =
            |tracker: &Self| tracker.synced_reported && tracker.all_synced() && tracker.dirty.is_empty();
        let mut until = None;
        while self.phase == Phase::Following && !seen(self) {
            if self.synced_reported {
                until.get_or_insert_with(|| Instant::now() + SURVEY_MAX);
            }
            // Until then, the limit of the first answer holds.
            let by = until.unwrap_or_else(|| self.started + self.patience.answer + SURVEY_MAX);
            if tokio::time::timeout_at(by, self.step()).await.is_err() {
                break;
            }
        }
        if self.synced_reported && self.phase == Phase::Following {
            self.find_missing().await;
        }
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.ended
    }

    /// Waits for something to happen, and takes it in.
    async fn step(&mut self) {
        if self.dirty.is_empty() {
            let wake = self.wake();
            let sleep = async {
                match wake {
                    Some(wake) => tokio::time::sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            let mut batch = std::mem::take(&mut self.batch);
            tokio::select! {
                biased;
                count = self.messages.recv_many(&mut batch, 64) => {
                    debug_assert!(count > 0, "a sender is kept");
                }
                Some(answer) = self.answers.recv() => self.answer(answer),
                Some(message) = self.logs.recv() => self.log(message),
                () = sleep => {}
            }
            for message in batch.drain(..) {
                for update in message.updates {
                    self.update(message.stream, update);
                }
            }
            self.batch = batch;
        }
        self.tick();
    }

    /// When something is to be done although nothing happens.
    fn wake(&self) -> Option<Instant> {
        let policy = self
            .policy
            .wake()
            .filter(|_| self.phase == Phase::Following)
            .and_then(|wake| self.started.checked_add(wake));
        let looking = match &self.phase {
            Phase::Looking(_, until) | Phase::Gathering(_, until) => Some(*until),
            _ => None,
        };
        let kinds = self.rediscover.map(|(at, _)| at);
        let following = self.phase == Phase::Following;
        let check = following.then(|| self.next_check()).flatten();
        let search = self.next_search().filter(|_| following);
        policy.into_iter().chain(looking).chain(kinds).chain(check).chain(search).min()
    }

    /// Does what is due, looks at targets again that something happened to, and ends the wait if it is over.
    fn tick(&mut self) {
        let now = self.now();
        if let Some((at, pause)) = self.rediscover
            && Instant::now() >= at
        {
            let pause = (pause * 2).min(REDISCOVER_MAX);
            self.rediscover = Some((Instant::now() + pause, pause));
            self.discover();
        }
        if self.phase == Phase::Following {
            self.check_connections();
            if self.next_search().is_some_and(|at| at <= Instant::now()) {
                self.search_again(false);
            }
        }
        if self.phase == Phase::Over {
            // Nothing comes after the end.
            self.dirty.clear();
            return;
        }
        self.dirty.extend(self.policy.due(now));
        if self.policy.is_open() && self.selections_synced() {
            self.policy.close();
        }
        let synced = self.synced();
        let first_time = synced && !self.synced_reported;
        if first_time {
            self.synced_reported = true;
            self.log_synced();
            self.count_missing_from(Instant::now());
            // What is still unseen by now is not there.
            self.dirty.extend(self.targets.ids());
            self.warn_empty_selections();
        }
        let mut changed = std::mem::take(&mut self.dirty);
        let touched = self.follower.is_some().then(|| changed.clone());
        changed.retain(|number| self.evaluate_target(*number, now));
        // What may not be read was not seen.
        if first_time && self.denied_since().is_none() {
            self.events.push_back(Queued::Event(Box::new(Event::Synced { counts: self.policy.counts() })));
        }
        if let Some(touched) = touched {
            self.follow_logs(&touched);
        }
        self.events.extend(changed.into_iter().map(Queued::Target));
        if self.phase == Phase::Following {
            self.end_if_over(synced);
        }
    }

    /// Warns of selections that match nothing.
    fn warn_empty_selections(&mut self) {
        if self.limits.missing == Missing::Done
            || self.evaluator.conditions().iter().any(WaitCondition::waits_for_absence)
        {
            return;
        }
        for message in Unmatched::sentences(&self.unmatched()) {
            self.notify(message, None);
        }
    }

    /// Passes the observed state of a target to the policy. Says whether there is something new to report.
    fn evaluate_target(&mut self, number: TargetId, now: Now) -> bool {
        let Some(target) = self.targets.get(number).filter(|_| self.policy.state(number).is_some()) else {
            return false;
        };
        let record = self.graph.get(&target.id);
        let synced = target.stream.and_then(|(stream, _)| self.streams.get(stream)).is_some_and(|s| s.synced);
        let whole = record.is_some_and(|r| target.explored.as_ref() == Some(&r.uid)) && self.all_synced();
        let failures = record.map(|record| explain::failures(&self.graph, record)).unwrap_or_default();
        let absent;
        let by_other = record.and_then(|record| explain::reported(&self.graph, record));
        let reported = match &by_other {
            Some(verdict) => Reported::Verdict(verdict),
            None if record.is_some_and(|record| self.awaits_report(target, record)) => Reported::NotRead,
            None => Reported::Nothing,
        };
        let observation = match record {
            Some(record) => Observation::Present {
                record,
                failures: &failures,
                whole,
                excuse: explain::excuse(&self.graph, record).filter(|_| whole),
                evidence: self.evidence_on(&record.id),
                reported,
            },
            None if target.kind.is_none() => {
                absent = self.evaluator.absent(now.wall);
                Observation::NoKind { results: &absent }
            }
            None if !synced => Observation::NotYet,
            None => {
                absent = self.evaluator.absent(now.wall);
                Observation::Absent { results: &absent, last: target.last.as_deref() }
            }
        };
        let unseen = matches!(observation, Observation::NotYet);
        let failure = failures.first().map(|failure| failure.class);
        let before = self.policy.state(number);
        if self.policy.observe(number, observation, now) {
            self.log_state(number, before);
        }
        if self.policy.is_silent(number) {
            self.ask_for_evidence(number);
        }
        // Related objects are of interest once the target itself was listed.
        if synced && (self.policy.state(number) == Some(State::Waiting) || self.may_advise(number)) {
            self.watch_related(number);
        }
        if unseen || !self.synced_reported {
            return false;
        }
        let (Some(state), Some(target)) = (self.policy.state(number), self.targets.get(number)) else {
            return false;
        };
        let record = self.graph.get(&target.id);
        let verdict = by_other.as_ref().or_else(|| Some(&*record?.verdict));
        let verdict = verdict.map(|verdict| (verdict.status, &verdict.reason, &verdict.message));
        let advisory = record.and_then(|record| explain::advisory(&self.graph, record));
        let remark = (self.policy.remark(number), advisory);
        let reported =
            self.fingerprints.hash_one((state, verdict, failure, self.policy.failing(number), remark));
        let reported = NonZeroU64::MIN | reported;
        let news = target.reported != Some(reported);
        if let Some(target) = self.targets.get_mut(number) {
            target.reported = Some(reported);
        }
        news
    }

    /// Whether the status of a target may be in an object that was not read yet.
    fn awaits_report(&self, target: &Followed, record: &Record) -> bool {
        let is_read = |stream: &Stream| stream.synced || stream.ended;
        explain::may_be_reported(record)
            && self.resources.of_kind(POLICY_REPORT_GROUP, None, POLICY_REPORT_KIND).is_some()
            && (target.explored.as_ref() != Some(&record.uid)
                || !self.streams.iter().filter(|stream| is_of_reports(stream)).all(is_read))
    }

    /// Whether a target that is done may have something to say when its dependents are known.
    fn may_advise(&self, number: TargetId) -> bool {
        let done = self.policy.state(number) == Some(State::Done) && self.targets.len() <= MAX_ADVISED;
        let record = self.targets.get(number).filter(|_| done).and_then(|target| self.graph.get(&target.id));
        record.is_some_and(explain::may_advise)
    }

    /// Whether all that is there of the targets was seen once.
    fn synced(&self) -> bool {
        let targets =
            |stream: &&Stream| matches!(stream.role, Role::Targets | Role::Selection) && !stream.ended;
        // What an interrupted stream has reported may be outdated.
        self.streams.iter().filter(targets).all(|stream| stream.synced && stream.down.is_none())
    }

    fn selections_synced(&self) -> bool {
        self.streams.iter().filter(|stream| stream.role == Role::Selection).all(|stream| stream.synced)
    }

    /// Whether all that is there was seen once, also of what explains targets.
    fn all_synced(&self) -> bool {
        self.searches.running == 0
            && self.streams.iter().all(|stream| stream.synced || stream.ended || stream.role == Role::Crds)
    }

    /// The same, but for what is not to be had at the moment.
    fn all_looked_at(&self) -> bool {
        let looked_at = |s: &Stream| s.synced || s.ended || s.down.is_some() || s.role == Role::Crds;
        self.searches.running == 0 && self.streams.iter().all(looked_at)
    }

    fn evidence_on(&self, id: &ObjectId) -> Evidence {
        self.evidence.get(&(id.group.clone(), id.kind.clone())).copied().flatten().unwrap_or_default()
    }

    /// Finds out whether a kind has a status, once for each kind.
    fn ask_for_evidence(&mut self, number: TargetId) {
        let Some(target) = self.targets.get(number) else { return };
        let Some(resource) = target.kind.clone() else { return };
        let key = (target.id.group.clone(), target.id.kind.clone());
        if self.evidence.contains_key(&key) {
            return;
        }
        self.evidence.insert(key.clone(), None);
        let (cluster, to, asking) = (self.cluster.clone(), self.answer_to.clone(), target.id.clone());
        tokio::spawn(async move {
            let evidence = evidence(&cluster, &resource, &asking).await;
            let _gone = to.send(Answer::Evidence(key.0, key.1, evidence)).await;
        });
    }

    fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Evidence(group, kind, evidence) => {
                let of_kind = self.targets.entries().filter(|(_, target)| target.id.is(&group, &kind));
                self.dirty.extend(of_kind.map(|(number, _)| number));
                self.evidence.insert((group, kind), Some(evidence));
            }
            Answer::Resources(resources) => {
                self.resources = resources;
                for (number, name) in std::mem::take(&mut self.unknown) {
                    self.kind_appeared(number, name);
                }
                self.follow_versions();
                if !self.lacks_kinds() {
                    self.rediscover = None;
                }
            }
            Answer::Gathered(evidence) => {
                if let Phase::Gathering(outcome, _) = self.phase {
                    self.over(outcome, &evidence);
                }
            }
            Answer::Prefetched(evidence) => self.prefetch.evidence = evidence,
            Answer::Missing(findings) => self.notify_missing(findings),
            Answer::Listed(namespace, listed) => self.take_listed(&namespace, listed),
        }
    }

    fn notify(&mut self, message: String, remedy: Option<String>) {
        let notice = Notice { message, remedy };
        if !self.notices.contains(&notice) {
            tracing::info!(notice = notice.message.as_str(), "notice");
            self.notices.push(notice.clone());
            self.events.push_back(Queued::Event(Box::new(Event::Notice(notice))));
        }
    }

    /// What the user should know about the wait itself, so far.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The kinds that the cluster has.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The cluster that is asked.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

/// Waits for targets to be ready, and says what came of it: the shortest way. [`Tracker`] has all others.
///
/// # Errors
/// The cluster cannot be asked, or it does not have a kind that was named.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use settled_tracker::{Cluster, Outcome, Target, wait};
/// # let server = settled_apiserver::Server::in_memory().await?;
/// let cluster = Cluster::new(server.client());
/// let report = wait(&cluster, [Target::object("namespace", None, "default")]).await?;
/// assert_eq!(report.outcome, Outcome::Settled);
/// # Ok(())
/// # }
/// ```
pub async fn wait(
    cluster: &Cluster,
    targets: impl IntoIterator<Item = Target>,
) -> Result<Report, StartError> {
    let mut tracker = Tracker::start(cluster.clone(), Request::new(targets)).await?;
    while let Some(event) = tracker.next().await {
        if let Event::Finished(report) = event {
            return Ok(report);
        }
    }
    // The last event is always that one.
    Ok(tracker.report(Outcome::Interrupted, &FetchedEvidence::default()))
}
