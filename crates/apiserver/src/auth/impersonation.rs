//! Impersonation: the headers `Impersonate-User`, `-Group`, `-Uid` and `-Extra-*`.
//!
//! Since 1.36 upstream knows two ways to allow it. The constrained ones ask for two permissions: `impersonate:MODE` on the user, and
//! `impersonate-on:MODE:VERB` on what is done in the user's name. The old one asks for `impersonate` alone, whatever is done.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use settled_go::strconv::quote;
use settled_go::url;

use super::rbac;
use super::rbac::{Attributes, Rbac};
use super::user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User, is_dns_subdomain, service_account_groups,
    split_node, split_service_account,
};
use crate::ApiError;

const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// From so many groups or extras on, a permission for all of them is looked for first.
const MIN_COMBINED: usize = 4;
/// For so many requestors it is remembered which mode was theirs.
const MAX_REMEMBERED: usize = 10_000;

/// How one user may act as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A ServiceAccount as the node that it runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// Without constraints, as before 1.36.
    Legacy,
}

/// In the order in which they are tried.
const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// Decides who may act as whom.
///
/// It remembers by which mode a requestor was last allowed: that one is tried first, and if all fail, its error is the answer. Nothing
/// else is remembered: what is revoked is revoked at once (upstream: after ten seconds).
#[derive(Debug, Default)]
pub struct Impersonation {
    last: Mutex<HashMap<String, Mode>>,
}

impl Impersonation {
    /// The user that a request is to be taken for; none if it does not ask for that.
    ///
    /// `request` is what the request itself does: it counts for the constrained modes.
    ///
    /// # Errors
    ///
    /// 400 if the headers name no user, 403 if the requestor may not act as that user.
    pub fn effective(
        &self,
        rbac: &Rbac,
        requestor: &User,
        request: &Attributes<'_>,
        headers: &HeaderMap,
    ) -> Result<Option<User>, ApiError> {
        let Some(wanted) = wanted(headers)? else { return Ok(None) };
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).get(&requestor.name).copied();
        let others = MODES.into_iter().filter(|mode| Some(*mode) != last);
        let mut first_error = None;
        for mode in last.into_iter().chain(others) {
            let attempt = Attempt { rbac, requestor, wanted: &wanted, mode };
            match attempt.check(request) {
                Ok(None) => {}
                Ok(Some(user)) => {
                    self.remember(requestor, mode, last);
                    return Ok(Some(user));
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
    }

    fn remember(&self, requestor: &User, mode: Mode, last: Option<Mode>) {
        if last == Some(mode) {
            return;
        }
        let mut remembered = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(requestor.name.clone(), mode);
    }
}

/// What the headers ask for.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let lossy = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(lossy).unwrap_or_default();
    let groups: Vec<String> = headers.get_all("impersonate-group").iter().map(lossy).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let values = headers.get_all(name).iter().map(lossy);
            extra.entry(unescape(key)).or_default().extend(values);
        }
    }
    let user = User { name: first("impersonate-user"), uid: first("impersonate-uid"), groups, extra };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    let text = format!("requested {} without impersonating a user name", go_syntax(&user));
    Err(ApiError::bad_request(text))
}

/// One mode, tried.
struct Attempt<'a> {
    rbac: &'a Rbac,
    requestor: &'a User,
    wanted: &'a User,
    mode: Mode,
}

