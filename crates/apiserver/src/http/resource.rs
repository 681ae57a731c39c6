//! Resource requests: dispatches each verb, and encodes its result.

use std::future::Future;
use std::sync::Arc;

use http::Response;
use http::header::{self, HeaderValue};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use settled_aside::{aside, back};

use crate::auth::reviews;
use crate::error::ApiError;
use crate::features::Feature;
use crate::http::answer::{Answer, answer, bytes_answer, no_page};
use crate::http::body::Body;
use crate::http::incoming;
use crate::http::list_body::ListBody;
use crate::http::negotiate::{self, Endpoint, Format, Negotiated, Representation};
use crate::http::pod_logs;
use crate::http::route::{self, NoRoute};
use crate::kinds::definition::Definition;
use crate::kinds::names::{Part, go_package};
use crate::kinds::partial;
use crate::kinds::table::{self, Columns, IncludeObject};
use crate::object::{self, Head, meta, text};
use crate::options::{DeleteOptions, ListOptions, WriteOptions};
use crate::request::{ResourceRequest, header_text};
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::verbs::change::Change;
use crate::verbs::delete::{self, Deleted};
use crate::verbs::read::{self, Filter, Listing};
use crate::verbs::watching::{self, EventFormat};
use crate::verbs::write::{Outcome, Written};
use crate::verbs::{components, create, patching, pods, scale, update};

/// What the objects of a resource are turned into for a client.
struct Shape {
    negotiated: Negotiated,
    include: IncludeObject,
    now: Timestamp,
}

impl Shape {
    fn new(request: &ResourceRequest<'_>, endpoint: Endpoint, now: Timestamp) -> Result<Self, ApiError> {
        let accept = header_text(request.headers, header::ACCEPT);
        let mut negotiated = negotiate::negotiate(accept, endpoint)?;
        negotiated.pretty |= negotiate::is_pretty(request.query, request.headers);
        let include = match negotiated.representation {
            Representation::Table(_) => IncludeObject::parse(request.query.find("includeObject"))?,
            _ => IncludeObject::default(),
        };
        Ok(Self { negotiated, include, now })
    }

    /// Does the object go out as it is?
    fn is_plain(&self) -> bool {
        self.negotiated.representation == Representation::Object
    }

    /// One object.
    fn object(&self, columns: &Columns, object: Value) -> Result<Value, ApiError> {
        Ok(match self.negotiated.representation {
            Representation::Object | Representation::Discovery => object,
            Representation::Partial(version) => partial::partial(&object, version),
            Representation::PartialList(_) => {
                let go_type = format!("*unstructured.{}", text(&object, "kind"));
                return Err(negotiate::wrong_shape(self.negotiated.representation, &go_type));
            }
            Representation::Table(version) => {
                let metadata = json!({"resourceVersion": meta(&object, "resourceVersion")});
                table::table(columns, &[object], metadata, self.include, version, self.now, true)
            }
        })
    }

    /// The answer that is an object's scale. Upstream prints that of a custom resource like a kind that it does not know.
    fn scale(&self, definition: &Definition, object: &Value) -> Result<Answer, ApiError> {
        let group = if definition.model.is_custom() { "" } else { "autoscaling" };
        let scale = self.object(&Columns::builtin(group, "Scale"), scale::scale(definition, object)?)?;
        Ok(answer(200, self.negotiated, &scale))
    }
}

/// As [`Shape`], for the events of a watch.
struct WatchFormat {
    shape: Shape,
    definition: Arc<Definition>,
}

impl EventFormat for WatchFormat {
    fn object(&self, object: &Value, first: bool) -> Value {
        match self.shape.negotiated.representation {
            Representation::Table(version) => {
                let metadata = json!({"resourceVersion": meta(object, "resourceVersion")});
                let rows = std::slice::from_ref(object);
                let columns = &self.definition.columns;
                table::table(columns, rows, metadata, self.shape.include, version, self.shape.now, first)
            }
            Representation::Partial(version) | Representation::PartialList(version) => {
                partial::partial(object, version)
            }
            _ => object.clone(),
        }
    }
}

