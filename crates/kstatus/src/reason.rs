//! Reason constants that callers compare with. Other reasons are for display.

/// The object has no status that is understood, and its kind has no rule.
pub const NO_SIGNAL: &str = "NoSignal";

/// An object without a status is Current because [`Options::assume_current`](crate::Options::assume_current) asks for it.
pub const ASSUMED_CURRENT: &str = "AssumedCurrent";

/// A PersistentVolumeClaim is not bound yet.
pub const NOT_BOUND: &str = "NotBound";

/// A scheduling gate keeps a Pod from being scheduled.
pub const SCHEDULING_GATED: &str = "SchedulingGated";

/// A Service, an Ingress or a Gateway waits for its address.
pub const NO_ADDRESS: &str = "NoAddress";

/// A rollout is paused, and has changes that are not rolled out.
pub const PAUSED: &str = "Paused";

/// A Job or a CronJob is suspended.
pub const SUSPENDED: &str = "Suspended";
