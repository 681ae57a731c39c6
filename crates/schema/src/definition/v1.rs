//! `CustomResourceDefinition` of `apiextensions.k8s.io/v1`, read from JSON once. What is absent or has the wrong type is empty: a
//! definition of the wrong shape is for the decoder.

use serde_json::{Map, Value};
use settled_apimachinery::unstructured::{field, flag, given, items, string};

/// A definition. Texts and schemas are borrowed from its JSON.
#[derive(Clone, Debug, Default)]
pub struct CustomResourceDefinition<'v> {
    /// Its `ObjectMeta`, if it is an object.
    pub metadata: Option<&'v Map<String, Value>>,
    /// What is described.
    pub spec: CustomResourceDefinitionSpec<'v>,
    /// What the server has made of it.
    pub status: CustomResourceDefinitionStatus<'v>,
}

/// What a definition describes.
#[derive(Clone, Debug, Default)]
pub struct CustomResourceDefinitionSpec<'v> {
    /// The group of the kind.
    pub group: &'v str,
    /// The names that are wanted.
    pub names: CustomResourceDefinitionNames<'v>,
    /// `Cluster` or `Namespaced`.
    pub scope: &'v str,
    /// The versions, if there is a list.
    pub versions: Option<Vec<CustomResourceDefinitionVersion<'v>>>,
    /// How objects get from one version to another.
    pub conversion: Option<CustomResourceConversion<'v>>,
    /// Fields that no schema names are kept.
    pub preserve_unknown_fields: bool,
}

/// The names of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomResourceDefinitionNames<'v> {
    /// The resource, as in URLs.
    pub plural: &'v str,
    /// The resource, for one.
    pub singular: &'v str,
    /// Abbreviations of the resource.
    pub short_names: Vec<&'v str>,
    /// The kind.
    pub kind: &'v str,
    /// The kind of lists.
    pub list_kind: &'v str,
    /// Groups of resources, such as `all`.
    pub categories: Vec<&'v str>,
}

/// A version of a kind.
#[derive(Clone, Debug, Default)]
pub struct CustomResourceDefinitionVersion<'v> {
    /// Its name.
    pub name: &'v str,
    /// Objects can be read and written in it.
    pub served: bool,
    /// Objects are stored in it.
    pub storage: bool,
    /// Its use is answered with a warning.
    pub deprecated: bool,
    /// That warning, if it is not the general one.
    pub deprecation_warning: Option<&'v str>,
    /// Its schema.
    pub schema: Option<CustomResourceValidation<'v>>,
    /// Its subresources.
    pub subresources: Option<CustomResourceSubresources<'v>>,
    /// The columns of its tables.
    pub additional_printer_columns: Option<Vec<CustomResourceColumnDefinition<'v>>>,
    /// The fields that selectors may name.
    pub selectable_fields: Option<Vec<SelectableField<'v>>>,
}

/// The schema of a version, as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CustomResourceValidation<'v> {
    /// A `JSONSchemaProps`.
    pub open_api_v3_schema: Option<&'v Value>,
}

/// The subresources of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustomResourceSubresources<'v> {
    /// There is a subresource `status`.
    pub status: bool,
    /// There is a subresource `scale`.
    pub scale: Option<CustomResourceSubresourceScale<'v>>,
}

/// Where the fields of a scale are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustomResourceSubresourceScale<'v> {
    /// The replicas that are wanted.
    pub spec_replicas_path: &'v str,
    /// The replicas that are there.
    pub status_replicas_path: &'v str,
    /// The selector of Pods, as a text.
    pub label_selector_path: Option<&'v str>,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustomResourceColumnDefinition<'v> {
    /// Its title.
    pub name: &'v str,
    /// The type of its cells.
    pub type_: &'v str,
    /// The format of its cells.
    pub format: &'v str,
    /// What it shows.
    pub description: &'v str,
    /// Above 0, it is in wide tables alone.
    pub priority: i64,
    /// Where its cells are in objects.
    pub json_path: &'v str,
}

