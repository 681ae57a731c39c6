//! Call context: who calls, when, with which warnings, and the object that is meant.

use serde_json::Value;
use settled_store::Key;

use crate::auth::User;
use crate::error::ApiError;
use crate::kinds::definition::Definition;
use crate::object::meta;

/// Who writes, with what, when, and what is to be said about it besides the answer.
pub(crate) struct Call<'a> {
    pub(crate) user: User,
    /// What the client calls itself.
    pub(crate) user_agent: &'a str,
    /// The server itself calls, not a client.
    pub(crate) internal: bool,
    /// The time of the request.
    pub(crate) now: jiff::Timestamp,
    /// For the `Warning` headers of the answer.
    pub(crate) warnings: Vec<String>,
}

impl<'a> Call<'a> {
    /// A call of a user.
    pub(crate) fn of(user: User, user_agent: &'a str) -> Self {
        Self { user, user_agent, internal: false, now: jiff::Timestamp::now(), warnings: Vec::new() }
    }

    /// A call of the server itself.
    pub(crate) fn new(user_agent: &'a str) -> Self {
        Self { internal: true, ..Self::of(User::admin(), user_agent) }
    }

    /// Adds a warning, unless it was given already.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}

/// An object that is meant.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) definition: &'a Definition,
    /// Empty for what is in no namespace.
    pub(crate) namespace: &'a str,
    /// Empty if the object has none yet.
    pub(crate) name: &'a str,
}

impl Target<'_> {
    pub(crate) fn key(&self) -> Result<Key, ApiError> {
        // Names that cannot be keys can't exist either.
        Key::new(&self.definition.resource, self.namespace, self.name).map_err(|_| self.not_found())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(self.definition.group_resource(), self.name)
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::modified(self.definition.group_resource(), self.name)
    }

    /// `pods "web" is forbidden: …`, of an object that may have no name yet.
    pub(crate) fn forbidden(&self, object: &Value, why: &str) -> ApiError {
        let names = [self.name, meta(object, "name"), meta(object, "generateName")];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        ApiError::forbidden(self.definition.group_resource(), name, why)
    }
}