/// Answers a request for a resource.
pub(crate) async fn answer_request(
    state: &Arc<State>,
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Answer, ApiError> {
    let info = request.info;
    let catalog = state.catalog();
    let definition = match route::find(&catalog, info) {
        Ok(definition) => definition,
        Err(NoRoute::NotFound) => return Ok(no_page()),
        Err(NoRoute::Api(error)) => match pod_logs::answer(state, info, request.query) {
            Some(answer) => return answer,
            None => return Err(error),
        },
    };
    if !definition.model.is_custom() {
        let lists = matches!(info.verb, "list" | "watch");
        negotiate::check_route(header_text(request.headers, header::ACCEPT), lists)?;
    }
    if let Some(text) = &definition.deprecation {
        call.warn(text.clone());
    }
    let target = Target {
        definition,
        namespace: if definition.namespaced { &info.namespace } else { "" },
        name: if info.is_collection() { "" } else { &info.name },
    };
    if matches!(info.verb, "create" | "patch")
        && definition.model.custom().is_some_and(|custom| custom.terminating)
        && (info.verb == "create" || state.get(&target).is_err())
    {
        let why = "create not allowed while custom resource definition is terminating";
        let name = if target.name.is_empty() { name_in(&request.body) } else { target.name.to_owned() };
        let error = ApiError::forbidden(definition.group_resource(), &name, why);
        return Err(error);
    }
    // All but one are boxed: with each of them in it, the future of every request would have 16 KB.
    match info.verb {
        "get" => answer_get(state, call, request, &target).await,
        "list" => Box::pin(answer_list(state, call, request, definition, target.namespace)).await,
        "watch" => Box::pin(answer_watch(state, call, request, definition, target.namespace, stop)).await,
        "create" => Box::pin(answer_create(state, call, request, &target)).await,
        "update" => Box::pin(answer_update(state, call, request, &target)).await,
        "patch" => Box::pin(answer_patch(state, call, request, &target)).await,
        "delete" => Box::pin(answer_delete(state, call, request, &target)).await,
        "deletecollection" => {
            Box::pin(answer_delete_collection(state, call, request, definition, target.namespace)).await
        }
        _ => Err(ApiError::method_not_supported(definition.group_resource(), info.verb)),
    }
}

async fn answer_get(
    state: &State,
    call: &Call<'_>,
    request: &ResourceRequest<'_>,
    target: &Target<'_>,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Resource, call.now)?;
    if target.definition.is_component_status() {
        let status = components::status(state, target.name, call.now)?;
        return answer_written(200, &shape, target.definition, Written::Object(status));
    }
    let entry = read::get_at(state, target, request.query.get("resourceVersion")).await?;
    target.definition.check_readable(&entry)?;
    if request.info.subresource == "scale" {
        let object = target.definition.read(&entry);
        return shape.scale(target.definition, &object);
    }
    answer_written(200, &shape, target.definition, Written::Stored(entry))
}

/// The answer to what was read or written.
fn answer_written(
    status: u16,
    shape: &Shape,
    definition: &Definition,
    written: Written,
) -> Result<Answer, ApiError> {
    match written {
        Written::Stored(entry) if shape.is_plain() && !definition.needs_completion(&entry) => {
            let head = definition.head();
            let mut bytes = Vec::with_capacity(head.size(entry.value()) + 1);
            head.append(&mut bytes, entry.value(), entry.mod_revision().0);
            Ok(bytes_answer(status, shape.negotiated, bytes))
        }
        Written::Stored(entry) => answer_object(status, shape, definition, definition.read(&entry)),
        Written::Object(object) => answer_object(status, shape, definition, object),
    }
}

fn answer_object(
    status: u16,
    shape: &Shape,
    definition: &Definition,
    object: Value,
) -> Result<Answer, ApiError> {
    let object = shape.object(&definition.columns, object)?;
    let json = match definition.model.is_custom() && shape.is_plain() {
        true => object::to_bytes(&object),
        false => object::to_built_in_bytes(&object),
    };
    Ok(bytes_answer(status, shape.negotiated, json))
}

async fn answer_list(
    state: &State,
    call: &Call<'_>,
    request: &ResourceRequest<'_>,
    definition: &Definition,
    namespace: &str,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Resource, call.now)?;
    let options = ListOptions::parse(request.query, false, true)?;
    let query = request.query;
    let filter = Filter::parse(definition, query.get("labelSelector"), query.get("fieldSelector"))?;
    if definition.is_component_status() {
        let mut statuses = components::statuses(state, call.now);
        statuses.retain(|status| filter.matches_object(definition, status));
        return answer_objects(&shape, definition, statuses, Map::new());
    }
    let listing = read::list(state, definition, namespace, &filter, &options).await?;
    answer_listing(&shape, definition, listing)
}

