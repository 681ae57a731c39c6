//! Words in which controllers sum up a state, with what they mean.

use super::words::WordTable;

/// Meaning of a word or phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    Done,
    /// Stands still by choice: paused, stopped, waiting for a person.
    Still,
    Working,
    Wrong,
    /// Steady for what stays, on the way for a task.
    Running,
    Unknown,
}

/// A word with what it says alone and in a phrase.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// The state that it names, with the reason that it gives.
    pub(super) state: Option<(&'static str, Sense)>,
    /// A bit for each [`Role`].
    pub(super) roles: u32,
}

impl Known {
    /// A word that says nothing.
    pub(super) const NOTHING: Self = Self { state: None, roles: 0 };

    pub(super) const fn is(&self, role: Role) -> bool {
        self.roles & role.bit() != 0
    }
}

/// All words.
pub(super) static WORDS: WordTable<Known, COUNT> = {
    let mut words = WordTable::new(Known::NOTHING);
    let mut at = 0;
    while at < STATES.len() {
        let (word, state) = STATES[at];
        words.row_mut(word).state = Some(state);
        at += 1;
    }
    let mut at = 0;
    while at < ROLES.len() {
        let (role, list) = ROLES[at];
        let mut word = 0;
        while word < list.len() {
            words.row_mut(list[word]).roles |= role.bit();
            word += 1;
        }
        at += 1;
    }
    let mut at = 0;
    while at < FAILURE_PAIRS.len() {
        words.row_mut(FAILURE_PAIRS[at].1).roles |= Role::EndOfFailure.bit();
        at += 1;
    }
    let mut at = 0;
    while at < ENDING_PAIRS.len() {
        words.row_mut((ENDING_PAIRS[at].0).1).roles |= Role::EndOfPair.bit();
        at += 1;
    }
    words
};

/// At least as many as there are words: some are in more than one list.
const COUNT: usize = {
    let mut count = STATES.len() + FAILURE_PAIRS.len() + ENDING_PAIRS.len();
    let mut at = 0;
    while at < ROLES.len() {
        count += ROLES[at].1.len();
        at += 1;
    }
    count
};

