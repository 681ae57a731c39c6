//! Generic evidence for kinds without a rule. What decides, in this order: conditions of kstatus, failures, what stands still by choice,
//! the condition `Ready`, work in hand, what is unknown, success.

use super::Standard;
use super::context::{Condition, Context};
use super::meanings::{self, Report};
use super::phases::{Phases, Word, is_task};
use super::structures::{self, Structures};
use super::suspension::{Asked, Suspension};
use super::vocabulary::Phrase;
use crate::fields::Field;
use crate::reason;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

pub(super) fn verdict(context: &Context<'_, '_>, kind: &[u8]) -> Verdict {
    // In place: they are large to be moved.
    let mut reports = Reports::default();
    reports.read(context, kind);
    let mut phases = Phases::default();
    phases.read(context, kind);
    let decision = decide(context, kind, &reports, &phases);
    let status = decision.status(context);
    if status == Status::Current {
        return decision.verdict(context);
    }
    // Only an object that is not done is looked at for what its spec asks for.
    let is_stopping = phases.working.as_ref().is_some_and(|word| word.is_stopping());
    let suspension = Suspension::of(context).filter(|suspension| match suspension.asked {
        Asked::Paused => !is_stopping,
        Asked::Off => {
            let is_working = reports.working.is_some() || phases.working.is_some();
            !is_working
                && status != Status::Failed
                && !decision.is_of_older_generation(context)
                && context.object.get(Field::Status).is_some()
        }
    });
    suspension.map_or_else(|| decision.verdict(context), |suspension| suspension.verdict())
}

/// What decides. The texts of a verdict are made once it is known to be the one.
enum Decision<'a> {
    Made(Verdict),
    /// A condition with the verdict that it gives, unless it speaks of an older generation.
    By(Condition<'a>, Status, fn(&Condition<'_>) -> Verdict),
    Word(Word<'a>, Status),
    NoEvidence,
}

impl Decision<'_> {
    fn is_of_older_generation(&self, context: &Context<'_, '_>) -> bool {
        match self {
            Self::Made(verdict) => verdict.basis == Basis::Generation,
            Self::By(condition, ..) => context.is_lagging(condition),
            Self::Word(..) | Self::NoEvidence => false,
        }
    }

    fn status(&self, context: &Context<'_, '_>) -> Status {
        match self {
            Self::Made(verdict) => verdict.status,
            Self::By(..) if self.is_of_older_generation(context) => Status::InProgress,
            Self::By(_, status, _) | Self::Word(_, status) => *status,
            Self::NoEvidence if context.options.assume_current => Status::Current,
            Self::NoEvidence if has_no_conditions_yet(context) => Status::InProgress,
            Self::NoEvidence => Status::Unknown,
        }
    }

    fn verdict(self, context: &Context<'_, '_>) -> Verdict {
        match self {
            Self::Made(verdict) => verdict,
            Self::By(condition, _, verdict) => context.decided_by(&condition, || verdict(&condition)),
            Self::Word(word, status) => word.verdict(context, status),
            Self::NoEvidence => no_evidence(context),
        }
    }
}

impl From<Verdict> for Decision<'_> {
    fn from(verdict: Verdict) -> Self {
        Self::Made(verdict)
    }
}

/// The verdict on an object whose latest generation was not observed, where that is by choice.
pub(super) fn unobserved(context: &Context<'_, '_>) -> Option<Verdict> {
    Suspension::of(context)
        .filter(|suspension| suspension.asked == Asked::Paused)
        .map(|found| found.verdict())
}

