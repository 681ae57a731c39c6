//! Profiles: the loader's errors with line and column, versions and ranges, and what a profile says of a feature.

use std::fs;

use settled_netpol::feature::{Count, Feature};
use settled_netpol::profile::{
    Answer, CarriedOut, Circumstances, Direction, Inside, ProfileError, Profiles, Provider, ProviderError,
    ProviderRef, Support, UnknownSupport, Version, VersionRange,
};

const SAMPLE: &str = include_str!("data/sample.yaml");

fn sample() -> Profiles {
    let mut profiles = Profiles::default();
    let errors = profiles.add("sample.yaml", SAMPLE);
    assert!(errors.is_empty(), "{errors:?}");
    profiles
}

fn errors(text: &str) -> Vec<String> {
    Profiles::default().add("bad.yaml", text).iter().map(ToString::to_string).collect()
}

fn provider<'p>(profiles: &'p Profiles, text: &str) -> Provider<'p> {
    profiles.provider(&text.parse().unwrap()).unwrap()
}

fn support(provider: &Provider<'_>, feature: Feature) -> Result<Support, UnknownSupport> {
    support_in(provider, feature, Circumstances::default())
}

fn support_in(
    provider: &Provider<'_>,
    feature: Feature,
    circumstances: Circumstances,
) -> Result<Support, UnknownSupport> {
    match provider.support(feature, circumstances) {
        Answer::Row(row) => Ok(row.support),
        Answer::UnlistedSupported => Ok(Support::Supported),
        Answer::Unknown(why) => Err(why),
    }
}

#[test]
fn the_version_decides() {
    let profiles = sample();
    let old = provider(&profiles, "sample@1.15.4");
    let Answer::Row(row) = old.support(Feature::PortEnd, Circumstances::default()) else { panic!("no row") };
    assert_eq!((row.support, row.carried_out), (Support::Narrowed, Some(CarriedOut::FirstPort)));
    assert_eq!(row.line, 15);
    let since = old.supported_since(Feature::PortEnd, Circumstances::default());
    assert_eq!(since.map(ToString::to_string).as_deref(), Some("1.16"));
    for version in ["1.16", "v1.16.0", "1.18.9", "1.16.2-eksbuild.1", "1.17.3-gke.36"] {
        let new = provider(&profiles, &format!("sample-cni@{version}"));
        assert_eq!(support(&new, Feature::PortEnd), Ok(Support::Supported), "{version}");
    }
    // What is not listed is supported, as the file says.
    assert_eq!(support(&old, Feature::PortNamed), Ok(Support::Supported));
}

/// The answer is Unknown, and never supported.
#[test]
fn an_unknown_version_is_an_answer() {
    let profiles = sample();
    let unknown = [
        ("sample", "the version of Sample is not given"),
        ("sample@latest", "`latest` is no version of Sample"),
        ("sample@1.19", "Sample 1.19 is not known; the profile was checked from 1.0 through 1.18"),
        ("sample@2", "Sample 2 is not known; the profile was checked from 1.0 through 1.18"),
        ("sample@0.9.9", "Sample 0.9.9 is not known; the profile was checked from 1.0 through 1.18"),
    ];
    for (reference, why) in unknown {
        let provider = provider(&profiles, reference);
        for feature in Feature::ALL {
            let Err(error) = support(&provider, *feature) else { panic!("{reference} {feature}") };
            assert_eq!(error.to_string(), why);
        }
        let limits = provider.limits(Count::PortsPerList, Circumstances::default());
        assert!(matches!(limits.as_slice(), [Err(_)]), "{reference}");
    }
}

#[test]
fn a_version_that_is_not_precise_enough_is_unknown() {
    let profiles = sample();
    let egress = Circumstances { direction: Some(Direction::Egress), family: None };
    let error = support_in(&provider(&profiles, "sample@1.5"), Feature::IpBlockV6, egress).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Sample 1.5 is not precise enough: ipblock.v6 depends on the patch version (<1.5.3, >=1.5.3)"
    );
    // A candidate of the release from which on a feature is supported may have it or not.
    let error = support(&provider(&profiles, "sample@1.16.0-rc.1"), Feature::PortEnd).unwrap_err();
    assert!(matches!(error, UnknownSupport::Imprecise { .. }), "{error}");
    assert_eq!(
        support_in(&provider(&profiles, "sample@1.5.2"), Feature::IpBlockV6, egress),
        Ok(Support::Dropped)
    );
    assert_eq!(
        support_in(&provider(&profiles, "sample@1.5.3"), Feature::IpBlockV6, egress),
        Ok(Support::Supported)
    );
}

