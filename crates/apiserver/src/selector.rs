//! Which fields the objects of a kind can be selected by, and the little of an object that selectors read.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;
use settled_apimachinery::InvalidSelector;
use settled_apimachinery::fields::{self, Requirement};
use settled_apimachinery::labels::Labels;
use settled_apimachinery::unstructured::{integer_at, value_at};
use settled_go as go;
use settled_jsonpath::JsonPath;

use crate::ApiError;

impl From<InvalidSelector> for ApiError {
    fn from(error: InvalidSelector) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// Which fields the objects of a kind can be selected by.
#[derive(Clone, Debug)]
pub(crate) struct SelectableFields {
    fields: Vec<Field>,
    name_only: bool,
    refusal: Refusal,
}

#[derive(Clone, Debug)]
struct Field {
    /// What selectors call it. Empty: the field is kept for another version's sake.
    label: Cow<'static, str>,
    source: Source,
}

/// Where the value of a field comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The first of these JSON pointers that leads to a text, else nothing.
    Text(&'static [&'static str]),
    /// A number, 0 if absent.
    Number(&'static str),
    /// true or false, false if absent.
    Flag(&'static str),
    /// Nothing, in any object: accepted, and never kept.
    Nothing,
    /// A path of a custom resource.
    Path(Option<JsonPath>),
}

/// How a field that is not there is refused.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// Of kinds that have a say.
    NotSupported,
    /// Of all others.
    Unknown,
    /// Of Jobs.
    Job,
    /// Of ResourceSlices.
    ResourceSlice,
}

/// The field selectors of a built-in kind: what the conversions of upstream accept, and what its stores answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldSelectors {
    /// Names for fields, and the fields.
    fields: &'static [(&'static str, Source)],
    refusal: Refusal,
    /// `metadata.namespace` is not supported.
    name_only: bool,
}

impl FieldSelectors {
    /// Those of kinds that have none of their own.
    pub(crate) const NONE: Self = Self { fields: &[], refusal: Refusal::Unknown, name_only: false };

    pub(crate) const fn of(fields: &'static [(&'static str, Source)]) -> Self {
        Self { fields, refusal: Refusal::NotSupported, name_only: false }
    }

    pub(crate) const fn of_jobs(fields: &'static [(&'static str, Source)]) -> Self {
        Self { fields, refusal: Refusal::Job, name_only: false }
    }

    pub(crate) const fn of_resource_slices(fields: &'static [(&'static str, Source)]) -> Self {
        Self { fields, refusal: Refusal::ResourceSlice, name_only: true }
    }

    /// Without `metadata.namespace`.
    pub(crate) const fn of_cluster(self) -> Self {
        Self { name_only: true, ..self }
    }
}

impl SelectableFields {
    /// The fields of a built-in kind.
    pub(crate) fn builtin(selectors: &FieldSelectors) -> Self {
        let field = |(label, source): &(&'static str, Source)| Field {
            label: Cow::Borrowed(label),
            source: source.clone(),
        };
        Self {
            fields: selectors.fields.iter().map(field).collect(),
            name_only: selectors.name_only,
            refusal: selectors.refusal,
        }
    }

    /// The fields of a version of a custom resource, from its `selectableFields`.
    pub(crate) fn custom(selectable_fields: &Value, namespaced: bool) -> Self {
        let paths = selectable_fields.as_array().into_iter().flatten();
        let paths = paths.filter_map(|field| field.get("jsonPath")?.as_str());
        let field = |path: &str| Field {
            label: Cow::Owned(path.strip_prefix('.').unwrap_or(path).to_owned()),
            source: Source::Path(JsonPath::parse(path).ok()),
        };
        Self { fields: paths.map(field).collect(), name_only: !namespaced, refusal: Refusal::NotSupported }
    }

    /// What is kept of an object to answer selectors.
    pub(crate) fn data(&self, object: &Value) -> SelectorData {
        let mut packed = String::new();
        let labels = value_at(object, "/metadata/labels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            // Neither is valid in a label; here they would end it.
            if !key.contains('\0') && !value.contains('\0') {
                packed.extend([key, "\0", value, "\0"]);
            }
        }
        let labels = u32::try_from(packed.len()).unwrap_or(u32::MAX);
        for field in &self.fields {
            let value = field.source.value(object);
            match value.contains('\0') {
                true => packed.push_str(&value.replace('\0', "\u{fffd}")),
                false => packed.push_str(&value),
            }
            packed.push('\0');
        }
        SelectorData { packed: packed.into_boxed_str(), labels }
    }

    fn refuse(&self, label: &str) -> InvalidSelector {
        InvalidSelector::new(match self.refusal {
            Refusal::NotSupported => format!("field label not supported: {label}"),
            Refusal::Unknown => {
                let label = go::strconv::quote(label);
                format!(
                    r#"{label} is not a known field selector: only "metadata.name", "metadata.namespace""#
                )
            }
            Refusal::Job => format!("field label {} not supported for Job", go::strconv::quote(label)),
            Refusal::ResourceSlice => {
                format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
            }
        })
    }

