//! Every line of the golden file, which Go wrote (`conformance/go`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use serde_json::Value;
use settled_go::fmt::{plain, syntax, text, type_name};
use settled_go::json;
use settled_go::strconv::{is_print, quote};
use settled_go::{base64, duration, mail, netip, regexp, url};

#[test]
fn values_are_printed_as_go_prints_them() {
    let golden = include_str!("golden.jsonl");
    let mut lines = 0;
    for (at, line) in golden.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let wanted = |name: &str| line[name].as_str().unwrap();
        let mut value = line["value"].clone();
        if value.is_f64() {
            // serde_json's own reading of floats may be one digit off.
            value = wanted("json").parse::<f64>().unwrap().into();
        }
        let said = [
            type_name(&value).to_owned(),
            plain(&value),
            text(&value),
            syntax(&value),
            json::to_string(&value),
        ];
        let names = ["type", "plain", "text", "syntax", "json"];
        for (name, said) in names.into_iter().zip(said) {
            assert_eq!(said, wanted(name), "line {}: {name}", at + 1);
        }
        if let Some(value) = value.as_str() {
            assert_eq!(quote(value), wanted("quoted"), "line {}", at + 1);
        }
        lines += 1;
    }
    assert!(lines > 900, "{lines} lines");
}

#[test]
fn printable_is_what_go_holds_for_it() {
    let printable = "a~ é世\u{301}\u{fffd}\u{e0100}";
    assert!(printable.chars().all(is_print));
    let others = "\0\n\x7f\u{80}\u{a0}\u{ad}\u{200b}\u{2028}\u{e000}\u{fffe}\u{10ffff}";
    assert!(!others.chars().any(is_print));
}

#[test]
fn durations_are_read_as_go_reads_them() {
    let mut lines = 0;
    for line in include_str!("durations.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        let parsed = duration::parse(text).map_err(|error| error.to_string());
        let wanted = line["nanoseconds"].as_i64().ok_or_else(|| line["error"].as_str().unwrap().to_owned());
        assert_eq!(parsed, wanted, "{text:?}");
        lines += 1;
    }
    assert!(lines > 600, "{lines} lines");
}

#[test]
fn base64_is_decoded_as_go_decodes_it() {
    let mut lines = 0;
    for line in include_str!("base64.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        let encodings =
            [("std", &base64::STANDARD), ("url", &base64::URL_SAFE), ("raw_url", &base64::URL_SAFE_NO_PAD)];
        for (name, encoding) in encodings {
            let hexadecimal =
                |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let decoded = encoding.decode(text).map(hexadecimal).map_err(|error| error.to_string());
            let member = |name: &str| line[name].as_str().map(str::to_owned);
            let wanted = member(name).ok_or_else(|| member(&format!("{name}_error")).unwrap());
            assert_eq!(decoded, wanted, "{text:?}, {name}");
        }
        lines += 1;
    }
    assert!(lines > 600, "{lines} lines");
}

#[test]
fn patterns_mean_what_they_mean_to_go() {
    let mut lines =
        include_str!("regexps.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let texts = lines.next().unwrap();
    let texts: Vec<&str> = texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let mut count = 0;
    for line in lines {
        let pattern = line["pattern"].as_str().unwrap();
        let matches = regexp::translate(pattern).map_err(|error| error.to_string()).map(|translated| {
            let regex = regex::Regex::new(&translated).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            (0_u64..)
                .zip(&texts)
                .filter(|(_, text)| regex.is_match(text))
                .map(|(index, _)| index)
                .collect::<Vec<_>>()
        });
        let wanted = line["error"].as_str().map_or_else(
            || Ok(line["matches"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()),
            |error| Err(error.to_owned()),
        );
        assert_eq!(matches, wanted, "{pattern:?}");
        count += 1;
    }
    assert!(count > 1600, "{count} patterns");
}

#[test]
fn mail_addresses_are_read_as_go_reads_them() {
    let mut lines = 0;
    for line in include_str!("mails.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        assert_eq!(mail::is_address(text), line["error"].is_null(), "{text:?}: {}", line["error"]);
        lines += 1;
    }
    assert!(lines > 800, "{lines} lines");
}

#[test]
fn urls_are_read_as_go_reads_them() {
    let mut lines = 0;
    for line in include_str!("urls.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        let member = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let request = url::parse_request_uri(text).err().map(|error| error.to_string());
        assert_eq!(request.unwrap_or_default(), member("request"), "{text:?}");
        match url::parse(text) {
            Err(error) => assert_eq!(error.to_string(), member("error"), "{text:?}"),
            Ok(url) => {
                let wanted = ["error", "scheme", "host", "hostname", "port", "path", "query"].map(member);
                let (name, port, path) =
                    (url.hostname().to_owned(), url.port().to_owned(), url.escaped_path());
                let pairs = url.query_pairs().into_iter().map(|(key, value)| format!("{key}={value}"));
                let mut pairs: Vec<String> = pairs.collect();
                pairs.sort();
                let parts = [String::new(), url.scheme, url.host, name, port, path, url.query];
                assert_eq!(parts, wanted, "{text:?}");
                let values = line["values"].as_array().into_iter().flatten();
                assert_eq!(
                    pairs,
                    values.map(|value| value.as_str().unwrap()).collect::<Vec<_>>(),
                    "{text:?}"
                );
            }
        }
        lines += 1;
    }
    assert!(lines > 1200, "{lines} lines");
}

#[test]
fn addresses_and_prefixes_are_read_as_go_reads_them() {
    let mut lines = 0;
    for line in include_str!("addresses.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        let member = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        match netip::parse_addr(text) {
            Ok(netip::Addr { ip, zone }) => {
                let zone = if zone.is_empty() { zone } else { format!("%{zone}") };
                assert_eq!(format!("{ip}{zone}"), member("addr"), "{text:?}");
            }
            Err(error) => assert_eq!(error.to_string(), member("error"), "{text:?}"),
        }
        match netip::parse_prefix(text) {
            Ok(netip::Prefix { ip, bits }) => {
                assert_eq!(format!("{ip}/{bits}"), member("prefix"), "{text:?}")
            }
            Err(error) => assert_eq!(error.to_string(), member("prefix_error"), "{text:?}"),
        }
        lines += 1;
    }
    assert!(lines > 1000, "{lines} lines");
}