impl Attempt<'_> {
    /// None: the mode is not for such users.
    fn check(&self, request: &Attributes<'_>) -> Result<Option<User>, ApiError> {
        if !self.applies() {
            return Ok(None);
        }
        if let Some(mode) = self.mode.constrained() {
            let verb = format!("impersonate-on:{mode}:{}", request.verb);
            self.rbac.require(self.requestor, &Attributes { verb: &verb, ..*request })?;
        }
        let groups = self.check_name()?;
        let attributes = self.attributes(AUTHENTICATION, "uids", &self.wanted.uid);
        if !self.wanted.uid.is_empty() {
            self.require(&attributes)?;
        }
        self.check_groups()?;
        self.check_extra()?;

        let mut user = self.wanted.clone();
        user.groups = groups.unwrap_or(user.groups);
        let group = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !user.in_group(UNAUTHENTICATED) && !user.in_group(group) {
            user.groups.push(group.to_owned());
        }
        Ok(Some(user))
    }

    fn applies(&self) -> bool {
        let wanted = self.wanted;
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (split_node(&wanted.name), split_service_account(&wanted.name));
        match self.mode {
            Mode::AssociatedNode => {
                let on = self.requestor.extra.get("authentication.kubernetes.io/node-name");
                only_name
                    && node.is_some()
                    && split_service_account(&self.requestor.name).is_some()
                    && on
                        .map(Vec::as_slice)
                        .and_then(|on| on.first().filter(|_| on.len() == 1))
                        .map(String::as_str)
                        == node
            }
            Mode::ArbitraryNode => only_name && node.is_some(),
            Mode::ServiceAccount => only_name && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }

    /// Returns the groups that come with the name.
    fn check_name(&self) -> Result<Option<Vec<String>>, ApiError> {
        let name = &self.wanted.name;
        let group = self.mode.group();
        if self.mode != Mode::Legacy
            && let Some(node) = split_node(name)
        {
            // The permission is for all nodes: which one it is, the account's credentials have said.
            let node = if self.mode == Mode::AssociatedNode { "*" } else { node };
            self.require(&self.attributes(group, "nodes", node))?;
            return Ok(Some(vec!["system:nodes".to_owned()]));
        }
        if let Some((namespace, name)) = split_service_account(name) {
            let attributes = Attributes { namespace, ..self.attributes(group, "serviceaccounts", name) };
            self.require(&attributes)?;
            return Ok(self.wanted.groups.is_empty().then(|| service_account_groups(namespace).to_vec()));
        }
        self.require(&self.attributes(group, "users", name))?;
        Ok(None)
    }

    fn check_groups(&self) -> Result<(), ApiError> {
        let groups = &self.wanted.groups;
        let attributes = self.attributes(self.mode.group(), "groups", "");
        if self.mode != Mode::Legacy {
            if groups.iter().any(String::is_empty) {
                return Err(self.forbid(&attributes, "impersonating the empty string group is not allowed"));
            }
            if self.wanted.is_master() {
                let attributes = Attributes { name: MASTERS, ..attributes };
                return Err(self.forbid(&attributes, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MIN_COMBINED && self.require(&Attributes { name: "*", ..attributes }).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.require(&Attributes { name: group, ..attributes }))
    }

    fn check_extra(&self) -> Result<(), ApiError> {
        let extra = &self.wanted.extra;
        let attributes = self.attributes(AUTHENTICATION, "userextras", "");
        if self.mode != Mode::Legacy {
            for (key, values) in extra {
                check_extra_syntax(key, values).map_err(|why| self.forbid(&attributes, &why))?;
            }
            let many =
                extra.len() >= MIN_COMBINED || extra.values().map(Vec::len).sum::<usize>() >= MIN_COMBINED;
            let all = Attributes { subresource: "*", name: "*", ..attributes };
            if many && self.require(&all).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.require(&Attributes { subresource: key, name: value, ..attributes })?;
            }
        }
        Ok(())
    }

    fn attributes<'b>(&self, api_group: &'b str, resource: &'b str, name: &'b str) -> Attributes<'b> {
        let verb = self.mode.verb();
        Attributes { verb, api_group, api_version: "v1", resource, name, ..Attributes::default() }
    }

    fn require(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        self.rbac.require(self.requestor, attributes)
    }

    fn forbid(&self, attributes: &Attributes<'_>, why: &str) -> ApiError {
        rbac::forbidden(self.requestor, attributes, why)
    }
}

impl Mode {
    fn constrained(self) -> Option<&'static str> {
        self.verb().strip_prefix("impersonate:")
    }

    fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    /// The API group that users, groups and accounts are taken from.
    fn group(self) -> &'static str {
        if self == Self::Legacy { "" } else { AUTHENTICATION }
    }
}

