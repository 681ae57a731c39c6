//! Ingresses.

use std::net::IpAddr;

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join};
use crate::kinds::core::service::format_load_balancer;
use crate::kinds::printers::{NONE, Read as _, Row, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    validate: validate_ingress,
    print: Some(print_ingress),
    ..Strategy::DEFAULT
};

fn validate_ingress(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let rules = items(spec, "rules");
    let fallback = given(spec, "defaultBackend");
    if rules.is_empty() && fallback.is_none() {
        check.invalid_shown("spec", "null", "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(fallback) = fallback {
        validate_ingress_backend(check, fallback, "spec.defaultBackend");
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        let host = string(rule, "host");
        if host.parse::<IpAddr>().is_ok() {
            check.invalid(join(&at, "host"), &host.into(), "must be a DNS name, not an IP address");
        } else if host.contains('*') {
            check.form(&join(&at, "host"), host, validation::is_wildcard_dns1123_subdomain);
        } else if !host.is_empty() {
            check.form(&join(&at, "host"), host, validation::is_dns1123_subdomain);
        }
        let Some(http) = given(rule, "http") else { continue };
        let paths = items(http, "paths");
        if paths.is_empty() {
            check.required(join(&at, "http.paths"), "");
        }
        for (index, path) in paths.iter().enumerate() {
            validate_http_ingress_path(check, path, &format!("{at}.http.paths[{index}]"));
        }
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        let at = format!("spec.tls[{index}]");
        for (index, host) in items(tls, "hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            let form = if host.contains('*') {
                validation::is_wildcard_dns1123_subdomain
            } else {
                validation::is_dns1123_subdomain
            };
            check.form(&format!("{at}.hosts[{index}]"), host, form);
        }
        let secret = string(tls, "secretName");
        if !secret.is_empty() {
            check.form(&join(&at, "secretName"), secret, validation::is_dns1123_subdomain);
        }
    }
    if let Some(class) = given(spec, "ingressClassName").and_then(Value::as_str) {
        check.form("spec.ingressClassName", class, validation::is_dns1123_subdomain);
    }
}

fn validate_http_ingress_path(check: &mut Check, value: &Value, at: &str) {
    let Some(kind) = given(value, "pathType") else {
        check.required(join(at, "pathType"), "pathType must be specified");
        return;
    };
    let path = string(value, "path");
    let place = join(at, "path");
    match kind.as_str().unwrap_or_default() {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                check.invalid(place.as_str(), &path.into(), "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(part) {
                    check.invalid(place.as_str(), &path.into(), &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.ends_with(end) {
                    check.invalid(place.as_str(), &path.into(), &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                check.invalid(place, &path.into(), "must be an absolute path");
            }
        }
        _ => check.not_supported(join(at, "pathType"), kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    validate_ingress_backend(check, field(value, "backend"), &join(at, "backend"));
}

fn validate_ingress_backend(check: &mut Check, backend: &Value, at: &str) {
    match (given(backend, "resource"), given(backend, "service")) {
        (Some(_), Some(_)) => check.invalid(at, &"".into(), "cannot set both resource and service backends"),
        (None, None) => check.invalid(at, &"".into(), "resource or service backend is required"),
        (Some(resource), None) => {
            for name in ["kind", "name"] {
                check.required_form(
                    &format!("{at}.resource.{name}"),
                    string(resource, name),
                    validation::is_path_segment_name,
                );
            }
        }
        (None, Some(service)) => {
            check.required_form(
                &join(at, "service.name"),
                string(service, "name"),
                validation::is_dns1123_label,
            );
            let port = field(service, "port");
            let (name, number) = (string(port, "name"), integer(port, "number").unwrap_or_default());
            match (name.is_empty(), number == 0) {
                (false, false) => check.invalid(at, &"".into(), "cannot set both port name & port number"),
                (false, true) => {
                    check.form(&join(at, "service.port.name"), name, validation::is_valid_port_name)
                }
                (true, false) => {
                    for message in validation::is_valid_port_num(number) {
                        check.invalid(join(at, "service.port.number"), &number.into(), &message);
                    }
                }
                (true, true) => check.required(at, "port name or number is required"),
            }
        }
    }
}

fn print_ingress(row: Row<'_>) -> Vec<Value> {
    cells![
        row.name(),
        row.text_or("/spec/ingressClassName", NONE),
        format_hosts(row.list("/spec/rules")),
        format_load_balancer(row.list("/status/loadBalancer/ingress")),
        if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" },
        row.age(),
    ]
}

fn format_hosts(rules: &[Value]) -> String {
    let mut list = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == 3;
        let host = rule.text("/host");
        if !more && !host.is_empty() {
            list.push(host);
        }
    }
    match list.len() {
        0 => "*".to_owned(),
        _ if more => format!("{} + {} more...", list.join(","), rules.len() - 3),
        _ => list.join(","),
    }
}