fn answer_listing(shape: &Shape, definition: &Definition, listing: Listing) -> Result<Answer, ApiError> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), listing.revision.to_string().into());
    // Lists of custom resources say that there is no more; those of built-in kinds are silent, as are tables.
    let whole = shape.negotiated.representation == Representation::Object;
    if !listing.next.is_empty() || whole && definition.model.is_custom() {
        metadata.insert("continue".to_owned(), listing.next.clone().into());
    }
    if let Some(remaining) = listing.remaining.filter(|remaining| *remaining > 0) {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    let stale = listing.entries.iter().any(|entry| definition.needs_completion(entry));
    let plain_json = shape.is_plain() && shape.negotiated.format == Format::Json && !shape.negotiated.pretty;
    if plain_json && !stale {
        let mut prologue = object::to_built_in_bytes(&json!({
            "kind": definition.names.list_kind, "apiVersion": definition.api_version(), "metadata": metadata,
        }));
        prologue.pop();
        prologue.extend_from_slice(br#","items":["#);
        let head = if definition.model.is_custom() { definition.head().clone() } else { Head::bare() };
        let list = ListBody {
            head,
            prologue: Some(prologue),
            entries: listing.entries.into_iter(),
            first: true,
            done: false,
        };
        let mut response = Response::new(Body::list(list));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        return Ok(response);
    }
    let objects = listing.entries.iter().map(|entry| definition.read(entry)).collect();
    answer_objects(shape, definition, objects, metadata)
}

/// The answer that is a list of objects which need not be as they are stored.
fn answer_objects(
    shape: &Shape,
    definition: &Definition,
    objects: Vec<Value>,
    metadata: Map<String, Value>,
) -> Result<Answer, ApiError> {
    let metadata = Value::Object(metadata);
    let list = match shape.negotiated.representation {
        Representation::Table(version) => {
            table::table(&definition.columns, &objects, metadata, shape.include, version, shape.now, true)
        }
        Representation::PartialList(version) => partial::partial_list(&objects, metadata, version),
        Representation::Partial(_) => {
            let go_type = match definition.model.is_custom() {
                true => "*unstructured.UnstructuredList".to_owned(),
                false => format!("*{}.{}", go_package(&definition.names.group), definition.names.list_kind),
            };
            return Err(negotiate::wrong_shape(shape.negotiated.representation, &go_type));
        }
        Representation::Object | Representation::Discovery => {
            let mut objects = objects;
            // What is in a list of a built-in kind does not say so again.
            if !definition.model.is_custom() {
                for object in objects.iter_mut().filter_map(Value::as_object_mut) {
                    object.retain(|name, _| name != "apiVersion" && name != "kind");
                }
            }
            json!({
                "kind": definition.names.list_kind,
                "apiVersion": definition.api_version(),
                "metadata": metadata,
                "items": objects,
            })
        }
    };
    Ok(answer(200, shape.negotiated, &list))
}

async fn answer_watch(
    state: &Arc<State>,
    call: &Call<'_>,
    request: &ResourceRequest<'_>,
    definition: &Arc<Definition>,
    namespace: &str,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Watch, call.now)?;
    let (info, query) = (request.info, request.query);
    let options = ListOptions::parse(
        query,
        query.truthy("watch") == Some(true),
        state.lifecycle.gates.has(Feature::WatchList),
    )?;
    let mut fields = query.get("fieldSelector").to_owned();
    if info.named && fields.is_empty() {
        fields = format!("metadata.name={}", info.name);
    }
    let filter = Filter::parse(definition, query.get("labelSelector"), &fields)?;
    if info.named && filter.fields.required("metadata.name") != Some(&info.name) {
        let message = "fieldSelector metadata.name doesn't match requested name";
        return Err(ApiError::bad_request(message));
    }
    let plain = shape.is_plain();
    let format: Option<Box<dyn EventFormat>> =
        if plain { None } else { Some(Box::new(WatchFormat { shape, definition: definition.clone() })) };
    let retired = definition.retired();
    let stop = async {
        tokio::select! {
            () = stop => {}
            () = retired => {}
        }
    };
    let stream = watching::watch(state, definition, namespace, filter, &options, format, stop).await?;
    let mut response = Response::new(Body::watch(stream));
    // As upstream, which names the stream in the type of protobuf only.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn answer_create(
    state: &State,
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    target: &Target<'_>,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Resource, call.now)?;
    let options = WriteOptions::parse(request.query, "CreateOptions", false)?;
    let definition = target.definition;
    let begun = create::Begun::post(state, target);
    aside().await;
    let mut body = incoming::object(call, request, definition, &options)?;
    if definition.model.is_review() || !request.info.subresource.is_empty() {
        back().await;
    }
    if definition.model.is_review() {
        // Questions have owners of their fields as well, as upstream has it.
        let manager = definition.field_manager(Part::Main);
        let name = options.manager(call.user_agent);
        body = manager.update_or_forget(&definition.empty(), &body, &name, call.now);
    }
    if let Some(review) = review(state, call, target, &body) {
        return Ok(answer(201, shape.negotiated, &review?));
    }
    if let Some(done) = pods::act(state, call, target, &request.info.subresource, &body, &options).await {
        return Ok(answer(201, shape.negotiated, &done?));
    }
    let name = meta(&body, "name").to_owned();
    let target = Target { name: &name, ..*target };
    let outcome = create::create_decoded(state, call, &target, begun, body, &options).await?;
    answer_written(201, &shape, definition, outcome.written)
}

