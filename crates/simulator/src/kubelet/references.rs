//! References: the environment and the volumes of a Pod, and what the kubelet says of those that are missing.

use k8s_openapi::api::core::v1::{Container, KeyToPath, ProjectedVolumeSource, Volume};
use settled_go::strconv::quote;

use super::input::{Input, References};
use super::text;
use crate::meta;

fn config_map_not_found(name: &str) -> String {
    format!("configmap {} not found", quote(name))
}

fn secret_not_found(name: &str) -> String {
    format!("secret {} not found", quote(name))
}

/// Why the configuration of a container cannot be made: `makeEnvironmentVariables` and `verifyRunAsNonRoot`.
pub(super) fn config_error(input: &Input<'_>, container: &Container) -> Option<String> {
    environment_error(input, container).or_else(|| root_error(input, container))
}

fn environment_error(input: &Input<'_>, container: &Container) -> Option<String> {
    let references = input.references;
    let namespace = meta::namespace(input.pod);
    for source in container.env_from.iter().flatten() {
        if let Some(wanted) = &source.config_map_ref {
            if references.config_map(&wanted.name).is_none() && wanted.optional != Some(true) {
                return Some(config_map_not_found(&wanted.name));
            }
        } else if let Some(wanted) = &source.secret_ref
            && references.secret(&wanted.name).is_none()
            && wanted.optional != Some(true)
        {
            return Some(secret_not_found(&wanted.name));
        }
    }
    for variable in container.env.iter().flatten() {
        let Some(source) = &variable.value_from else { continue };
        if variable.value.as_deref().is_some_and(|value| !value.is_empty()) {
            continue;
        }
        if let Some(wanted) =
            source.config_map_key_ref.as_ref().filter(|wanted| wanted.optional != Some(true))
        {
            let Some(found) = references.config_map(&wanted.name) else {
                return Some(config_map_not_found(&wanted.name));
            };
            if !found.data.as_ref().is_some_and(|data| data.contains_key(&wanted.key)) {
                return Some(format!(
                    "couldn't find key {} in ConfigMap {namespace}/{}",
                    wanted.key, wanted.name
                ));
            }
        } else if let Some(wanted) =
            source.secret_key_ref.as_ref().filter(|wanted| wanted.optional != Some(true))
        {
            let Some(found) = references.secret(&wanted.name) else {
                return Some(secret_not_found(&wanted.name));
            };
            if !found.data.as_ref().is_some_and(|data| data.contains_key(&wanted.key)) {
                return Some(format!(
                    "couldn't find key {} in Secret {namespace}/{}",
                    wanted.key, wanted.name
                ));
            }
        }
    }
    None
}

fn root_error(input: &Input<'_>, container: &Container) -> Option<String> {
    let (own, pod) = (container.security_context.as_ref(), input.spec.security_context.as_ref());
    let non_root = own.and_then(|own| own.run_as_non_root).or_else(|| pod?.run_as_non_root);
    let user = own.and_then(|own| own.run_as_user).or_else(|| pod?.run_as_user);
    (non_root == Some(true) && user == Some(0)).then(|| {
        let pod = quote(&text::pod(input.pod));
        format!("container's runAsUser breaks non-root policy (pod: {pod}, container: {})", container.name)
    })
}

/// A volume that cannot be mounted.
pub(super) struct MountError {
    pub(super) volume: String,
    pub(super) message: String,
    /// Whether its claim could not be processed, so that it was not even tried to mount it.
    pub(super) is_unprocessed: bool,
}

/// The volumes that cannot be mounted now.
pub(super) fn mount_errors(input: &Input<'_>) -> Vec<MountError> {
    let volumes = input.spec.volumes.iter().flatten().filter(|volume| is_used(input, volume));
    volumes.filter_map(|volume| mount_error(input, volume)).collect()
}

/// `getExpectedVolumes`: only mounted ones count.
fn is_used(input: &Input<'_>, volume: &Volume) -> bool {
    let containers = input.spec.init_containers.iter().flatten().chain(&input.spec.containers);
    containers.into_iter().any(|container| {
        container.volume_mounts.iter().flatten().any(|mount| mount.name == volume.name)
            || container.volume_devices.iter().flatten().any(|device| device.name == volume.name)
    })
}

fn missing_key(
    items: Option<&Vec<KeyToPath>>,
    is_optional: bool,
    has: impl Fn(&str) -> bool,
) -> Option<&str> {
    let mut items = items.into_iter().flatten();
    items.find(|item| !is_optional && !has(&item.key)).map(|item| &*item.key)
}

