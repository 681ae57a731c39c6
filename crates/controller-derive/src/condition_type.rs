//! `#[derive(ConditionType)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use settled_apimachinery::validation::is_qualified_name;
use syn::{DeriveInput, Error, LitStr, Variant};

use crate::attributes::{Name, Names, description, read, unit_variants};

/// What kstatus reads. `Conditions` sets both itself.
const RESERVED: [&str; 2] = ["Reconciling", "Stalled"];

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let mut summary = "Ready".to_owned();
    read(&input.attrs, "condition", |key, value| {
        if key != "summary" {
            return Ok(false);
        }
        let name = Name::given(&value);
        validate(&name)?;
        summary = name.text;
        Ok(true)
    })?;

    let mut names = Names::default();
    let mut declarations = Vec::new();
    let mut arms = Vec::new();
    for (index, variant) in unit_variants(input)?.into_iter().enumerate() {
        let declared = Declared::read(variant)?;
        validate(&declared.name)?;
        names.add(&declared.name)?;
        if declared.name.text == summary {
            let message = format!("`{summary}` is the summary of the other conditions: it is not declared");
            return Err(declared.name.error(message));
        }
        let Declared { name, polarity, severity } = declared;
        let (ident, name, text) = (&variant.ident, name.text, description(&variant.attrs));
        declarations.push(quote! {
            ::settled_controller::conditions::Declaration {
                name: #name,
                polarity: ::settled_controller::conditions::Polarity::#polarity,
                severity: ::settled_controller::conditions::Severity::#severity,
                description: #text,
            }
        });
        arms.push(quote! { Self::#ident => &Self::DECLARATIONS[#index] });
    }
    let ident = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl ::settled_controller::conditions::ConditionType for #ident {
            const SUMMARY: &'static str = #summary;
            const DECLARATIONS: &'static [::settled_controller::conditions::Declaration] = &[#(#declarations),*];

            fn declaration(&self) -> &'static ::settled_controller::conditions::Declaration {
                match *self { #(#arms),* }
            }
        }
    })
}

struct Declared {
    name: Name,
    polarity: Ident,
    severity: Ident,
}

impl Declared {
    fn read(variant: &Variant) -> Result<Self, Error> {
        let ident = |name: &str| Ident::new(name, Span::call_site());
        let mut declared =
            Self { name: Name::of(variant), polarity: ident("Positive"), severity: ident("Error") };
        read(&variant.attrs, "condition", |key, value| {
            match key {
                "name" => declared.name = Name::given(&value),
                "polarity" => {
                    declared.polarity = ident(one_of(&value, &["Positive", "Negative", "Neutral"])?)
                }
                "severity" => declared.severity = ident(one_of(&value, &["Error", "Warning", "Info"])?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(declared)
    }
}

/// The variant that a text names in lower case.
fn one_of<'a>(value: &LitStr, variants: &[&'a str]) -> Result<&'a str, Error> {
    let text = value.value();
    let found = variants.iter().find(|variant| variant.to_lowercase() == text);
    found.copied().ok_or_else(|| {
        let known: Vec<String> =
            variants.iter().map(|variant| format!("\"{}\"", variant.to_lowercase())).collect();
        Error::new(value.span(), format!("expected one of {}", known.join(", ")))
    })
}

fn validate(name: &Name) -> Result<(), Error> {
    if let Some(why) = is_qualified_name(&name.text).into_iter().next() {
        return Err(name.error(format!("`{}` is no condition type: {why}", name.text)));
    }
    if RESERVED.contains(&name.text.as_str()) {
        let message = format!("`{}` is set by `Conditions` itself: it is not declared", name.text);
        return Err(name.error(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn names_polarity_severity_and_descriptions_are_read() {
        let expanded = expand(&parse_quote! {
            /// Not a description of a variant.
            #[condition(summary = "Succeeded")]
            enum Part {
                /// All objects
                /// are stored.
                ///
                /// A second paragraph.
                Stored,
                #[condition(polarity = "negative", severity = "warning", name = "example.com/Degraded")]
                Degraded,
                #[condition(polarity = "neutral", severity = "info")]
                Paused,
            }
        });
        let wanted = quote! {
            #[automatically_derived]
            impl ::settled_controller::conditions::ConditionType for Part {
                const SUMMARY: &'static str = "Succeeded";
                const DECLARATIONS: &'static [::settled_controller::conditions::Declaration] = &[
                    ::settled_controller::conditions::Declaration {
                        name: "Stored",
                        polarity: ::settled_controller::conditions::Polarity::Positive,
                        severity: ::settled_controller::conditions::Severity::Error,
                        description: "All objects are stored.",
                    },
                    ::settled_controller::conditions::Declaration {
                        name: "example.com/Degraded",
                        polarity: ::settled_controller::conditions::Polarity::Negative,
                        severity: ::settled_controller::conditions::Severity::Warning,
                        description: "",
                    },
                    ::settled_controller::conditions::Declaration {
                        name: "Paused",
                        polarity: ::settled_controller::conditions::Polarity::Neutral,
                        severity: ::settled_controller::conditions::Severity::Info,
                        description: "",
                    }
                ];

                fn declaration(&self) -> &'static ::settled_controller::conditions::Declaration {
                    match *self {
                        Self::Stored => &Self::DECLARATIONS[0usize],
                        Self::Degraded => &Self::DECLARATIONS[1usize],
                        Self::Paused => &Self::DECLARATIONS[2usize]
                    }
                }
            }
        };
        assert_eq!(expanded.unwrap().to_string(), wanted.to_string());
    }

    #[test]
    fn what_metav1_would_refuse_does_not_compile() {
        let cases: [(DeriveInput, &str); 13] = [
            (parse_quote! { struct Part; }, "expected an enum"),
            (parse_quote! { enum Part<T> { A } }, "expected an enum without generic parameters"),
            (parse_quote! { enum Part { A(u8) } }, "expected a variant without fields"),
            (
                parse_quote! { enum Part { #[condition(name = "not valid")] A } },
                "`not valid` is no condition type: name part must consist of alphanumeric characters, '-', '_' or '.'",
            ),
            (parse_quote! { enum Part { #[condition(name = "")] A } }, "name part must be non-empty"),
            (
                parse_quote! { enum Part { #[condition(name = "a/b/c")] A } },
                "a valid label key must consist of",
            ),
            (parse_quote! { enum Part { A, #[condition(name = "A")] B } }, "`A` is there twice"),
            (parse_quote! { enum Part { Ready } }, "`Ready` is the summary of the other conditions"),
            (parse_quote! { #[condition(summary = "Done")] enum Part { Done } }, "`Done` is the summary"),
            (parse_quote! { enum Part { Stalled } }, "`Stalled` is set by `Conditions` itself"),
            (parse_quote! { #[condition(summary = "a b")] enum Part {} }, "`a b` is no condition type"),
            (
                parse_quote! { enum Part { #[condition(polarity = "good")] A } },
                r#"expected one of "positive", "negative", "neutral""#,
            ),
            (parse_quote! { enum Part { #[condition(weight = "1")] A } }, "unknown attribute `weight`"),
        ];
        for (input, wanted) in cases {
            let error = expand(&input).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}, wanted {wanted}");
        }
    }
}
