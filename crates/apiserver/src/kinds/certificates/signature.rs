//! Signatures of certificate requests (`CertificateRequest.CheckSignature` of Go's `crypto/x509`).

use ring::signature::{
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    RsaParameters, UnparsedPublicKey,
};
use x509_parser::error::X509Error;
use x509_parser::oid_registry::{
    OID_PKCS1_SHA1WITHRSA, OID_PKCS1_SHA256WITHRSA, OID_PKCS1_SHA512WITHRSA, OID_SHA1_WITH_RSA,
};
use x509_parser::prelude::X509CertificationRequest;
use x509_parser::public_key::PublicKey;

/// Smaller RSA keys are insecure, says Go.
const MIN_RSA_BITS: usize = 1024;
/// `x509-parser` verifies no smaller RSA keys, but with SHA-1.
const PLAIN_RSA_BITS: usize = 2048;
/// `ring` verifies no larger RSA keys.
const MAX_RSA_BITS: usize = 8192;

/// What `ring` does not verify and Go does: P-224, P-521, SHA-1 and SHA-512 of ECDSA, and rare sizes of RSA.
const UNIMPLEMENTED: &str = "x509: cannot verify signature: algorithm unimplemented: use RSA with SHA-256, ECDSA \
                             with P-256 or P-384 and SHA-256 or SHA-384, or Ed25519";

/// Checks that a request is signed with its own key, which the requester must hold.
pub(super) fn verify(request: &X509CertificationRequest<'_>) -> Result<(), String> {
    let key = &request.certification_request_info.subject_pki;
    let rsa_bits = match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => Some(bits(rsa.modulus)),
        _ => None,
    };
    let unimplemented = || Err(UNIMPLEMENTED.to_owned());
    match rsa_bits {
        Some(bits) if bits < MIN_RSA_BITS => {
            let see = "https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size";
            Err(format!("crypto/rsa: {bits}-bit keys are insecure (see {see})"))
        }
        Some(bits) if bits > MAX_RSA_BITS => unimplemented(),
        Some(bits) if bits < PLAIN_RSA_BITS => {
            let algorithm = &request.signature_algorithm.algorithm;
            if *algorithm == OID_PKCS1_SHA256WITHRSA {
                small_rsa(request, &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY)
            } else if *algorithm == OID_PKCS1_SHA512WITHRSA {
                small_rsa(request, &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY)
            } else if [OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA].contains(algorithm) {
                plain(request)
            } else {
                unimplemented()
            }
        }
        _ => plain(request),
    }
}

/// How many bits an unsigned number of big-endian bytes has.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let first = number.get(zeros).map_or(0, |byte| byte.leading_zeros() as usize);
    (number.len() - zeros) * 8 - first
}

fn small_rsa(
    request: &X509CertificationRequest<'_>,
    algorithm: &'static RsaParameters,
) -> Result<(), String> {
    let info = &request.certification_request_info;
    UnparsedPublicKey::new(algorithm, &info.subject_pki.subject_public_key.data)
        .verify(info.raw, &request.signature_value.data)
        .map_err(|_| "crypto/rsa: verification error".to_owned())
}

fn plain(request: &X509CertificationRequest<'_>) -> Result<(), String> {
    request.verify_signature().map_err(|error| match error {
        X509Error::SignatureVerificationError => {
            let key = &request.certification_request_info.subject_pki.algorithm.algorithm;
            match key.to_id_string().as_str() {
                "1.2.840.10045.2.1" => "x509: ECDSA verification failure",
                "1.3.101.112" => "x509: Ed25519 verification failure",
                _ => "crypto/rsa: verification error",
            }
            .to_owned()
        }
        _ => UNIMPLEMENTED.to_owned(),
    })
}