/// A field that selectors may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectableField<'v> {
    /// Where it is.
    pub json_path: &'v str,
}

/// How objects get from one version to another.
#[derive(Clone, Debug, Default)]
pub struct CustomResourceConversion<'v> {
    /// `None` or `Webhook`.
    pub strategy: &'v str,
    /// Where the webhook is.
    pub client_config: Option<WebhookClientConfig<'v>>,
    /// The versions of reviews that the webhook takes.
    pub conversion_review_versions: Vec<&'v str>,
}

/// Where a webhook is.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebhookClientConfig<'v> {
    /// Its URL.
    pub url: Option<&'v str>,
    /// The Service that it is behind.
    pub service: Option<ServiceReference<'v>>,
    /// The certificates to trust, in base64.
    pub ca_bundle: &'v str,
}

/// A Service.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceReference<'v> {
    /// Its namespace.
    pub namespace: &'v str,
    /// Its name.
    pub name: &'v str,
    /// The path of requests.
    pub path: &'v str,
    /// Its port.
    pub port: i64,
}

/// What the server has made of a definition.
#[derive(Clone, Debug, Default)]
pub struct CustomResourceDefinitionStatus<'v> {
    /// Its conditions.
    pub conditions: Vec<CustomResourceDefinitionCondition<'v>>,
    /// The names that were accepted.
    pub accepted_names: CustomResourceDefinitionNames<'v>,
    /// The versions that objects may be stored in, if there is a list.
    pub stored_versions: Option<Vec<&'v str>>,
}

/// A condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustomResourceDefinitionCondition<'v> {
    /// What it is about.
    pub type_: &'v str,
    /// `True`, `False` or `Unknown`.
    pub status: &'v str,
}

fn list<'v>(object: &'v Value, name: &str) -> Option<&'v [Value]> {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice)
}

fn strings(list: &[Value]) -> Vec<&str> {
    list.iter().map(|text| text.as_str().unwrap_or_default()).collect()
}

impl<'v> CustomResourceDefinition<'v> {
    /// Reads a definition.
    #[must_use]
    pub fn read(crd: &'v Value) -> Self {
        Self {
            metadata: crd.get("metadata").and_then(Value::as_object),
            spec: CustomResourceDefinitionSpec::read(field(crd, "spec")),
            status: CustomResourceDefinitionStatus::read(field(crd, "status")),
        }
    }
}

impl<'v> CustomResourceDefinitionSpec<'v> {
    fn read(spec: &'v Value) -> Self {
        Self {
            group: string(spec, "group"),
            names: CustomResourceDefinitionNames::read(field(spec, "names")),
            scope: string(spec, "scope"),
            versions: list(spec, "versions")
                .map(|list| list.iter().map(CustomResourceDefinitionVersion::read).collect()),
            conversion: given(spec, "conversion").map(CustomResourceConversion::read),
            preserve_unknown_fields: flag(spec, "preserveUnknownFields"),
        }
    }

    /// The versions, none where there is no list.
    #[must_use]
    pub fn versions(&self) -> &[CustomResourceDefinitionVersion<'v>] {
        self.versions.as_deref().unwrap_or_default()
    }

    /// The name of the version that objects are stored in.
    #[must_use]
    pub fn storage_version(&self) -> Option<&'v str> {
        self.versions().iter().find(|version| version.storage).map(|version| version.name)
    }
}

impl<'v> CustomResourceDefinitionNames<'v> {
    fn read(names: &'v Value) -> Self {
        Self {
            plural: string(names, "plural"),
            singular: string(names, "singular"),
            short_names: strings(items(names, "shortNames")),
            kind: string(names, "kind"),
            list_kind: string(names, "listKind"),
            categories: strings(items(names, "categories")),
        }
    }
}

