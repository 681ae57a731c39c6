//! What both macros read: unit variants, their names and doc comments, `key = "value"` attributes.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, Lit, LitStr, Meta, Variant};

/// The variants of an enum that has unit variants only.
pub(crate) fn unit_variants(input: &DeriveInput) -> Result<Vec<&Variant>, Error> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "expected an enum"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "expected an enum without generic parameters"));
    }
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(&variant.fields, "expected a variant without fields"));
        }
    }
    Ok(data.variants.iter().collect())
}

/// Calls `assign` with each `key = "value"` of the attributes of this name. It returns false for a key that it does not know.
pub(crate) fn read(
    attributes: &[Attribute],
    name: &str,
    mut assign: impl FnMut(&str, LitStr) -> Result<bool, Error>,
) -> Result<(), Error> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
        attribute.parse_nested_meta(|meta| {
            let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            let value: LitStr = meta.value()?.parse()?;
            if assign(&key, value)? { Ok(()) } else { Err(meta.error(format!("unknown attribute `{key}`"))) }
        })?;
    }
    Ok(())
}

/// The name of a variant: as it is written, or as an attribute has it.
pub(crate) struct Name {
    pub(crate) text: String,
    span: Span,
}

impl Name {
    pub(crate) fn of(variant: &Variant) -> Self {
        Self { text: variant.ident.to_string(), span: variant.ident.span() }
    }

    pub(crate) fn given(literal: &LitStr) -> Self {
        Self { text: literal.value(), span: literal.span() }
    }

    pub(crate) fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::new(self.span, message)
    }
}

/// Refuses a name that is there twice.
#[derive(Default)]
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    pub(crate) fn add(&mut self, name: &Name) -> Result<(), Error> {
        if self.0.insert(name.text.clone()) {
            Ok(())
        } else {
            Err(name.error(format!("`{}` is there twice", name.text)))
        }
    }
}

/// The first paragraph of a doc comment, on one line.
pub(crate) fn description(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { continue };
        let text = text.value();
        let text = text.trim();
        if text.is_empty() {
            break;
        }
        lines.push(text.to_owned());
    }
    lines.join(" ")
}
