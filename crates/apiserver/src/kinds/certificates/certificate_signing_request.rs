//! CertificateSigningRequests (`pkg/registry/certificates`, `pkg/apis/certificates/validation` upstream): the server sets the
//! requester, the spec is immutable, and `status` and `approval` each write their own part of the status.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use settled_apimachinery::unstructured::{field, integer, items, items_at, string};
use settled_apimachinery::validation;
use settled_go::strconv::quote;
use x509_parser::asn1_rs::Tag;
use x509_parser::prelude::{FromDer as _, X509CertificationRequest};

use crate::human;
use crate::kinds::behavior::{StatusUpdatePreserves, only_status};
use crate::kinds::certificates::signature;
use crate::kinds::check::{Check, Form, join};
use crate::kinds::names::Part;
use crate::kinds::printers::{NONE, Read as _, Row, cells};
use crate::kinds::strategy::{Requester, Strategy, UpdateContext};
use crate::metadata::NameRule;
use crate::object::{self, member_mut, text};
use crate::pem;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    name_rule: NameRule::Path,
    field_selectors: FieldSelectors::of(&[("spec.signerName", Source::Text(&["/spec/signerName"]))])
        .of_cluster(),
    prepare_for_create,
    prepare_for_update,
    reset_fields: Some(|part| match part {
        Part::Status => &[&["spec"], &["status", "conditions"]],
        Part::Approval => &[&["spec"], &["status", "certificate"]],
        _ => &[&["spec"], &["status"]],
    }),
    validate: |check, request| validate_request(check, request, None, Writes::Nothing),
    validate_update: Some(|check, new, old| validate_request(check, new, Some(old), Writes::Nothing)),
    validate_status_update: |check, new, old| validate_request(check, new, Some(old), Writes::Certificate),
    validate_subresource_update: |check, _part, new, old| {
        validate_request(check, new, Some(old), Writes::Conditions);
    },
    print: Some(print_certificate_signing_request),
    ..Strategy::DEFAULT
};

/// Where their conditions are.
const CONDITIONS: &str = "/status/conditions";

/// The requester is the user of the request, whatever the client sent.
fn prepare_for_create(request: &mut Value, requester: &Requester<'_>) {
    let spec = member_mut(request, "spec");
    for name in ["username", "uid", "groups", "extra"] {
        spec.remove(name);
    }
    let fields = [
        ("username", Value::from(requester.name), requester.name.is_empty()),
        ("uid", requester.uid.into(), requester.uid.is_empty()),
        ("groups", json!(requester.groups), requester.groups.is_empty()),
        ("extra", json!(requester.extra), requester.extra.is_empty()),
    ];
    for (name, value, is_empty) in fields {
        if !is_empty {
            spec.insert(name.to_owned(), value);
        }
    }
}

fn prepare_for_update(new: &mut Value, old: &Value, context: &UpdateContext<'_>) {
    match context.part {
        Part::Status => {
            preserve_conditions(new, old, APPROVED);
            preserve_conditions(new, old, DENIED);
            populate_timestamps(new, old, context.now);
        }
        Part::Approval => {
            populate_timestamps(new, old, context.now);
            let mut status = old.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
            match new.pointer(CONDITIONS) {
                Some(conditions) => status.insert("conditions".to_owned(), conditions.clone()),
                None => status.remove("conditions"),
            };
            member_mut(new, "status").clone_from(&status);
            only_status(new, old, StatusUpdatePreserves::Nothing);
        }
        _ => {
            let Some(map) = new.as_object_mut() else { return };
            match old.get("spec") {
                Some(spec) => map.insert("spec".to_owned(), spec.clone()),
                None => map.remove("spec"),
            };
        }
    }
}

fn conditions_mut(request: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let conditions = request.pointer_mut(CONDITIONS).and_then(Value::as_array_mut);
    conditions.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Keeps the conditions of a type as they were, unless there are more or fewer of them, which validation refuses.
fn preserve_conditions(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<&Value> =
        items_at(old, CONDITIONS).iter().filter(|condition| text(condition, "type") == kind).collect();
    let count = items_at(new, CONDITIONS).iter().filter(|condition| text(condition, "type") == kind).count();
    if count != before.len() {
        return;
    }
    let places =
        conditions_mut(new).filter(|condition| condition.get("type").is_some_and(|value| value == kind));
    for (place, before) in places.zip(before) {
        if let Some(before) = before.as_object() {
            place.clone_from(before);
        }
    }
}

/// Sets the times that a client left out: a transition is when a condition of this type and status was first written.
fn populate_timestamps(new: &mut Value, old: &Value, now: Timestamp) {
    let is_zero = |condition: &Map<String, Value>, name: &str| condition.get(name).is_none_or(Value::is_null);
    for condition in conditions_mut(new) {
        if is_zero(condition, "lastUpdateTime") {
            condition.insert("lastUpdateTime".to_owned(), object::time(now));
        }
        if is_zero(condition, "lastTransitionTime") {
            let same = |other: &&Value| {
                ["type", "status"].iter().all(|name| other.get(name) == condition.get(*name))
                    && other.get("lastTransitionTime").is_some_and(|time| !time.is_null())
            };
            let before =
                items_at(old, CONDITIONS).iter().find(same).and_then(|other| other.get("lastTransitionTime"));
            let time = before.cloned().unwrap_or_else(|| object::time(now));
            condition.insert("lastTransitionTime".to_owned(), time);
        }
    }
}

/// The usages that a certificate can be asked for, sorted.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const APPROVED: &str = "Approved";

const DENIED: &str = "Denied";

const FAILED: &str = "Failed";

const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const MIN_EXPIRATION_SECONDS: i64 = 600;

/// What a write may change of the status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// Nothing: the resource itself.
    Nothing,
    /// The certificate, and conditions other than Approved and Denied: the subresource `status`.
    Certificate,
    /// The conditions: the subresource `approval`.
    Conditions,
}

