//! The driver: starts streams, passes what they report to the graph and the policy, and reports what comes of it.

mod discovery;
mod ending;
mod groups;
mod index;
mod live_logs;
mod missing;
mod overview;
mod reading;
mod recovery;
mod related;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kstatus::{Basis, FailureClass, Status, Verdict, reason};
use settled_rules::RuleSet;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::cluster::{Cluster, RequestError, no_answer};
use crate::condition::WaitCondition;
use crate::evaluation::Evaluation;
use crate::evaluator::Evaluator;
use crate::events::{EvidenceOptions, EvidencePlan, FetchedEvidence, LogSource};
use crate::evidence::evidence;
use crate::exchange::Verb;
use crate::explain;
use crate::graph::{Graph, Put};
use crate::id::{ObjectId, Uid};
use crate::ids::{IdVec, StreamId, TargetId};
use crate::limits::{Limits, Missing};
use crate::logs::{LogFollower, LogMessage};
use crate::observation::{Evidence, MinVersion, Now, Observation};
use crate::policy::{Policy, ended};
use crate::record::Record;
use crate::report::{
    Branch, Counts, Event, Explanation, Notice, Outcome, Report, Snapshot, State, TargetReport,
};
use crate::resources::{Resource, Resources};
use crate::stream::{Message, Spec, Update, follow};
use crate::target::{KindName, Selection, Target};
use crate::unmatched::Unmatched;
use index::{TargetIndex, Targets};
pub use overview::Overview;
use reading::Patience;

/// So few objects of a kind are watched one by one without asking how many others there are.
const MAX_BY_NAME_UNCOUNTED: usize = 3;
/// Not more are watched one by one: of a kind in a namespace, and in all. Servers limit the streams of a connection, some to 200.
const MAX_WATCHES_BY_NAME: usize = 100;
const MAX_STREAMS_BY_NAME: usize = 150;
/// More namespaces are watched as one.
const MAX_NAMESPACES: usize = 8;
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

/// What to follow, and how.
#[derive(Debug)]
pub struct Request {
    /// The targets.
    pub targets: Vec<Target>,
    /// What is waited for; see [`WaitCondition::parse_all`].
    pub conditions: Vec<WaitCondition>,
    /// When the wait ends.
    pub limits: Limits,
    /// Rules by which verdicts are found.
    pub rules: RuleSet,
    /// Which evidence is fetched when a target isn't done.
    pub evidence: EvidenceOptions,
    /// Whether the logs of containers that crash are followed during the wait: [`Event::Log`].
    pub live_logs: bool,
    /// The namespace of targets that name none; the client's if none.
    pub namespace: Option<String>,
    /// More about how verdicts are found.
    pub evaluation: EvaluationOptions,
    /// Which causes the final report has.
    pub causes: Causes,
    /// Since when the limits count; the call of [`Tracker::start`] if none.
    pub started: Option<Instant>,
    /// How long the first complete answer may take where [`Limits::timeout`] is zero or none: 30 s if this is none.
    pub request_timeout: Option<Duration>,
}

/// Which causes the final report has of targets that aren't done. Those of thousands take more memory than all else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Causes {
    /// Those of each target.
    #[default]
    All,
    /// Of targets that stand for themselves and aren't done for the same reason, those of the first; the others name it in
    /// [`TargetReport::same_as`].
    Grouped,
    /// None.
    None,
}

/// How verdicts are found; as in [`kstatus::Options`].
#[derive(Clone, Copy, Debug)]
pub struct EvaluationOptions {
    /// Which reading of the evidence.
    pub profile: kstatus::Profile,
    /// Objects that say nothing are Current.
    pub assume_current: bool,
    /// Whether an Ingress or a Gateway needs an address.
    pub require_address: bool,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self { profile: kstatus::Profile::Settled, assume_current: false, require_address: true }
    }
}

impl Request {
    /// Waits for these to be ready, with the built-in rules and the default limits.
    #[must_use]
    pub fn new(targets: impl IntoIterator<Item = Target>) -> Self {
        Self {
            targets: targets.into_iter().collect(),
            conditions: vec![WaitCondition::Ready],
            limits: Limits::default(),
            rules: RuleSet::default(),
            evidence: EvidenceOptions::default(),
            live_logs: false,
            namespace: None,
            evaluation: EvaluationOptions::default(),
            causes: Causes::All,
            started: None,
            request_timeout: None,
        }
    }
}

