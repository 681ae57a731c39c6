//! Review APIs: SubjectAccessReview and its kind, SelfSubjectRulesReview, SelfSubjectReview, TokenReview.
//!
//! Each function takes the object that was posted and gives back the object that answers it. The answer has the fields that upstream's
//! has, and no others. `metadata.managedFields` stay as they come: the caller has set them.

use serde_json::{Map, Value, json};
use settled_apimachinery::validation::{is_qualified_name, is_valid_label_value};
use settled_go::json;
use settled_go::strconv::quote;

use super::rbac::{Attributes, PolicyRule, Rbac, aggregate_error};
use super::user::User;
use super::{Tokens, authenticate};
use crate::{ApiError, Cause, LabelSelector};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";

/// Answers a SelfSubjectAccessReview: may I? It is what `kubectl auth can-i` asks.
///
/// ```
/// use serde_json::json;
/// use settled_apiserver::auth::{Rbac, User, reviews};
///
/// let question = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
/// let answer = reviews::self_subject_access_review(&Rbac::default(), &User::admin(), &question).unwrap();
/// assert_eq!(answer["status"], json!({"allowed": true}));
/// ```
///
/// # Errors
///
/// 422 with upstream's causes, if the question makes no sense.
pub fn self_subject_access_review(rbac: &Rbac, user: &User, request: &Value) -> Result<Value, ApiError> {
    let mut causes = check_attributes(&request["spec"], false);
    causes.extend(check_metadata(request, false));
    invalid(causes)?;
    access(rbac, user, "SelfSubjectAccessReview", request)
}

/// Answers a SubjectAccessReview: may they?
///
/// # Errors
///
/// 422 with upstream's causes, if the question makes no sense.
pub fn subject_access_review(rbac: &Rbac, request: &Value) -> Result<Value, ApiError> {
    let mut causes = check_attributes(&request["spec"], true);
    causes.extend(check_metadata(request, false));
    invalid(causes)?;
    access(rbac, &subject(&request["spec"]), "SubjectAccessReview", request)
}

/// Answers a LocalSubjectAccessReview: may they, in this namespace?
///
/// # Errors
///
/// 422 with upstream's causes, if the question makes no sense; 400 if it is about another namespace than the request.
pub fn local_subject_access_review(rbac: &Rbac, namespace: &str, request: &Value) -> Result<Value, ApiError> {
    // Upstream's generic part of a create fills in the namespace and compares it, before the review is looked at.
    let mut request = request.clone();
    match text(&request["metadata"]["namespace"]) {
        "" => {
            if let Some(object) = request.as_object_mut()
                && let Some(metadata) = object.entry("metadata").or_insert_with(|| json!({})).as_object_mut()
            {
                metadata.insert("namespace".to_owned(), namespace.into());
            }
        }
        own if own != namespace => {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(why));
        }
        _ => {}
    }
    let spec = &request["spec"];
    let mut causes = check_attributes(spec, true);
    causes.extend(check_metadata(&request, true));
    if let Some(resource) = present(&spec["resourceAttributes"]) {
        let asked = text(&resource["namespace"]);
        if asked != namespace {
            let message = format!("Invalid value: {}: must match metadata.namespace", quote(asked));
            causes.push(Cause::new(INVALID, message, "spec.resourceAttributes.namespace"));
        }
    }
    if let Some(path) = present(&spec["nonResourceAttributes"]) {
        let message = format!("Invalid value: {}: disallowed on this kind of request", path_attributes(path));
        causes.push(Cause::new(INVALID, message, "spec.nonResourceAttributes"));
    }
    invalid(causes)?;
    access(rbac, &subject(spec), "LocalSubjectAccessReview", &request)
}

/// Answers a SelfSubjectRulesReview: what may I do in a namespace? It is what `kubectl auth can-i --list` asks.
///
/// # Errors
///
/// 400 if it names no namespace.
pub fn self_subject_rules_review(rbac: &Rbac, user: &User, request: &Value) -> Result<Value, ApiError> {
    let namespace = text(&request["spec"]["namespace"]);
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let granted = rbac.rules_of(user, namespace);
    let of = |wanted: fn(&PolicyRule) -> bool, fields: &[&str]| -> Value {
        let rules = granted.rules.iter().filter(|rule| wanted(rule)).map(|rule| {
            let mut rule = rule.to_json();
            if let Some(rule) = rule.as_object_mut() {
                rule.retain(|field, _| fields.contains(&field.as_str()));
                // The verbs are there even if they are none.
                rule.entry("verbs").or_insert(Value::Null);
            }
            rule
        });
        rules.collect()
    };
    let mut status = json!({
        "resourceRules": of(|rule| !rule.resources.is_empty(), &["verbs", "apiGroups", "resources", "resourceNames"]),
        "nonResourceRules": of(|rule| !rule.non_resource_urls.is_empty(), &["verbs", "nonResourceURLs"]),
        "incomplete": false,
    });
    if let Some(error) = aggregate_error(&granted.missing) {
        status["evaluationError"] = error.into();
    }
    // Upstream answers with a new object: the question is not in it.
    Ok(json!({
        "kind": "SelfSubjectRulesReview", "apiVersion": format!("{AUTHORIZATION}/v1"),
        "metadata": {}, "spec": {}, "status": status,
    }))
}

