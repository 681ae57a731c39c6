//! Request options: those of lists, writes and deletions, validated as upstream does (`apimachinery/pkg/apis/meta`).

use std::num::{IntErrorKind, ParseIntError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use settled_apimachinery::labels::LabelSelector;
use settled_apimachinery::{InvalidSelector, fields};
use settled_go as go;

use crate::error::{ApiError, Cause};
use crate::request::Query;

const META: &str = "meta.k8s.io";

/// What to do with fields that a kind does not have, or that are given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: bool,
}

/// For texts as `field.NotSupported` has them.
fn not_supported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|text| format!("{text:?}")).collect();
    let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
    Cause::new("FieldValueNotSupported", message, field)
}

fn forbidden(field: &str, why: &str) -> Cause {
    Cause::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
}

fn dry_run(values: &[&str], causes: &mut Vec<Cause>) -> bool {
    if values.iter().any(|value| *value != "All") {
        causes.push(not_supported("dryRun", &json!(values).to_string(), &["All"]));
    }
    !values.is_empty()
}

impl WriteOptions {
    /// For what the server writes itself.
    pub(crate) fn internal() -> Self {
        Self {
            dry_run: false,
            field_manager: String::new(),
            field_validation: FieldValidation::Ignore,
            force: false,
        }
    }

    /// `kind` is that of the options: CreateOptions, UpdateOptions or PatchOptions.
    pub(crate) fn parse(query: &Query, kind: &str, apply: bool) -> Result<Self, ApiError> {
        let mut causes = Vec::new();
        let field_manager = query.get("fieldManager").to_owned();
        if kind == "PatchOptions" {
            if apply && field_manager.is_empty() {
                let message = "Required value: is required for apply patch";
                causes.push(Cause::new("FieldValueRequired", message, "fieldManager"));
            }
            if !apply && query.find("force").is_some() {
                causes.push(forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        check_field_manager(&field_manager, &mut causes);
        let dry_run = dry_run(&query.all("dryRun"), &mut causes);
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(not_supported("fieldValidation", &format!("{other:?}"), &supported));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            return Err(ApiError::invalid(META, kind, "", causes));
        }
        Ok(Self { dry_run, field_manager, field_validation, force: query.truthy("force").unwrap_or(false) })
    }

    /// The manager of a write: the parameter, or what the client calls itself.
    pub(crate) fn manager(&self, user_agent: &str) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.clone();
        }
        let prefix = user_agent.split('/').next().unwrap_or_default();
        let mut manager: String = prefix.chars().filter(|c| !c.is_control()).collect();
        while manager.len() > 128 {
            manager.pop();
        }
        manager
    }
}

fn check_field_manager(manager: &str, causes: &mut Vec<Cause>) {
    if manager.len() > 128 {
        causes.push(Cause::new(
            "FieldValueTooLong",
            "Too long: may not be more than 128 bytes",
            "fieldManager",
        ));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !go::strconv::is_print(*c)) {
        let message = format!(
            "Invalid value: {}: invalid character U+{:04X} (at position {at})",
            go::strconv::quote(manager),
            u32::from(c)
        );
        causes.push(Cause::new("FieldValueInvalid", message, "fieldManager"));
    }
}