/// The failure of the latest generation that conditions report, whatever generation the status as a whole is of. An object that
/// was never changed has had no other one, so its phase counts as well.
pub(super) fn failure_of(context: &Context<'_, '_>, latest: i64, kind: &[u8]) -> Option<Verdict> {
    if context.object.get(Field::Conditions).is_some_and(|conditions| !conditions.is_list()) {
        return None;
    }
    let is_first = latest == 1;
    let mut reports = Reports::default();
    reports.read(context, kind);
    let is_of_latest = |condition: &Condition<'_>| is_first || condition.is_observed_at(latest);
    // One without a generation may be our own, of an augmented object.
    let is_stalled = reports.standard.stalled.as_ref().is_some_and(is_of_latest);
    let wrong = reports.over.or(reports.wrong).map(|(condition, _)| condition);
    let failed = wrong.or_else(|| reports.ready.filter(Condition::is_false));
    let decision = if is_stalled {
        reports.standard.verdict(context)?.into()
    } else if reports.standard.reconciling.is_some() || failed.is_some_and(|failed| !is_of_latest(&failed)) {
        return None;
    } else if let Some(decision) = reports.failure() {
        decision
    } else if is_first {
        let mut phases = Phases::default();
        phases.read(context, kind);
        Decision::Word(phases.wrong?, Status::Failed)
    } else {
        return None;
    };
    Some(decision.verdict(context)).filter(|verdict| verdict.status == Status::Failed)
}

fn decide<'a>(
    context: &Context<'_, 'a>,
    kind: &[u8],
    reports: &Reports<'a>,
    phases: &Phases<'a>,
) -> Decision<'a> {
    if let Some(verdict) = reports.standard.verdict(context) {
        return verdict.into();
    }
    if let Some(decision) = reports.failure() {
        return decision;
    }
    if let Some(word) = &phases.wrong {
        return Decision::Word(*word, Status::Failed);
    }
    let ready = reports.ready.filter(Condition::is_true);
    let mut structures = Structures::default();
    structures.read(context, kind);
    if let Some(verdict) = structures.failure(context) {
        return verdict.into();
    }
    if let Some(verdict) = reports.standstill(context).or_else(|| structures.standstill()) {
        return verdict.into();
    }
    if let Some(word) = phases.still.as_ref().filter(|_| ready.is_none()) {
        return Decision::Word(*word, Status::Current);
    }
    // Of a feature, another word may say that it is off.
    let has_summary = ready.is_some() || reports.done.is_some() || phases.is_any();
    if let Some(word) = structures.words.still.as_ref().filter(|_| !has_summary) {
        return Decision::Word(*word, Status::Current);
    }
    // A task is over, whatever its conditions have said on the way.
    if let Some(word) = phases.done.as_ref().filter(|word| is_task(kind) && word.is_end()) {
        return Decision::Word(*word, Status::Current);
    }
    if let Some(condition) = reports.ended {
        return Decision::By(condition, Status::Current, |by| meanings::verdict(Status::Current, by));
    }
    if let Some(condition) =
        reports.working.or_else(|| reports.lacking.filter(|_| ready.is_some() || reports.ready.is_none()))
    {
        return Decision::By(condition, Status::InProgress, |by| meanings::verdict(Status::InProgress, by));
    }
    if let Some(ready) = ready {
        // An upgrade is under way while the old version serves.
        let in_hand = |phases: &Phases<'_>| {
            let word = phases.working.as_ref().filter(|word| word.is_in_hand());
            word.map(|word| word.verdict(context, Status::InProgress))
        };
        let progress = in_hand(phases).or_else(|| in_hand(&structures.words));
        if let Some(verdict) = progress.or_else(|| structures.differences(context)) {
            return verdict.into();
        }
        return Decision::By(ready, Status::Current, |ready| {
            let message = ready.message_or(|| "Resource is Ready".to_owned());
            Verdict::new(Status::Current, Basis::Ready, ready.reason_or("Ready"), message)
        });
    }
    if let Some(ready) = reports.ready {
        return Decision::By(ready, Status::InProgress, |ready| {
            Verdict::new(Status::InProgress, Basis::Ready, ready.reason_or("NotReady"), ready.describe())
        });
    }
    if let Some(condition) = reports.waiting {
        return Decision::By(condition, Status::InProgress, |by| meanings::verdict(Status::InProgress, by));
    }
    if let Some(word) = &phases.working {
        return Decision::Word(*word, Status::InProgress);
    }
    without_summary(context, reports, phases, &structures).unwrap_or(Decision::NoEvidence)
}