    fn target(&self, label: &str) -> Result<Target, InvalidSelector> {
        match label {
            "metadata.name" => return Ok(Target::Name),
            "metadata.namespace" if !self.name_only => return Ok(Target::Namespace),
            // What old clients send.
            "spec.host" if self.fields.first().is_some_and(|field| field.label == "spec.nodeName") => {
                return self.target("spec.nodeName");
            }
            _ => {}
        }
        let found = self.fields.iter().position(|field| !field.label.is_empty() && field.label == label);
        found.map(Target::Field).ok_or_else(|| self.refuse(label))
    }
}

impl Source {
    fn value<'o>(&self, object: &'o Value) -> Cow<'o, str> {
        match self {
            Self::Text(pointers) => {
                let mut texts = pointers.iter().filter_map(|pointer| value_at(object, pointer)?.as_str());
                texts.find(|text| !text.is_empty()).unwrap_or_default().into()
            }
            Self::Number(pointer) => integer_at(object, pointer).to_string().into(),
            Self::Flag(pointer) => {
                let flag = value_at(object, pointer).and_then(Value::as_bool).unwrap_or_default();
                if flag { "true" } else { "false" }.into()
            }
            Self::Nothing => Cow::default(),
            Self::Path(path) => {
                let results = path.as_ref().and_then(|path| path.find(object).ok()).unwrap_or_default();
                match results.first() {
                    Some(value) if !value.is_null() => settled_jsonpath::shown(value).into(),
                    _ => Cow::default(),
                }
            }
        }
    }
}

/// The labels and selectable fields of an object: what is kept beside each stored object.
///
/// One allocation holds them all, and there is none where there is nothing to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectorData {
    /// Keys and values of the labels, then values of the fields, each ended by a NUL.
    packed: Box<str>,
    /// Where the labels end.
    labels: u32,
}

impl SelectorData {
    fn split(&self) -> (&str, &str) {
        let at = usize::try_from(self.labels).unwrap_or(usize::MAX);
        self.packed.split_at_checked(at).unwrap_or((&self.packed, ""))
    }

    fn field(&self, index: usize) -> &str {
        self.split().1.split_terminator('\0').nth(index).unwrap_or_default()
    }
}

impl Labels for SelectorData {
    fn label(&self, key: &str) -> Option<&str> {
        let mut texts = self.split().0.split_terminator('\0');
        while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            if name == key {
                return Some(value);
            }
        }
        None
    }
}

/// Which objects are meant, by their fields: `metadata.name=web,status.phase!=Running`.
///
/// It belongs to the kind that it was read for: fields have no other names in it than their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<(Requirement, Target)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Name,
    Namespace,
    Field(usize),
}

impl FieldSelector {
    /// Reads what a query has, for objects with these fields.
    pub(crate) fn parse(text: &str, fields: &SelectableFields) -> Result<Self, InvalidSelector> {
        let mut terms = Vec::new();
        for requirement in fields::parse(text)? {
            let target = fields.target(&requirement.field)?;
            terms.push((requirement, target));
        }
        Ok(Self { terms })
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that a field must have, if the selector says so: with `metadata.name` it means one object.
    pub(crate) fn required(&self, label: &str) -> Option<&str> {
        let mut requirements = self.terms.iter().map(|(requirement, _)| requirement);
        let found = requirements.find(|requirement| requirement.is_equal && requirement.field == label);
        found.map(|requirement| requirement.value.as_str())
    }

    /// Whether the object of this name and namespace is meant.
    pub(crate) fn matches(&self, name: &str, namespace: &str, data: &SelectorData) -> bool {
        self.terms.iter().all(|(requirement, target)| {
            let value = match *target {
                Target::Name => name,
                Target::Namespace => namespace,
                Target::Field(index) => data.field(index),
            };
            (value == requirement.value) == requirement.is_equal
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (requirement, _)) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_without_labels_costs_next_to_nothing() {
        assert!(size_of::<SelectorData>() <= 24);
        let data = SelectableFields::builtin(&FieldSelectors::NONE).data(&json!({"metadata": {"name": "a"}}));
        assert_eq!((data.packed.len(), data.labels), (0, 0));
        assert_eq!(data.label(""), None);
    }

    #[test]
    fn a_required_name_means_one_object() {
        let pods = SelectableFields::builtin(&crate::kinds::strategies::find("", "Pod").field_selectors);
        let required = |text: &str, label: &str| {
            let selector = FieldSelector::parse(text, &pods).expect("a selector");
            selector.required(label).map(str::to_owned)
        };
        assert_eq!(required("metadata.name=a", "metadata.name").as_deref(), Some("a"));
        assert_eq!(required("spec.host=n,metadata.name==a", "metadata.name").as_deref(), Some("a"));
        assert_eq!(required("metadata.name!=a", "metadata.name"), None);
        assert_eq!(required("", "metadata.name"), None);
    }

    #[test]
    fn fields_of_custom_resources_are_kept_as_texts() {
        let paths =
            json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.on"}]);
        let fields = SelectableFields::custom(&paths, true);
        let object = json!({"spec": {"size": 5, "on": true}, "metadata": {"labels": {"a": "b"}}});
        let data = fields.data(&object);
        for (text, expected) in [
            ("spec.color=", true),
            ("spec.size=5,spec.on=true", true),
            ("spec.color=red", false),
            ("metadata.name=web,metadata.namespace!=other", true),
        ] {
            let selector = FieldSelector::parse(text, &fields).expect("a selector");
            assert_eq!(selector.matches("web", "default", &data), expected, "{text}");
        }
    }
}
