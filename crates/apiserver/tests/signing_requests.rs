//! CertificateSigningRequests: who asks, what may change, who may approve and sign. The expectations are of
//! `pkg/registry/certificates`, `pkg/apis/certificates/validation` and `plugin/pkg/admission/certificates` upstream.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use rcgen::string::BmpString;
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;

use crate::authorization::{ask, grant};
use crate::watching::start;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const SIGNER: &str = "example.com/signer";

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// A request in PEM, in an organization.
fn request_of(organization: impl Into<DnValue>) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "bob");
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

/// A certificate in PEM.
fn certificate() -> String {
    let key = KeyPair::generate().unwrap();
    CertificateParams::default().self_signed(&key).unwrap().pem()
}

fn object(name: &str, signer: &str, request: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"signerName": signer, "usages": ["client auth"], "request": encode(request)},
    })
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "r", "message": "m"})
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return target.clone_from(patch) };
    for (name, value) in patch {
        merge(&mut target[name.as_str()], value);
    }
}

async fn create(server: &Server, user: &User, object: &Value) -> (u16, Value) {
    ask(server, user, Method::POST, REQUESTS, JSON, object).await
}

async fn get(server: &Server, name: &str) -> Value {
    ask(server, &User::admin(), Method::GET, &format!("{REQUESTS}/{name}"), JSON, &Value::Null).await.1
}

#[tokio::test]
async fn the_requester_is_the_user_of_the_request() {
    let server = start().await;
    let mut bob = grant(&server, "bob", &["create", "get", "update", "patch"]).await;
    bob.uid = "u-1".to_owned();
    bob.extra.insert("example.com/scope".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
    let forged = json!({"spec": {
        "username": "system:node:n1", "uid": "forged", "groups": ["system:masters"], "extra": {"x": ["y"]},
    }, "status": {"conditions": [condition("Approved", "True")], "certificate": encode(certificate())}});
    let mut sent = object("a", SIGNER, &request_of("developers"));
    merge(&mut sent, &forged);
    let (status, made) = create(&server, &bob, &sent).await;
    assert_eq!(status, 201, "{made}");
    let requester =
        |request: &Value| ["username", "uid", "groups", "extra"].map(|name| request["spec"][name].clone());
    let expected = [
        json!("bob"),
        json!("u-1"),
        json!(["developers", "system:authenticated"]),
        json!({"example.com/scope": ["a", "b"]}),
    ];
    assert_eq!(requester(&made), expected);
    assert_eq!(made["status"], json!({}));
    // The strategy resets spec and status, so nobody owns a field of them.
    assert!(!made["metadata"]["managedFields"].to_string().contains("f:spec"), "{made}");

    // Created by apply, the same.
    let mut sent = object("b", SIGNER, &request_of("developers"));
    merge(&mut sent, &forged);
    merge(&mut sent, &json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}));
    let path = format!("{REQUESTS}/b?fieldManager=m");
    let (status, made) = ask(&server, &bob, Method::PATCH, &path, APPLY, &sent).await;
    assert_eq!((status, requester(&made)), (201, expected));

    // Later writes of any user change metadata only.
    let before = get(&server, "a").await;
    let forged = json!({"metadata": {"labels": {"k": "v"}}, "spec": {
        "signerName": "example.com/other", "usages": ["any"], "groups": ["system:masters"],
    }, "status": {"certificate": encode(certificate())}});
    let mut sent = before.clone();
    merge(&mut sent, &forged);
    for (method, content_type, body) in [(Method::PUT, JSON, &sent), (Method::PATCH, MERGE, &forged)] {
        let path = format!("{REQUESTS}/a");
        let (status, after) = ask(&server, &User::admin(), method, &path, content_type, body).await;
        assert_eq!((status, &after["spec"], &after["status"]), (200, &before["spec"], &before["status"]));
        assert_eq!(after["metadata"]["labels"], json!({"k": "v"}));
    }
}