/// How dependents are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of delete and deletecollection.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// From the body, or, without one, from the query.
    pub(crate) fn parse(body: Option<&Value>, query: &Query) -> Result<Self, ApiError> {
        let mut options = Self::default();
        let mut causes = Vec::new();
        let (policy, dry): (Option<String>, Vec<String>);
        match body {
            Some(body) => {
                let kind = body.get("kind").and_then(Value::as_str).unwrap_or("DeleteOptions");
                if kind != "DeleteOptions" {
                    let version = body.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
                    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
                    return Err(ApiError::bad_request(format!(
                        "decoded object cannot be converted to DeleteOptions: {group}/{version}, Kind={kind}"
                    )));
                }
                let precondition = |name: &str| {
                    body.pointer(&format!("/preconditions/{name}")).and_then(Value::as_str).map(str::to_owned)
                };
                options.uid = precondition("uid");
                options.resource_version = precondition("resourceVersion");
                options.grace = body.get("gracePeriodSeconds").and_then(Value::as_i64);
                options.orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool);
                policy = body.get("propagationPolicy").and_then(Value::as_str).map(str::to_owned);
                let list = body.get("dryRun").and_then(Value::as_array);
                dry = list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            }
            None => {
                options.grace = match query.find("gracePeriodSeconds") {
                    None | Some("") => None,
                    Some(text) => Some(text.parse().map_err(|_| {
                        let text = go::strconv::quote(text);
                        ApiError::bad_request(format!("strconv.ParseInt: parsing {text}: invalid syntax"))
                    })?),
                };
                options.orphan_dependents = query.truthy("orphanDependents");
                policy = query.find("propagationPolicy").map(str::to_owned);
                dry = query.all("dryRun").into_iter().map(str::to_owned).collect();
            }
        }
        if let Some(policy) = &policy {
            if options.orphan_dependents.is_some() {
                let message = format!(
                    "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set"
                );
                causes.push(Cause::new("FieldValueInvalid", message, "propagationPolicy"));
            }
            match policy.as_str() {
                "Background" => options.propagation = Some(Propagation::Background),
                "Foreground" => options.propagation = Some(Propagation::Foreground),
                "Orphan" => options.propagation = Some(Propagation::Orphan),
                other => causes.push(not_supported(
                    "propagationPolicy",
                    &format!("{other:?}"),
                    &["Foreground", "Background", "Orphan", "nil"],
                )),
            }
        }
        let dry: Vec<&str> = dry.iter().map(String::as_str).collect();
        options.dry_run = dry_run(&dry, &mut causes);
        if !causes.is_empty() {
            return Err(ApiError::invalid(META, "DeleteOptions", "", causes));
        }
        // A negative one counts as one second.
        options.grace = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
        Ok(options)
    }
}

/// Which revision a list is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Exact,
    NotOlderThan,
}

