//! `validateCustomResourceConversion`.

use std::collections::HashSet;

use settled_apimachinery::field::{Error as FieldError, Path};
use settled_apimachinery::validation::is_dns1035_label;

use super::fields::validate_enum_strings;
use super::internal::InternalCrd;
use super::options::{ValidationOptions, is_accepted_conversion_review_version};
use super::webhook::{ca_bundle_error, validate_webhook_service, validate_webhook_url};

pub(super) fn validate_custom_resource_conversion(
    crd: &InternalCrd<'_>,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(conversion) = &crd.conversion else { return };
    let strategy = conversion.strategy;
    if crd.preserve_unknown_fields && strategy != "None" {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(path.child("strategy"), strategy, detail));
    }
    validate_enum_strings(&path.child("strategy"), strategy, &["None", "Webhook"], errors);
    let config_path = path.child("webhookClientConfig");
    let review_path = path.child("conversionReviewVersions");
    let versions = &conversion.conversion_review_versions;
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if conversion.client_config.is_some() {
            errors.push(FieldError::forbidden(config_path, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(review_path, detail));
        }
        return;
    }
    match &conversion.client_config {
        None => errors.push(FieldError::required(config_path, "required when strategy is set to Webhook")),
        Some(config) => {
            match (config.url, &config.service) {
                (Some(url), None) => validate_webhook_url(url, &config_path.child("url"), errors),
                (None, Some(service)) => {
                    validate_webhook_service(service, &config_path.child("service"), errors);
                }
                _ => errors
                    .push(FieldError::required(config_path, "exactly one of url or service is required")),
            }
            if let Some(bundle) = conversion.ca_bundle().filter(|_| !options.allow_invalid_ca_bundle)
                && let Some(detail) = ca_bundle_error(bundle)
            {
                errors.push(FieldError::invalid(config_path.child("caBundle"), bundle, detail));
            }
        }
    }
    validate_conversion_review_versions(versions, options, &review_path, errors);
}

fn validate_conversion_review_versions(
    versions: &[&str],
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if versions.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let mut seen = HashSet::new();
    let mut is_any_accepted = false;
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if !seen.insert(*version) {
            errors.push(FieldError::invalid(path, *version, "duplicate version"));
            continue;
        }
        for detail in is_dns1035_label(version) {
            errors.push(FieldError::invalid(path, *version, detail));
        }
        is_any_accepted |= is_accepted_conversion_review_version(version);
    }
    if options.require_recognized_conversion_review_version && !is_any_accepted {
        errors.push(FieldError::invalid(path, versions, "must include at least one of v1, v1beta1"));
    }
}