impl<'v> CustomResourceDefinitionVersion<'v> {
    fn read(version: &'v Value) -> Self {
        Self {
            name: string(version, "name"),
            served: flag(version, "served"),
            storage: flag(version, "storage"),
            deprecated: flag(version, "deprecated"),
            deprecation_warning: field(version, "deprecationWarning").as_str(),
            schema: given(version, "schema").map(|schema| CustomResourceValidation {
                open_api_v3_schema: given(schema, "openAPIV3Schema"),
            }),
            subresources: given(version, "subresources").map(|subresources| CustomResourceSubresources {
                status: given(subresources, "status").is_some(),
                scale: given(subresources, "scale").map(CustomResourceSubresourceScale::read),
            }),
            additional_printer_columns: list(version, "additionalPrinterColumns")
                .map(|list| list.iter().map(CustomResourceColumnDefinition::read).collect()),
            selectable_fields: list(version, "selectableFields").map(|list| {
                list.iter().map(|field| SelectableField { json_path: string(field, "jsonPath") }).collect()
            }),
        }
    }

    /// Its `openAPIV3Schema`, as JSON.
    #[must_use]
    pub fn open_api_v3_schema(&self) -> Option<&'v Value> {
        self.schema.and_then(|schema| schema.open_api_v3_schema)
    }
}

impl<'v> CustomResourceSubresourceScale<'v> {
    fn read(scale: &'v Value) -> Self {
        Self {
            spec_replicas_path: string(scale, "specReplicasPath"),
            status_replicas_path: string(scale, "statusReplicasPath"),
            label_selector_path: field(scale, "labelSelectorPath").as_str(),
        }
    }
}

impl<'v> CustomResourceColumnDefinition<'v> {
    fn read(column: &'v Value) -> Self {
        Self {
            name: string(column, "name"),
            type_: string(column, "type"),
            format: string(column, "format"),
            description: string(column, "description"),
            priority: field(column, "priority").as_i64().unwrap_or_default(),
            json_path: string(column, "jsonPath"),
        }
    }
}

impl<'v> CustomResourceConversion<'v> {
    fn read(conversion: &'v Value) -> Self {
        let webhook = field(conversion, "webhook");
        Self {
            strategy: string(conversion, "strategy"),
            client_config: given(webhook, "clientConfig").map(WebhookClientConfig::read),
            conversion_review_versions: strings(items(webhook, "conversionReviewVersions")),
        }
    }

    /// The certificates of the webhook to trust, if there are any.
    #[must_use]
    pub fn ca_bundle(&self) -> Option<&'v str> {
        self.client_config.map(|config| config.ca_bundle).filter(|bundle| !bundle.is_empty())
    }
}

impl<'v> WebhookClientConfig<'v> {
    /// Reads a `clientConfig`.
    #[must_use]
    pub fn read(config: &'v Value) -> Self {
        Self {
            url: field(config, "url").as_str(),
            service: config.get("service").filter(|service| service.is_object()).map(ServiceReference::read),
            ca_bundle: string(config, "caBundle"),
        }
    }
}

impl<'v> ServiceReference<'v> {
    fn read(service: &'v Value) -> Self {
        Self {
            namespace: string(service, "namespace"),
            name: string(service, "name"),
            path: string(service, "path"),
            port: field(service, "port").as_i64().unwrap_or_default(),
        }
    }
}

impl<'v> CustomResourceDefinitionStatus<'v> {
    fn read(status: &'v Value) -> Self {
        Self {
            conditions: items(status, "conditions")
                .iter()
                .map(|condition| CustomResourceDefinitionCondition {
                    type_: string(condition, "type"),
                    status: string(condition, "status"),
                })
                .collect(),
            accepted_names: CustomResourceDefinitionNames::read(field(status, "acceptedNames")),
            stored_versions: list(status, "storedVersions").map(strings),
        }
    }

    /// `IsCRDConditionTrue`.
    #[must_use]
    pub fn is_condition_true(&self, type_: &str) -> bool {
        self.conditions
            .iter()
            .find(|condition| condition.type_ == type_)
            .is_some_and(|condition| condition.status == "True")
    }
}