/// The verdict where neither a failure nor `Ready` decides.
fn without_summary<'a>(
    context: &Context<'_, 'a>,
    reports: &Reports<'a>,
    phases: &Phases<'a>,
    structures: &Structures<'a>,
) -> Option<Decision<'a>> {
    if let Some(lag) = reports.lagging.and_then(|condition| context.lag(&condition)) {
        return Some(lag.into());
    }
    if let Some(verdict) = structures.progress_of_parents(context) {
        return Some(verdict.into());
    }
    if let Some(word) = &structures.words.working {
        return Some(Decision::Word(*word, Status::InProgress));
    }
    let is_summarized = reports.done.is_some() || phases.done.is_some();
    if let Some(verdict) = structures.progress(!is_summarized).or_else(|| structures.differences(context)) {
        return Some(verdict.into());
    }
    if reports.done.is_none()
        && let Some(verdict) = structures.error()
    {
        return Some(verdict.into());
    }
    // A condition that is neither True nor False may be what is missing.
    if context.has_odd_condition() {
        return None;
    }
    if let Some(done) = reports.done {
        return Some(meanings::verdict(Status::Current, &done).into());
    }
    if let Some(word) = &phases.done {
        return Some(Decision::Word(*word, Status::Current));
    }
    if let Some(word) = &phases.unknown {
        return Some(Decision::Word(*word, Status::Unknown));
    }
    if let Some(word) = &phases.running {
        // Running is what its Pods do, and not a summary of how many do it.
        let less_ready = structures::less_ready(context).map(Decision::Made);
        return less_ready.or(Some(Decision::Word(*word, Status::Current)));
    }
    let may_be_done = !reports.is_doubtful;
    let success = if may_be_done { structures.success(context) } else { None };
    if let Some(verdict) = success.or_else(|| structures::of_counters(context, may_be_done)) {
        return Some(verdict.into());
    }
    // Several parts are all that there is, or a check is all that a configuration object gets.
    let part =
        reports.part.filter(|_| reports.parts > 1).or_else(|| reports.correct.filter(|_| reports.parts == 0));
    Some(meanings::verdict(Status::Current, &part.filter(|_| may_be_done)?).into())
}