/// Answers a SelfSubjectReview: who am I? It is what `kubectl auth whoami` asks.
#[must_use]
pub fn self_subject_review(user: &User, now: &str) -> Value {
    json!({
        "kind": "SelfSubjectReview", "apiVersion": format!("{AUTHENTICATION}/v1"),
        "metadata": {"creationTimestamp": now}, "status": {"userInfo": user_info(user)},
    })
}

/// Answers a TokenReview: whose token is this?
///
/// # Errors
///
/// 400 if it holds no token.
pub fn token_review(tokens: &Tokens, request: &Value) -> Result<Value, ApiError> {
    let spec = &request["spec"];
    let token = text(&spec["token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<&str> = spec["audiences"].as_array().into_iter().flatten().map(text).collect();
    let own = tokens.audiences();
    // Tokens of a file are good for the server's audiences, and a review may ask for some of them.
    let audiences: Vec<&str> = match (audiences.as_slice(), own) {
        ([], own) => own.iter().map(String::as_str).collect(),
        (_, []) => audiences,
        (_, own) => audiences.into_iter().filter(|audience| own.iter().any(|own| own == audience)).collect(),
    };
    let wrong_audience =
        audiences.is_empty() && spec["audiences"].as_array().is_some_and(|asked| !asked.is_empty());
    // As upstream, the token goes through all that reads an `Authorization` header: one with spaces in it may come out as another, or
    // as none.
    let status = match authenticate(None, Some(&format!("Bearer {token}")), tokens) {
        Ok(user) if !wrong_audience => {
            let mut status = json!({"authenticated": true, "user": user_info(&user)});
            if !audiences.is_empty() {
                status["audiences"] = audiences.into();
            }
            status
        }
        _ => json!({"user": {}, "error": "invalid bearer token"}),
    };
    let spec = pick(spec, &["token", "audiences"]);
    Ok(answer(AUTHENTICATION, "TokenReview", request, spec, status))
}

fn answer(group: &str, kind: &str, request: &Value, spec: Value, status: Value) -> Value {
    let mut metadata = present(&request["metadata"]).cloned().unwrap_or_else(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut().filter(|_| kind != "LocalSubjectAccessReview") {
        metadata.remove("namespace");
    }
    json!({
        "kind": kind, "apiVersion": format!("{group}/v1"), "metadata": metadata, "spec": spec, "status": status,
    })
}

fn access(rbac: &Rbac, user: &User, kind: &str, request: &Value) -> Result<Value, ApiError> {
    let spec = &request["spec"];
    let resource = &spec["resourceAttributes"];
    let attributes = if present(resource).is_some() {
        Attributes {
            verb: text(&resource["verb"]),
            api_group: text(&resource["group"]),
            api_version: Some(text(&resource["version"])).filter(|v| !v.is_empty()).unwrap_or("*"),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
            path: None,
        }
    } else {
        let path = &spec["nonResourceAttributes"];
        Attributes { verb: text(&path["verb"]), path: Some(text(&path["path"])), ..Attributes::default() }
    };
    let decision = rbac.authorize(user, &attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    // RBAC looks at no selectors; a selector that nobody can read is mentioned all the same.
    let unread = [("fieldSelector", read_fields as Reader), ("labelSelector", read_labels)];
    let unread = unread.into_iter().filter_map(|(field, read)| {
        let how = match present(&resource[field]).map(read)? {
            Read::All => return None,
            Read::Some => "partially ignored",
            Read::Nothing => "ignored",
        };
        Some(format!("spec.resourceAttributes.{field} {how} due to parse error"))
    });
    let unread: Vec<String> = unread.collect();
    if !unread.is_empty() {
        status["evaluationError"] = unread.join("; ").into();
    }
    let mut out = pick(spec, &["user", "groups", "extra", "uid"]);
    if kind == "SelfSubjectAccessReview" {
        out = json!({});
    }
    if present(resource).is_some() {
        const FIELDS: [&str; 7] =
            ["namespace", "verb", "group", "version", "resource", "subresource", "name"];
        let mut attributes = pick(resource, &FIELDS);
        for field in ["fieldSelector", "labelSelector"] {
            if let Some(selector) = present(&resource[field]) {
                attributes[field] = pick(selector, &["rawSelector", "requirements"]);
            }
        }
        out["resourceAttributes"] = attributes;
    }
    if let Some(path) = present(&spec["nonResourceAttributes"]) {
        out["nonResourceAttributes"] = pick(path, &["path", "verb"]);
    }
    Ok(answer(AUTHORIZATION, kind, request, out, status))
}

fn subject(spec: &Value) -> User {
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|value| text(value).to_owned()).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(&spec["user"]).to_owned(),
        uid: text(&spec["uid"]).to_owned(),
        groups: list(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), list(values))).collect(),
    }
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    let mut set = |key: &str, value: Value| {
        if !is_empty(&value) {
            info.insert(key.to_owned(), value);
        }
    };
    set("username", user.name.as_str().into());
    set("uid", user.uid.as_str().into());
    set("groups", user.groups.clone().into());
    set(
        "extra",
        user.extra
            .iter()
            .map(|(key, values)| (key.clone(), values.clone().into()))
            .collect::<Map<_, _>>()
            .into(),
    );
    info.into()
}