fn validate_request(check: &mut Check, new: &Value, old: Option<&Value>, writes: Writes) {
    if let Err(error) = check_request(string(field(new, "spec"), "request")) {
        check.invalid("spec.request", field(field(new, "spec"), "request"), &error);
    }
    validate_spec(check, field(new, "spec"), old.map(|old| field(old, "spec")));
    validate_conditions(check, new, old);
    let certificate = |request| field(field(request, "status"), "certificate");
    let same = old.is_some_and(|old| certificate_text(new) == certificate_text(old));
    // What was stored before it was checked is no reason to refuse other changes.
    let arbitrary = same || old.is_some_and(|old| check_certificate(certificate(old)).is_err());
    if !arbitrary && let Err(error) = check_certificate(certificate(new)) {
        check.invalid("status.certificate", &"<certificate data>".into(), &error);
    }
    if let Some(old) = old {
        validate_change(check, new, old, writes);
    }
}

fn certificate_text(request: &Value) -> &str {
    string(field(request, "status"), "certificate")
}

fn validate_spec(check: &mut Check, spec: &Value, old: Option<&Value>) {
    let usages = |spec| -> Vec<&Value> { items(spec, "usages").iter().collect() };
    let is_known = |usage: &&Value| usage.as_str().is_some_and(|usage| USAGES.contains(&usage));
    let is_unique = |usages: &[&Value]| {
        let names: BTreeSet<&str> = usages.iter().filter_map(|usage| usage.as_str()).collect();
        names.len() == usages.len()
    };
    let before = old.map(usages);
    let must_be_known = before.as_ref().is_none_or(|usages| usages.iter().all(is_known));
    let must_be_unique = before.as_ref().is_none_or(|usages| is_unique(usages));
    let all = usages(spec);
    if all.is_empty() {
        check.required("spec.usages", "");
    }
    for (index, usage) in all.iter().enumerate().filter(|(_, usage)| must_be_known && !is_known(usage)) {
        check.not_supported(format!("spec.usages[{index}]"), usage, &USAGES);
    }
    for (index, usage) in all.iter().enumerate().filter(|_| must_be_unique) {
        if all[..index].contains(usage) {
            check.duplicate(format!("spec.usages[{index}]"), usage);
        }
    }
    let signer = string(spec, "signerName");
    if signer == LEGACY_SIGNER && old.is_none_or(|old| string(old, "signerName") != LEGACY_SIGNER) {
        let detail = "the legacy signerName is not allowed via this API version";
        check.invalid("spec.signerName", &signer.into(), detail);
    } else {
        validate_signer_name(check, "spec.signerName", signer);
    }
    if let Some(seconds) = integer(spec, "expirationSeconds").filter(|it| *it < MIN_EXPIRATION_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        check.invalid("spec.expirationSeconds", &seconds.into(), detail);
    }
}

/// `ValidateSignerName` of `pkg/apis/core/validation`.
fn validate_signer_name(check: &mut Check, at: &str, signer: &str) {
    if signer.is_empty() {
        check.required(at, "");
        return;
    }
    let Some((domain, path)) = signer.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        check.invalid(at, &signer.into(), detail);
        return;
    };
    if domain.len() > 253 {
        check.too_long(at, 253);
    }
    // The first label that is wrong says enough.
    let labels = |whole: &str, form: Form| -> Vec<String> {
        let wrong = |label: &str| {
            let errors = form(label);
            let errors = errors.iter().map(|error| format!("validating label {}: {error}", quote(label)));
            Some(errors.collect::<Vec<_>>()).filter(|errors| !errors.is_empty())
        };
        whole.split('.').find_map(wrong).unwrap_or_default()
    };
    for detail in labels(domain, validation::is_dns1123_label) {
        check.invalid(at, &domain.into(), &detail);
    }
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        check.invalid(at, &domain.into(), detail);
    }
    for detail in labels(path, validation::is_dns1123_subdomain) {
        check.invalid(at, &path.into(), &detail);
    }
    // A domain, a slash, and a label with a subdomain.
    if signer.len() > 571 {
        check.too_long(at, 571);
    }
}

fn all_conditions(request: &Value) -> &[Value] {
    items(field(request, "status"), "conditions")
}

fn of_type<'a>(request: &'a Value, kind: &str) -> Vec<&'a Value> {
    all_conditions(request).iter().filter(|condition| string(condition, "type") == kind).collect()
}