/// The strongest thing each class of conditions says.
#[derive(Default)]
struct Reports<'a> {
    standard: Standard<'a>,
    ready: Option<Condition<'a>>,
    over: Option<(Condition<'a>, FailureClass)>,
    wrong: Option<(Condition<'a>, FailureClass)>,
    still: Option<Condition<'a>>,
    working: Option<Condition<'a>>,
    waiting: Option<Condition<'a>>,
    lacking: Option<Condition<'a>>,
    done: Option<Condition<'a>>,
    ended: Option<Condition<'a>>,
    part: Option<Condition<'a>>,
    parts: usize,
    correct: Option<Condition<'a>>,
    /// One that speaks of an older generation.
    lagging: Option<Condition<'a>>,
    /// Whether one that nobody knows is not True: it may be what is missing.
    is_doubtful: bool,
}

impl<'a> Reports<'a> {
    fn read(&mut self, context: &Context<'a, '_>, kind: &[u8]) {
        for condition in context.conditions().iter() {
            if self.standard.record(&condition) {
                continue;
            }
            if condition.is_type("Ready") {
                self.ready.get_or_insert(condition);
                continue;
            }
            let report = meanings::of(&condition).or_else(|| meanings::of_compound(&condition, kind));
            let report = report.or_else(|| {
                let fails = meanings::reports_failure(&condition);
                fails.then_some(Report::Wrong(FailureClass::Other))
            });
            let Some(report) = report else {
                self.is_doubtful |= !condition.is_true();
                continue;
            };
            if report != Report::Nothing && context.is_lagging(&condition) {
                self.lagging.get_or_insert(condition);
                continue;
            }
            match report {
                Report::Over(class) => {
                    self.over.get_or_insert((condition, class));
                }
                Report::Wrong(class) => {
                    self.wrong.get_or_insert((condition, class));
                }
                // A task that runs is on the way.
                Report::Done if is_task(kind) && is_running(&condition) => {
                    self.waiting.get_or_insert(condition);
                }
                Report::Ended => {
                    self.ended.get_or_insert(condition);
                }
                Report::Done => {
                    self.done.get_or_insert(condition);
                }
                Report::Part => {
                    self.part.get_or_insert(condition);
                    self.parts += 1;
                }
                Report::Correct => {
                    self.correct.get_or_insert(condition);
                }
                Report::Still => {
                    self.still.get_or_insert(condition);
                }
                Report::Working => {
                    self.working.get_or_insert(condition);
                }
                Report::Lacking => {
                    self.lacking.get_or_insert(condition);
                }
                Report::Waiting => {
                    self.waiting.get_or_insert(condition);
                }
                Report::Nothing => {}
            }
        }
    }

    fn failure(&self) -> Option<Decision<'a>> {
        let over = self.over.map(|(condition, class)| (condition, class, true));
        let failure = over.or_else(|| self.wrong.map(|(condition, class)| (condition, class, false)));
        if let Some((condition, class, terminal)) = failure {
            let verdict = meanings::verdict(Status::Failed, &condition).failure(class, terminal);
            return Some(verdict.into());
        }
        let ready = self.ready.filter(Condition::is_false)?;
        let fails = |reason: Option<&Phrase<'_>>| {
            ready.reports_failure_with(reason) && !ready.is_retried_with(reason)
        };
        if !ready.with_reason(fails) {
            return None;
        }
        Some(Decision::By(ready, Status::Failed, |ready| {
            let reason = ready.reason_or("NotReady");
            Verdict::new(Status::Failed, Basis::Ready, reason, ready.describe())
                .failure(FailureClass::Other, false)
        }))
    }

    fn standstill(&self, context: &Context<'_, '_>) -> Option<Verdict> {
        let ready = self
            .ready
            .filter(|ready| ready.is_false() && ready.has_reason(|reason| reason.names_standstill()));
        let (condition, basis) = match (self.still, ready) {
            (Some(condition), _) => (condition, Basis::CommonCondition),
            (None, Some(ready)) => (ready, Basis::Ready),
            (None, None) => return None,
        };
        Some(context.decided_by(&condition, || {
            Verdict::new(Status::Current, basis, reason::SUSPENDED, condition.describe())
        }))
    }
}

fn is_running(condition: &Condition<'_>) -> bool {
    (condition.is_type("Running") || condition.is_type("Active"))
        && !condition.has_reason(|reason| reason.names_success())
}

fn no_evidence(context: &Context<'_, '_>) -> Verdict {
    if context.options.assume_current {
        let message = "the object has no status; assumed to be Current, as requested";
        return Verdict::new(Status::Current, Basis::Nothing, reason::ASSUMED_CURRENT, message);
    }
    if has_no_conditions_yet(context) {
        let message = "the controller has not set a condition yet";
        return Verdict::new(Status::InProgress, Basis::CommonCondition, "NoConditions", message);
    }
    Verdict::new(Status::Unknown, Basis::Nothing, reason::NO_SIGNAL, no_signal(context))
}

/// Whether the list of conditions is empty: who writes an empty list is about to fill it.
fn has_no_conditions_yet(context: &Context<'_, '_>) -> bool {
    let conditions = context.object.get(Field::Conditions).filter(|list| list.is_list());
    conditions.is_some_and(|list| list.elements().next().is_none())
}

fn no_signal(context: &Context<'_, '_>) -> Text {
    // What is odd in them was noted before.
    let mut conditions = context.object.conditions().filter_map(Condition::of_status);
    match (context.object.get(Field::Status).filter(|status| !status.is_null()), conditions.next()) {
        (None, _) => "the object has no status, and its kind has no rule".into(),
        (Some(_), Some(first)) => {
            let others = if conditions.next().is_some() { " and others" } else { "" };
            ["no condition says whether the object is done: ", &first.type_text(), others].concat().into()
        }
        (Some(_), None) => "the status holds neither a condition nor a phase that is understood".into(),
    }
}
