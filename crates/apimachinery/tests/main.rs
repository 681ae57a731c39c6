//! Every line of the files that upstream's own code wrote (`conformance/apimachinery`).

use std::net::IpAddr;

use serde_json::Value;
use settled_apimachinery::conditions::validate_conditions;
use settled_apimachinery::duration::human_duration;
use settled_apimachinery::field::{Error, Path};
use settled_apimachinery::group_version::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource,
};
use settled_apimachinery::quantity::{Format, Quantity};
use settled_apimachinery::{net, validation};
use settled_golden::decompress;

fn lines(text: &str) -> Vec<Value> {
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert!(lines.len() > 20, "{} lines", lines.len());
    lines
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}

#[test]
fn names_are_judged_as_upstream_does() {
    type Check = fn(&str) -> Vec<String>;
    let checks: [(&str, Check); 15] = [
        ("is_dns1123_label", validation::is_dns1123_label),
        ("is_dns1123_subdomain", validation::is_dns1123_subdomain),
        ("is_dns1035_label", validation::is_dns1035_label),
        ("is_wildcard_dns1123_subdomain", validation::is_wildcard_dns1123_subdomain),
        ("is_qualified_name", validation::is_qualified_name),
        ("is_valid_label_value", validation::is_valid_label_value),
        ("is_path_segment_name", validation::is_path_segment_name),
        ("is_path_segment_prefix", validation::is_path_segment_prefix),
        ("is_config_map_key", validation::is_config_map_key),
        ("is_relaxed_env_var_name", validation::is_relaxed_env_var_name),
        ("is_valid_port_name", validation::is_valid_port_name),
        ("is_valid_percent", validation::is_valid_percent),
        ("dns_subdomain_prefix", |text| validation::name_is_dns_subdomain(text, true)),
        ("dns_label_prefix", |text| validation::name_is_dns_label(text, true)),
        ("dns1035_label_prefix", |text| validation::name_is_dns1035_label(text, true)),
    ];
    for line in lines(&decompress(include_bytes!("names.jsonl.zst")).unwrap()) {
        for (name, check) in checks {
            let wanted: Vec<&str> =
                line["wrong"][name].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert_eq!(check(text(&line, "text")), wanted, "{name} of {:?}", text(&line, "text"));
        }
    }
}

fn assert_value(quantity: &Quantity, wanted: &Value, of: &str) {
    assert_eq!(quantity.to_string(), text(wanted, "text"), "{of}");
    let format = match quantity.format() {
        Format::DecimalExponent => "DecimalExponent",
        Format::BinarySi => "BinarySI",
        Format::DecimalSi => "DecimalSI",
    };
    assert_eq!(format, text(wanted, "format"), "{of}: format");
    assert_eq!(Some(i64::from(quantity.amount().sign())), wanted["sign"].as_i64(), "{of}: sign");
    assert_eq!(quantity.amount().as_int64(), wanted["int"].as_i64(), "{of}: integer");
    let float: f64 = text(wanted, "float").parse().expect("a float");
    assert_eq!(quantity.amount().as_approximate_float64().to_bits(), float.to_bits(), "{of}: float {float}");
}

#[test]
fn quantities_are_read_written_and_added_as_upstream_does() {
    for line in lines(&decompress(include_bytes!("quantities.jsonl.zst")).unwrap()) {
        let given = text(&line, "text");
        let quantity = match Quantity::parse(given) {
            Ok(quantity) => quantity,
            Err(error) => {
                assert_eq!(error.to_string(), text(&line, "error"), "{given:?}");
                continue;
            }
        };
        assert!(line["error"].is_null(), "{given:?} is read, upstream: {}", line["error"]);
        assert_value(&quantity, &line["value"], given);
        if let Some(whole) = line["whole"].as_i64() {
            assert_eq!(quantity.value(), whole, "{given}: whole");
            assert_eq!(Some(quantity.milli_value()), line["thousandths"].as_i64(), "{given}: thousandths");
        }
        let Some(before) = line["before"].as_str() else { continue };
        let other = Quantity::parse(before).expect("it was read before");
        let order = quantity.cmp(&other) as i64;
        assert_eq!(Some(order), line["compare"].as_i64(), "{given} against {before}");
        let mut sum = quantity.clone();
        sum.add(&other);
        assert_value(&sum, &line["sum"], &format!("{given} + {before}"));
        let mut less = quantity.clone();
        less.sub(&other);
        assert_value(&less, &line["less"], &format!("{given} - {before}"));
        let mut milli = quantity;
        milli.round_up(-3);
        assert_eq!(milli.to_string(), text(&line, "milli"), "{given} in thousandths");
    }
}