#[tokio::test]
async fn requests_are_validated() {
    let server = start().await;
    let admin = User::admin();
    let valid = request_of("developers");
    let der: String = valid.lines().filter(|line| !line.starts_with("--")).collect();
    let mut der = BASE64_STANDARD.decode(der).unwrap();
    // In the middle of the signature's numbers.
    let place = der.len() - 10;
    der[place] ^= 1;
    let block = |label: &str, der: &[u8]| {
        encode(format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", encode(der)))
    };
    let label_rules = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                       with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                       '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let two_segments = "should be a domain with at least two segments separated by dots";
    let tampered = block("CERTIFICATE REQUEST", &der);
    let mislabeled = block("CERTIFICATE", &der);
    // What is changed of a valid request, and the messages of the causes.
    let cases: Vec<(Value, Vec<String>)> = vec![
        (json!({}), vec![]),
        (json!({"metadata": {"name": "We.do not care: what"}}), vec![]),
        (
            json!({"spec": {"request": "eA=="}}),
            vec!["spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST".into()],
        ),
        (
            json!({"spec": {"request": mislabeled}}),
            vec![format!(
                "spec.request: Invalid value: {mislabeled:?}: PEM block type must be CERTIFICATE REQUEST"
            )],
        ),
        (
            json!({"spec": {"request": tampered}}),
            vec![format!("spec.request: Invalid value: {tampered:?}: x509: ECDSA verification failure")],
        ),
        (json!({"spec": {"usages": []}}), vec!["spec.usages: Required value".into()]),
        (
            json!({"spec": {"usages": ["any", "nope"]}}),
            vec![
                "spec.usages[1]: Unsupported value: \"nope\": supported values: \"any\", \"cert sign\", \"client auth\", \"code \
                 signing\", \"content commitment\", \"crl sign\", \"data encipherment\", \"decipher only\", \"digital \
                 signature\", \"email protection\", \"encipher only\", \"ipsec end system\", \"ipsec tunnel\", \"ipsec user\", \
                 \"key agreement\", \"key encipherment\", \"microsoft sgc\", \"netscape sgc\", \"ocsp signing\", \"s/mime\", \
                 \"server auth\", \"signing\", \"timestamping\""
                    .into(),
            ],
        ),
        (
            json!({"spec": {"usages": ["any", "any"]}}),
            vec!["spec.usages[1]: Duplicate value: \"any\"".into()],
        ),
        (json!({"spec": {"signerName": ""}}), vec!["spec.signerName: Required value".into()]),
        (
            json!({"spec": {"signerName": "bad"}}),
            vec![
                "spec.signerName: Invalid value: \"bad\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'"
                    .into(),
            ],
        ),
        (
            json!({"spec": {"signerName": "a.b/c/d"}}),
            vec![
                "spec.signerName: Invalid value: \"a.b/c/d\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'"
                    .into(),
            ],
        ),
        (
            json!({"spec": {"signerName": "Bad/c"}}),
            vec![
                format!("spec.signerName: Invalid value: \"Bad\": validating label \"Bad\": {label_rules}"),
                format!("spec.signerName: Invalid value: \"Bad\": {two_segments}"),
            ],
        ),
        (
            json!({"spec": {"signerName": "kubernetes.io/legacy-unknown"}}),
            vec![
                "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this \
                 API version"
                    .into(),
            ],
        ),
        (
            json!({"spec": {"expirationSeconds": 599}}),
            vec![
                "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"
                    .into(),
            ],
        ),
        (json!({"spec": {"expirationSeconds": 600}}), vec![]),
    ];
    for (index, (change, expected)) in cases.iter().enumerate() {
        let name = format!("c{index}");
        let mut sent = object(&name, SIGNER, &valid);
        merge(&mut sent, change);
        let (status, answer) = create(&server, &admin, &sent).await;
        let causes = answer["details"]["causes"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found: Vec<String> =
            causes.map(|cause| format!("{}: {}", text(&cause["field"]), text(&cause["message"]))).collect();
        assert_eq!(found, *expected, "{change}: {answer}");
        assert_eq!(status, if expected.is_empty() { 201 } else { 422 }, "{change}: {answer}");
    }

    // As openssl makes them.
    let files = [
        ("rsa", include_str!("golden/signing_requests/rsa.pem")),
        ("p384", include_str!("golden/signing_requests/p384.pem")),
        ("ed25519", include_str!("golden/signing_requests/ed25519.pem")),
        ("rsa-pss", include_str!("golden/signing_requests/rsa-pss.pem")),
        ("rsa1024", RSA_1024),
        ("rsa1024-sha512", include_str!("golden/signing_requests/rsa1024-sha512.pem")),
    ];
    for (name, pem) in files {
        let (status, answer) = create(&server, &admin, &object(name, SIGNER, pem)).await;
        assert_eq!(status, 201, "{name}: {answer}");
    }
}

const RSA_1024: &str = include_str!("golden/signing_requests/rsa1024.pem");

#[tokio::test]
async fn signatures_that_are_not_verified_are_refused() {
    let server = start().await;
    let admin = User::admin();
    let der: String = RSA_1024.lines().filter(|line| !line.starts_with("--")).collect();
    let mut der = BASE64_STANDARD.decode(der).unwrap();
    *der.last_mut().unwrap() ^= 1;
    let tampered = format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        BASE64_STANDARD.encode(der)
    );
    // What Go refuses, in its words; and what it accepts and this server does not verify.
    let insecure =
        "crypto/rsa: 768-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)";
    let unimplemented = "x509: cannot verify signature: algorithm unimplemented: use RSA with SHA-256, ECDSA with \
                         P-256 or P-384 and SHA-256 or SHA-384, or Ed25519";
    let cases = [
        (include_str!("golden/signing_requests/rsa768.pem"), insecure),
        (&tampered, "crypto/rsa: verification error"),
        (include_str!("golden/signing_requests/rsa1024-sha384.pem"), unimplemented),
        (include_str!("golden/signing_requests/p521.pem"), unimplemented),
        (include_str!("golden/signing_requests/p256-sha512.pem"), unimplemented),
    ];
    for (pem, why) in cases {
        let (status, answer) = create(&server, &admin, &object("a", SIGNER, pem)).await;
        let message = format!("Invalid value: {:?}: {why}", encode(pem));
        assert_eq!((status, &answer["details"]["causes"][0]["message"]), (422, &json!(message)));
    }
}

#[tokio::test]
async fn nobody_asks_for_a_client_certificate_of_masters() {
    let server = start().await;
    let admin = User::admin();
    let client = "kubernetes.io/kube-apiserver-client";
    let wide = DnValue::BmpString(BmpString::try_from("system:masters").unwrap());
    let cases = [
        (client, request_of("system:masters"), 403),
        (client, request_of(wide), 403),
        (client, request_of("developers"), 201),
        ("kubernetes.io/kube-apiserver-client-kubelet", request_of("system:masters"), 201),
        (SIGNER, request_of("system:masters"), 201),
    ];
    for (index, (signer, request, expected)) in cases.iter().enumerate() {
        let name = format!("c{index}");
        let (status, answer) = create(&server, &admin, &object(&name, signer, request)).await;
        assert_eq!(status, *expected, "{answer}");
        if status == 403 {
            let message = format!(
                "certificatesigningrequests.certificates.k8s.io {name:?} is forbidden: use of {client} signer with \
                 system:masters group is not allowed"
            );
            assert_eq!(answer["message"], message);
            assert_eq!(get(&server, &name).await["code"], 404);
        }
    }
}

/// A write to a subresource: who, how, to what, with which status, and what the answer says of it.
struct Step {
    user: &'static str,
    method: Method,
    subresource: &'static str,
    body: Value,
    expected: Result<Value, (u16, &'static str)>,
}

fn step(
    user: &'static str,
    method: Method,
    subresource: &'static str,
    body: Value,
    expected: Result<Value, (u16, &'static str)>,
) -> Step {
    Step { user, method, subresource, body, expected }
}

#[tokio::test]
async fn approving_and_signing_need_permission_for_the_signer() {
    let server = start().await;
    let admin = User::admin();
    let plain = ["get", "update", "patch"];
    grant(&server, "bob", &plain).await;
    grant(&server, "approver", &[plain.as_slice(), &["approve"]].concat()).await;
    grant(&server, "signer", &[plain.as_slice(), &["sign"]].concat()).await;
    // May approve whatever is for signers of one domain.
    grant(&server, "domain", &plain).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "domain-signers"}, "rules": [{
        "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"],
        "verbs": ["approve"],
    }]});
    let binding = json!({
        "metadata": {"name": "domain-signers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "domain-signers"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "domain"}],
    });
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        assert_eq!(
            ask(&server, &admin, Method::POST, &format!("{rbac}/{plural}"), JSON, &object).await.0,
            201
        );
    }

    let (first, second) = (encode(certificate()), encode(certificate()));
    let approved = || json!({"status": {"conditions": [condition("Approved", "True")]}});
    let denied = || json!({"status": {"conditions": [condition("Denied", "True")]}});
    let both =
        || json!({"status": {"conditions": [condition("Approved", "True"), condition("Denied", "True")]}});
    let types = |names: &[&str]| Ok(json!(names));
    let (put, patch) = (|| Method::PUT, || Method::PATCH);
    let may_not = |verb: &str| match verb {
        "approve" => "user not permitted to approve requests with signerName \"example.com/signer\"",
        _ => "user not permitted to sign requests with signerName \"example.com/signer\"",
    };
    // For each request: steps, whose answers are the types of its conditions.
    let stories = [
        vec![
            step("bob", put(), "approval", approved(), Err((403, may_not("approve")))),
            step("signer", patch(), "approval", approved(), Err((403, may_not("approve")))),
            step(
                "approver",
                put(),
                "approval",
                json!({"status": {"conditions": [condition("Approved", "False")]}}),
                Err((
                    422,
                    "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
                )),
            ),
            step(
                "approver",
                put(),
                "approval",
                json!({"status": {"conditions": [{"type": "Approved"}]}}),
                Err((422, "status.conditions[0].status: Required value")),
            ),
            step(
                "approver",
                put(),
                "approval",
                both(),
                Err((
                    422,
                    "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
                )),
            ),
            step("approver", put(), "approval", approved(), types(&["Approved"])),
            step(
                "approver",
                put(),
                "approval",
                both(),
                Err((
                    422,
                    "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
                )),
            ),
            step(
                "approver",
                put(),
                "approval",
                json!({"status": {"conditions": []}}),
                Err((
                    422,
                    "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
                )),
            ),
            step(
                "bob",
                patch(),
                "status",
                json!({"status": {"certificate": first}}),
                Err((403, may_not("sign"))),
            ),
            step(
                "approver",
                put(),
                "status",
                json!({"status": {"certificate": first}}),
                Err((
                    422,
                    "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
                )),
            ),
            step(
                "signer",
                patch(),
                "status",
                json!({"status": {"certificate": "eA=="}}),
                Err((
                    422,
                    "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block",
                )),
            ),
            step(
                "signer",
                patch(),
                "status",
                json!({"status": {"certificate": first}}),
                types(&["Approved"]),
            ),
            step(
                "signer",
                patch(),
                "status",
                json!({"status": {"certificate": second}}),
                Err((
                    422,
                    "status.certificate: Forbidden: updates may not modify existing certificate content",
                )),
            ),
            // Nothing of the certificate or the conditions changes: the permission to write the status is enough.
            step("bob", patch(), "status", json!({"metadata": {"labels": {"a": "b"}}}), types(&["Approved"])),
            // A write to the approval leaves the certificate and the spec alone.
            step(
                "approver",
                patch(),
                "approval",
                json!({"spec": {"signerName": "example.com/other"}, "status": {"certificate": second}}),
                types(&["Approved"]),
            ),
        ],
        vec![
            step("bob", patch(), "approval", denied(), Err((403, may_not("approve")))),
            step("domain", patch(), "approval", denied(), types(&["Denied"])),
            step(
                "signer",
                patch(),
                "status",
                json!({"status": {"conditions": [condition("Denied", "True"), condition("Denied", "True")]}}),
                Err((422, "status.conditions[1].type: Duplicate value: \"Denied\"")),
            ),
        ],
        vec![
            step(
                "signer",
                patch(),
                "status",
                approved(),
                Err((
                    422,
                    "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"",
                )),
            ),
            step(
                "bob",
                patch(),
                "status",
                json!({"status": {"conditions": [condition("Failed", "True")]}}),
                Err((403, may_not("sign"))),
            ),
            step(
                "signer",
                patch(),
                "status",
                json!({"status": {"conditions": [condition("Failed", "True")]}}),
                types(&["Failed"]),
            ),
            step(
                "signer",
                patch(),
                "status",
                json!({"status": {"conditions": [{"type": "", "status": "True"}, condition("Failed", "True")]}}),
                Err((422, "status.conditions[0].type: Required value")),
            ),
            step(
                "approver",
                patch(),
                "approval",
                json!({"status": {"conditions": null}}),
                Err((
                    422,
                    "status.conditions: Forbidden: updates may not remove a condition of type \"Failed\"",
                )),
            ),
        ],
    ];
    for (index, story) in stories.into_iter().enumerate() {
        let name = format!("r{index}");
        let mut sent = object(&name, SIGNER, &request_of("developers"));
        // Upstream does not begin to track who owns what when an object is changed.
        sent["metadata"]["labels"] = json!({"created": "tracked"});
        let (status, made) = create(&server, &admin, &sent).await;
        assert_eq!(status, 201);
        for (index, Step { user, method, subresource, body, expected }) in story.into_iter().enumerate() {
            let before = get(&server, &name).await;
            let path = format!("{REQUESTS}/{name}/{subresource}");
            let (content_type, sent) = if method == Method::PUT {
                let mut whole = made.clone();
                whole["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
                merge(&mut whole, &body);
                (JSON, whole)
            } else {
                (MERGE, body)
            };
            let user = User::new(user, ["developers"]).authenticated();
            let (status, answer) = ask(&server, &user, method, &path, content_type, &sent).await;
            let after = get(&server, &name).await;
            match expected {
                Err((code, why)) => {
                    assert_eq!(status, code, "{name} {index}: {answer}");
                    let message = answer["message"].as_str().unwrap();
                    assert!(message.contains(why), "{name} {index}: {message}");
                    assert_eq!(after, before, "{name} {index}");
                }
                Ok(types) => {
                    assert_eq!(status, 200, "{name} {index}: {answer}");
                    let conditions = after["status"]["conditions"].as_array().unwrap();
                    let found: Vec<&Value> = conditions.iter().map(|condition| &condition["type"]).collect();
                    assert_eq!(json!(found), types, "{name} {index}");
                    assert!(conditions.iter().all(|condition| {
                        condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string()
                    }));
                    assert_eq!(after["spec"], made["spec"], "{name} {index}");
                    let read = ask(&server, &user, Method::GET, &path, JSON, &Value::Null).await;
                    assert_eq!(read, (200, after.clone()));
                }
            }
        }
        let last = get(&server, &name).await;
        if name == "r0" {
            assert_eq!(last["status"]["certificate"], first.as_str());
            assert_eq!(last["metadata"]["labels"], json!({"a": "b", "created": "tracked"}));
            let owned = |subresource: &str| {
                let entries = last["metadata"]["managedFields"].as_array().unwrap().iter();
                let mut entries = entries.filter(|entry| entry["subresource"] == subresource);
                entries.next().map(|entry| entry["fieldsV1"]["f:status"].clone()).unwrap_or_default()
            };
            assert!(
                owned("approval")["f:conditions"].is_object() && owned("approval")["f:certificate"].is_null()
            );
            assert!(
                owned("status")["f:certificate"].is_object() && owned("status")["f:conditions"].is_null()
            );
        }
    }
}