/// Declares what words may be in a phrase, each role with its words in lower case.
macro_rules! roles {
    ($($(#[$doc:meta])+ $role:ident: [$($word:literal),* $(,)?];)+) => {
        /// What a word may be in a phrase, beside a state.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Role { $($(#[$doc])+ $role,)+ }

        const ROLES: &[(Role, &[&str])] = &[$((Role::$role, &[$($word),*])),+];
    };
}

impl Role {
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

roles! {
    /// Reports a failure.
    Failure: [
        "aborted", "broken", "conflict", "conflicted", "conflicting", "conflicts", "corrupt", "corrupted",
        "crash", "crashed", "crashing", "degraded", "denied", "err", "error", "errored", "errors",
        "exception", "fail", "failed", "failing", "failure", "failures", "fatal", "fault", "faulted",
        "forbidden", "illegal", "incompatible", "invalid", "malformed", "misconfigured", "refused",
        "rejected", "stalled", "timedout", "timeout", "unauthorized", "unhealthy", "unrecoverable",
        "unsuccessful", "unsupported",
    ];
    /// Negates the word after it.
    Negation: ["no", "non", "not", "without", "zero"];
    /// Is the second of two words of [`FAILURE_PAIRS`].
    EndOfFailure: [];
    /// Is the second of two words of [`ENDING_PAIRS`].
    EndOfPair: [];
    /// What follows is over.
    Past: ["after", "from"];
    /// Makes a failure a failover.
    Over: ["over"];
    /// Begins a phrase that waits for something.
    Waiting: ["await", "awaiting", "retry", "wait", "waits"];
    /// Begins a reason that waits or tries again.
    WaitingReason: ["pending", "retrying", "waiting"];
    /// Begins a phrase that needs something.
    Need: ["needs", "requires"];
    /// Ends a phrase that needs something.
    Needed: ["needed", "required"];
    /// What only a person gives.
    Person: ["approval", "approvals", "confirmation", "human", "manual", "promotion", "user"];
    /// Begins a phrase of which not all is so.
    Partial: ["partial", "partially"];
    /// There is nothing of what follows.
    No: ["no"];
    /// What follows is not so.
    Not: ["not"];
    /// What follows has not happened.
    Yet: ["yet"];
    /// What is done after a failure.
    Rollback: ["rollback"];
    /// Can be done as a whole: `CreateComplete`, `UpdateSucceeded`.
    Operation: [
        "all", "apply", "create", "creation", "deploy", "deployment", "fully", "install", "installation",
        "is", "operation", "provision", "provisioning", "reconcile", "reconciliation", "resource", "sync",
        "update", "upgrade",
    ];
    /// Ends in `ing`, and says how things are: `Listening`.
    Steady: [
        "existing", "following", "leading", "listening", "managing", "mirroring", "missing", "monitoring",
        "nothing", "polling", "recording", "replicating", "streaming", "string", "tracking", "warning",
        "watching", "working",
    ];
    /// Begins a message that reports a failure.
    Error: ["err", "error", "errors", "failed", "failure"];
    /// Begins the type of a condition that is a check: `ValidConfiguration`.
    Correct: ["valid"];
    /// Begins the type of a condition that is a refusal: `InvalidSpec`, `MissingReferences`.
    Refusal: [
        "bad", "conflicting", "duplicate", "duplicated", "illegal", "incompatible", "invalid", "malformed",
        "misconfigured", "missing", "unsupported",
    ];
    /// Ends the type of a condition that reports on a part.
    PartState: [
        "accepted", "applied", "attached", "available", "bound", "complete", "completed", "configured",
        "connected", "created", "deployed", "established", "healthy", "initialized", "installed", "online",
        "programmed", "provisioned", "reachable", "ready", "reconciled", "registered", "resolved", "synced",
        "synchronized", "updated", "valid", "validated", "verified",
    ];
    /// With it, a type of a condition does not report on the state of the object.
    Aside: ["backup", "backups", "debug", "last", "optional", "previous", "restore", "snapshot"];
    /// Names a change: that one is possible or has been made says nothing of the object, that one failed does.
    Change: ["rollback", "update", "updates", "upgrade", "version"];
    /// Is the key of a list or a map whose elements have a state of their own, and not one of the past.
    Members: [
        "brokers", "children", "clusters", "components", "instances", "listeners", "members", "nodes",
        "pods", "pools", "replicas", "resources", "services", "shards", "statuses", "targets", "workers",
        "zones",
    ];
    /// Ends the key of such a list or map.
    Statuses: ["status", "statuses", "summaries"];
    /// Ends the key of a state.
    State: ["health", "phase", "result", "state", "status"];
    /// Ends a kind that does something once.
    Task: [
        "action", "analysis", "backup", "benchmark", "build", "clone", "evaluation", "execution",
        "experiment", "export", "import", "job", "maintenance", "migration", "operation", "promotion",
        "remediation", "request", "restore", "run", "scan", "snapshot", "suite", "task", "test", "transfer",
        "trial", "upgrade", "upload", "workflow",
    ];
    /// With it, a key is of the object as it was or is to be, and not as it is.
    OtherTime: [
        "backup", "backups", "desired", "exit", "expected", "history", "initial", "last", "latest", "next",
        "old", "power", "previous", "requested", "restore", "schedule", "snapshot", "target",
    ];
}

/// Words that are a failure together.
pub(super) const FAILURE_PAIRS: &[(&str, &str)] = &[
    ("already", "claimed"),
    ("back", "off"),
    ("deadline", "exceeded"),
    ("limit", "exceeded"),
    ("no", "quorum"),
    ("not", "allowed"),
    ("not", "owned"),
    ("not", "permitted"),
    ("not", "reachable"),
    ("not", "supported"),
    ("quota", "exceeded"),
    ("split", "brain"),
    ("time", "out"),
    ("timed", "out"),
];

/// Words that name a state together, at the end of a phrase.
pub(super) const ENDING_PAIRS: &[((&str, &str), Sense)] = &[
    (("in", "progress"), Sense::Working),
    (("in", "sync"), Sense::Done),
    (("rolled", "back"), Sense::Wrong),
    (("to", "zero"), Sense::Still),
];

/// Words in which controllers sum up a state, in lower case without separators, sorted; with each the reason it gives.
const STATES: &[(&str, (&str, Sense))] = &[
    ("aborted", ("Aborted", Sense::Wrong)),
    ("active", ("Active", Sense::Running)),
    ("allocated", ("Allocated", Sense::Done)),
    ("allocating", ("Allocating", Sense::Working)),
    ("analyzing", ("Analyzing", Sense::Working)),
    ("applied", ("Applied", Sense::Done)),
    ("applying", ("Applying", Sense::Working)),
    ("attached", ("Attached", Sense::Done)),
    ("attaching", ("Attaching", Sense::Working)),
    ("available", ("Available", Sense::Done)),
    ("awaitingapproval", ("AwaitingApproval", Sense::Still)),
    ("binding", ("Binding", Sense::Working)),
    ("bootstrapping", ("Bootstrapping", Sense::Working)),
    ("bound", ("Bound", Sense::Done)),
    ("broken", ("Broken", Sense::Wrong)),
    ("building", ("Building", Sense::Working)),
    ("canceled", ("Canceled", Sense::Wrong)),
    ("cancelled", ("Cancelled", Sense::Wrong)),
    ("cloning", ("Cloning", Sense::Working)),
    ("complete", ("Complete", Sense::Done)),
    ("completed", ("Completed", Sense::Done)),
    ("compliant", ("Compliant", Sense::Done)),
    ("configuring", ("Configuring", Sense::Working)),
    ("conflict", ("Conflict", Sense::Wrong)),
    ("connected", ("Connected", Sense::Done)),
    ("connecting", ("Connecting", Sense::Working)),
    ("converging", ("Converging", Sense::Working)),
    ("corrupted", ("Corrupted", Sense::Wrong)),
    ("crashed", ("Crashed", Sense::Wrong)),
    ("crashloopbackoff", ("CrashLoopBackOff", Sense::Wrong)),
    ("creating", ("Creating", Sense::Working)),
    ("critical", ("Critical", Sense::Wrong)),
    ("dead", ("Dead", Sense::Wrong)),
    ("decommissioning", ("Decommissioning", Sense::Working)),
    ("degraded", ("Degraded", Sense::Wrong)),
    ("deleting", ("Deleting", Sense::Working)),
    ("denied", ("Denied", Sense::Wrong)),
    ("deployed", ("Deployed", Sense::Done)),
    ("deploying", ("Deploying", Sense::Working)),
    ("destroying", ("Destroying", Sense::Working)),
    ("detaching", ("Detaching", Sense::Working)),
    ("disabled", ("Disabled", Sense::Still)),
    ("disconnected", ("Disconnected", Sense::Wrong)),
    ("done", ("Done", Sense::Done)),
    ("down", ("Down", Sense::Wrong)),
    ("downloading", ("Downloading", Sense::Working)),
    ("draining", ("Draining", Sense::Working)),
    ("enabled", ("Enabled", Sense::Done)),
    ("enabling", ("Enabling", Sense::Working)),
    ("errimagepull", ("ErrImagePull", Sense::Wrong)),
    ("error", ("Error", Sense::Wrong)),
    ("errored", ("Errored", Sense::Wrong)),
    ("established", ("Established", Sense::Done)),
    ("evaluating", ("Evaluating", Sense::Working)),
    ("evicting", ("Evicting", Sense::Working)),
    ("executing", ("Executing", Sense::Working)),
    ("expanding", ("Expanding", Sense::Working)),
    ("exporting", ("Exporting", Sense::Working)),
    ("fail", ("Fail", Sense::Wrong)),
    ("failed", ("Failed", Sense::Wrong)),
    ("failing", ("Failing", Sense::Wrong)),
    ("failure", ("Failure", Sense::Wrong)),
    ("fatal", ("Fatal", Sense::Wrong)),
    ("faulted", ("Faulted", Sense::Wrong)),
    ("finalizing", ("Finalizing", Sense::Working)),
    ("finished", ("Finished", Sense::Done)),
    ("generating", ("Generating", Sense::Working)),
    ("green", ("Green", Sense::Done)),
    ("halted", ("Halted", Sense::Still)),
    ("healthy", ("Healthy", Sense::Done)),
    ("hibernated", ("Hibernated", Sense::Still)),
    ("hibernating", ("Hibernating", Sense::Working)),
    ("imagepullbackoff", ("ImagePullBackOff", Sense::Wrong)),
    ("importing", ("Importing", Sense::Working)),
    ("incomplete", ("Incomplete", Sense::Working)),
    ("initialized", ("Initialized", Sense::Working)),
    ("initializing", ("Initializing", Sense::Working)),
    ("inprogress", ("InProgress", Sense::Working)),
    ("inspecting", ("Inspecting", Sense::Working)),
    ("installed", ("Installed", Sense::Done)),
    ("installing", ("Installing", Sense::Working)),
    ("insync", ("InSync", Sense::Done)),
    ("invalid", ("Invalid", Sense::Wrong)),
    ("issued", ("Issued", Sense::Done)),
    ("joined", ("Joined", Sense::Done)),
    ("joining", ("Joining", Sense::Working)),
    ("launching", ("Launching", Sense::Working)),
    ("loading", ("Loading", Sense::Working)),
    ("lost", ("Lost", Sense::Wrong)),
    ("migrating", ("Migrating", Sense::Working)),
    ("misconfigured", ("Misconfigured", Sense::Wrong)),
    ("mounted", ("Mounted", Sense::Done)),
    ("moving", ("Moving", Sense::Working)),
    ("new", ("New", Sense::Working)),
    ("noncompliant", ("NonCompliant", Sense::Wrong)),
    ("normal", ("Normal", Sense::Done)),
    ("notbound", ("NotBound", Sense::Working)),
    ("notready", ("NotReady", Sense::Working)),
    ("ok", ("Ok", Sense::Done)),
    ("online", ("Online", Sense::Done)),
    ("operational", ("Operational", Sense::Done)),
    ("optimal", ("Optimal", Sense::Done)),
    ("outofsync", ("OutOfSync", Sense::Working)),
    ("partial", ("Partial", Sense::Working)),
    ("passed", ("Passed", Sense::Done)),
    ("paused", ("Paused", Sense::Still)),
    ("pending", ("Pending", Sense::Working)),
    ("pendingapproval", ("PendingApproval", Sense::Still)),
    ("preparing", ("Preparing", Sense::Working)),
    ("processing", ("Processing", Sense::Working)),
    ("progressing", ("Progressing", Sense::Working)),
    ("promoted", ("Promoted", Sense::Done)),
    ("promoting", ("Promoting", Sense::Working)),
    ("provisioned", ("Provisioned", Sense::Done)),
    ("provisioning", ("Provisioning", Sense::Working)),
    ("published", ("Published", Sense::Done)),
    ("publishing", ("Publishing", Sense::Working)),
    ("pulling", ("Pulling", Sense::Working)),
    ("queued", ("Queued", Sense::Working)),
    ("ready", ("Ready", Sense::Done)),
    ("rebalancing", ("Rebalancing", Sense::Working)),
    ("rebooting", ("Rebooting", Sense::Working)),
    ("rebuilding", ("Rebuilding", Sense::Working)),
    ("reconciled", ("Reconciled", Sense::Done)),
    ("reconciling", ("Reconciling", Sense::Working)),
    ("recovering", ("Recovering", Sense::Working)),
    ("recreating", ("Recreating", Sense::Working)),
    ("red", ("Red", Sense::Wrong)),
    ("regenerating", ("Regenerating", Sense::Working)),
    ("registering", ("Registering", Sense::Working)),
    ("rejected", ("Rejected", Sense::Wrong)),
    ("remediating", ("Remediating", Sense::Working)),
    ("removing", ("Removing", Sense::Working)),
    ("renewing", ("Renewing", Sense::Working)),
    ("repairing", ("Repairing", Sense::Working)),
    ("replacing", ("Replacing", Sense::Working)),
    ("resetting", ("Resetting", Sense::Working)),
    ("resizing", ("Resizing", Sense::Working)),
    ("restarting", ("Restarting", Sense::Working)),
    ("restoring", ("Restoring", Sense::Working)),
    ("resuming", ("Resuming", Sense::Working)),
    ("retrying", ("Retrying", Sense::Working)),
    ("rolledback", ("RolledBack", Sense::Wrong)),
    ("rolling", ("Rolling", Sense::Working)),
    ("rollingback", ("RollingBack", Sense::Wrong)),
    ("rollingout", ("RollingOut", Sense::Working)),
    ("rollingupdate", ("RollingUpdate", Sense::Working)),
    ("rotating", ("Rotating", Sense::Working)),
    ("running", ("Running", Sense::Running)),
    ("scaledtozero", ("ScaledToZero", Sense::Still)),
    ("scaling", ("Scaling", Sense::Working)),
    ("scheduled", ("Scheduled", Sense::Working)),
    ("scheduling", ("Scheduling", Sense::Working)),
    ("serving", ("Serving", Sense::Done)),
    ("shuttingdown", ("ShuttingDown", Sense::Working)),
    ("sleeping", ("Sleeping", Sense::Still)),
    ("stabilizing", ("Stabilizing", Sense::Working)),
    ("stable", ("Stable", Sense::Done)),
    ("stalled", ("Stalled", Sense::Wrong)),
    ("started", ("Started", Sense::Running)),
    ("starting", ("Starting", Sense::Working)),
    ("stopped", ("Stopped", Sense::Still)),
    ("stopping", ("Stopping", Sense::Working)),
    ("stuck", ("Stuck", Sense::Wrong)),
    ("submitted", ("Submitted", Sense::Working)),
    ("submitting", ("Submitting", Sense::Working)),
    ("succeed", ("Succeeded", Sense::Done)),
    ("succeeded", ("Succeeded", Sense::Done)),
    ("success", ("Success", Sense::Done)),
    ("successful", ("Successful", Sense::Done)),
    ("suspended", ("Suspended", Sense::Still)),
    ("suspending", ("Suspending", Sense::Working)),
    ("switching", ("Switching", Sense::Working)),
    ("synced", ("Synced", Sense::Done)),
    ("synchronized", ("Synchronized", Sense::Done)),
    ("synchronizing", ("Synchronizing", Sense::Working)),
    ("syncing", ("Syncing", Sense::Working)),
    ("terminating", ("Terminating", Sense::Working)),
    ("testing", ("Testing", Sense::Working)),
    ("timedout", ("TimedOut", Sense::Wrong)),
    ("timeout", ("Timeout", Sense::Wrong)),
    ("unavailable", ("Unavailable", Sense::Wrong)),
    ("unbound", ("Unbound", Sense::Working)),
    ("unhealthy", ("Unhealthy", Sense::Wrong)),
    ("unknown", ("Unknown", Sense::Unknown)),
    ("unreachable", ("Unreachable", Sense::Wrong)),
    ("unsuccessful", ("Unsuccessful", Sense::Wrong)),
    ("unsupported", ("Unsupported", Sense::Wrong)),
    ("up", ("Up", Sense::Done)),
    ("updated", ("Updated", Sense::Done)),
    ("updating", ("Updating", Sense::Working)),
    ("upgraded", ("Upgraded", Sense::Done)),
    ("upgrading", ("Upgrading", Sense::Working)),
    ("uploading", ("Uploading", Sense::Working)),
    ("uptodate", ("UpToDate", Sense::Done)),
    ("valid", ("Valid", Sense::Done)),
    ("validating", ("Validating", Sense::Working)),
    ("verifying", ("Verifying", Sense::Working)),
    ("waiting", ("Waiting", Sense::Working)),
    ("waitingforapproval", ("WaitingForApproval", Sense::Still)),
    ("wakingup", ("WakingUp", Sense::Working)),
    ("warmingup", ("WarmingUp", Sense::Working)),
    ("yellow", ("Yellow", Sense::Working)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found() {
        assert!(STATES.is_sorted_by_key(|(word, _)| word));
        for (word, state) in STATES {
            assert_eq!(WORDS.find(word.as_bytes()).and_then(|known| known.state), Some(*state));
        }
        for (role, list) in ROLES {
            assert!(list.is_sorted(), "{role:?}");
            for word in *list {
                let known = WORDS.find(word.to_ascii_uppercase().as_bytes()).unwrap();
                assert!(known.roles & role.bit() != 0, "{word}");
            }
        }
    }
}
