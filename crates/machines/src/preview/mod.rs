//! Preview: what an apply makes of each Machine, before anything is touched. Pure: the plans are those of the providers.

mod decision;
mod file;
mod groups;
mod machines;
mod planning;
mod world;

pub use decision::{Change, Decision, MachineDecision, ObjectChange, Preview};
pub use file::{Changed, InvalidPlanFile, PlanFile};
pub use planning::preview;
