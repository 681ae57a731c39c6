#![doc = include_str!("../README.md")]

mod attributes;
mod condition_type;
mod reason;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

/// Implements `settled_controller::conditions::ConditionType` for an enum of unit variants.
///
/// | attribute | where | value |
/// |---|---|---|
/// | `polarity` | variant | `"positive"` (the default), `"negative"`, `"neutral"`: what True means |
/// | `severity` | variant | `"error"` (the default), `"warning"`, `"info"`: what the bad state means for the summary |
/// | `name` | variant | the condition type, if it is not the variant's name: `"example.com/Stored"` |
/// | `summary` | enum | the type of the condition that summarizes the others: `"Ready"` by default |
///
/// A variant's doc comment becomes the description of the condition type, in the schema of the CRD, too.
#[proc_macro_derive(ConditionType, attributes(condition))]
pub fn derive_condition_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    condition_type::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Implements `settled_controller::conditions::Reason` for an enum of unit variants.
///
/// `#[reason(name = "...")]` on a variant is the reason, if it is not the variant's name. A variant's doc comment becomes its description.
#[proc_macro_derive(Reason, attributes(reason))]
pub fn derive_reason(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    reason::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}
