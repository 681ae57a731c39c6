//! Who asks, and what they may do.
//!
//! [`User`] is who asks; it comes from a client certificate ([`certificates`]), a bearer token ([`tokens`]), or is anonymous. [`Rbac`]
//! decides what a user may do, and [`impersonation`] lets one act as another. [`reviews`] are the kinds that ask these questions
//! through the API.
//!
//! Nothing here but [`certificates`] does any I/O, and nothing waits.

pub mod bootstrap;
pub mod certificates;
pub mod impersonation;
pub mod rbac;
pub mod reviews;
pub mod tokens;
mod user;

#[cfg(test)]
mod golden;

pub use certificates::Certificates;
pub use impersonation::Impersonation;
pub use rbac::{Attributes, Decision, PolicyKind, Rbac};
pub use tokens::Tokens;
pub use user::User;

use crate::ApiError;

/// Finds out who asks.
///
/// As upstream, a valid certificate goes before the token, and no credentials at all make the [anonymous user](User::anonymous); a
/// token that is wrong is an error, even where the anonymous user would be allowed.
///
/// # Errors
///
/// 401 if the header holds a bearer token that nobody has.
pub fn authenticate(
    certificate: Option<User>,
    authorization: Option<&str>,
    tokens: &Tokens,
) -> Result<User, ApiError> {
    match (certificate, authorization.and_then(tokens::bearer)) {
        (Some(user), _) => Ok(user.authenticated()),
        (None, Some(token)) => tokens.user(token).cloned().ok_or_else(unauthorized),
        (None, None) => Ok(User::anonymous()),
    }
}

/// The paths that need no credentials: health and version.
///
/// They are those of upstream's ClusterRole `system:public-info-viewer`, which grants them; whoever asks this too keeps other paths
/// closed to strangers, whatever is bound to them.
#[must_use]
pub fn anonymous_allowed(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

/// The answer to credentials that are wrong. It says nothing about why.
#[must_use]
pub fn unauthorized() -> ApiError {
    ApiError::new(401, "Unauthorized", "Unauthorized")
}

/// A text as Go's `%q` writes it: upstream's texts are full of them, and Rust's `{:?}` has other escapes.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if c < ' ' || c == '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_ascii() => out.push(c),
            // What Rust escapes is what can't be printed, as in Go, but for marks that combine with what stands before.
            c if c.is_control() || c.escape_debug().len() > 1 && !c.is_alphanumeric() => match u32::from(c) {
                code @ 0..=0xffff => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Texts as Go's `%q` writes a list of them.
fn quote_all(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_in_go() {
        let cases = [
            ("", r#""""#),
            ("a", r#""a""#),
            ("it's", r#""it's""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\x07\x08\x0c\n\r\t\x0b\0\x1b\x7f", r#""\a\b\f\n\r\t\v\x00\x1b\x7f""#),
            ("é ü 世 🦀", r#""é ü 世 🦀""#),
            ("\u{85}\u{200b}\u{e0001}", r#""\u0085\u200b\U000e0001""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quote(text), expected);
        }
    }

    #[test]
    fn strangers_see_health_and_version() {
        let open = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
        let closed = [
            "",
            "/",
            "/api",
            "/apis",
            "/healthz/etcd",
            "/livez/ping",
            "/metrics",
            "/openapi/v3",
            "/versions",
        ];
        assert!(open.iter().all(|path| anonymous_allowed(path)));
        assert!(!closed.iter().any(|path| anonymous_allowed(path)));
    }
}
