//! Authentication and authorization.
//!
//! A [`User`] comes from a client certificate ([`certificates`]), a bearer token ([`tokens`]), or is anonymous. [`Rbac`]
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
mod x509;

#[cfg(test)]
mod golden;

pub use certificates::Certificates;
pub use impersonation::Impersonation;
pub use rbac::{Attributes, Decision, PolicyKind, Rbac};
pub use tokens::Tokens;
pub(crate) use user::MASTERS;
pub use user::User;

use settled_go::strconv::quote;

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
/// They are those of upstream's ClusterRole `system:public-info-viewer`, which grants them; this check keeps other paths
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

/// Texts as Go's `%q` writes a list of them.
fn quote_all(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

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