async fn answer_update(
    state: &State,
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    target: &Target<'_>,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Resource, call.now)?;
    let options = WriteOptions::parse(request.query, "UpdateOptions", false)?;
    let part = Part::of_subresource(&request.info.subresource).ok_or_else(ApiError::page_not_found)?;
    aside().await;
    let body = incoming::object(call, request, target.definition, &options)?;
    back().await;
    let outcome = update::update(state, call, target, part, Change::Replace(&body), &options).await?;
    if part == Part::Scale {
        return answer_scale(&shape, target.definition, outcome);
    }
    answer_outcome(&shape, target.definition, outcome)
}

/// The answer to kinds that ask a question; nothing for those that are stored.
fn review(
    state: &State,
    call: &Call<'_>,
    target: &Target<'_>,
    body: &Value,
) -> Option<Result<Value, ApiError>> {
    let definition = target.definition;
    let (identity, user) = (&state.identity, &call.user);
    match (definition.names.group.as_str(), definition.names.plural.as_str()) {
        ("authorization.k8s.io", "selfsubjectaccessreviews") => {
            Some(reviews::self_subject_access_review(&identity.rbac(), user, body))
        }
        ("authorization.k8s.io", "subjectaccessreviews") => {
            Some(reviews::subject_access_review(&identity.rbac(), body))
        }
        ("authorization.k8s.io", "localsubjectaccessreviews") => {
            Some(reviews::local_subject_access_review(&identity.rbac(), target.namespace, body))
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => {
            Some(reviews::self_subject_rules_review(&identity.rbac(), user, body))
        }
        ("authentication.k8s.io", "selfsubjectreviews") => {
            let now = object::time(call.now);
            Some(Ok(reviews::self_subject_review(user, now.as_str().unwrap_or_default())))
        }
        ("authentication.k8s.io", "tokenreviews") => Some(reviews::token_review(identity.tokens(), body)),
        _ => None,
    }
}

fn answer_scale(shape: &Shape, definition: &Definition, outcome: Outcome) -> Result<Answer, ApiError> {
    let object = match outcome.written {
        Written::Stored(entry) => definition.read(&entry),
        Written::Object(object) => object,
    };
    shape.scale(definition, &object)
}

fn answer_outcome(shape: &Shape, definition: &Definition, outcome: Outcome) -> Result<Answer, ApiError> {
    let status = if outcome.created { 201 } else { 200 };
    answer_written(status, shape, definition, outcome.written)
}

async fn answer_patch(
    state: &State,
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    target: &Target<'_>,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Resource, call.now)?;
    let part = Part::of_subresource(&request.info.subresource).ok_or_else(ApiError::page_not_found)?;
    let content_type = header_text(request.headers, header::CONTENT_TYPE).unwrap_or_default();
    let media_type = negotiate::media_type(content_type).unwrap_or_default();
    let kind = patching::Kind::parse(&media_type, target.definition)?;
    let options = WriteOptions::parse(request.query, "PatchOptions", kind == patching::Kind::Apply)?;
    let outcome = if kind == patching::Kind::Apply {
        if let Some(entry) = update::known_noop(state, target, part, &request.body, &options) {
            Outcome { written: Written::Stored(entry), created: false }
        } else {
            let config = patching::Configuration::parse(&request.body)?;
            update::update(state, call, target, part, Change::Apply(&config), &options).await?
        }
    } else {
        let patch = patching::Patch::new(kind, target.definition, &request.body);
        update::update(state, call, target, part, Change::Patch(&patch), &options).await?
    };
    if part == Part::Scale {
        return answer_scale(&shape, target.definition, outcome);
    }
    answer_outcome(&shape, target.definition, outcome)
}

async fn answer_delete(
    state: &State,
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    target: &Target<'_>,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Resource, call.now)?;
    let options = delete_options(request)?;
    warn_of_orphans(call, target.definition, &options);
    let deleted = delete::delete(state, call, target, &options).await?;
    let definition = target.definition;
    match deleted {
        Deleted::Pending(object) => answer_written(200, &shape, definition, Written::Object(object)),
        Deleted::Gone(last) if definition.model.behavior().returns_deleted => {
            answer_written(200, &shape, definition, Written::Object(last))
        }
        Deleted::Gone(last) => Ok(answer(200, shape.negotiated, &delete::success(target, &last))),
    }
}

async fn answer_delete_collection(
    state: &State,
    call: &mut Call<'_>,
    request: &ResourceRequest<'_>,
    definition: &Definition,
    namespace: &str,
) -> Result<Answer, ApiError> {
    let shape = Shape::new(request, Endpoint::Resource, call.now)?;
    let options = delete_options(request)?;
    warn_of_orphans(call, definition, &options);
    let list_options = ListOptions::parse(request.query, false, true)?;
    let query = request.query;
    let filter = Filter::parse(definition, query.get("labelSelector"), query.get("fieldSelector"))?;
    let listing = read::list(state, definition, namespace, &filter, &list_options).await?;
    for entry in &listing.entries {
        let target = Target { definition, namespace: entry.key().namespace(), name: entry.key().name() };
        match delete::delete(state, call, &target, &options).await {
            Ok(_) => {}
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    answer_listing(&shape, definition, listing)
}

/// The name of the object in a body, if it can be read.
fn name_in(body: &[u8]) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    meta(&object, "name").to_owned()
}

/// The options of a deletion: of the body, if there is one.
fn delete_options(request: &ResourceRequest<'_>) -> Result<DeleteOptions, ApiError> {
    if request.body.is_empty() {
        return DeleteOptions::parse(None, request.query);
    }
    DeleteOptions::parse(Some(&incoming::delete_options(request)?), request.query)
}

/// Some kinds' dependents outlive them unless something else is said, which surprises people.
fn warn_of_orphans(call: &mut Call<'_>, definition: &Definition, options: &DeleteOptions) {
    if options.propagation.is_none()
        && options.orphan_dependents.is_none()
        && let Some(warning) = definition.model.strategy().orphan_warning
    {
        call.warn(warning);
    }
}