/// Why nothing can be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The cluster can't be asked.
    #[error("{0}")]
    Cluster(RequestError),
    /// It does not have a kind that was named, and no manifest says that there should be one.
    #[error("the cluster does not have a kind {name:?}")]
    NoKind {
        /// As it was named.
        name: String,
        /// Names that look like it.
        similar: Vec<String>,
    },
}

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

#[derive(Debug, PartialEq)]
enum Phase {
    Following,
    /// It is over; what explains it is being looked at, until then.
    Looking(Outcome, Instant),
    /// Evidence is being fetched, until then.
    Gathering(Outcome, Instant),
    Over,
}

/// How urgent a target is among those in the same state, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// It has failed unless it recovers in time.
    Failing,
    /// Something stands in its way.
    Blocked,
    Waiting,
    /// Its controller has not looked at it yet.
    NotObserved,
}

#[derive(Debug)]
struct Followed {
    id: ObjectId,
    kind: Option<Arc<Resource>>,
    /// The stream that reports it, and the last relist in which it did.
    stream: Option<(StreamId, u32)>,
    /// Other selections that report it, too.
    also: Vec<(StreamId, u32)>,
    /// It is a target only while it is selected.
    selected: bool,
    /// How it was when it was deleted.
    last: Option<Box<Record>>,
    /// A hash of what was reported of it last.
    reported: Option<NonZeroU64>,
    /// The UID whose dependents are watched.
    explored: Option<Uid>,
}

/// What is reported next.
#[derive(Debug)]
enum Queued {
    Event(Box<Event>),
    /// How a target stands. Its report is made when it is asked for: those of thousands would take more than all that is known of them.
    Target(TargetId),
}

#[derive(Debug)]
struct Stream {
    spec: Spec,
    role: Role,
    /// Its initial list, or its relist, is complete.
    synced: bool,
    /// Its initial list was complete once.
    seen: bool,
    epoch: u32,
    down: Option<Down>,
    down_reported: bool,
    /// Why it will never be read.
    denied: Option<Denied>,
    /// It is one of many kinds: that there is nothing of it is no news.
    of_category: bool,
    /// The notice for when it works: it stands in for another one that was forbidden.
    substitute: Option<Notice>,
    /// The server does not have its kind any more, at least not at this version.
    no_kind: bool,
    ended: bool,
    task: AbortHandle,
}

/// Why a stream reports nothing at the moment.
#[derive(Debug)]
struct Down {
    since: Instant,
    error: RequestError,
    /// How many answers the server had given by then.
    answers: u64,
}

/// Why a stream will never report anything.
#[derive(Debug)]
struct Denied {
    since: Instant,
    message: String,
}

impl Stream {
    fn is_of_targets(&self) -> bool {
        matches!(self.role, Role::Targets | Role::Selection)
    }