fn check_extra_syntax(key: &str, values: &[String]) -> Result<(), String> {
    if key.is_empty() {
        return Err("impersonating the empty string key in extra is not allowed".to_owned());
    }
    if let Some(errors) = domain_path_errors(key) {
        return Err(format!("impersonating an invalid key in extra is not allowed: {errors}"));
    }
    if key.chars().any(char::is_uppercase) {
        return Err(format!("impersonating a non-lowercase key in extra is not allowed: {}", quote(key)));
    }
    if values.is_empty() {
        return Err("impersonating empty values in extra is not allowed".to_owned());
    }
    if values.iter().any(String::is_empty) {
        return Err("impersonating the empty string value in extra is not allowed".to_owned());
    }
    Ok(())
}

fn domain_path_errors(key: &str) -> Option<String> {
    const PATH: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
    const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let invalid = |value: &str, why: &str| format!("extra.key: Invalid value: {}: {why}", quote(value));
    let (host, path) = match key.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => (host, path),
        _ => return Some(invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")")),
    };
    let mut errors = Vec::new();
    if host.len() > 253 {
        errors.push(invalid(host, "must be no more than 253 characters"));
    } else if !is_dns_subdomain(host) {
        errors.push(invalid(
            host,
            &format!(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
                 and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '{LABEL}(\\.{LABEL})*')"
            ),
        ));
    }
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(in_path) {
        errors.push(invalid(path, &format!("Invalid path (regex used for validation is '{PATH}')")));
    }
    match errors.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// `unescapeExtraKey`: what is not well formed stays as it is.
fn unescape(key: &str) -> String {
    url::path_unescape(key).unwrap_or_else(|_| key.to_owned())
}

