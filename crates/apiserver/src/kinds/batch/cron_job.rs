//! CronJobs.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, string};
use settled_go::cron::Schedule;

use crate::kinds::batch::job::validate_job_spec;
use crate::kinds::batch::time_zone;
use crate::kinds::behavior::{Behavior, Dependents};
use crate::kinds::check::Check;
use crate::kinds::printers::{
    NONE, Read as _, Row, UNSET, cells, format_label_selector, layout_container_cells,
};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, dependents: Dependents::Orphan, ..Behavior::BUILTIN },
    validate: |check, job| validate_cron_job(check, job, None),
    validate_update: Some(|check, new, old| validate_cron_job(check, new, Some(old))),
    print: Some(print_cron_job),
    ..Strategy::DEFAULT
};

fn validate_cron_job(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    let schedule = string(spec, "schedule");
    if schedule.is_empty() {
        check.required("spec.schedule", "");
    } else {
        if let Err(error) = Schedule::parse(schedule) {
            check.invalid("spec.schedule", &schedule.into(), &error.to_string());
        }
        let allowed = old.is_some_and(|old| string(field(old, "spec"), "schedule").contains("TZ"));
        if schedule.contains("TZ") {
            if !allowed {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                check.invalid("spec.schedule", &schedule.into(), detail);
            } else if given(spec, "timeZone").is_some() {
                let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                check.invalid("spec.schedule", &schedule.into(), detail);
            }
        }
    }
    check.not_negative("spec", spec, "startingDeadlineSeconds");
    if let Some(zone) = given(spec, "timeZone").and_then(Value::as_str) {
        let unknown = format!("unknown time zone {zone}");
        if zone.is_empty() {
            check.invalid("spec.timeZone", &zone.into(), "timeZone must be nil or non-empty string");
        } else if !zone.split('/').all(time_zone::is_part_of_time_zone) {
            check.invalid("spec.timeZone", &zone.into(), &unknown);
        } else {
            if zone.eq_ignore_ascii_case("local") {
                let detail =
                    "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
                check.invalid("spec.timeZone", &zone.into(), detail);
            }
            if !time_zone::is_time_zone(zone) {
                check.invalid("spec.timeZone", &zone.into(), &unknown);
            }
        }
    }
    check.word("spec.concurrencyPolicy", string(spec, "concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let job = field(field(spec, "jobTemplate"), "spec");
    validate_job_spec(check, job, "spec.jobTemplate.spec");
    if field(job, "manualSelector") == &Value::Bool(true) {
        check.not_supported("spec.jobTemplate.spec.manualSelector", &true.into(), &["nil", "false"]);
    }
    check.not_negative("spec", spec, "successfulJobsHistoryLimit");
    check.not_negative("spec", spec, "failedJobsHistoryLimit");
    let name = string(field(new, "metadata"), "name");
    if old.is_none() && name.len() > 52 {
        check.invalid("metadata.name", &name.into(), "must be no more than 52 characters");
    }
}

fn print_cron_job(row: Row<'_>) -> Vec<Value> {
    let [names, images] = layout_container_cells(row.list("/spec/jobTemplate/spec/template/spec/containers"));
    let suspend = match row.at("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = match row.at("/status/lastScheduleTime") {
        Some(_) => row.since("/status/lastScheduleTime"),
        None => NONE.to_owned(),
    };
    cells![
        row.name(),
        row.text("/spec/schedule"),
        row.text_or("/spec/timeZone", NONE),
        suspend,
        row.list("/status/active").len(),
        last,
        row.age(),
        names,
        images,
        format_label_selector(row.at("/spec/jobTemplate/spec/selector")),
    ]
}