fn invalid(causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    // Upstream has lost the kind by then: so it says `.authorization.k8s.io "" is invalid`.
    Err(ApiError::invalid(AUTHORIZATION, "", "", causes))
}

fn check_attributes(spec: &Value, with_subject: bool) -> Vec<Cause> {
    let (resource, path) = (present(&spec["resourceAttributes"]), present(&spec["nonResourceAttributes"]));
    let mut causes = Vec::new();
    match (resource, path) {
        (Some(_), Some(path)) => {
            let path = path_attributes(path);
            let message = format!("Invalid value: {path}: cannot be specified in combination with resourceAttributes");
            causes.push(Cause::new(INVALID, message, "spec.nonResourceAttributes"));
        }
        (None, None) => causes.push(Cause::new(
            INVALID,
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            "spec.resourceAttributes",
        )),
        _ => {}
    }
    if with_subject && text(&spec["user"]).is_empty() && is_empty(&spec["groups"]) {
        let message = "Invalid value: \"\": at least one of user or group must be specified";
        causes.push(Cause::new(INVALID, message, "spec.user"));
    }
    if let Some(resource) = resource {
        for (field, labels) in [("fieldSelector", false), ("labelSelector", true)] {
            if let Some(selector) = present(&resource[field]) {
                let at = format!("spec.resourceAttributes.{field}");
                check_selector(selector, &at, labels, &mut causes);
            }
        }
    }
    causes
}

fn check_selector(selector: &Value, at: &str, labels: bool, causes: &mut Vec<Cause>) {
    let raw = text(&selector["rawSelector"]);
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    match (raw, requirements) {
        ("", []) => causes.push(Cause::new(
            REQUIRED,
            format!("Required value: when {at} is specified, requirements or rawSelector is required"),
            format!("{at}.requirements"),
        )),
        ("", _) | (_, []) => {}
        (raw, _) => causes.push(Cause::new(
            INVALID,
            format!("Invalid value: {}: may not specified at the same time as requirements", quote(raw)),
            format!("{at}.rawSelector"),
        )),
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let at = format!("{at}.requirements[{index}]");
        let key = text(&requirement["key"]);
        if !labels && key.is_empty() {
            causes.push(Cause::new(REQUIRED, "Required value: must be specified", format!("{at}.key")));
        }
        let none = is_empty(&requirement["values"]);
        match text(&requirement["operator"]) {
            "In" | "NotIn" if none => causes.push(Cause::new(
                REQUIRED,
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
                format!("{at}.values"),
            )),
            "Exists" | "DoesNotExist" if !none => causes.push(Cause::new(
                FORBIDDEN,
                "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                format!("{at}.values"),
            )),
            _ => {}
        }
        if labels {
            let invalid = |value: &str, why: String, at: String| {
                Cause::new(INVALID, format!("Invalid value: {}: {why}", quote(value)), at)
            };
            causes
                .extend(is_qualified_name(key).into_iter().map(|why| invalid(key, why, format!("{at}.key"))));
            let values = requirement["values"].as_array().into_iter().flatten().map(text).enumerate();
            for (index, value) in values {
                let errors = is_valid_label_value(value).into_iter();
                causes.extend(errors.map(|why| invalid(value, why, format!("{at}.values[{index}]"))));
            }
        }
    }
}

