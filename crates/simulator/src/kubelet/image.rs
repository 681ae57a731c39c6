//! Images: references as `distribution/reference` parses them, sizes, and errors as containerd words them.

use settled_go::strconv::quote;

use crate::scenario::{Pull, PullFailure};

use super::text;

/// A reference, normalized.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    domain: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// `parsers.ParseImageName`: the error is the text of `reference.ParseNormalizedNamed`.
pub(super) fn parse(image: &str) -> Result<Reference, String> {
    const INVALID: &str = "invalid reference format";
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(format!("invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"));
    }
    let is_domain = |first: &str| {
        first.contains(['.', ':'])
            || first == "localhost"
            || first.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    let (domain, remainder) = match image.split_once('/') {
        Some((first, rest)) if is_domain(first) => (first, rest.to_owned()),
        _ => ("docker.io", image.to_owned()),
    };
    let domain = if domain == "index.docker.io" { "docker.io" } else { domain };
    let remainder = if domain == "docker.io" && !remainder.contains('/') {
        format!("library/{remainder}")
    } else {
        remainder
    };
    let named = remainder.split(':').next().unwrap_or_default();
    if named.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(format!("{INVALID}: repository name ({named}) must be lowercase"));
    }
    let (rest, digest) = match remainder.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (&*remainder, None),
    };
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let is_valid = is_host(domain)
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    if !is_valid {
        return Err(INVALID.to_owned());
    }
    if path.len() + domain.len() + 1 > 255 {
        return Err("repository name must not be more than 255 characters".to_owned());
    }
    Ok(Reference {
        domain: domain.to_owned(),
        path: path.to_owned(),
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

fn is_host(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !domain.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_label = |label: &str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        ends(label.bytes().next())
            && ends(label.bytes().last())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_named = || host.split('.').all(is_label);
    let is_address = |inner: &str| inner.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
        && inner.map_or_else(is_named, is_address)
}

fn is_component(component: &str) -> bool {
    let bytes = component.as_bytes();
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| alphanumeric(*byte));
    if !ends(bytes.first()) || !ends(bytes.last()) {
        return false;
    }
    component.split(|char: char| char.is_ascii_lowercase() || char.is_ascii_digit()).all(|separator| {
        matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
    })
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        let parts = algorithm.split(['-', '_', '+', '.']);
        let is_part = |part: &str| {
            part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        parts.clone().all(is_part) && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

impl Reference {
    fn repository(&self) -> String {
        format!("{}/{}", self.domain, self.path)
    }

    /// The whole name: what containerd reports as a container's image.
    pub(super) fn name(&self) -> String {
        let repository = self.repository();
        match (&self.tag, &self.digest) {
            (tag, Some(digest)) => {
                let tag = tag.as_deref().map(|tag| format!(":{tag}")).unwrap_or_default();
                format!("{repository}{tag}@{digest}")
            }
            (Some(tag), None) => format!("{repository}:{tag}"),
            (None, None) => format!("{repository}:latest"),
        }
    }

    /// The image's ID: its repository with a digest.
    pub(super) fn id(&self) -> String {
        let digest = || format!("sha256:{}", text::digest(0, &[&self.name()]));
        format!("{}@{}", self.repository(), self.digest.clone().unwrap_or_else(digest))
    }

    /// Its size in bytes: between 2 and 130 MB.
    pub(super) fn size(&self) -> u64 {
        2_000_000 + text::hash(0, &[&self.name(), "size"]) % 128_000_000
    }

    /// How long its pull takes in milliseconds, unless something else is said: 40 MB a second.
    pub(super) fn pull_time(&self) -> u64 {
        400 + self.size() / 40_000
    }

    /// The error of a pull that fails.
    pub(super) fn error(&self, pull: &Pull) -> String {
        if let Some(message) = &pull.message {
            return message.clone();
        }
        let name = self.name();
        let failed = |code: &str, why: &str| {
            let name = quote(&name);
            format!(
                "rpc error: code = {code} desc = failed to pull and unpack image {name}: failed to resolve reference \
                 {name}: {why}"
            )
        };
        match pull.fails {
            Some(PullFailure::Unauthorized) => failed(
                "Unknown",
                "pull access denied, repository does not exist or may require authorization: authorization failed: no \
                 basic auth credentials",
            ),
            Some(PullFailure::Unavailable) => {
                let host = if self.domain == "docker.io" { "registry-1.docker.io" } else { &self.domain };
                let reference = self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest");
                let url = quote(&format!("https://{host}/v2/{}/manifests/{reference}", self.path));
                let name = host.split(':').next().unwrap_or_default();
                failed(
                    "Unknown",
                    &format!("failed to do request: Head {url}: dial tcp: lookup {name}: no such host"),
                )
            }
            _ => failed("NotFound", &format!("{name}: not found")),
        }
    }
}

/// `evalCRIPullErr`: message and reason of a pull that fails.
pub(super) fn pull_reason(image: &str, error: &str) -> (&'static str, String) {
    for (prefix, why) in [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ] {
        if let Some(rest) = error.strip_prefix(prefix) {
            return (prefix, format!("image pull failed for {image} because {why}{rest}"));
        }
    }
    ("ErrImagePull", error.to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn references_are_normalized_as_upstream() {
        let long = "a".repeat(250);
        let sha = format!("sha256:{}", "0".repeat(64));
        for (image, expected) in [
            ("nginx", Ok("docker.io/library/nginx:latest".to_owned())),
            ("nginx:1.27", Ok("docker.io/library/nginx:1.27".to_owned())),
            ("team/web", Ok("docker.io/team/web:latest".to_owned())),
            ("ghcr.io/team/web:v1", Ok("ghcr.io/team/web:v1".to_owned())),
            ("localhost/web", Ok("localhost/web:latest".to_owned())),
            ("localhost:5000/web:v1", Ok("localhost:5000/web:v1".to_owned())),
            ("a__b/c-d.e_f", Ok("docker.io/a__b/c-d.e_f:latest".to_owned())),
            (&format!("nginx@{sha}"), Ok(format!("docker.io/library/nginx@{sha}"))),
            (
                "Nginx",
                Err("invalid reference format: repository name (library/Nginx) must be lowercase".to_owned()),
            ),
            ("nginx:", Err("invalid reference format".to_owned())),
            ("nginx:a b", Err("invalid reference format".to_owned())),
            ("-nginx", Err("invalid reference format".to_owned())),
            ("a..b", Err("invalid reference format".to_owned())),
            ("nginx@sha256:12", Err("invalid reference format".to_owned())),
            (&long, Err("repository name must not be more than 255 characters".to_owned())),
        ] {
            assert_eq!(parse(image).map(|reference| reference.name()), expected, "{image}");
        }
    }
}
