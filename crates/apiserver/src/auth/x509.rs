//! X.509 encoding and decoding: PEM, subjects and users.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::user::{AUTHENTICATED, User};

/// Subject attribute of the user's UID: `1.3.6.1.4.1.57683.2`, as DER.
pub(super) const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];
pub(super) const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
pub(super) const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Why certificates, or the user of one, cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidCertificate {
    /// It is no certificate.
    #[error("{0}")]
    Malformed(String),
    /// Its UID has no text.
    #[error("UID cannot be an empty string")]
    EmptyUid,
    /// It has several UIDs.
    #[error("expected 1 UID, but found multiple: {0:?}")]
    SeveralUids(Vec<String>),
    /// A file is not PEM.
    #[error("not a PEM file: {0}")]
    NotPem(String),
    /// A file has no certificate.
    #[error("it holds no certificate")]
    None,
}

/// The user of a client certificate: `CN` is the name, each `O` a group, and `1.3.6.1.4.1.57683.2` the UID.
///
/// The certificate must have been verified, as the [server's TLS](super::Certificates::server_config) does. `None` if it has
/// no name.
///
/// # Errors
///
/// The certificate cannot be parsed, or has several UIDs or an empty one. The server then closes the connection.
pub fn user_of(certificate: &[u8]) -> Result<Option<User>, InvalidCertificate> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|error| InvalidCertificate::Malformed(error.to_string()))?;
    let mut user = User::default();
    let mut uids = Vec::new();
    for attribute in parsed.subject().iter_attributes() {
        let value = || {
            let text = attribute.as_str().map(str::to_owned);
            text.map_err(|error| InvalidCertificate::Malformed(error.to_string()))
        };
        match attribute.attr_type().as_bytes() {
            // Of several, Go takes the last.
            COMMON_NAME => user.name = value()?,
            ORGANIZATION => user.groups.push(value()?),
            UID => uids.push(value()?),
            _ => {}
        }
    }
    if user.name.is_empty() {
        return Ok(None);
    }
    user.uid = match uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err(InvalidCertificate::EmptyUid),
        [uid] => uid.clone(),
        several => return Err(InvalidCertificate::SeveralUids(several.to_vec())),
    };
    let fingerprint: String =
        digest(&SHA256, certificate).as_ref().iter().map(|b| format!("{b:02x}")).collect();
    let id = vec![format!("X509SHA256={fingerprint}")];
    user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), id);
    Ok(Some(user.authenticated()))
}

/// Parses the certificates of a PEM file.
pub(super) fn certificates_in(pem: &str) -> Result<Vec<CertificateDer<'static>>, InvalidCertificate> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err(InvalidCertificate::None),
        Ok(found) => Ok(found),
        Err(error) => Err(InvalidCertificate::NotPem(error.to_string())),
    }
}

/// Subject alternative names of a certificate.
pub(super) fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let names = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
                .ok()
                .map(|address| address.to_string())
        }
        _ => None,
    });
    names.collect()
}

/// Canonical form of a name: addresses are normalized.
pub(super) fn canonical(name: &str) -> String {
    name.parse::<IpAddr>().map_or_else(|_| name.to_owned(), |address| address.to_string())
}

/// Encodes a user as a subject: a sequence of sets of one attribute each.
pub(super) fn subject(user: &User) -> Vec<u8> {
    let attribute = |kind: &[u8], value: &str| {
        let pair = [tagged(0x06, kind), tagged(0x0c, value.as_bytes())].concat();
        tagged(0x31, &tagged(0x30, &pair))
    };
    let groups = user.groups.iter().filter(|group| *group != AUTHENTICATED);
    let mut out: Vec<u8> = groups.flat_map(|group| attribute(ORGANIZATION, group)).collect();
    out.extend(attribute(COMMON_NAME, &user.name));
    if !user.uid.is_empty() {
        out.extend(attribute(UID, &user.uid));
    }
    tagged(0x30, &out)
}

/// Encodes a DER value: tag, length, content.
pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let digits: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | u8::try_from(digits.len()).unwrap_or(0x08));
            out.extend(digits);
        }
    }
    out.extend(content);
    out
}

/// Size of the tag and length of a DER value.
pub(super) fn header_length(der: &[u8]) -> usize {
    match der.get(1) {
        Some(length) if length & 0x80 != 0 => 2 + usize::from(length & 0x7f),
        _ => 2,
    }
}

/// Offset of a subslice.
pub(super) fn memory_offset(whole: &[u8], part: &[u8]) -> Option<usize> {
    let offset = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (offset + part.len() <= whole.len()).then_some(offset)
}

/// Encodes DER as PEM.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}