/// The options of list, watch and deletecollection, without the selectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<Match>,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Those of a list, or of a watch. `watch_list`: is upstream's feature gate of this name on?
    pub(crate) fn parse(query: &Query, watch: bool, watch_list: bool) -> Result<Self, ApiError> {
        let number = |name: &str| -> Result<Option<i64>, ApiError> {
            match query.find(name) {
                None | Some("") => Ok(None),
                Some(text) => text.parse().map(Some).map_err(|error: ParseIntError| {
                    let why = match error.kind() {
                        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                        _ => "invalid syntax",
                    };
                    ApiError::bad_request(format!(
                        "strconv.ParseInt: parsing {}: {why}",
                        go::strconv::quote(text)
                    ))
                }),
            }
        };
        let timeout = number("timeoutSeconds")?;
        let limit = number("limit")?.unwrap_or_default();
        let mut options = Self {
            resource_version: query.get("resourceVersion").to_owned(),
            version_match: None,
            limit: usize::try_from(limit).unwrap_or_default(),
            continue_token: query.get("continue").to_owned(),
            timeout_seconds: timeout.and_then(|seconds| u64::try_from(seconds).ok()),
            bookmarks: query.truthy("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: query.truthy("sendInitialEvents"),
        };
        let mut given = query.get("resourceVersionMatch");
        options.version_match = match given {
            "Exact" => Some(Match::Exact),
            "NotOlderThan" => Some(Match::NotOlderThan),
            _ => None,
        };
        if watch
            && watch_list
            && options.send_initial_events.is_none()
            && given.is_empty()
            && options.is_legacy()
        {
            options.send_initial_events = Some(true);
            options.version_match = Some(Match::NotOlderThan);
            given = "NotOlderThan";
        }
        let causes = if watch { options.check_watch(given, watch_list) } else { options.check_list(given) };
        if causes.is_empty() {
            return Ok(options);
        }
        // Selectors that cannot be read are found before options that don't fit.
        let bad = |error: InvalidSelector| ApiError::bad_request(error.to_string());
        LabelSelector::parse(query.get("labelSelector")).map_err(bad)?;
        fields::parse(query.get("fieldSelector")).map_err(bad)?;
        Err(ApiError::invalid(META, "ListOptions", "", causes))
    }

    /// Is any state good enough?
    fn is_legacy(&self) -> bool {
        matches!(self.resource_version.as_str(), "" | "0")
    }

    fn check_list(&self, given: &str) -> Vec<Cause> {
        const MATCH: &str = "resourceVersionMatch";
        let mut causes = Vec::new();
        if !given.is_empty() {
            if self.resource_version.is_empty() {
                causes.push(forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
            }
            if self.version_match.is_none() {
                causes.push(not_supported(MATCH, &format!("{given:?}"), &["Exact", "NotOlderThan", ""]));
            }
            if self.version_match == Some(Match::Exact) && self.resource_version == "0" {
                causes.push(forbidden(
                    MATCH,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        causes
    }

    fn check_watch(&self, given: &str, watch_list: bool) -> Vec<Cause> {
        const MATCH: &str = "resourceVersionMatch";
        let mut causes = Vec::new();
        if self.send_initial_events.is_some() && self.version_match != Some(Match::NotOlderThan) {
            causes.push(forbidden(
                MATCH,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if self.send_initial_events.is_some() && !watch_list {
            causes.push(forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ));
        }
        if !given.is_empty() {
            if self.send_initial_events.is_none() {
                causes.push(forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if self.version_match != Some(Match::NotOlderThan) {
                causes.push(not_supported(MATCH, &format!("{given:?}"), &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
            }
        }
        causes
    }

    /// The revision as a number; 0 if none was given.
    pub(crate) fn revision(&self) -> Result<u64, ApiError> {
        parse_revision(&self.resource_version)
    }
}

/// A `resourceVersion` as a number; 0 for none. Upstream has no code for what isn't one: it takes it for its own failure.
pub(crate) fn parse_revision(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    let why = match text.parse() {
        Ok(revision) if text.bytes().all(|byte| byte.is_ascii_digit()) => return Ok(revision),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow && !text.starts_with('+') => {
            "value out of range"
        }
        _ => "invalid syntax",
    };
    let text = go::strconv::quote(text);
    let message = format!("resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: {why}");
    Err(ApiError::new(500, "", message))
}

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continue {
    /// The revision of the first page, or nothing: at the latest.
    pub(crate) revision: Option<u64>,
    /// The first path, within the namespace if the list is of one.
    pub(crate) start: String,
}

impl Continue {
    pub(crate) fn encode(&self) -> String {
        let revision = self.revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(-1);
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    pub(crate) fn decode(text: &str) -> Result<Self, ApiError> {
        let invalid = |why: &str| ApiError::bad_request(format!("invalid continue token: {why}"));
        let not_valid = |why: &str| invalid(&format!("continue key is not valid: {why}"));
        let bytes =
            go::base64::URL_SAFE_NO_PAD.decode(text).map_err(|error| not_valid(&error.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let syntax = go::json::syntax_error(&bytes);
            not_valid(&syntax.map_or_else(|| error.to_string(), |error| error.to_string()))
        })?;
        let version = token.get("v").and_then(Value::as_str).unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(invalid(&format!(
                "continue key is not valid: server does not recognize this encoded version {version}"
            )));
        }
        let revision = token.get("rv").and_then(Value::as_i64).unwrap_or_default();
        if revision == 0 {
            return Err(not_valid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(not_valid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        // Nothing may lead out of the list's own prefix.
        let clean = start.trim_start_matches('/');
        let segments = clean.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !segments || start.starts_with("//") {
            return Err(not_valid(start));
        }
        Ok(Self { revision: u64::try_from(revision).ok(), start: clean.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_come_back_and_stay_in_their_prefix() {
        let token = Continue { revision: Some(7), start: "shop/a\0".to_owned() };
        assert_eq!(Continue::decode(&token.encode()).unwrap(), token);
        let latest = Continue { revision: None, start: "a".to_owned() };
        assert_eq!(Continue::decode(&latest.encode()).unwrap(), latest);
        for start in ["../x", "a/../../b", "//a", "a//b", "."] {
            let token = Continue { revision: Some(7), start: start.to_owned() };
            assert!(Continue::decode(&token.encode()).is_err(), "{start}");
        }
        assert!(Continue::decode("%%%").is_err());
    }

    #[test]
    fn list_options_are_checked_as_upstream_does() {
        let cases = [
            ("", false, ""),
            ("resourceVersionMatch=Exact", false, "resourceVersionMatch is forbidden unless"),
            ("resourceVersionMatch=Exact&resourceVersion=0", false, "forbidden for resourceVersion \"0\""),
            ("sendInitialEvents=true", false, "sendInitialEvents is forbidden for list"),
            ("sendInitialEvents=true", true, "sendInitialEvents requires setting"),
            ("resourceVersionMatch=NotOlderThan&resourceVersion=5", true, "forbidden for watch unless"),
            ("resourceVersionMatch=NotOlderThan&sendInitialEvents=true&resourceVersion=5", true, ""),
        ];
        for (query, watch, wanted) in cases {
            match ListOptions::parse(&Query::parse(query), watch, true) {
                Ok(_) => assert_eq!(wanted, "", "{query}"),
                Err(error) => {
                    assert!(!wanted.is_empty() && error.message.contains(wanted), "{query}: {error}")
                }
            }
        }
    }
}
