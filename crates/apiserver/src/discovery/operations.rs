//! OpenAPI operations: the `paths` of a document, one for each verb of each resource in the catalog.
//!
//! kubectl looks here for what a PATCH takes (`fieldValidation`, `dryRun`, which patches), generators for everything.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::kinds::definition::Definition;
use crate::kinds::model::Model;
use crate::kinds::names::{Names, Subresource};
use crate::object;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The parameters of requests by name: where they stand, their type, what they mean, in the words of the documents that
/// Kubernetes 1.36 publishes.
static PARAMETERS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let rows: Map<String, Value> =
        serde_json::from_str(include_str!("../../data/parameters.json")).unwrap_or_default();
    let made = rows.into_iter().map(|(name, row)| {
        let shown = name.strip_prefix("patch-").unwrap_or(&name);
        let mut parameter = json!({
            "name": shown, "in": row[0], "description": row[2],
            "schema": {"type": row[1], "uniqueItems": true},
        });
        if row[0] == "path" {
            parameter["required"] = true.into();
        }
        (name, parameter)
    });
    made.collect()
});

const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "patch-fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];

/// One verb: what the name of the operation begins with, its method, what upstream calls it, what it takes.
struct Verb {
    name: &'static str,
    method: &'static str,
    operation: &'static str,
    action: &'static str,
    parameters: &'static [&'static str],
}

const fn verb(
    name: &'static str,
    method: &'static str,
    operation: &'static str,
    action: &'static str,
    parameters: &'static [&'static str],
) -> Verb {
    Verb { name, method, operation, action, parameters }
}

const COLLECTION_VERBS: &[Verb] = &[
    verb("list", "get", "list", "list", LIST),
    verb("create", "post", "create", "post", WRITE),
    verb("deletecollection", "delete", "delete", "deletecollection", DELETE_COLLECTION),
];
/// Deletes collections of custom kinds: upstream gives it the parameters of lists, and no body.
const CUSTOM_COLLECTION_VERBS: &[Verb] = &[
    verb("list", "get", "list", "list", LIST),
    verb("create", "post", "create", "post", WRITE),
    verb("deletecollection", "delete", "delete", "deletecollection", LIST),
];
const WATCH_LIST_VERBS: &[Verb] = &[verb("watch", "get", "watch", "watchlist", LIST)];
const WATCH_VERBS: &[Verb] = &[verb("watch", "get", "watch", "watch", LIST)];
const OBJECT_VERBS: &[Verb] = &[
    verb("get", "get", "read", "get", &[]),
    verb("update", "put", "replace", "put", WRITE),
    verb("patch", "patch", "patch", "patch", PATCH),
    verb("delete", "delete", "delete", "delete", DELETE),
    // Of subresources only: `pods/NAME/binding`.
    verb("create", "post", "create", "post", WRITE),
];

/// The name of a kind's schema in the documents, `io.k8s.api.apps.v1.Deployment` or `com.example.v1.Widget`.
pub(crate) fn component_name(definition: &Definition) -> String {
    match &definition.model {
        Model::Builtin(builtin) => builtin.row.schema_name.to_owned(),
        Model::Custom(_) => {
            let mut parts: Vec<&str> = definition.names.group.split('.').collect();
            parts.reverse();
            format!("{}.{}.{}", parts.join("."), definition.names.version, definition.names.kind)
        }
    }
}

/// As [`component_name`], for what is sent to and from a subresource.
pub(crate) fn subresource_component(definition: &Definition, subresource: &Subresource) -> String {
    match &subresource.group_version {
        None if subresource.kind == definition.names.kind => component_name(definition),
        None => {
            let own = component_name(definition);
            let package = own.rsplit_once('.').map_or("", |(package, _)| package);
            format!("{package}.{}", subresource.kind)
        }
        Some((group, version)) => {
            let group = group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            format!("io.k8s.api.{group}.{version}.{}", subresource.kind)
        }
    }
}

/// `AppsV1` for operations and `apps_v1` for tags.
fn group_names(group: &str, version: &str) -> (String, String) {
    let group = if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io") };
    let words = group.split(['.', '-']).map(capital).collect::<String>();
    let mut tag = words.clone();
    if let Some(first) = tag.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    (format!("{words}{}", capital(version)), format!("{tag}_{version}"))
}

fn capital(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}

const INSTEAD_OF_WATCH: &str = "use the 'watch' parameter with a list operation instead";

/// `a `, `an `, or nothing before plurals (`GetArticleForNoun` upstream).
fn article(noun: &str) -> &'static str {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return "";
    }
    match noun.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) {
        true => "an ",
        false => "a ",
    }
}

fn reference(component: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{component}")})
}