#[test]
fn variants_and_options_decide() {
    let profiles = sample();
    assert_eq!(support(&provider(&profiles, "sample@1.16"), Feature::ProtoSctp), Ok(Support::Dropped));
    assert_eq!(
        support(&provider(&profiles, "sample@1.16,enable-sctp"), Feature::ProtoSctp),
        Ok(Support::Supported)
    );
    assert_eq!(
        support(&provider(&profiles, "sample@1.16/windows"), Feature::IpBlockExcept),
        Ok(Support::Dropped)
    );
    assert_eq!(
        support(&provider(&profiles, "sample@1.16/linux"), Feature::IpBlockExcept),
        Ok(Support::Supported)
    );
    let error = support(&provider(&profiles, "sample@1.16"), Feature::IpBlockExcept).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ipblock.except depends on the variant of Sample, which is not given; known variants: linux, windows"
    );
}

#[test]
fn unknown_providers_variants_and_options_are_errors() {
    let profiles = sample();
    let error = |text: &str| match text.parse::<ProviderRef>() {
        Ok(reference) => profiles.provider(&reference).unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error("weave@1").to_string(), "no profile for provider `weave`; known providers: sample");
    assert!(matches!(error("sample@1/bsd"), ProviderError::UnknownVariant { .. }));
    assert!(matches!(error("sample@1,fast"), ProviderError::UnknownOption { .. }));
    for text in ["", "@1", "sample@", "sample@1/", "sample@1,"] {
        assert!(matches!(error(text), ProviderError::Malformed { .. }), "{text}");
    }
    let text = "sample@1.16/linux,enable-sctp,legacy";
    assert_eq!(text.parse::<ProviderRef>().unwrap().to_string(), text);
}

#[test]
fn ranges_contain_versions() {
    let cases = [
        ("*", "0.0.1", Inside::Yes),
        ("<1.16", "1.15.99", Inside::Yes),
        ("<1.16", "1.16.0", Inside::No),
        ("<1.16", "1", Inside::Maybe),
        ("<=1.16", "1.16.9", Inside::Yes),
        (">1.16", "1.16.9", Inside::No),
        (">1.16", "1.17", Inside::Yes),
        (">=1.5 <1.9", "1.9", Inside::No),
        (">=1.5 <1.9", "v1.5.0-gke.3", Inside::Yes),
        ("<1.3 || >=2.0", "1.5", Inside::No),
        ("<1.3 || >=2.0", "2.1", Inside::Yes),
        ("1.16", "1.16.3", Inside::Yes),
        ("=1.16.3", "1.16", Inside::Maybe),
        ("<1.16", "1.16.0-rc.2", Inside::Maybe),
        ("<1.16", "1.15.0-rc.2", Inside::Yes),
        (">=1.16", "1.16.1-beta.2", Inside::Yes),
        (">=1.4.45", "1.4.45.3", Inside::Yes),
        (">=20240813", "20240813-c6f155d6", Inside::Yes),
    ];
    for (range, version, inside) in cases {
        let parsed: VersionRange = range.parse().unwrap();
        assert_eq!(parsed.contains(&version.parse().unwrap()), inside, "{version} in {range}");
    }
    for text in ["", "  ", "<", "1.x", ">=1.16 || ", "~1.2", "1.2.3.4.5", "99999999999"] {
        assert!(text.parse::<VersionRange>().is_err(), "{text}");
    }
    for text in ["", "v", "latest", "1..2", "sha256", "1.2.", "-1", "1.16 "] {
        assert!(text.parse::<Version>().is_err(), "{text}");
    }
}