    /// Whether nothing is known of its targets yet.
    fn is_unread(&self) -> bool {
        !self.seen && !self.ended && self.is_of_targets()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Named targets.
    Targets,
    /// Whatever it selects is a target.
    Selection,
    /// What explains targets.
    Children,
    /// Definitions of kinds, for targets whose kind isn't there yet.
    Definitions,
}

#[derive(Debug, Default)]
struct Covered {
    whole: bool,
    selectors: HashSet<String>,
}

/// What a question came to that was asked beside the streams.
#[derive(Debug)]
enum Answer {
    Resources(Resources),
    Evidence(Arc<str>, Arc<str>, Evidence),
    Gathered(FetchedEvidence),
    Prefetched(FetchedEvidence),
    Missing(missing::Findings),
    /// Metadata of candidates for dependents in a namespace.
    Listed(String, discovery::Listed),
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
    /// The cluster can't be asked, or it does not have a kind that was named.
    pub async fn start(cluster: Cluster, request: Request) -> Result<Self, StartError> {
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
            return Err(StartError::Cluster(RequestError::Transport(no_answer(tracker.patience.answer))));
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

    /// Adds a named target; nothing if there is one already.
    fn add_object(
        &mut self,
        kind: KindName,
        namespace: &str,
        name: &str,
        min_version: Option<MinVersion>,
    ) -> Result<Option<TargetId>, StartError> {
        let resource = kind.find(&self.resources).cloned();
        let id = match (&resource, &kind) {
            (Some(resource), _) => {
                let namespace = if resource.namespaced { namespace } else { "" };
                self.evaluator.id(&resource.group, &resource.kind, namespace, name)
            }
            (None, KindName::Exact { group, kind, .. }) => self.evaluator.id(group, kind, namespace, name),
            (None, KindName::Spoken(spoken)) => {
                let similar = self.resources.similar(spoken);
                return Err(StartError::NoKind { name: spoken.clone(), similar });
            }
            (None, KindName::Overview) => {
                return Err(StartError::NoKind { name: kind.to_string(), similar: Vec::new() });
            }
        };
        if self.target_id(&id).is_some() {
            return Ok(None);
        }
        let unknown = resource.is_none();
        let by_hand = matches!(kind, KindName::Spoken(_)) && min_version.is_none();
        let number = self.add_target(id, resource, min_version, false);
        if by_hand {
            self.missing.named.push(number);
        }
        if unknown {
            self.unknown.push((number, kind));
        }
        Ok(Some(number))
    }

    fn add_target(
        &mut self,
        id: ObjectId,
        kind: Option<Arc<Resource>>,
        min_version: Option<MinVersion>,
        selected: bool,
    ) -> TargetId {
        let number = self.policy.add(min_version);
        debug_assert_eq!(number, self.targets.next_id(), "targets have the ids of the policy");
        if id.is("", "PersistentVolumeClaim") {
            self.claims.push(number);
        }
        self.targets.push(Box::new(Followed {
            id,
            kind,
            stream: None,
            also: Vec::new(),
            selected,
            last: None,
            reported: None,
            explored: None,
        }));
        self.index.insert(number, &self.targets);
        self.dirty.insert(number);
        number
    }

    fn add_selection(&mut self, selection: &Selection, default: &str) -> Result<(), StartError> {
        let mut of_category = false;
        let kinds = match (&selection.kind, selection.kind.find(&self.resources)) {
            (_, Some(resource)) => vec![Arc::clone(resource)],
            (KindName::Spoken(spoken), None) => {
                let kinds = self.resources.category(spoken);
                if kinds.is_empty() {
                    let similar = self.resources.similar(spoken);
                    return Err(StartError::NoKind { name: spoken.clone(), similar });
                }
                of_category = true;
                kinds
            }
            (KindName::Exact { kind, .. }, None) => {
                return Err(StartError::NoKind { name: kind.clone(), similar: self.resources.similar(kind) });
            }
            (KindName::Overview, None) => {
                of_category = true;
                self.overview_kinds()
            }
        };
        for resource in kinds {
            let namespace = selection.namespace.as_deref().unwrap_or(default);
            let within = (resource.namespaced && !selection.everywhere).then_some(namespace);
            let mut spec = Spec::new(&resource, within);
            spec.labels = selection.labels.as_deref().map(Into::into);
            spec.fields = selection.fields.as_deref().map(Into::into);
            spec.target = true;
            let stream = self.open(spec, Role::Selection);
            if let Some(stream) = self.streams.get_mut(stream) {
                stream.of_category = of_category;
            }
        }
        Ok(())
    }

    /// Opens streams for named targets: one by one where that is cheaper, else one for a kind and namespace.
    async fn watch_objects(&mut self, numbers: &[TargetId]) {
        let mut groups: BTreeMap<(String, Arc<str>), Vec<TargetId>> = BTreeMap::new();
        let mut namespaces: HashMap<String, BTreeSet<Arc<str>>> = HashMap::new();
        for number in numbers {
            let Some(target) = self.targets.get(*number) else { continue };
            let Some(resource) = &target.kind else { continue };
            let key = format!("{} {}", resource.api_version(), resource.plural);
            namespaces.entry(key.clone()).or_default().insert(target.id.namespace.clone());
            groups.entry((key, target.id.namespace.clone())).or_default().push(*number);
        }
        let mut wide: BTreeMap<String, Vec<TargetId>> = BTreeMap::new();
        groups.retain(|(key, _), numbers| {
            let many = namespaces.get(key).is_some_and(|namespaces| namespaces.len() > MAX_NAMESPACES);
            if many {
                wide.entry(key.clone()).or_default().append(numbers);
            }
            !many
        });
        let plans = groups.into_iter().map(|((_, namespace), numbers)| (Some(namespace), numbers));
        let plans: Vec<_> = plans.chain(wide.into_values().map(|numbers| (None, numbers))).collect();
        let specs = plans.into_iter().filter_map(|(namespace, numbers)| {
            let resource = self.targets.get(*numbers.first()?)?.kind.clone()?;
            let mut spec =
                Spec::new(&resource, namespace.as_deref().filter(|namespace| !namespace.is_empty()));
            spec.target = true;
            Some((spec, numbers))
        });
        let specs: Vec<_> = specs.collect();
        let cluster = self.cluster.clone();
        let by_name = specs.iter().map(|(spec, numbers)| by_name(&cluster, spec, numbers.len()));
        let by_name = futures::future::join_all(by_name).await;
        for ((spec, numbers), by_name) in specs.into_iter().zip(by_name) {
            if by_name
                && (numbers.len() <= MAX_BY_NAME_UNCOUNTED
                    || self.streams.len() + numbers.len() <= MAX_STREAMS_BY_NAME)
            {
                self.open_each(&spec, &numbers);
            } else {
                let of = |number: &TargetId| Some(self.targets.get(*number)?.id.name.clone());
                let mut spec = spec;
                spec.only = Some(Arc::new(numbers.iter().filter_map(of).collect()));
                let stream = self.open(spec, Role::Targets);
                for number in numbers {
                    self.assign(number, stream);
                }
            }
        }
    }

    fn open_each(&mut self, spec: &Spec, numbers: &[TargetId]) {
        for number in numbers {
            let Some(target) = self.targets.get(*number) else { continue };
            let name = target.id.name.clone();
            let mut spec = spec.clone();
            spec.only = None;
            // A stream for all namespaces may have to be split.
            spec.namespace =
                Some(&*target.id.namespace).filter(|namespace| !namespace.is_empty()).map(Into::into);
            let stream = self.open(spec.name(&name), Role::Targets);
            self.assign(*number, stream);
        }
    }

    /// Assigns a target to a stream. Only what the stream has reported once can be missing in a relist.
    fn assign(&mut self, number: TargetId, stream: StreamId) {
        if let Some(target) = self.targets.get_mut(number) {
            target.stream = Some((stream, 0));
        }
    }

    fn open(&mut self, spec: Spec, role: Role) -> StreamId {
        let id = self.streams.next_id();
        let task =
            follow(self.cluster.clone(), spec.clone(), Arc::clone(&self.evaluator), id, self.sender.clone());
        self.start_stream(spec, role, task)
    }

    /// Adds a stream that this task feeds.
    fn start_stream(
        &mut self,
        spec: Spec,
        role: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> StreamId {
        self.streams.push(Stream {
            spec,
            role,
            synced: false,
            seen: false,
            epoch: 0,
            down: None,
            down_reported: false,
            denied: None,
            of_category: false,
            substitute: None,
            no_kind: false,
            ended: false,
            task: tokio::spawn(task).abort_handle(),
        })
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

    /// The selections that no object matches.
    fn unmatched(&self) -> Vec<Unmatched> {
        let matched: HashSet<StreamId> = self
            .targets
            .entries()
            .filter(|(number, _)| self.policy.state(*number).is_some())
            .flat_map(|(_, target)| target.stream.iter().chain(&target.also))
            .map(|(stream, _)| *stream)
            .collect();
        let is_empty = |(number, stream): &(StreamId, &Stream)| {
            let is_selection = stream.role == Role::Selection && !stream.of_category;
            is_selection && stream.seen && !stream.ended && !matched.contains(number)
        };
        let describe = |(_, stream): (StreamId, &Stream)| {
            let Spec { resource, namespace, labels, fields, .. } = &stream.spec;
            let selectors: Vec<&str> = labels.iter().chain(fields).map(|text| &**text).collect();
            Unmatched {
                group: Arc::from(&*resource.group),
                kind: Arc::from(&*resource.kind),
                namespaced: resource.namespaced,
                namespace: namespace.as_deref().map(Into::into),
                selector: selectors.join(" and "),
            }
        };
        self.streams.entries().filter(is_empty).map(describe).collect()
    }

    /// Takes in an update of a stream.
    fn update(&mut self, number: StreamId, update: Update) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        if stream.ended {
            // Another one took its place.
            return;
        }
        match update {
            Update::Restart => {
                stream.epoch += 1;
                stream.synced = false;
            }
            Update::Put(mut record) => {
                let (epoch, role, resource) = (stream.epoch, stream.role, Arc::clone(&stream.spec.resource));
                if role == Role::Definitions {
                    // Some definition is another than before: perhaps a kind that is waited for.
                    self.rediscover = self.rediscover.map(|(_, pause)| (Instant::now(), pause));
                    return;
                }
                let mut known = self.target_id(&record.id);
                if role == Role::Targets && known.is_none() {
                    // Of the same name in another namespace.
                    return;
                }
                if role == Role::Selection && known.is_none() {
                    let target = self.add_target(record.id.clone(), Some(resource), None, true);
                    self.assign(target, number);
                    known = Some(target);
                }
                if let Some(known) = known {
                    if role == Role::Children {
                        // Its own stream reports it, and evaluates the conditions of the wait.
                        return;
                    }
                    if let Some(target) = self.targets.get(known) {
                        record.id.clone_from(&target.id);
                    }
                    self.note_reported(known, number, epoch);
                    let now = self.now();
                    self.policy.record_transient(known, &record, now);
                }
                let (owners, kind) = (record.owners.clone(), record.id.clone());
                match self.graph.put(*record, number, epoch) {
                    Put::Stale => {}
                    Put::New => self.touch(&kind, &owners),
                    Put::Changed(old) => {
                        self.touch(&kind, &owners);
                        self.touch(&old.id, &old.owners);
                    }
                }
            }
            Update::Gone(gone, last) => self.lost(number, &gone, last),
            Update::Synced => {
                stream.synced = true;
                stream.seen = true;
                stream.no_kind = false;
                stream.down = None;
                if let Some(Notice { message, remedy }) = stream.substitute.take() {
                    self.notify(message, remedy);
                }
                self.mark_relisted(number);
            }
            Update::Up => {
                stream.down = None;
                if std::mem::take(&mut stream.down_reported) {
                    let message = format!("the watch of {} goes on", stream.spec.describe());
                    self.notify(message, None);
                }
            }
            Update::Down(error, answers) => {
                let refused = error.code() == Some(401);
                stream.down = Some(match stream.down.take() {
                    // The server answers something in between: it is not lost.
                    Some(Down { since, error: before, answers }) if before.code() == error.code() => {
                        Down { since, error, answers }
                    }
                    Some(Down { since, .. }) => Down { since, error, answers },
                    None => Down { since: Instant::now(), error, answers },
                });
                if refused && stream.role != Role::Children {
                    let message = "the server refuses the credentials".to_owned();
                    let remedy = "log in again, or check the user of the kubeconfig";
                    self.give_up(message, remedy, Outcome::Unreachable);
                }
            }
            Update::Forbidden(verb, error) => self.forbidden(number, verb, &error),
            Update::Rejected(error) => self.rejected(number, &error),
            Update::NoKind => {
                if stream.role == Role::Children {
                    stream.ended = true;
                    stream.synced = true;
                    stream.task.abort();
                    self.mark_relisted(number);
                } else if !std::mem::replace(&mut stream.no_kind, true) {
                    // Its definition may have been deleted, and its objects with it; or it is at another version now.
                    stream.synced = false;
                    self.rediscover = Some((Instant::now(), START_BACKOFF));
                }
            }
        }
    }

    /// Notes that a stream has reported a target.
    fn note_reported(&mut self, target: TargetId, stream: StreamId, epoch: u32) {
        let Some(target) = self.targets.get_mut(target) else { return };
        match &mut target.stream {
            Some((own, reported)) if *own == stream => *reported = epoch,
            None => target.stream = Some((stream, epoch)),
            Some(_) => match target.also.iter_mut().find(|(other, _)| *other == stream) {
                Some((_, reported)) => *reported = epoch,
                None => target.also.push((stream, epoch)),
            },
        }
    }

    /// The initial list or a relist of a stream is complete: what was not in it is gone.
    fn mark_relisted(&mut self, number: StreamId) {
        let Some(stream) = self.streams.get(number) else { return };
        let (epoch, role) = (stream.epoch, stream.role);
        if role == Role::Children {
            for gone in self.graph.vanished(number, epoch) {
                self.lost(number, &gone, None);
            }
            self.note_missing(number);
            self.watch_dependents();
            // Only now it is known who uses them.
            self.dirty.extend(&self.claims);
            return;
        }
        let mut vanished = Vec::new();
        for (index, target) in self.targets.entries() {
            let own = target.stream.filter(|(own, _)| *own == number);
            if own.is_some() {
                self.dirty.insert(index);
            }
            let reported = own.or_else(|| target.also.iter().copied().find(|(other, _)| *other == number));
            if reported.is_some_and(|(_, reported)| reported != epoch) {
                vanished.push(target.id.clone());
            }
        }
        for gone in vanished {
            if self.graph.get(&gone).is_some() {
                self.lost(number, &gone, None);
            }
        }
    }

    /// A stream does not report an object any more: it is gone, unless another stream has it.
    fn lost(&mut self, stream: StreamId, gone: &ObjectId, last: Option<Box<Record>>) {
        if let Some(number) = self.target_id(gone) {
            if let Some(last) = &last {
                let now = self.now();
                self.policy.record_transient(number, last, now);
            }
            let Some(target) = self.targets.get_mut(number) else { return };
            target.also.retain(|(other, _)| *other != stream);
            if target.stream.is_none_or(|(own, _)| own != stream) {
                return;
            }
            if let Some(other) = target.also.pop() {
                target.stream = Some(other);
                return;
            }
        } else if let (Some(known), Some(last)) = (self.graph.get(gone), &last) {
            let others = self.graph.reporter(gone).is_some_and(|reporter| reporter != stream);
            if known.uid != last.uid || others && known.resource_version >= last.resource_version {
                return;
            }
        }
        self.gone(gone, last);
        self.note_missing(stream);
    }

    fn gone(&mut self, gone: &ObjectId, last: Option<Box<Record>>) {
        let known = self.graph.remove(gone);
        let owners =
            known.as_ref().or(last.as_deref()).map(|record| record.owners.clone()).unwrap_or_default();
        self.touch(gone, &owners);
        let Some(number) = self.target_id(gone) else { return };
        let Some(target) = self.targets.get_mut(number) else { return };
        let last = last.or_else(|| known.map(Box::new));
        let has_ended = last.as_deref().and_then(ended).is_some();
        if target.selected
            && !has_ended
            && !self.evaluator.conditions().iter().any(WaitCondition::waits_for_absence)
        {
            // It is no longer selected, so nobody waits for it. What has an end and reached it counts all the same.
            self.index.remove(number, &self.targets);
            self.policy.drop_target(number);
            return;
        }
        target.last = last;
    }

    /// Something happened to an object: the targets above it are to be looked at again.
    fn touch(&mut self, id: &ObjectId, owners: &[Uid]) {
        self.dirty.extend(self.target_id(id));
        self.dirty.extend(self.referred.get(id).into_iter().flatten());
        let mut todo: Vec<(Uid, usize)> = owners.iter().map(|owner| (owner.clone(), 0)).collect();
        while let Some((uid, depth)) = todo.pop() {
            let Some(owner) = self.graph.by_uid(&uid) else { continue };
            self.dirty.extend(self.target_id(&owner.id));
            self.dirty.extend(self.referred.get(&owner.id).into_iter().flatten());
            if depth < 8 {
                todo.extend(owner.owners.iter().map(|owner| (owner.clone(), depth + 1)));
            }
        }
        if id.is("", "Pod") || id.is("storage.k8s.io", "StorageClass") {
            self.dirty.extend(&self.claims);
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
        let observation = match record {
            Some(record) => Observation::Present {
                record,
                failures: &failures,
                whole,
                excuse: explain::excuse(&self.graph, record).filter(|_| whole),
                evidence: self.evidence_on(&record.id),
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
        self.policy.observe(number, observation, now);
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
        let verdict =
            record.map(|record| (record.verdict.status, &record.verdict.reason, &record.verdict.message));
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

    /// The causes for which a target isn't done, those of the class that fails it first.
    fn causes(&self, number: TargetId) -> Vec<Explanation> {
        let record = self.targets.get(number).and_then(|target| self.graph.get(&target.id));
        let order = self.policy.failure_order(number);
        record.map(|record| explain::causes(&self.graph, record, &order)).unwrap_or_default()
    }

    /// How a target stands, with these causes.
    fn report_on(&self, number: TargetId, now: Now, causes: Vec<Explanation>) -> Option<TargetReport> {
        if self.is_folded(number) {
            return None;
        }
        let target = self.targets.get(number)?;
        let state = self.policy.state(number)?;
        let record = self.graph.get(&target.id);
        let own = self.verdict(&target.id, Some(target));
        let failing = self.policy.failing(number);
        // Also where the failure is what is waited for.
        let roots = if failing.is_some() && causes.is_empty() { self.causes(number) } else { Vec::new() };
        let Evaluation { verdict, own } = match self.counts_without_status(number, &own) {
            true => Evaluation::assumed_current(own),
            false => {
                let stage = self.policy.failure_stage(number);
                Evaluation::new(own, stage, causes.first().or_else(|| roots.first()))
            }
        };
        let failing_since = || {
            let lasted = SignedDuration::try_from(self.policy.failing_for(number, now)?).ok()?;
            now.wall.checked_sub(lasted).ok()
        };
        let by_chain = || causes.first()?.chain.first()?.since;
        let verdict = match &own {
            // It was made just now.
            Some(_) => self.evaluator.share_verdict(verdict),
            None => verdict,
        };
        let advisory = || record.and_then(|record| explain::advisory(&self.graph, record));
        let note = self.policy.note(number, now).or_else(|| advisory().filter(|_| state == State::Done));
        Some(TargetReport {
            object: target.id.clone(),
            state,
            verdict,
            own,
            since: failing_since().or_else(by_chain).or_else(|| record.and_then(Record::since)),
            created: record.and_then(|record| record.created),
            fails_in: self.policy.fails_in(number, now),
            note: note.map(|note| self.evaluator.share_note(note)),
            causes,
            same_as: None,
        })
    }

    /// Whether a target is done although it has no status, because its kind has none. A look at one moment does not find that out.
    fn counts_without_status(&self, number: TargetId, own: &Verdict) -> bool {
        let waits = !self.surveying && self.limits.timeout != Some(Duration::ZERO);
        waits
            && own.reason == reason::NO_SIGNAL
            && self.policy.is_silent(number)
            && self.policy.state(number) == Some(State::Done)
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
            && self
                .streams
                .iter()
                .all(|stream| stream.synced || stream.ended || stream.role == Role::Definitions)
    }

    /// The same, but for what is not to be had at the moment.
    fn all_looked_at(&self) -> bool {
        let looked_at = |s: &Stream| s.synced || s.ended || s.down.is_some() || s.role == Role::Definitions;
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
            self.notices.push(notice.clone());
            self.events.push_back(Queued::Event(Box::new(Event::Notice(notice))));
        }
    }

    /// The causes of everything that isn't done, with events and logs.
    pub async fn explain(&mut self) -> Vec<TargetReport> {
        let now = self.now();
        let mut reports: Vec<TargetReport> = self
            .targets
            .ids()
            .filter_map(|number| self.report_on(number, now, self.causes(number)))
            .collect();
        let mut plan = EvidencePlan::default();
        for report in &mut reports {
            if report.verdict.status == Status::Current {
                report.causes.clear();
            }
            for cause in &report.causes {
                plan.add(cause, self.log_sources(cause));
            }
        }
        let evidence = plan.fetch(&self.cluster, self.evidence_options).await;
        for cause in reports.iter_mut().flat_map(|report| &mut report.causes) {
            let log_sources = self.log_sources(cause);
            evidence.attach(cause, &log_sources);
        }
        reports
    }

    /// The containers whose logs are evidence for a cause.
    fn log_sources(&self, cause: &Explanation) -> Vec<LogSource> {
        let crashed = |step: &crate::report::Step| {
            let pod = self.graph.get(&step.object).filter(|record| record.id.is("", "Pod"))?;
            let reported = matches!(
                step.class,
                Some(FailureClass::Crash | FailureClass::Job | FailureClass::Probe | FailureClass::Other)
            );
            let crash = pod.facts.as_ref()?.crashed().first().filter(|_| reported)?;
            Some(LogSource {
                pod: pod.id.clone(),
                container: crash.container.clone(),
                previous: crash.previous,
            })
        };
        cause.chain.iter().filter_map(crashed).collect()
    }

    fn report(&self, outcome: Outcome, evidence: &FetchedEvidence) -> Report {
        let now = self.now();
        let mut targets = Vec::with_capacity(self.policy.counts().total);
        let mut groups = groups::Groups::default();
        for number in self.targets.ids() {
            let mut causes = if self.is_open(number) { self.causes(number) } else { Vec::new() };
            for cause in &mut causes {
                let log_sources = self.log_sources(cause);
                evidence.attach(cause, &log_sources);
            }
            let Some(mut target) = self.report_on(number, now, causes) else { continue };
            match self.keep_causes {
                Causes::All => {}
                Causes::Grouped => groups.share_causes(&mut target),
                Causes::None => target.causes = Vec::new(),
            }
            targets.push(target);
        }
        Report {
            outcome,
            elapsed: now.elapsed,
            counts: self.shown_counts(),
            targets,
            unmatched: self.unmatched(),
            notices: self.notices.clone(),
            changed_by_others: Vec::new(),
        }
    }

    /// How the wait stands, with at most `limit` targets: those that need attention first.
    #[must_use]
    pub fn snapshot(&self, limit: usize) -> Snapshot {
        let now = self.now();
        let mut order: Vec<(State, Urgency, &ObjectId, TargetId)> = self
            .targets
            .entries()
            // Before the first answer there is nothing to show of it.
            .filter(|(_, target)| self.synced_reported || self.graph.get(&target.id).is_some())
            .filter(|(number, _)| !self.is_folded(*number))
            .filter_map(|(number, target)| {
                let state = self.policy.state(number)?;
                Some((state, self.urgency(number, target, now), &target.id, number))
            })
            .collect();
        if order.len() > limit && limit > 0 {
            order.select_nth_unstable(limit - 1);
        }
        order.truncate(limit);
        order.sort_unstable();
        let (targets, branches) = order
            .into_iter()
            .filter_map(|(state, _, _, number)| {
                let open = matches!(state, State::Failed | State::Waiting);
                let causes = if open { self.causes(number) } else { Vec::new() };
                let report = self.report_on(number, now, causes)?;
                let branch = self.branch(number, false)?;
                Some((report, branch))
            })
            .unzip();
        Snapshot {
            elapsed: now.elapsed,
            timeout: self.limits.timeout,
            synced: self.synced_reported,
            connection: self.connection(),
            counts: self.shown_counts(),
            targets,
            branches,
        }
    }

    /// Who needs attention first among targets in the same state.
    fn urgency(&self, number: TargetId, target: &Followed, now: Now) -> Urgency {
        let record = self.graph.get(&target.id);
        match record.map(|record| &record.verdict) {
            _ if self.policy.fails_in(number, now).is_some() => Urgency::Failing,
            Some(verdict) if verdict.failure.is_some() || verdict.status == Status::Failed => {
                Urgency::Blocked
            }
            Some(verdict) if verdict.basis == Basis::Generation => Urgency::NotObserved,
            _ => Urgency::Waiting,
        }
    }

    /// The targets, each with what belongs to it. `all`: with what is Current.
    #[must_use]
    pub fn branches(&self, all: bool) -> Vec<Branch> {
        let followed = self
            .targets
            .entries()
            .filter(|(number, _)| self.policy.state(*number).is_some() && !self.is_folded(*number));
        followed.filter_map(|(number, _)| self.branch(number, all)).collect()
    }

    /// A target as it is evaluated, and its dependents.
    fn branch(&self, number: TargetId, all: bool) -> Option<Branch> {
        let target = self.targets.get(number)?;
        let Some(record) = self.graph.get(&target.id) else {
            return Some(Branch {
                object: target.id.clone(),
                link: None,
                verdict: self.verdict(&target.id, Some(target)),
                summary: String::new(),
                created: None,
                children: Vec::new(),
                hidden: 0,
                hidden_kinds: Vec::new(),
            });
        };
        let mut branch = explain::branch(&self.graph, record, all);
        let failing = self.policy.failing(number);
        let causes = if failing.is_some() { self.causes(number) } else { Vec::new() };
        let stage = self.policy.failure_stage(number);
        branch.verdict = Evaluation::new(branch.verdict, stage, causes.first()).verdict;
        if let Some(root) = causes.first().and_then(|cause| cause.chain.last()) {
            branch.summary.clone_from(&root.summary);
        } else if let Some(advisory) = explain::advisory(&self.graph, record) {
            branch.summary = advisory;
        }
        Some(branch)
    }

    /// How many targets are in which state.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shown_counts()
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
/// The cluster can't be asked, or it does not have a kind that was named.
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

/// Whether so many objects among all of their kind are cheaper to watch one by one.
async fn by_name(cluster: &Cluster, spec: &Spec, count: usize) -> bool {
    if count <= MAX_BY_NAME_UNCOUNTED {
        return true;
    }
    if count > MAX_WATCHES_BY_NAME {
        return false;
    }
    let path = format!("{}?limit=1", spec.resource.path(spec.namespace.as_deref(), None));
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    // Where listing is forbidden, each may be watched all the same.
    let Ok(bytes) = cluster.fetch(Verb::List, http::Method::GET, &path, partial, None).await else {
        return true;
    };
    let remaining = kstatus::Object::parse(&bytes)
        .ok()
        .and_then(|list| list.root().get("metadata")?.get("remainingItemCount")?.as_int())
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(0);
    remaining > 500 && remaining > 10 * count
}