/// Managed fields with their fields in the order in which upstream writes them.
fn managers(entries: &Value) -> String {
    const FIELDS: [&str; 7] =
        ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let shown = |entry: &Value| {
        let known = FIELDS.iter().filter(|field| !entry[**field].is_null());
        let shown = known.map(|field| format!("\"{field}\":{}", json::to_string(&entry[*field])));
        format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
    };
    entries.as_array().into_iter().flatten().map(shown).collect::<Vec<_>>().join(",")
}

/// A review has no metadata but managed fields, and a namespace: that of others than local ones is taken off before, as from all that
/// lives outside of namespaces.
fn check_metadata(request: &Value, local: bool) -> Option<Cause> {
    /// In the order in which upstream writes them.
    const FIELDS: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let metadata = &request["metadata"];
    let set = |field: &&&str| !is_empty(&metadata[**field]) && (local || **field != "namespace");
    if FIELDS.iter().filter(set).all(|field| matches!(*field, "managedFields" | "namespace")) {
        return None;
    }
    let shown = FIELDS.iter().filter(set).map(|field| match *field {
        "managedFields" => format!("\"{field}\":[{}]", managers(&metadata[*field])),
        field => format!("\"{field}\":{}", json::to_string(&metadata[field])),
    });
    let shown = shown.collect::<Vec<_>>().join(",");
    let except = if local { " except for namespace" } else { "" };
    Some(Cause::new(INVALID, format!("Invalid value: {{{shown}}}: must be empty{except}"), "metadata"))
}

/// Attributes as upstream shows them: from a type that has no JSON names.
fn path_attributes(path: &Value) -> String {
    format!(
        "{{\"Path\":{},\"Verb\":{}}}",
        json::to_string(&text(&path["path"]).into()),
        json::to_string(&text(&path["verb"]).into())
    )
}

/// How much of a selector can be read.
enum Read {
    All,
    Some,
    Nothing,
}

type Reader = fn(&Value) -> Read;

fn read_labels(selector: &Value) -> Read {
    read(
        selector,
        |text| LabelSelector::parse(text).is_ok(),
        |requirement| matches!(text(&requirement["operator"]), "In" | "NotIn" | "Exists" | "DoesNotExist"),
    )
}

fn read_fields(selector: &Value) -> Read {
    read(selector, is_field_selector, |requirement| {
        let one = requirement["values"].as_array().is_some_and(|values| values.len() == 1);
        one && matches!(text(&requirement["operator"]), "In" | "NotIn")
    })
}

fn read(selector: &Value, raw: fn(&str) -> bool, requirement: fn(&Value) -> bool) -> Read {
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    if requirements.is_empty() {
        return if raw(text(&selector["rawSelector"])) { Read::All } else { Read::Nothing };
    }
    match requirements.iter().filter(|one| requirement(one)).count() {
        count if count == requirements.len() => Read::All,
        0 => Read::Nothing,
        _ => Read::Some,
    }
}

/// Whether the text is a field selector: `a=b,c!=d,e==f`, with a backslash before what is meant itself.
fn is_field_selector(selector: &str) -> bool {
    let mut term = String::new();
    let mut terms = Vec::new();
    let mut chars = selector.chars();
    while let Some(c) = chars.next() {
        match c {
            // What the backslash hides counts neither as a comma nor as an operator.
            '\\' => match chars.next() {
                Some('\\' | ',' | '=') => term.push('_'),
                _ => return false,
            },
            ',' => terms.push(std::mem::take(&mut term)),
            c => term.push(c),
        }
    }
    terms.push(term);
    terms.iter().filter(|term| !term.is_empty()).all(|term| {
        let value = term.split_once("!=").or_else(|| term.split_once("==")).or_else(|| term.split_once('='));
        value.is_some_and(|(_, value)| !value.contains('='))
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn present(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| value.is_object())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

/// Some fields of an object, without those that are empty.
fn pick(object: &Value, fields: &[&str]) -> Value {
    let fields = fields.iter().filter(|field| !is_empty(&object[**field]));
    fields.map(|field| ((*field).to_owned(), object[*field].clone())).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors_that_can_be_read() {
        let fields = [
            ("", true),
            ("a=b", true),
            ("a==b,c!=d,", true),
            ("a=b\\,c", true),
            ("metadata.name=a b", true),
            ("a", false),
            ("a=b,c", false),
            ("a=b\\x", false),
            ("a=b=c", false),
        ];
        for (text, expected) in fields {
            assert_eq!(is_field_selector(text), expected, "{text:?}");
        }
    }
}
