//! Routes: which paths and methods are served, for built-in kinds and for custom resources as upstream's two handlers do.

use std::sync::Arc;

use crate::error::ApiError;
use crate::kinds::builtin;
use crate::kinds::definition::{Catalog, Definition};
use crate::request::RequestInfo;

/// Why a path leads nowhere.
#[derive(Debug, PartialEq)]
pub(crate) enum NoRoute {
    /// Nothing is known about the path. Upstream says so in plain text.
    NotFound,
    /// An API is there, but does not do this.
    Api(ApiError),
}

impl From<ApiError> for NoRoute {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// The definition that a request is for.
///
/// # Errors
/// The path or its method isn't served.
pub(crate) fn find<'a>(catalog: &'a Catalog, info: &RequestInfo) -> Result<&'a Arc<Definition>, NoRoute> {
    let Some(definition) = catalog.find(&info.group, &info.version, &info.resource) else {
        return Err(match builtin::has_group(&info.group) {
            true => NoRoute::Api(ApiError::page_not_found()),
            false => NoRoute::NotFound,
        });
    };
    match definition.model.is_custom() {
        true => custom(definition, info)?,
        false => builtin(definition, info)?,
    }
    Ok(definition)
}

/// What upstream passes on to a kubelet or into a pod.
const UNREACHABLE: [(&str, &str); 7] = [
    ("nodes", "proxy"),
    ("pods", "attach"),
    ("pods", "exec"),
    ("pods", "log"),
    ("pods", "portforward"),
    ("pods", "proxy"),
    ("services", "proxy"),
];

/// Upstream has a route for each verb of a built-in kind: a path without any is not found, one without this method not allowed.
fn builtin(definition: &Definition, info: &RequestInfo) -> Result<(), ApiError> {
    let everywhere = definition.namespaced && info.namespace.is_empty();
    // The name of a namespace is the namespace of its own path.
    let own = info.group.is_empty() && info.resource == "namespaces" && info.namespace == info.name;
    let stray = !definition.namespaced && !info.namespace.is_empty() && !own;
    let deep = info.prefixed && !info.subresource.is_empty();
    if stray || deep || !info.rest.is_empty() || (everywhere && info.named) {
        return Err(ApiError::page_not_found());
    }
    let mut methods: Vec<&str> = Vec::new();
    if info.prefixed {
        methods.extend(definition.verbs.contains(&"watch").then_some("GET"));
    } else if !info.subresource.is_empty() {
        let subresource = definition.subresource(&info.subresource);
        let verbs = subresource.map(|subresource| subresource.verbs.as_slice()).unwrap_or_default();
        methods.extend(verbs.iter().filter_map(|verb| method(verb)));
    } else {
        let of_one = |verb: &str| matches!(verb, "get" | "update" | "patch" | "delete");
        let verbs = definition.verbs.iter().filter(|verb| of_one(verb) == info.named);
        methods
            .extend(verbs.filter_map(|verb| method(verb)).filter(|method| !everywhere || *method == "GET"));
    }
    if methods.is_empty() {
        let named = (info.resource.as_str(), info.subresource.as_str());
        let unreachable = info.group.is_empty() && UNREACHABLE.contains(&named);
        return Err(if unreachable { ApiError::not_run(named) } else { ApiError::page_not_found() });
    }
    if !methods.contains(&info.method.as_str()) {
        return Err(ApiError::method_not_allowed());
    }
    Ok(())
}

fn method(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "get" | "list" | "watch" => "GET",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        _ => return None,
    })
}

/// Upstream has one handler for all custom kinds, which looks at the verb.
fn custom(definition: &Definition, info: &RequestInfo) -> Result<(), NoRoute> {
    let everywhere = definition.namespaced && info.namespace.is_empty();
    let stray = !definition.namespaced && !info.namespace.is_empty();
    if stray || (everywhere && !matches!(info.verb, "list" | "watch")) {
        return Err(NoRoute::NotFound);
    }
    let verbs = match info.subresource.as_str() {
        "" => &definition.verbs,
        name => match definition.subresource(name) {
            Some(subresource) => &subresource.verbs,
            None => return Err(ApiError::not_found(definition.group_resource(), &info.name).into()),
        },
    };
    if !verbs.contains(&info.verb) {
        return Err(ApiError::method_not_supported(definition.group_resource(), info.verb).into());
    }
    Ok(())
}
