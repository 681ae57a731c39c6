//! TLS key pairs of Secrets, as Go's `tls.X509KeyPair` reads them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::PrivateKeyDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// A block of PEM: what it says it is, and its bytes.
type Block = (String, Vec<u8>);

/// The blocks of a file. What is between them counts for nothing.
fn blocks(text: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(text);
    let mut rest = text.as_ref();
    let mut found = Vec::new();
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        rest = after;
        let Some((label, body)) = after.split_once("-----") else { break };
        let Some((body, after)) = body.split_once(&format!("-----END {label}-----")) else { continue };
        let letters: String = body.split_whitespace().collect();
        if let Ok(bytes) = BASE64_STANDARD.decode(letters) {
            found.push((label.to_owned(), bytes));
        }
        rest = after;
    }
    found
}

/// Why a certificate and a key are no pair. Nothing: they are.
pub(crate) fn mismatch(certificate: &[u8], key: &[u8]) -> Option<String> {
    let (certificates, keys) = (blocks(certificate), blocks(key));
    let labels = |blocks: &[Block]| -> String {
        blocks.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>().join(" ")
    };
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let Some((_, leaf)) = certificates.iter().find(|(label, _)| label == "CERTIFICATE") else {
        return Some(match certificates.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [(label, _)] if label.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM \
                 inputs may have been switched"
                    .to_owned()
            }
            others => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                labels(others)
            ),
        });
    };
    let Some((_, key)) = keys.iter().find(|(label, _)| is_key(label)) else {
        return Some(match keys.as_slice() {
            [] => "tls: failed to find any PEM data in key input".to_owned(),
            [(label, _)] if label == "CERTIFICATE" => {
                "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
            }
            others => format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM \
                 blocks of the following types: [{}]",
                labels(others)
            ),
        });
    };
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return Some("x509: malformed certificate".to_owned());
    };
    let key = PrivateKeyDer::try_from(key.as_slice()).ok();
    let Some(key) = key.and_then(|key| rustls::crypto::ring::sign::any_supported_type(&key).ok()) else {
        return Some("tls: failed to parse private key".to_owned());
    };
    let own = key.public_key()?;
    if own.as_ref() == leaf.public_key().raw {
        return None;
    }
    let kind = x509_parser::x509::SubjectPublicKeyInfo::from_der(own.as_ref()).ok();
    let same = kind.is_none_or(|(_, own)| own.algorithm.algorithm == leaf.public_key().algorithm.algorithm);
    let what = if same {
        "private key does not match public key"
    } else {
        "private key type does not match public key type"
    };
    Some(format!("tls: {what}"))
}