#[test]
fn durations_are_upstreams() {
    for line in lines(include_str!("durations.jsonl")) {
        let nanoseconds = line["nanoseconds"].as_i64().expect("a number");
        assert_eq!(human_duration(nanoseconds), text(&line, "text"), "{nanoseconds}");
    }
}

#[test]
fn groups_versions_and_kinds_are_read_and_written_as_upstream_does() {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for line in lines(include_str!("groups.jsonl")) {
        let given = text(&line, "text");
        match GroupVersion::parse(given) {
            Ok(read) => {
                let wanted = (text(&line, "group"), text(&line, "version"));
                assert_eq!((read.group, read.version), wanted, "{given}");
                assert_eq!(read.to_string(), text(&line, "written"), "{given}");
                assert!(line["error"].is_null(), "{given}");
            }
            Err(error) => assert_eq!(error.to_string(), text(&line, "error"), "{given}"),
        }
        let kind = GroupKind::parse(given);
        assert_eq!([kind.group, kind.kind, &kind.to_string()], *texts(&line["groupKind"]), "{given}");
        let resource = GroupResource::parse(given);
        let written = resource.to_string();
        assert_eq!([resource.group, resource.resource, &written], *texts(&line["groupResource"]), "{given}");
        let kind = GroupVersionKind::parse_arg(given).map_or_else(Vec::new, |kind| {
            [kind.group, kind.version, kind.kind, &kind.to_string()].map(str::to_owned).to_vec()
        });
        assert_eq!(kind, texts(&line["kind"]), "{given}");
        let resource = GroupVersionResource::parse_arg(given).map_or_else(Vec::new, |resource| {
            [resource.group, resource.version, resource.resource, &resource.to_string()]
                .map(str::to_owned)
                .to_vec()
        });
        assert_eq!(resource, texts(&line["resource"]), "{given}");
    }
}

#[test]
fn addresses_are_read_as_upstream_does() {
    // Go writes an IPv4 address in IPv6 as one of IPv4.
    let shown = |address: IpAddr| address.to_canonical().to_string();
    for line in lines(include_str!("addresses.jsonl")) {
        let given = text(&line, "text");
        let address = net::parse_ip_sloppy(given).map(shown).unwrap_or_default();
        assert_eq!(address, text(&line, "address"), "{given}");
        let (network, bits) = match net::parse_cidr_sloppy(given) {
            Some((address, bits)) => (shown(address), bits),
            None => (String::new(), 0),
        };
        assert_eq!(network, text(&line, "network"), "{given}");
        assert_eq!(Some(u64::from(bits)), line["bits"].as_u64(), "{given}");
        let wrong = net::is_valid_ip_for_legacy_field(given).concat();
        assert_eq!(wrong, text(&line, "wrongAddress"), "{given}");
        let wrong = net::is_valid_cidr_for_legacy_field(given).concat();
        assert_eq!(wrong, text(&line, "wrongNetwork"), "{given}");
    }
}

#[test]
fn conditions_are_validated_as_upstream_does() {
    let (mut valid, mut invalid) = (0, 0);
    for line in lines(include_str!("conditions.jsonl")) {
        let mut errors = Vec::new();
        validate_conditions(&line["conditions"], &Path::Nil.child("status").child("conditions"), &mut errors);
        let wanted: Vec<&str> =
            line["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let errors: Vec<String> = errors.iter().map(Error::to_string).collect();
        assert_eq!(errors, wanted, "{}", line["conditions"]);
        if errors.is_empty() { valid += 1 } else { invalid += 1 }
    }
    assert!(valid > 10 && invalid > 10, "{valid} valid, {invalid} invalid");
}