#[test]
fn errors_have_line_and_column() {
    assert_eq!(errors("provider: ["), ["bad.yaml:1:12: did not find expected node content"]);
    assert_eq!(errors("- a"), ["bad.yaml:1:1: expected a map, found a list"]);
    assert_eq!(errors(""), ["bad.yaml:1:1: expected a map, found nothing"]);
    let change = |from: &str, to: &str| {
        assert!(SAMPLE.contains(from), "{from}");
        errors(&SAMPLE.replacen(from, to, 1))
    };
    assert_eq!(
        change("title: Sample", "titel: Sample"),
        ["bad.yaml:1:1: `title` is missing", "bad.yaml:2:1: unknown key `titel`; did you mean `title`?",]
    );
    // Versions that YAML would take for numbers: 1.10 would be 1.1.
    assert_eq!(
        change("through: \"1.18\"", "through: 1.18"),
        ["bad.yaml:5:34: expected a text, found a number; put it in quotes",]
    );
    assert_eq!(
        change("  port.end:", "  port.ends:"),
        ["bad.yaml:14:3: unknown feature `port.ends`; did you mean `port.end`?"]
    );
    assert_eq!(
        change("support: narrowed", "support: narrow"),
        ["bad.yaml:16:14: unknown word `narrow`; known are supported, widened, narrowed, dropped, undefined",]
    );
    assert_eq!(
        change("versions: \"<1.16\"", "versions: \"<1.x\""),
        ["bad.yaml:15:15: `<1.x` is no range of versions; expected `*`, `<1.16`, or `>=1.5 <1.9`",]
    );
    assert_eq!(
        change("    carried-out: first-port\n", ""),
        ["bad.yaml:15:5: `carried-out` is missing: what is done instead, as it is narrowed",]
    );
    assert_eq!(
        change("    source: https://example.com/1\n", ""),
        ["bad.yaml:15:5: `source` is missing: the link to where this was checked",]
    );
    assert_eq!(
        change("{option: enable-sctp}", "{option: enable-stcp}"),
        ["bad.yaml:24:27: `enable-stcp` is not one of the file's `options`",]
    );
    assert_eq!(
        change("when: egress", "when: outward"),
        [
            "bad.yaml:30:32: unknown word `outward`; known are ingress, egress, ipv4, ipv6, and a map with direction, family, variant, option",
        ]
    );
    assert_eq!(change("max: 40", "max: -1"), ["bad.yaml:34:29: expected a count, found a number"]);
    assert_eq!(
        change("provider: sample", "provider: Sample CNI"),
        ["bad.yaml:1:11: `Sample CNI` is no name of a provider: lowercase letters, digits and `-` only",]
    );
}

#[test]
fn a_broken_file_loses_nothing_else() {
    let directory = std::env::temp_dir().join(format!("settled-netpol-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    write("a.yaml", "provider: a\n  b: c\n");
    write("b.yaml", SAMPLE);
    write(
        "c.yml",
        &SAMPLE
            .replace("provider: sample", "provider: other")
            .replace("aliases: [sample-cni]", "aliases: []"),
    );
    write("d.yaml", SAMPLE);
    write("e.yaml", &"#".repeat((1 << 20) + 1));
    write("notes.txt", "nothing");
    let mut profiles = Profiles::default();
    let errors = profiles.add_directory(&directory);
    fs::remove_dir_all(&directory).unwrap();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let at = |name: &str| directory.join(name).display().to_string();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(texts[0], format!("{}:2:4: mapping values are not allowed in this context", at("a.yaml")));
    assert_eq!(
        texts[1],
        format!("{}:1:1: a second profile for `sample`; the first is {}", at("d.yaml"), at("b.yaml"))
    );
    assert_eq!(texts[2], format!("{}: the file is larger than 1 MiB", at("e.yaml")));
    let names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    assert_eq!(names, ["other", "sample"]);
    let missing = profiles.add_directory(&directory);
    assert!(matches!(missing.as_slice(), [ProfileError::Read { .. }]));
}

#[test]
fn a_users_profile_takes_the_place_of_another_but_not_its_alias() {
    let mut profiles = sample();
    assert!(profiles.add("mine.yaml", &SAMPLE.replace("title: Sample", "title: Mine")).is_empty());
    assert_eq!(profiles.get("sample-cni").map(|profile| profile.title.as_str()), Some("Mine"));
    let errors = profiles.add("other.yaml", &SAMPLE.replace("provider: sample", "provider: other"));
    assert_eq!(
        errors[0].to_string(),
        "other.yaml:1:1: `sample-cni` is a name of the provider `sample` already"
    );
    assert!(profiles.get("other").is_none());
}

#[test]
fn the_embedded_profiles_are_valid_and_complete() {
    let (profiles, errors) = Profiles::embedded();
    assert!(errors.is_empty(), "{errors:?}");
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles");
    let Ok(entries) = fs::read_dir(directory) else { return };
    let files =
        entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|is| is == "yaml"));
    assert_eq!(
        profiles.iter().count(),
        files.count(),
        "a file of profiles/ is not in src/profile/embedded.rs"
    );
}