/// A user as Go's `%#v` writes it.
fn go_syntax(user: &User) -> String {
    let list = |texts: &[String]| match texts {
        [] => "[]string(nil)".to_owned(),
        texts => {
            let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
            format!("[]string{{{}}}", texts.join(", "))
        }
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let extra = user.extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values)));
        format!("map[string][]string{{{}}}", extra.collect::<Vec<_>>().join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:{extra}}}",
        quote(&user.name),
        quote(&user.uid),
        list(&user.groups)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::auth::PolicyKind;

    const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

    /// What may be granted, and to whom: a part of upstream's `constrained_impersonation_test.go`.
    fn policy() -> Rbac {
        let rule = |group: &str, resources: &[&str], verbs: &[&str], names: &[&str]| -> Value {
            json!({"apiGroups": [group], "resources": resources, "verbs": verbs, "resourceNames": names})
        };
        let a = AUTHENTICATION;
        let table: &[(&str, Vec<Value>)] = &[
            (
                "system:serviceaccount:default:agent",
                vec![
                    rule(a, &["nodes"], &["impersonate:associated-node"], &["*"]),
                    rule("", &["pods"], &["impersonate-on:associated-node:get"], &[]),
                ],
            ),
            (
                "all-extras",
                vec![
                    rule(a, &["users"], &["impersonate:user-info"], &[]),
                    rule(a, &["userextras/*"], &["impersonate:user-info"], &["*"]),
                    rule(a, &["groups"], &["impersonate:user-info"], &["*"]),
                    rule("", &["pods"], &["impersonate-on:user-info:get"], &[]),
                ],
            ),
            ("on-only", vec![rule("", &["pods"], &["impersonate-on:user-info:get"], &[])]),
            ("who-only", vec![rule(a, &["users"], &["impersonate:user-info"], &[])]),
        ];
        let mut rbac = Rbac::default();
        for (name, rules) in table {
            rbac.put(PolicyKind::ClusterRole, "", name, &json!({ "rules": rules }));
            let binding = json!({
                "roleRef": {"kind": "ClusterRole", "name": name}, "subjects": [{"kind": "User", "name": name}],
            });
            rbac.put(PolicyKind::ClusterRoleBinding, "", name, &binding);
        }
        rbac
    }

    #[test]
    fn constrained_modes() {
        let agent = |nodes: &[&str]| {
            let mut user = User::service_account("default", "agent");
            user.extra.insert(NODE_NAME.to_owned(), nodes.iter().map(|&n| n.to_owned()).collect());
            user
        };
        let plain = |name: &str| User::new(name, ["a"]);
        let user = |name: &str| format!("user={name}");
        let many = "user=x group=a group=b group=c group=d \
                    extra-example.com%2fk=1 extra-example.com%2fk=2 extra-example.com%2fk=3 extra-example.com%2fk=4";
        let no = |verb: &str, resource: &str, group: &str| {
            format!("cannot {verb} resource {resource:?} in API group {group:?}")
        };
        let table: Vec<(User, String, &str, Result<&str, String>)> = vec![
            (agent(&["n1"]), user("system:node:n1"), "get", Ok("system:nodes,system:authenticated")),
            (
                agent(&["n1"]),
                user("system:node:n2"),
                "get",
                Err(no("impersonate-on:arbitrary-node:get", "pods", "")),
            ),
            (
                agent(&["n1"]),
                user("system:node:n1"),
                "list",
                Err(no("impersonate-on:associated-node:list", "pods", "")),
            ),
            (
                agent(&["n1", "n2"]),
                user("system:node:n1"),
                "get",
                Err(no("impersonate-on:arbitrary-node:get", "pods", "")),
            ),
            (agent(&["n1"]), user("system:node:n1") + " group=g", "get", Err(no("impersonate", "users", ""))),
            (plain("all-extras"), many.to_owned(), "get", Ok("a,b,c,d,system:authenticated")),
            (
                plain("all-extras"),
                "user=x group=a".to_owned(),
                "get",
                Err(no("impersonate:user-info", "groups", AUTHENTICATION)),
            ),
            (plain("on-only"), user("x"), "get", Err(no("impersonate:user-info", "users", AUTHENTICATION))),
            (plain("who-only"), user("x"), "get", Err(no("impersonate-on:user-info:get", "pods", ""))),
        ];
        let rbac = policy();
        for (requestor, headers, verb, expected) in table {
            let mut map = HeaderMap::new();
            for header in headers.split(' ').filter(|header| !header.is_empty()) {
                let (name, value) = header.split_once('=').unwrap();
                let name = http::HeaderName::try_from(format!("impersonate-{name}")).unwrap();
                map.append(name, value.parse().unwrap());
            }
            let request =
                Attributes { verb, resource: "pods", namespace: "bar", name: "foo", ..Attributes::default() };
            let got = Impersonation::default().effective(&rbac, &requestor, &request, &map);
            match (got, expected) {
                (Ok(Some(user)), Ok(groups)) => assert_eq!(user.groups.join(","), groups, "{headers}"),
                (Err(error), Err(text)) => {
                    assert!(error.message.contains(&text), "{headers}: {error} / {text}")
                }
                (got, expected) => panic!("{headers}: {got:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn keys_of_extras() {
        let unescaped = [
            ("a", "a"),
            ("a%2fb", "a/b"),
            ("%41", "A"),
            ("a%2", "a%2"),
            ("a%zz", "a%zz"),
            ("a%2f%zz", "a%2f%zz"),
            ("100%", "100%"),
        ];
        for (key, expected) in unescaped {
            assert_eq!(unescape(key), expected);
        }
        let checked: [(&str, &[&str], &str); 8] = [
            ("example.com/a", &["1"], ""),
            ("example.com/a/b%c", &["1"], ""),
            ("", &["1"], "empty string key"),
            ("a", &["1"], "must be a domain-prefixed path"),
            ("a/", &["1"], "must be a domain-prefixed path"),
            ("Example.com/a b", &["1"], "[extra.key: Invalid value: \"Example.com\": a lowercase RFC 1123"),
            ("example.com/A", &["1"], "non-lowercase"),
            ("example.com/a", &["1", ""], "empty string value"),
        ];
        for (key, values, expected) in checked {
            let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
            match check_extra_syntax(key, &values) {
                Ok(()) => assert_eq!(expected, "", "{key}"),
                Err(text) => assert!(!expected.is_empty() && text.contains(expected), "{key}: {text}"),
            }
        }
    }
}
