//! Get and list, at the requested resourceVersion.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use settled_apimachinery::labels::LabelSelector;
use settled_store::{At, Entry, ReadError, Revision, Scope, Snapshot};

use crate::error::{ApiError, Cause};
use crate::kinds::definition::Definition;
use crate::kinds::index;
use crate::object::meta;
use crate::options::{Continue, ListOptions, Match, parse_revision};
use crate::selector::FieldSelector;
use crate::state::State;
use crate::state::call::{Call, Target};

/// How long a read waits for a revision that isn't there yet.
const FRESH_WAIT: Duration = Duration::from_secs(3);
/// How many objects are looked at in one go.
const SCANNED: usize = 500;

/// Which objects of a scope are meant.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Filter {
    /// From `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(definition: &Definition, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels =
            LabelSelector::parse(labels).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(fields, &definition.selectable)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(Self { labels, fields })
    }

    /// Is every object meant?
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Is this object meant?
    pub(crate) fn matches(&self, definition: &Definition, entry: &Arc<Entry>) -> bool {
        if self.is_everything() {
            return true;
        }
        let selected = &index::of(definition, entry).selector;
        self.labels.matches(selected)
            && self.fields.matches(entry.key().name(), entry.key().namespace(), selected)
    }

    /// As [`Filter::matches`], for an object that is not stored.
    pub(crate) fn matches_object(&self, definition: &Definition, object: &Value) -> bool {
        let selected = definition.selectable.data(object);
        self.labels.matches(&selected)
            && self.fields.matches(meta(object, "name"), meta(object, "namespace"), &selected)
    }

    /// What to ask the store for: one object, a namespace, or everything.
    pub(crate) fn scope(&self, definition: &Definition, namespace: &str) -> Scope {
        let namespace = if namespace.is_empty() {
            self.fields.required("metadata.namespace").unwrap_or_default()
        } else {
            namespace
        };
        match self.fields.required("metadata.name") {
            Some(name) if !definition.namespaced || !namespace.is_empty() => {
                Scope::Object { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            _ if namespace.is_empty() => Scope::All,
            _ => Scope::Namespace(namespace.to_owned()),
        }
    }
}

/// A list, or a page of one.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) revision: u64,
    /// The token for the next page; empty if this is the last.
    pub(crate) next: String,
    /// How many objects come after the page, where that is known.
    pub(crate) remaining: Option<usize>,
}

/// A revision that isn't there yet.
pub(crate) fn too_large(requested: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
    ApiError::new(504, "Timeout", message)
        .because([Cause::new("ResourceVersionTooLarge", "Too large resource version", "")])
        .retry_after(1)
}

/// Waits, not long, until the store has reached a revision.
pub(crate) async fn reach(state: &State, revision: u64) -> Result<(), ApiError> {
    if state.store.current_revision().0 >= revision {
        return Ok(());
    }
    let reached = tokio::time::timeout(FRESH_WAIT, state.store.wait_for(Revision(revision))).await;
    match reached {
        Ok(Ok(_)) => Ok(()),
        _ => Err(too_large(revision, state.store.current_revision().0)),
    }
}

/// The definition of the version that an object is stored in, where the server itself changes it at another one: its
/// controllers touch nothing but metadata, which no webhook has to convert for that.
pub(crate) fn as_stored(state: &State, call: &Call<'_>, target: &Target<'_>) -> Option<Arc<Definition>> {
    let definition = target.definition;
    let custom = definition.converted_by_webhook().filter(|_| call.internal)?;
    let stored = custom.stored_version(&*state.get(target).ok()?);
    state.catalog().find(&definition.names.group, &stored, &definition.names.plural).cloned()
}

/// One object, not older than the revision that was asked for.
pub(crate) async fn get_at(
    state: &State,
    target: &Target<'_>,
    resource_version: &str,
) -> Result<Arc<Entry>, ApiError> {
    reach(state, parse_revision(resource_version)?).await?;
    state.get(target)
}