/// A body that has one schema in several media types.
fn content(media: &[&str], component: &str) -> Value {
    let schema = json!({"schema": reference(component)});
    Value::Object(media.iter().map(|media| ((*media).to_owned(), schema.clone())).collect())
}

fn parameters(names: &[&str]) -> Vec<Value> {
    names.iter().filter_map(|name| PARAMETERS.get(*name)).cloned().collect()
}

/// What is common to the operations of a resource.
struct Writer<'a> {
    definition: &'a Definition,
    component: String,
    group: String,
    tag: String,
}

/// Where an operation is.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Of what is sent and answered.
    component: &'a str,
    /// Group, version and kind.
    gvk: (&'a str, &'a str, &'a str),
    subresource: &'a str,
    /// In all namespaces.
    all: bool,
}

impl Writer<'_> {
    /// `own` are the parameters that not all operations of the path have.
    fn operation(&self, verb: &Verb, place: Place<'_>, own: &[&str]) -> Value {
        let Definition { names: Names { kind, .. }, namespaced, .. } = self.definition;
        let custom = self.definition.model.is_custom();
        let Place { component, gvk: (group, version, gvk_kind), subresource, all } = place;
        let collection = if verb.action == "deletecollection" { "Collection" } else { "" };
        let scope = if *namespaced && !all { "Namespaced" } else { "" };
        let suffix = if all { "ForAllNamespaces" } else { "" };
        let watched = if verb.action == "watchlist" { "List" } else { "" };
        let id = format!(
            "{}{}{collection}{scope}{kind}{}{watched}{suffix}",
            verb.operation,
            self.group,
            capital(subresource)
        );
        let of = if subresource.is_empty() { String::new() } else { format!("{subresource} of ") };
        let description = match verb.action {
            // As upstream has it; both can be watched.
            "list" if custom => format!("list objects of kind {kind}"),
            "list" => format!("list or watch objects of kind {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            "watchlist" => {
                format!("watch individual changes to a list of {kind}. deprecated: {INSTEAD_OF_WATCH}.")
            }
            "watch" => format!(
                "watch changes to an object of kind {kind}. deprecated: {INSTEAD_OF_WATCH}, filtered to a single item \
                 with the 'fieldSelector' parameter."
            ),
            "post" => format!("create {of}{}{kind}", article(kind)),
            "delete" => format!("delete {}{kind}", article(kind)),
            "get" => format!("read {of}the specified {kind}"),
            "put" => format!("replace {of}the specified {kind}"),
            _ => format!("partially update {of}the specified {kind}"),
        };
        let status = format!("{META}.Status");
        let list = format!("{component}List");
        let event = format!("{META}.WatchEvent");
        let answered = match verb.action {
            "list" => list.as_str(),
            "watch" | "watchlist" => event.as_str(),
            "deletecollection" => status.as_str(),
            "delete" if !self.definition.model.behavior().returns_deleted => status.as_str(),
            _ => component,
        };
        let media: &[&str] = match verb.action {
            "list" if custom => &["application/json", "application/yaml"],
            "list" | "watch" | "watchlist" => {
                &["application/json", "application/json;stream=watch", "application/yaml"]
            }
            _ => &["application/json", "application/yaml"],
        };
        let answer = |text: &str| json!({"description": text, "content": content(media, answered)});
        let mut responses = json!({"200": answer("OK"), "401": {"description": "Unauthorized"}});
        if matches!(verb.action, "post" | "put") || verb.action == "patch" && !custom {
            responses["201"] = answer("Created");
        }
        if matches!(verb.action, "post" | "delete") {
            responses["202"] = answer("Accepted");
        }
        let mut operation = json!({
            "tags": [self.tag],
            "description": description,
            "operationId": id,
            "parameters": parameters(own),
            "responses": responses,
            "x-kubernetes-action": verb.action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": gvk_kind},
        });
        let any: &[&str] = if custom { &["application/json", "application/yaml"] } else { &["*/*"] };
        let patches: &[&str] = &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ];
        let body = match verb.action {
            "post" | "put" => json!({"content": content(any, component), "required": true}),
            "patch" => {
                let patches = if custom { patches.split_at(3).0 } else { patches };
                json!({"content": content(patches, &format!("{META}.Patch")), "required": true})
            }
            "deletecollection" if custom => return operation,
            "delete" | "deletecollection" => {
                json!({"content": content(any, &format!("{META}.DeleteOptions"))})
            }
            _ => return operation,
        };
        operation["requestBody"] = body;
        operation
    }

    /// All verbs that are there of a list; nothing if none is.
    fn item(&self, verbs: &[Verb], there: &[&str], place: Place<'_>, path: &[&str]) -> Option<Value> {
        let verbs: Vec<&Verb> = verbs.iter().filter(|verb| there.contains(&verb.name)).collect();
        let (first, rest) = verbs.split_first()?;
        // What all operations take stands at the path, as upstream has it.
        let is_common = |name: &&str| rest.iter().all(|verb| verb.parameters.contains(name));
        let common: Vec<&str> = first.parameters.iter().copied().filter(is_common).collect();
        let operations = verbs.iter().map(|verb| {
            let own: Vec<&str> =
                verb.parameters.iter().copied().filter(|name| !common.contains(name)).collect();
            (verb.method.to_owned(), self.operation(verb, place, &own))
        });
        let mut item: Map<String, Value> = operations.collect();
        let mut shared = Vec::new();
        if path.contains(&"name") {
            shared.push(json!({
                "name": "name", "in": "path", "required": true,
                "description": format!("name of the {}", place.gvk.2),
                "schema": {"type": "string", "uniqueItems": true},
            }));
        }
        shared.extend(parameters(path.strip_prefix(&["name"]).unwrap_or(path)));
        shared.extend(parameters(&common));
        shared.sort_by(|a, b| object::text(a, "name").cmp(object::text(b, "name")));
        item.insert("parameters".to_owned(), shared.into());
        Some(Value::Object(item))
    }

    fn resource(&self, out: &mut Map<String, Value>) {
        let definition = self.definition;
        let root = match definition.names.group.as_str() {
            "" => format!("/api/{}", definition.names.version),
            group => format!("/apis/{group}/{}", definition.names.version),
        };
        let plural = &definition.names.plural;
        let in_namespace = if definition.namespaced { "namespaces/{namespace}/" } else { "" };
        let collection = format!("{root}/{in_namespace}{plural}");
        let object = format!("{collection}/{{name}}");
        let own = (
            definition.names.group.as_str(),
            definition.names.version.as_str(),
            definition.names.kind.as_str(),
        );
        let place = Place { component: &self.component, gvk: own, subresource: "", all: false };
        let namespace: &[&str] = if definition.namespaced { &["namespace", "pretty"] } else { &["pretty"] };
        let name: &[&str] =
            if definition.namespaced { &["name", "namespace", "pretty"] } else { &["name", "pretty"] };
        let mut add = |path: String, item: Option<Value>| {
            if let Some(item) = item {
                out.insert(path, item);
            }
        };
        let verbs = if definition.model.is_custom() { CUSTOM_COLLECTION_VERBS } else { COLLECTION_VERBS };
        add(collection, self.item(verbs, &definition.verbs, place, namespace));
        if definition.namespaced && definition.verbs.contains(&"list") {
            let everywhere = Place { all: true, ..place };
            add(format!("{root}/{plural}"), self.item(COLLECTION_VERBS, &["list"], everywhere, &["pretty"]));
        }
        if definition.verbs.contains(&"watch") && !definition.model.is_custom() {
            let watched = format!("{root}/watch/{in_namespace}{plural}");
            add(watched.clone(), self.item(WATCH_LIST_VERBS, &["watch"], place, namespace));
            add(format!("{watched}/{{name}}"), self.item(WATCH_VERBS, &["watch"], place, name));
            if definition.namespaced {
                let everywhere = Place { all: true, ..place };
                let item = self.item(WATCH_LIST_VERBS, &["watch"], everywhere, &["pretty"]);
                add(format!("{root}/watch/{plural}"), item);
            }
        }
        let verbs: Vec<&str> = definition.verbs.iter().copied().filter(|verb| *verb != "create").collect();
        add(object.clone(), self.item(OBJECT_VERBS, &verbs, place, name));
        for subresource in &definition.subresources {
            let component = subresource_component(definition, subresource);
            let gvk = match &subresource.group_version {
                // Upstream names the custom kind even where a Scale is sent.
                Some((group, version)) if !definition.model.is_custom() => {
                    (group.as_str(), version.as_str(), subresource.kind.as_str())
                }
                _ => own,
            };
            let place = Place { component: &component, gvk, subresource: &subresource.name, all: false };
            let item = self.item(OBJECT_VERBS, &subresource.verbs, place, name);
            add(format!("{object}/{}", subresource.name), item);
        }
    }
}

/// What can be done with the resources of a group version.
pub(crate) fn paths<'a>(definitions: impl IntoIterator<Item = &'a Definition>) -> Value {
    let mut out = Map::new();
    for definition in definitions {
        let (group, tag) = group_names(&definition.names.group, &definition.names.version);
        let component = component_name(definition);
        Writer { definition, component, group, tag }.resource(&mut out);
    }
    Value::Object(out)
}
