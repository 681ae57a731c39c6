//! `#[derive(Reason)]`.

use proc_macro2::TokenStream;
use quote::quote;
use settled_apimachinery::conditions::{MAX_REASON_LENGTH, is_valid_condition_reason};
use syn::{DeriveInput, Error};

use crate::attributes::{Name, Names, description, read, unit_variants};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let mut names = Names::default();
    let mut reasons = Vec::new();
    let mut arms = Vec::new();
    for variant in unit_variants(input)? {
        let mut name = Name::of(variant);
        read(&variant.attrs, "reason", |key, value| {
            if key != "name" {
                return Ok(false);
            }
            name = Name::given(&value);
            Ok(true)
        })?;
        validate(&name)?;
        names.add(&name)?;
        let (ident, name, text) = (&variant.ident, name.text, description(&variant.attrs));
        reasons.push(quote! {
            ::settled_controller::conditions::ReasonDeclaration { name: #name, description: #text }
        });
        arms.push(quote! { Self::#ident => #name });
    }
    let ident = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl ::settled_controller::conditions::Reason for #ident {
            const DECLARATIONS: &'static [::settled_controller::conditions::ReasonDeclaration] = &[#(#reasons),*];

            fn as_str(&self) -> &str {
                match *self { #(#arms),* }
            }
        }
    })
}

fn validate(name: &Name) -> Result<(), Error> {
    if let Some(why) = is_valid_condition_reason(&name.text).into_iter().next() {
        return Err(name.error(format!("`{}` is no reason: {why}", name.text)));
    }
    if name.text.len() > MAX_REASON_LENGTH {
        return Err(name.error(format!("a reason may not be more than {MAX_REASON_LENGTH} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use syn::{LitStr, parse_quote};

    use super::*;

    #[test]
    fn names_and_descriptions_are_read() {
        let expanded = expand(&parse_quote! {
            enum Why {
                /// All objects are stored.
                Written,
                #[reason(name = "Quota:Exceeded")]
                Quota,
            }
        });
        let wanted = quote! {
            #[automatically_derived]
            impl ::settled_controller::conditions::Reason for Why {
                const DECLARATIONS: &'static [::settled_controller::conditions::ReasonDeclaration] = &[
                    ::settled_controller::conditions::ReasonDeclaration {
                        name: "Written",
                        description: "All objects are stored."
                    },
                    ::settled_controller::conditions::ReasonDeclaration { name: "Quota:Exceeded", description: "" }
                ];

                fn as_str(&self) -> &str {
                    match *self { Self::Written => "Written", Self::Quota => "Quota:Exceeded" }
                }
            }
        };
        assert_eq!(expanded.unwrap().to_string(), wanted.to_string());
    }

    #[test]
    fn what_metav1_would_refuse_does_not_compile() {
        let [most, too_long] =
            [1024, 1025].map(|length| LitStr::new(&"a".repeat(length), proc_macro2::Span::call_site()));
        expand(&parse_quote! { enum Why { #[reason(name = #most)] A } }).unwrap();
        let cases: [(DeriveInput, &str); 5] = [
            (
                parse_quote! { enum Why { #[reason(name = "not valid")] A } },
                "`not valid` is no reason: a condition reason",
            ),
            (parse_quote! { enum Why { #[reason(name = "")] A } }, "`` is no reason"),
            (
                parse_quote! { enum Why { #[reason(name = #too_long)] A } },
                "a reason may not be more than 1024 bytes",
            ),
            (parse_quote! { enum Why { A, #[reason(name = "A")] B } }, "`A` is there twice"),
            (parse_quote! { enum Why { #[reason(text = "A")] B } }, "unknown attribute `text`"),
        ];
        for (input, wanted) in cases {
            let error = expand(&input).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}, wanted {wanted}");
        }
    }
}
