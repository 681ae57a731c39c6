//! Registry: the installed providers by the format of their configuration, with compiled schemas.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use settled_schema::Schema;

use super::{Desired, Provider};
use crate::crds::ConfigSchema;

/// Why a configuration is not accepted.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
pub enum ConfigError {
    /// There is no configuration.
    #[error("there is no provider configuration")]
    Missing,
    /// No installed provider has this format.
    #[error("no provider is installed for {0}")]
    UnknownProvider(String),
    /// The configuration violates the schema of its provider, or its rules.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// The host is that of another Machine.
    #[error("the host is that of Machine {0}, which the annotation cluster.settled.dev/host-uid names, too")]
    HostTaken(String),
    /// The MachineClass does not exist.
    #[error("MachineClass {0} not found")]
    NoClass(String),
}

/// An installed provider.
#[derive(Clone)]
pub struct Entry {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    format: ConfigSchema,
    schema: Arc<Schema>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Entry").field(&self.name()).finish()
    }
}

impl Entry {
    /// `apiVersion/kind` of its configuration.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.format.api_version, self.format.kind)
    }

    /// A configuration with its defaults.
    ///
    /// # Errors
    /// It violates the schema.
    pub fn complete(&self, config: &Value) -> Result<Value, ConfigError> {
        let mut complete = config.clone();
        self.schema.default(&mut complete);
        self.provider.defaults(&mut complete);
        let errors = self.schema.validate_values("spec.providerSpec.value", &complete, None);
        if errors.is_empty() {
            return Ok(complete);
        }
        Err(ConfigError::Invalid(errors.iter().map(ToString::to_string).collect()))
    }

    /// Whether the provider can read a request.
    ///
    /// # Errors
    /// It violates a rule of the provider.
    pub fn validate(&self, desired: &Desired) -> Result<(), ConfigError> {
        match self.provider.validate(desired) {
            errors if errors.is_empty() => Ok(()),
            errors => Err(ConfigError::Invalid(errors)),
        }
    }
}

/// The schema of a provider is not structural.
#[derive(Debug, thiserror::Error)]
#[error("the schema of {provider} is invalid: {errors}")]
pub struct InvalidSchema {
    /// Its format.
    pub provider: String,
    /// What is wrong.
    pub errors: String,
}

/// The installed providers.
#[derive(Clone, Debug, Default)]
pub struct Registry(Vec<Entry>);

impl Registry {
    /// A registry of these providers.
    ///
    /// # Errors
    /// The schema of one is not structural.
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Result<Self, InvalidSchema> {
        let entry = |provider: Arc<dyn Provider>| {
            let format = provider.schema();
            let schema = Schema::parse(&format.complete()).map_err(|errors| InvalidSchema {
                provider: format!("{}/{}", format.api_version, format.kind),
                errors: errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            })?;
            Ok(Entry { provider, format, schema: Arc::new(schema) })
        };
        providers.into_iter().map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// Formats of all configurations, for [`definitions`](crate::crds::definitions).
    #[must_use]
    pub fn formats(&self) -> Vec<ConfigSchema> {
        self.0.iter().map(|entry| entry.format.clone()).collect()
    }

    /// The installed providers.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    /// The provider of a configuration.
    ///
    /// # Errors
    /// None is installed.
    pub fn find(&self, config: &Value) -> Result<&Entry, ConfigError> {
        let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        self.by_name(&format!("{}/{}", text("apiVersion"), text("kind")))
    }

    /// The provider with this [name](Entry::name).
    ///
    /// # Errors
    /// None is installed.
    pub fn by_name(&self, name: &str) -> Result<&Entry, ConfigError> {
        let found = self.0.iter().find(|entry| entry.name() == name);
        found.ok_or_else(|| ConfigError::UnknownProvider(name.to_owned()))
    }
}
