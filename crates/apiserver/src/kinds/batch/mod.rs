//! Kinds of the group `batch`.

pub(crate) mod cron_job;
pub(crate) mod job;
mod time_zone;
