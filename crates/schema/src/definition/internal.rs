//! The internal form of a CRD, which upstream validates: what all versions have alike is taken out of them
//! (`Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec`).

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, Path};

use super::v1;
use crate::props::JsonSchemaProps;

/// A CRD with its schemas decoded, one [`JsonSchemaProps`] for each that differs from the others.
#[derive(Debug)]
pub struct InternalCrd<'v> {
    pub(super) metadata: Option<&'v Map<String, Value>>,
    pub(super) group: &'v str,
    pub(super) names: v1::CustomResourceDefinitionNames<'v>,
    pub(super) scope: &'v str,
    pub(super) versions: Option<Vec<InternalVersion<'v>>>,
    /// What all versions have alike.
    pub(super) shared: PerVersion<'v>,
    pub(super) conversion: Option<v1::CustomResourceConversion<'v>>,
    pub(super) preserve_unknown_fields: bool,
    pub(super) status: v1::CustomResourceDefinitionStatus<'v>,
}

#[derive(Debug)]
pub(super) struct InternalVersion<'v> {
    pub(super) name: &'v str,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) deprecated: bool,
    pub(super) deprecation_warning: Option<&'v str>,
    /// What the other versions do not have alike.
    pub(super) own: PerVersion<'v>,
}

/// What each version may have, or all versions.
#[derive(Debug, Default)]
pub(super) struct PerVersion<'v> {
    pub(super) validation: Option<Validation>,
    pub(super) subresources: Option<v1::CustomResourceSubresources<'v>>,
    pub(super) columns: Option<Vec<v1::CustomResourceColumnDefinition<'v>>>,
    pub(super) selectable_fields: Option<Vec<v1::SelectableField<'v>>>,
}

/// `CustomResourceValidation`.
#[derive(Debug, PartialEq)]
pub(super) struct Validation {
    pub(super) open_api_v3_schema: Option<JsonSchemaProps>,
}

impl PerVersion<'_> {
    pub(super) fn schema(&self) -> Option<&JsonSchemaProps> {
        self.validation.as_ref()?.open_api_v3_schema.as_ref()
    }

    pub(super) fn has_status(&self) -> bool {
        self.subresources.is_some_and(|subresources| subresources.status)
    }
}

impl<'v> InternalVersion<'v> {
    fn read(
        version: v1::CustomResourceDefinitionVersion<'v>,
        path: &Path<'_>,
    ) -> Result<Self, Vec<FieldError>> {
        let path = path.child("schema");
        let path = path.child("openAPIV3Schema");
        let validation = match version.schema {
            None => None,
            Some(validation) => {
                let schema = validation.open_api_v3_schema;
                let schema = schema.map(|schema| JsonSchemaProps::read(schema, &path)).transpose()?;
                Some(Validation { open_api_v3_schema: schema })
            }
        };
        Ok(Self {
            name: version.name,
            served: version.served,
            storage: version.storage,
            deprecated: version.deprecated,
            deprecation_warning: version.deprecation_warning,
            own: PerVersion {
                validation,
                subresources: version.subresources,
                columns: version.additional_printer_columns,
                selectable_fields: version.selectable_fields,
            },
        })
    }
}

impl<'v> InternalCrd<'v> {
    /// Reads a CRD of `apiextensions.k8s.io/v1`.
    ///
    /// # Errors
    ///
    /// Fields of schemas that have the wrong type, and schemas that are nested too deep.
    pub fn read(crd: &'v Value) -> Result<Self, Vec<FieldError>> {
        let v1::CustomResourceDefinition { metadata, spec, status } = v1::CustomResourceDefinition::read(crd);
        let nil = Path::Nil;
        let path = nil.child("spec");
        let path = path.child("versions");
        let mut versions = match spec.versions {
            None => None,
            Some(versions) => {
                let versions = versions.into_iter().enumerate();
                let read =
                    versions.map(|(index, version)| InternalVersion::read(version, &path.index(index)));
                Some(read.collect::<Result<Vec<_>, _>>()?)
            }
        };
        Ok(Self {
            metadata,
            group: spec.group,
            names: spec.names,
            scope: spec.scope,
            shared: take_shared(versions.as_deref_mut().unwrap_or_default()),
            versions,
            conversion: spec.conversion,
            preserve_unknown_fields: spec.preserve_unknown_fields,
            status,
        })
    }

    /// Its schemas, and where errors have them: `spec.validation.openAPIV3Schema` is that of all versions.
    pub fn schemas(&self) -> impl Iterator<Item = (String, &JsonSchemaProps)> {
        let shared =
            self.shared.schema().map(|schema| ("spec.validation.openAPIV3Schema".to_owned(), schema));
        let own = self.versions().iter().enumerate().filter_map(|(index, version)| {
            Some((format!("spec.versions[{index}].schema.openAPIV3Schema"), version.own.schema()?))
        });
        shared.into_iter().chain(own)
    }

    pub(super) fn versions(&self) -> &[InternalVersion<'v>] {
        self.versions.as_deref().unwrap_or_default()
    }

    /// `HasSchemaWith`: whether the predicate holds for any part of a schema.
    pub(super) fn has_schema_with(&self, predicate: &dyn Fn(&JsonSchemaProps) -> bool) -> bool {
        self.schemas().any(|(_, schema)| schema.has(predicate))
    }

    /// `hasAnyStatusEnabled`.
    pub(super) fn has_any_status_enabled(&self) -> bool {
        self.shared.has_status() || self.versions().iter().any(|version| version.own.has_status())
    }

    pub(super) fn is_established(&self) -> bool {
        self.status.is_condition_true("Established")
    }

    pub(super) fn conversion_review_versions(&self) -> &[&'v str] {
        self.conversion.as_ref().map_or(&[], |conversion| &conversion.conversion_review_versions)
    }

    pub(super) fn ca_bundle(&self) -> Option<&'v str> {
        self.conversion.as_ref().and_then(v1::CustomResourceConversion::ca_bundle)
    }
}

fn take_shared<'v>(versions: &mut [InternalVersion<'v>]) -> PerVersion<'v> {
    PerVersion {
        validation: take_identical(versions, |own| &mut own.validation, PartialEq::eq),
        subresources: take_identical(versions, |own| &mut own.subresources, PartialEq::eq),
        columns: take_identical(versions, |own| &mut own.columns, is_identical_list),
        selectable_fields: take_identical(versions, |own| &mut own.selectable_fields, is_identical_list),
    }
}

fn is_identical_list<T: PartialEq>(list: &Option<Vec<T>>, other: &Option<Vec<T>>) -> bool {
    list.as_deref().unwrap_or_default() == other.as_deref().unwrap_or_default()
}

/// Takes a field out of all versions if it is identical in them.
fn take_identical<'v, T>(
    versions: &mut [InternalVersion<'v>],
    field: impl for<'a> Fn(&'a mut PerVersion<'v>) -> &'a mut Option<T>,
    is_identical: impl Fn(&Option<T>, &Option<T>) -> bool,
) -> Option<T> {
    let (first, rest) = versions.split_first_mut()?;
    let first = field(&mut first.own);
    if !rest.iter_mut().all(|version| is_identical(field(&mut version.own), first)) {
        return None;
    }
    rest.iter_mut().for_each(|version| *field(&mut version.own) = None);
    first.take()
}