/// The objects of a scope, at the revision that was asked for.
pub(crate) async fn list(
    state: &State,
    definition: &Definition,
    namespace: &str,
    filter: &Filter,
    options: &ListOptions,
) -> Result<Listing, ApiError> {
    let scope = filter.scope(definition, namespace);
    // Continue tokens are of the namespace or of all, whatever the selector names.
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    if !options.continue_token.is_empty() {
        let token = Continue::decode(&options.continue_token)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(message));
        }
        let start = format!("{prefix}{}", token.start);
        let at = token.revision.map_or(At::Latest, |revision| At::Exactly(Revision(revision)));
        let snapshot = state.store.snapshot(&definition.resource, at).map_err(|error| match error {
            ReadError::Compacted { .. } => inconsistent(&token),
            other => read_failed(&other),
        })?;
        return page(definition, &snapshot, &scope, &start, &prefix, filter, options.limit);
    }
    let revision = options
        .revision()
        .map_err(|error| ApiError::bad_request(format!("invalid resource version: {}", error.message)))?;
    let exact = match options.version_match {
        Some(Match::Exact) => true,
        Some(Match::NotOlderThan) => false,
        None => revision > 0 && options.limit > 0,
    };
    let at = if exact { At::Exactly(Revision(revision)) } else { At::Latest };
    reach(state, revision).await?;
    let snapshot = state.store.snapshot(&definition.resource, at).map_err(|error| read_failed(&error))?;
    // Upstream's cache has no pages; clients count on that for revision 0.
    let limit = if options.resource_version == "0" { 0 } else { options.limit };
    page(definition, &snapshot, &scope, "", &prefix, filter, limit)
}

fn page(
    definition: &Definition,
    snapshot: &Snapshot,
    scope: &Scope,
    start: &str,
    prefix: &str,
    filter: &Filter,
    limit: usize,
) -> Result<Listing, ApiError> {
    let revision = snapshot.revision().0;
    if filter.is_everything() {
        let page = snapshot.page(scope, start, limit);
        let next = page.next.as_deref().map_or_else(String::new, |path| token(path, prefix, revision));
        let remaining = (!next.is_empty()).then_some(page.remaining);
        page.entries.iter().try_for_each(|entry| definition.check_readable(entry))?;
        return Ok(Listing { entries: page.entries, revision, next, remaining });
    }
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    let mut at = start.to_owned();
    loop {
        let page = snapshot.page(scope, &at, SCANNED);
        let last = page.next.is_none();
        let found = page.entries.len();
        for (place, entry) in page.entries.into_iter().enumerate() {
            // As upstream, objects are selected as they are in the version that was asked for.
            definition.check_readable(&entry)?;
            if !filter.matches(definition, &entry) {
                continue;
            }
            entries.push(entry);
            if entries.len() == limit {
                // As upstream: whether what comes then matches too is not looked up.
                let more = !last || place + 1 < found;
                let end = entries.last().map_or_else(String::new, |last| format!("{}\0", last.key().path()));
                let next = if more { token(&end, prefix, revision) } else { String::new() };
                return Ok(Listing { entries, revision, next, remaining: None });
            }
        }
        match page.next {
            Some(path) => at = path,
            None => return Ok(Listing { entries, revision, next: String::new(), remaining: None }),
        }
    }
}

fn token(path: &str, prefix: &str, revision: u64) -> String {
    // With a slash before it, as upstream's cache has it.
    let start = format!("/{}", path.strip_prefix(prefix).unwrap_or(path));
    Continue { revision: Some(revision), start }.encode()
}

fn read_failed(error: &ReadError) -> ApiError {
    match error {
        ReadError::Compacted { .. } => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        ReadError::Future { requested, current_revision } => too_large(requested.0, current_revision.0),
        other => ApiError::internal(other),
    }
}

/// The first page's revision is gone: the client may go on at the latest, if it can live with that.
fn inconsistent(token: &Continue) -> ApiError {
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    error.next = Continue { revision: None, start: token.start.clone() }.encode();
    error
}
