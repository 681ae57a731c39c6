//! Events, by the version that they are written in: `events.k8s.io` has other names for the same fields.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, string};
use settled_apimachinery::validation;

use crate::human;
use crate::kinds::behavior::{Behavior, Dependents};
use crate::kinds::check::Check;
use crate::kinds::fields::Fields;
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::quota::Quota;
use crate::kinds::strategy::Strategy;
use crate::metadata;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    field_selectors: FieldSelectors::of(&[
        ("involvedObject.kind", Source::Text(&["/involvedObject/kind", "/regarding/kind"])),
        ("involvedObject.namespace", Source::Text(&["/involvedObject/namespace", "/regarding/namespace"])),
        ("involvedObject.name", Source::Text(&["/involvedObject/name", "/regarding/name"])),
        ("involvedObject.uid", Source::Text(&["/involvedObject/uid", "/regarding/uid"])),
        ("involvedObject.apiVersion", Source::Text(&["/involvedObject/apiVersion", "/regarding/apiVersion"])),
        (
            "involvedObject.resourceVersion",
            Source::Text(&["/involvedObject/resourceVersion", "/regarding/resourceVersion"]),
        ),
        ("involvedObject.fieldPath", Source::Text(&["/involvedObject/fieldPath", "/regarding/fieldPath"])),
        ("reason", Source::Text(&["/reason"])),
        ("reportingComponent", REPORTER),
        ("source", SOURCE),
        ("type", Source::Text(&["/type"])),
    ]),
    validate: |check, event| validate_legacy_event(check, &CORE, event),
    ..COMMON
};

/// Those of `events.k8s.io`. Events are kept once: selectors read the same fields in the same order.
pub(crate) static NEW_STRATEGY: Strategy = Strategy {
    field_selectors: FieldSelectors::of(&[
        ("regarding.kind", Source::Text(&["/involvedObject/kind", "/regarding/kind"])),
        ("regarding.namespace", Source::Text(&["/involvedObject/namespace", "/regarding/namespace"])),
        ("regarding.name", Source::Text(&["/involvedObject/name", "/regarding/name"])),
        ("regarding.uid", Source::Text(&["/involvedObject/uid", "/regarding/uid"])),
        ("regarding.apiVersion", Source::Text(&["/involvedObject/apiVersion", "/regarding/apiVersion"])),
        (
            "regarding.resourceVersion",
            Source::Text(&["/involvedObject/resourceVersion", "/regarding/resourceVersion"]),
        ),
        ("regarding.fieldPath", Source::Text(&["/involvedObject/fieldPath", "/regarding/fieldPath"])),
        ("reason", Source::Text(&["/reason"])),
        ("reportingController", REPORTER),
        // Only the older group can be asked for it.
        ("", SOURCE),
        ("type", Source::Text(&["/type"])),
    ]),
    validate: |check, event| {
        validate_legacy_event(check, &NEW, event);
        validate_new_event(check, &NEW, event);
    },
    validate_update: Some(|check, new, old| {
        validate_legacy_event(check, &NEW, new);
        validate_event_update(check, &NEW, new, old);
    }),
    ..COMMON
};

const COMMON: Strategy = Strategy {
    behavior: Behavior { create_on_update: true, dependents: Dependents::Unsupported, ..Behavior::BUILTIN },
    print: Some(print_event),
    quota: Quota::Exempt,
    ..Strategy::DEFAULT
};

const REPORTER: Source = Source::Text(&["/reportingComponent", "/reportingController"]);
const SOURCE: Source = Source::Text(&[
    "/source/component",
    "/deprecatedSource/component",
    "/reportingComponent",
    "/reportingController",
]);

/// The fields of an Event that have two names: in the core group, in `events.k8s.io`.
const RENAMED_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("message", "note"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(crate) fn rename_fields(event: &mut Fields, to_core: bool) {
    for (core, new) in RENAMED_FIELDS {
        let (from, to) = if to_core { (new, core) } else { (core, new) };
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

/// The lengths of reasons and the like, and of messages.
const MAX_SHORT_BYTES: usize = 128;
const MAX_MESSAGE_BYTES: usize = 1024;

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

fn too_long(check: &mut Check, at: &str, text: &str, most: usize) {
    if text.len() > most {
        check.invalid(at, &"".into(), &format!("can have at most {most} characters"));
    }
}

/// The rules of Events of either group.
fn validate_legacy_event(check: &mut Check, names: &Names, new: &Value) {
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
            too_long(check, name, string(new, name), MAX_SHORT_BYTES);
        }
        too_long(check, "message", string(new, names.message), MAX_MESSAGE_BYTES);
    }
    check.form("namespace", namespace, validation::is_dns1123_subdomain);
}

fn validate_event_series(check: &mut Check, new: &Value) {
    let Some(series) = given(new, "series") else { return };
    if integer(series, "count").unwrap_or_default() < 2 {
        check.invalid("series.count", &"".into(), "should be at least 2");
    }
    if given(series, "lastObservedTime").is_none() {
        check.required("series.lastObservedTime", "");
    }
}

/// Further rules of new Events of `events.k8s.io`.
fn validate_new_event(check: &mut Check, names: &Names, new: &Value) {
    check.causes.extend(metadata::validate(new, true, metadata::NameRule::Subdomain));
    validate_event_series(check, new);
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

/// Of Events of `events.k8s.io`, nothing but the series may change.
fn validate_event_update(check: &mut Check, names: &Names, new: &Value, old: &Value) {
    if given(new, "series") != given(old, "series") {
        validate_event_series(check, new);
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

/// Events of either group: the older names come first.
fn print_event(row: Row<'_>) -> Vec<Value> {
    let either = |old: &str, new: &str| row.filled_or(old, row.text(new)).to_owned();
    let since = |pointers: &[&str]| {
        let mut times = pointers.iter().map(|pointer| row.since(pointer));
        times.find(|time| time != human::UNKNOWN).unwrap_or_else(|| human::UNKNOWN.to_owned())
    };
    let first = since(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]);
    let mut last = since(&["/lastTimestamp", "/deprecatedLastTimestamp"]);
    if last == human::UNKNOWN {
        last.clone_from(&first);
    }
    let mut count = row.int("/count").max(row.int("/deprecatedCount"));
    if row.has("/series") {
        last = row.since("/series/lastObservedTime");
        count = row.int("/series/count");
    } else if count == 0 {
        count = 1;
    }
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let object = match either("/involvedObject/name", "/regarding/name").as_str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let or = |first: String, second: String| if first.is_empty() { second } else { first };
    let component = or(
        either("/source/component", "/deprecatedSource/component"),
        either("/reportingComponent", "/reportingController"),
    );
    let host =
        or(either("/source/host", "/deprecatedSource/host"), row.text("/reportingInstance").to_owned());
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    cells![
        last,
        row.text("/type"),
        row.text("/reason"),
        object,
        either("/involvedObject/fieldPath", "/regarding/fieldPath"),
        source,
        either("/message", "/note").trim(),
        first,
        count,
        row.name(),
    ]
}