fn config_map_error(
    references: &dyn References,
    name: &str,
    items: Option<&Vec<KeyToPath>>,
    optional: Option<bool>,
) -> Option<String> {
    let is_optional = optional == Some(true);
    let Some(found) = references.config_map(name) else {
        return (!is_optional).then(|| config_map_not_found(name));
    };
    let has = |key: &str| {
        found.data.as_ref().is_some_and(|data| data.contains_key(key))
            || found.binary_data.as_ref().is_some_and(|data| data.contains_key(key))
    };
    missing_key(items, is_optional, has)
        .map(|key| format!("configmap references non-existent config key: {key}"))
}

fn secret_error(
    references: &dyn References,
    name: &str,
    items: Option<&Vec<KeyToPath>>,
    optional: Option<bool>,
) -> Option<String> {
    let is_optional = optional == Some(true);
    let Some(found) = references.secret(name) else {
        return (!is_optional).then(|| secret_not_found(name));
    };
    let has = |key: &str| found.data.as_ref().is_some_and(|data| data.contains_key(key));
    missing_key(items, is_optional, has).map(|key| format!("references non-existent secret key: {key}"))
}

fn projected_error(input: &Input<'_>, projected: &ProjectedVolumeSource) -> Option<String> {
    let references = input.references;
    let mut errors = Vec::new();
    for source in projected.sources.iter().flatten() {
        if let Some(wanted) = &source.secret {
            errors.extend(secret_error(references, &wanted.name, wanted.items.as_ref(), wanted.optional));
        } else if let Some(wanted) = &source.config_map {
            errors.extend(config_map_error(references, &wanted.name, wanted.items.as_ref(), wanted.optional));
        } else if source.service_account_token.is_some() {
            let name = input.spec.service_account_name.as_deref().unwrap_or("default");
            if !references.has_service_account(name) {
                errors.push(format!("failed to fetch token: serviceaccounts {} not found", quote(name)));
            }
        }
    }
    // `utilerrors.Aggregate` leaves out what it has said.
    let mut said: Vec<String> = Vec::new();
    for error in errors {
        if !said.contains(&error) {
            said.push(error);
        }
    }
    match said.len() {
        0 => None,
        1 => said.pop(),
        _ => Some(format!("[{}]", said.join(", "))),
    }
}

fn mount_error(input: &Input<'_>, volume: &Volume) -> Option<MountError> {
    let references = input.references;
    let set_up = |why: String| MountError {
        message: format!("MountVolume.SetUp failed for volume {} : {why}", quote(&volume.name)),
        volume: volume.name.clone(),
        is_unprocessed: false,
    };
    if let Some(wanted) = &volume.config_map {
        return config_map_error(references, &wanted.name, wanted.items.as_ref(), wanted.optional)
            .map(set_up);
    }
    if let Some(wanted) = &volume.secret {
        let name = wanted.secret_name.as_deref().unwrap_or_default();
        return secret_error(references, name, wanted.items.as_ref(), wanted.optional).map(set_up);
    }
    if let Some(projected) = &volume.projected {
        return projected_error(input, projected).map(set_up);
    }
    let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => source.claim_name.clone(),
        (None, Some(_)) => format!("{}-{}", meta::name(input.pod), volume.name),
        (None, None) => return None,
    };
    claim_error(input, &claim).map(|why| MountError {
        volume: volume.name.clone(),
        message: format!("error processing PVC {}/{claim}: {why}", meta::namespace(input.pod)),
        is_unprocessed: true,
    })
}

/// `getPVCExtractPV` and `getPVSpec`.
fn claim_error(input: &Input<'_>, name: &str) -> Option<String> {
    let Some(claim) = input.references.claim(name) else {
        return Some(format!(
            "failed to fetch PVC from API server: persistentvolumeclaims {} not found",
            quote(name)
        ));
    };
    let is_protected =
        claim.metadata.finalizers.iter().flatten().any(|one| one == "kubernetes.io/pvc-protection");
    if meta::is_deleting(&*claim) && !is_protected {
        return Some("PVC is being deleted".to_owned());
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Some("PVC is not bound".to_owned());
    }
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if volume.is_empty() {
        return Some("PVC has empty pvc.Spec.VolumeName".to_owned());
    }
    let Some(found) = input.references.volume(volume) else {
        return Some(format!(
            "failed to fetch PV {volume} from API server: persistentvolumes {} not found",
            quote(volume)
        ));
    };
    let Some(reference) = found.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        return Some(format!(
            "found PV object {volume} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    };
    let (wanted, found) = (meta::uid(&*claim), reference.uid.as_deref().unwrap_or_default());
    (wanted != found).then(|| {
        format!(
            "found PV object {volume} but its pv.Spec.ClaimRef.UID {found} does not point to claim.UID {wanted}"
        )
    })
}
