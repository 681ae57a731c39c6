//! Validation of Events, by the version that they are written in.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, string};
use settled_apimachinery::validation;

use super::check::Check;
use crate::metadata;

/// The most characters of what is short, and of what is told.
const SHORT: usize = 128;
const LONG: usize = 1024;

/// The names of an Event's fields: those of `events.k8s.io`, and which of them errors have; theirs in the core group.
struct Names {
    object: &'static str,
    message: &'static str,
    controller: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    source: &'static str,
}

const CORE: Names = Names {
    object: "involvedObject",
    message: "message",
    controller: "reportingComponent",
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    source: "source",
};

const NEW: Names = Names {
    object: "regarding",
    message: "note",
    controller: "reportingController",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    source: "deprecatedSource",
};

pub(super) fn event(check: &mut Check, core: bool, new: &Value, old: Option<&Value>) {
    let names = if core { &CORE } else { &NEW };
    either(check, names, new);
    if core {
        return;
    }
    match old {
        None => strict(check, names, new),
        Some(old) => change(check, names, new, old),
    }
}

fn too_long(check: &mut Check, at: &str, text: &str, most: usize) {
    if text.len() > most {
        check.invalid(at, &"".into(), &format!("can have at most {most} characters"));
    }
}

/// What all Events are.
fn either(check: &mut Check, names: &Names, new: &Value) {
    let namespace = string(field(new, "metadata"), "namespace");
    let about = string(field(new, names.object), "namespace");
    let elsewhere = match (given(new, "eventTime").is_some(), about) {
        (false, "") => !["", "default"].contains(&namespace),
        (false, about) => about != namespace,
        (true, "") => !["default", "kube-system"].contains(&namespace),
        (true, _) => false,
    };
    if elsewhere {
        check.invalid("involvedObject.namespace", &about.into(), "does not match event.namespace");
    }
    if given(new, "eventTime").is_some() {
        let controller = string(new, names.controller);
        if controller.is_empty() {
            check.required(names.controller, "");
        }
        check.form(names.controller, controller, validation::is_qualified_name);
        for name in ["reportingInstance", "action", "reason"] {
            if string(new, name).is_empty() {
                check.required(name, "");
            }
            too_long(check, name, string(new, name), SHORT);
        }
        too_long(check, "message", string(new, names.message), LONG);
    }
    check.form("namespace", namespace, validation::is_dns1123_subdomain);
}

fn series(check: &mut Check, new: &Value) {
    let Some(series) = given(new, "series") else { return };
    if integer(series, "count").unwrap_or_default() < 2 {
        check.invalid("series.count", &"".into(), "should be at least 2");
    }
    if given(series, "lastObservedTime").is_none() {
        check.required("series.lastObservedTime", "");
    }
}

/// What new ones of `events.k8s.io` are besides.
fn strict(check: &mut Check, names: &Names, new: &Value) {
    check.causes.extend(metadata::validate(new, true, metadata::NameRule::Subdomain));
    series(check, new);
    if given(new, "eventTime").is_none() {
        check.required("eventTime", "");
    }
    let kind = string(new, "type");
    if !["Normal", "Warning"].contains(&kind) {
        check.invalid("type", &"".into(), &format!("has invalid value: {kind}"));
    }
    let source = field(new, names.source);
    let set = [
        ("firstTimestamp", given(new, names.first).is_some()),
        ("lastTimestamp", given(new, names.last).is_some()),
        ("count", integer(new, names.count).unwrap_or_default() != 0),
        ("source", ["component", "host"].iter().any(|name| !string(source, name).is_empty())),
    ];
    for (name, _) in set.iter().filter(|(_, set)| *set) {
        check.invalid(*name, &"".into(), "needs to be unset");
    }
}

/// What may not change of those of `events.k8s.io`: everything but the series.
fn change(check: &mut Check, names: &Names, new: &Value, old: &Value) {
    if given(new, "series") != given(old, "series") {
        series(check, new);
    }
    let fields = [
        ("involvedObject", names.object),
        ("reason", "reason"),
        ("message", names.message),
        ("source", names.source),
        ("firstTimestamp", names.first),
        ("lastTimestamp", names.last),
        ("count", names.count),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", names.controller),
        ("reportingInstance", "reportingInstance"),
    ];
    for (shown, name) in fields {
        check.immutable(shown, given(new, name), given(old, name));
    }
}