fn validate_conditions(check: &mut Check, new: &Value, old: Option<&Value>) {
    let before: Vec<&str> = old
        .map(all_conditions)
        .unwrap_or_default()
        .iter()
        .map(|condition| string(condition, "type"))
        .collect();
    let both_allowed = before.contains(&APPROVED) && before.contains(&DENIED);
    let duplicates_allowed = before.iter().collect::<BTreeSet<_>>().len() < before.len();
    let empty_allowed = before.contains(&"");
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in all_conditions(new).iter().enumerate() {
        let at = format!("status.conditions[{index}]");
        let kind = string(condition, "type");
        if kind.is_empty() && !empty_allowed {
            check.required(join(&at, "type"), "");
        }
        let statuses: &[&str] =
            if [APPROVED, DENIED, FAILED].contains(&kind) { &["True"] } else { &STATUSES };
        check.word(&join(&at, "status"), string(condition, "status"), statuses);
        let excluded = match kind {
            APPROVED => seen.contains(&DENIED),
            DENIED => seen.contains(&APPROVED),
            _ => false,
        };
        if excluded && !both_allowed {
            let detail = "Approved and Denied conditions are mutually exclusive";
            check.invalid("status.conditions", &kind.into(), detail);
        }
        if seen.contains(&kind) && !duplicates_allowed {
            check.duplicate(join(&at, "type"), &kind.into());
        }
        seen.push(kind);
    }
}

/// What an update may not do. Modified Approved and Denied conditions need no rule: the strategies keep them as they were.
fn validate_change(check: &mut Check, new: &Value, old: &Value, writes: Writes) {
    let fewer = |kind: &str| of_type(new, kind).len() < of_type(old, kind).len();
    for kind in [APPROVED, DENIED, FAILED].into_iter().filter(|kind| fewer(kind)) {
        let detail = format!("updates may not remove a condition of type {kind:?}");
        check.forbidden("status.conditions", &detail);
    }
    let more = |kind: &str| of_type(new, kind).len() > of_type(old, kind).len();
    if writes != Writes::Conditions {
        for kind in [APPROVED, DENIED].into_iter().filter(|kind| more(kind)) {
            let detail = format!("updates may not add a condition of type {kind:?}");
            check.forbidden("status.conditions", &detail);
        }
    }
    if certificate_text(new) != certificate_text(old) {
        if writes != Writes::Certificate {
            check.forbidden("status.certificate", "updates may not set certificate content");
        } else if !certificate_text(old).is_empty() {
            check.forbidden("status.certificate", "updates may not modify existing certificate content");
        }
    }
}

fn check_certificate(certificate: &Value) -> Result<(), String> {
    let bytes = BASE64_STANDARD.decode(certificate.as_str().unwrap_or_default()).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(());
    }
    let mut blocks = 0;
    let mut rest = bytes.as_slice();
    while let Some((block, after)) = pem::decode(rest) {
        rest = after;
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {}", quote(&block.label)));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        blocks += 1;
        if pem::certificates(&block.bytes)? == 0 {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
    }
    if blocks == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

/// Calls `read` with a request in base64 of PEM (`ParseCSR` of `pkg/apis/certificates`).
fn parsed<T>(
    request: &str,
    read: impl FnOnce(&X509CertificationRequest<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let bytes = BASE64_STANDARD.decode(request).unwrap_or_default();
    let block = pem::decode(&bytes).map(|(block, _)| block);
    let block = block
        .filter(|block| block.label == "CERTIFICATE REQUEST")
        .ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let (rest, request) = X509CertificationRequest::from_der(&block.bytes)
        .map_err(|_| "x509: malformed certificate request".to_owned())?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    read(&request)
}

/// Parses a request and checks its signature.
fn check_request(request: &str) -> Result<(), String> {
    parsed(request, signature::verify)
}

/// The organizations in the subject of a request: the groups of the user that it would make.
pub(crate) fn organizations(request: &str) -> Result<Vec<String>, String> {
    parsed(request, |request| {
        let attributes = request.certification_request_info.subject.iter_organization();
        Ok(attributes.map(|attribute| any_text(attribute.attr_value())).collect())
    })
}

/// A string of any of the types that Go reads.
fn any_text(value: &x509_parser::asn1_rs::Any<'_>) -> String {
    if value.tag() == Tag::BmpString {
        let units: Vec<u16> =
            value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        return String::from_utf16_lossy(&units);
    }
    String::from_utf8_lossy(value.data).into_owned()
}

fn print_certificate_signing_request(row: Row<'_>) -> Vec<Value> {
    let has =
        |kind: &str| row.list("/status/conditions").iter().any(|condition| condition.text("/type") == kind);
    let mut status = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = row.at("/spec/expirationSeconds").and_then(Value::as_i64);
    let duration = duration.map(|seconds| human::duration(i128::from(seconds) * 1_000_000_000));
    cells![
        row.name(),
        row.age(),
        row.filled_or("/spec/signerName", NONE),
        row.text("/spec/username"),
        duration.unwrap_or_else(|| NONE.to_owned()),
        status,
    ]
}
