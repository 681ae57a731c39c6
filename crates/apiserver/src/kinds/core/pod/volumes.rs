//! Validation of the volumes of Pods.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::validation;

use crate::kinds::check::{Check, join};
use crate::kinds::core::persistent_volume_claim::validate_persistent_volume_claim_spec;

/// The volumes, and the names of those that are right.
pub(crate) fn validate_volumes<'a>(
    check: &mut Check,
    spec: &'a Value,
    pod: Option<&str>,
    at: &str,
) -> BTreeSet<&'a str> {
    let mut right = BTreeSet::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let at = format!("{at}[{index}]");
        let before = check.causes.len();
        validate_volume_source(check, volume, pod, &at);
        let name = string(volume, "name");
        check.required_form(&join(&at, "name"), name, validation::is_dns1123_label);
        if right.contains(name) {
            check.duplicate(join(&at, "name"), &name.into());
        }
        if check.causes.len() == before {
            right.insert(name);
        }
    }
    right
}

/// What a volume may be, in the order of upstream's checks, and the field that it cannot be without.
const SOURCES: [(&str, &[&str]); 14] = [
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &[]),
    ("downwardAPI", &[]),
    ("configMap", &["name"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("projected", &[]),
    ("csi", &["driver"]),
    ("ephemeral", &[]),
    ("image", &[]),
];

fn validate_volume_source(check: &mut Check, volume: &Value, pod: Option<&str>, at: &str) {
    let mut one = false;
    for (name, needed) in SOURCES {
        let Some(source) = given(volume, name) else { continue };
        let at = join(at, name);
        if one {
            check.forbidden(at, "may not specify more than 1 volume type");
            continue;
        }
        one = true;
        for needed in needed {
            if string(source, needed).is_empty() {
                check.required(join(&at, needed), "");
            }
        }
        if let Some(mode) = integer(source, "defaultMode").filter(|mode| !(0..=0o777).contains(mode)) {
            let detail = "must be a number between 0 and 0777 (octal), both inclusive";
            check.invalid(join(&at, "defaultMode"), &mode.into(), detail);
        }
        match name {
            "hostPath" => validate_host_path(check, source, &at),
            "secret" | "configMap" => {
                for (index, item) in items(source, "items").iter().enumerate() {
                    validate_key_to_path(check, item, &format!("{at}.items[{index}]"));
                }
            }
            "ephemeral" => {
                if given(source, "volumeClaimTemplate").is_none() {
                    check.required(join(&at, "volumeClaimTemplate"), "");
                } else {
                    let claim = field(field(source, "volumeClaimTemplate"), "spec");
                    validate_persistent_volume_claim_spec(
                        check,
                        claim,
                        &join(&at, "volumeClaimTemplate.spec"),
                    );
                }
                if let Some(pod) = pod.filter(|pod| !pod.is_empty()) {
                    let claim = format!("{pod}-{}", string(volume, "name"));
                    for message in validation::is_dns1123_subdomain(&claim) {
                        let detail = format!("PVC name {claim:?}: {message}");
                        check.invalid(at.replace(".ephemeral", ".name"), field(volume, "name"), &detail);
                    }
                }
            }
            _ => {}
        }
    }
}

fn validate_host_path(check: &mut Check, source: &Value, at: &str) {
    let path = string(source, "path");
    if path.split('/').any(|part| part == "..") {
        check.invalid(join(at, "path"), &path.into(), "must not contain '..'");
    }
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !path.is_empty() && !TYPES.contains(&string(source, "type")) {
        check.not_supported(join(at, "type"), field(source, "type"), &TYPES);
    }
}

fn validate_key_to_path(check: &mut Check, item: &Value, at: &str) {
    if string(item, "key").is_empty() {
        check.required(join(at, "key"), "");
    }
    let path = string(item, "path");
    if path.is_empty() {
        check.required(join(at, "path"), "");
    } else {
        if path.starts_with('/') {
            check.invalid(join(at, "path"), &path.into(), "must be a relative path");
        }
        if path.split('/').any(|part| part == "..") {
            check.invalid(join(at, "path"), &path.into(), "must not contain '..'");
        }
    }
    if let Some(mode) = integer(item, "mode").filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        check.invalid(join(at, "mode"), &mode.into(), detail);
    }
}
