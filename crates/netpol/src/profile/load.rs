//! Loader of one profile file: every error with its line and column.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::error::ProfileError;
use super::format::{
    CarriedOut, Checked, CheckedVersions, Detect, DetectOption, Direction, Limit, Profile, Row, Scope,
    SettingOption, Support, Unlisted, VersionFrom, When,
};
use super::tree::{self, Data, Node, Position};
use super::version::{Version, VersionRange};
use crate::feature::{Count, Feature, nearest};
use crate::model::Family;

/// Maximum size of a file.
pub(super) const MAX_FILE_BYTES: usize = 1 << 20;
/// Maximum number of reported errors of a file.
const MAX_ERRORS: usize = 100;

/// Reads a profile.
///
/// # Errors
/// Everything that is wrong with the file, in its order.
pub(super) fn load(file: &str, text: &str) -> Result<Profile, Vec<ProfileError>> {
    let mut loader = Loader { file, errors: Vec::new(), variants: Vec::new(), options: BTreeMap::new() };
    let profile = match tree::parse(text) {
        Ok(node) => loader.profile(&node),
        Err(error) => {
            loader.error(error.position, error.message);
            None
        }
    };
    let mut errors = loader.errors;
    match profile {
        Some(profile) if errors.is_empty() => Ok(profile),
        _ => {
            errors.sort_by_key(ProfileError::position);
            errors.truncate(MAX_ERRORS);
            Err(errors)
        }
    }
}

struct Loader<'f> {
    file: &'f str,
    errors: Vec<ProfileError>,
    variants: Vec<String>,
    options: BTreeMap<String, SettingOption>,
}

/// Members of a map by name.
struct Fields<'n> {
    members: &'n [(String, Position, Node)],
    position: Position,
}

impl<'n> Fields<'n> {
    fn get(&self, name: &str) -> Option<&'n Node> {
        let found = self.members.iter().find(|(known, ..)| known == name);
        found.map(|(.., node)| node).filter(|node| !matches!(node.data, Data::Null))
    }
}

/// How a row or limit is carried out, whatever it is about.
struct Effect {
    carried_out: Option<CarriedOut>,
    scope: Option<Scope>,
    when: When,
    note: Option<String>,
    source: Option<String>,
    checked: Option<Checked>,
}

impl Loader<'_> {
    fn error(&mut self, position: Position, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(ProfileError::Invalid {
                file: self.file.to_owned(),
                line: position.line,
                column: position.column,
                message: message.into(),
            });
        }
    }

    fn expected(&mut self, node: &Node, expected: &str) {
        let hint = if matches!(node.data, Data::Number(_) | Data::Bool) && expected == "a text" {
            "; put it in quotes"
        } else {
            ""
        };
        self.error(node.position, format!("expected {expected}, found {}{hint}", node.type_name()));
    }

    /// The members of a map, which has no others than these.
    fn fields<'n>(&mut self, node: &'n Node, known: &[&'static str]) -> Option<Fields<'n>> {
        let Data::Map(members) = &node.data else {
            self.expected(node, "a map");
            return None;
        };
        for (name, position, _) in members {
            if !known.contains(&name.as_str()) {
                let hint = nearest(name, known.iter().copied()).map_or_else(
                    || format!("; known are {}", known.join(", ")),
                    |near| format!("; did you mean `{near}`?"),
                );
                self.error(*position, format!("unknown key `{name}`{hint}"));
            }
        }
        Some(Fields { members, position: node.position })
    }

    fn text(&mut self, node: &Node) -> Option<String> {
        if let Data::Text(text) = &node.data {
            return Some(text.clone());
        }
        self.expected(node, "a text");
        None
    }

    fn optional_text(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let node = fields.get(name)?;
        self.text(node)
    }

    fn required<'n>(&mut self, fields: &Fields<'n>, name: &str) -> Option<&'n Node> {
        let node = fields.get(name);
        if node.is_none() {
            self.error(fields.position, format!("`{name}` is missing"));
        }
        node
    }

    fn required_text(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let node = self.required(fields, name)?;
        self.text(node)
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&mut self, node: &Node) -> Option<T> {
        let text = self.text(node)?;
        text.parse().map_err(|error: T::Err| self.error(node.position, error.to_string())).ok()
    }

    fn word<T: Copy>(&mut self, node: &Node, all: &[T], as_str: fn(T) -> &'static str) -> Option<T> {
        let text = self.text(node)?;
        let found = all.iter().find(|word| as_str(**word) == text);
        if found.is_none() {
            let known: Vec<&str> = all.iter().map(|word| as_str(*word)).collect();
            self.error(node.position, format!("unknown word `{text}`; known are {}", known.join(", ")));
        }
        found.copied()
    }

    fn optional_word<T: Copy>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        all: &[T],
        as_str: fn(T) -> &'static str,
    ) -> Option<T> {
        let node = fields.get(name)?;
        self.word(node, all, as_str)
    }

    fn list<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        if let Data::List(nodes) = &node.data {
            return nodes;
        }
        self.expected(node, "a list");
        &[]
    }

    /// Texts of a list; one text stands for a list of one.
    fn texts(&mut self, fields: &Fields<'_>, name: &str) -> Vec<String> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        if let Data::Text(text) = &node.data {
            return vec![text.clone()];
        }
        self.list(node).iter().filter_map(|node| self.text(node)).collect()
    }

    fn profile(&mut self, node: &Node) -> Option<Profile> {
        const KNOWN: [&str; 14] = [
            "provider",
            "title",
            "aliases",
            "domain",
            "versions",
            "variants",
            "options",
            "requires",
            "own-kinds",
            "notes",
            "detect",
            "features",
            "unlisted",
            "limits",
        ];
        let fields = self.fields(node, &KNOWN)?;
        self.variants = self.texts(&fields, "variants");
        self.options = self.options(&fields);
        let name = self.name(&fields);
        let title = self.required_text(&fields, "title");
        let domain = self.domain(&fields);
        let versions = self.required(&fields, "versions").and_then(|node| self.checked_versions(node));
        let unlisted = match self.required(&fields, "unlisted") {
            Some(node) => self.word(node, Unlisted::ALL, Unlisted::as_str),
            None => None,
        };
        let features = match self.required(&fields, "features") {
            Some(node) => self.features(node),
            None => BTreeMap::new(),
        };
        let limits = fields.get("limits").map(|node| self.list(node)).unwrap_or_default();
        let limits: Vec<Limit> = limits.iter().filter_map(|node| self.limit(node)).collect();
        let detect = fields.get("detect").map(|node| self.list(node)).unwrap_or_default();
        let detect: Vec<Detect> = detect.iter().filter_map(|node| self.detect(node)).collect();
        Some(Profile {
            name: name?,
            title: title?,
            aliases: self.texts(&fields, "aliases"),
            domain: domain?,
            versions: versions?,
            variants: self.variants.clone(),
            options: self.options.clone(),
            requires: self.optional_text(&fields, "requires"),
            own_kinds: self.texts(&fields, "own-kinds"),
            notes: self.texts(&fields, "notes"),
            detect,
            features,
            unlisted: unlisted?,
            limits,
            file: self.file.to_owned(),
        })
    }

    fn name(&mut self, fields: &Fields<'_>) -> Option<String> {
        let node = self.required(fields, "provider")?;
        let name = self.text(node)?;
        if !settled_apimachinery::validation::is_dns1123_label(&name).is_empty() {
            let message =
                format!("`{name}` is no name of a provider: lowercase letters, digits and `-` only");
            self.error(node.position, message);
            return None;
        }
        Some(name)
    }

    fn domain(&mut self, fields: &Fields<'_>) -> Option<String> {
        let node = self.required(fields, "domain")?;
        let domain = self.text(node)?;
        // A prefix of a condition's type.
        if let Some(why) = settled_apimachinery::validation::is_dns1123_subdomain(&domain).into_iter().next()
        {
            self.error(node.position, why);
            return None;
        }
        Some(domain)
    }

    /// Options by name: a sentence, or a map with how they are found.
    fn options(&mut self, fields: &Fields<'_>) -> BTreeMap<String, SettingOption> {
        let Some(node) = fields.get("options") else { return BTreeMap::new() };
        let Data::Map(members) = &node.data else {
            self.expected(node, "a map of names to what the option is");
            return BTreeMap::new();
        };
        members.iter().filter_map(|(name, _, node)| Some((name.clone(), self.option(node)?))).collect()
    }

    fn option(&mut self, node: &Node) -> Option<SettingOption> {
        if let Data::Text(title) = &node.data {
            return Some(SettingOption { title: title.clone(), detect: Vec::new() });
        }
        let fields = self.fields(node, &["title", "detect"])?;
        let title = self.required_text(&fields, "title");
        let detect = fields.get("detect").map(|node| self.list(node)).unwrap_or_default();
        let detect = detect.iter().filter_map(|node| self.detect_option(node)).collect();
        Some(SettingOption { title: title?, detect })
    }

    fn detect_option(&mut self, node: &Node) -> Option<DetectOption> {
        let fields = self.fields(node, &["config-map", "argument"])?;
        match (fields.get("config-map"), fields.get("argument")) {
            (Some(node), None) => {
                let fields = self.fields(node, &["namespace", "name", "key", "value"])?;
                Some(DetectOption::ConfigMap {
                    namespace: self.required_text(&fields, "namespace")?,
                    name: self.required_text(&fields, "name")?,
                    key: self.required_text(&fields, "key")?,
                    value: self.required_text(&fields, "value")?,
                })
            }
            (None, Some(node)) => {
                let fields = self.fields(node, &["container", "value"])?;
                let container = self.optional_text(&fields, "container");
                Some(DetectOption::Argument { container, value: self.required_text(&fields, "value")? })
            }
            _ => {
                self.error(node.position, "expected either `config-map` or `argument`");
                None
            }
        }
    }

    fn checked_versions(&mut self, node: &Node) -> Option<CheckedVersions> {
        let fields = self.fields(node, &["from", "through"])?;
        let from = self.required(&fields, "from").and_then(|node| self.parsed::<Version>(node));
        let through = self.required(&fields, "through").and_then(|node| self.parsed::<Version>(node));
        let versions = CheckedVersions { from: from?, through: through? };
        if versions.from.cmp_as_bounds(&versions.through).is_gt() {
            self.error(node.position, "`from` is a later version than `through`");
        }
        Some(versions)
    }

    fn features(&mut self, node: &Node) -> BTreeMap<Feature, Vec<Row>> {
        let Data::Map(members) = &node.data else {
            self.expected(node, "a map of features to their rows");
            return BTreeMap::new();
        };
        let mut features = BTreeMap::new();
        for (name, position, node) in members {
            let feature =
                name.parse::<Feature>().map_err(|error| self.error(*position, error.to_string())).ok();
            let rows: Vec<Row> = self.list(node).iter().filter_map(|node| self.row(node)).collect();
            if let Data::List(nodes) = &node.data
                && nodes.is_empty()
            {
                self.error(node.position, format!("`{name}` has no rows"));
            }
            if let Some(feature) = feature {
                features.insert(feature, rows);
            }
        }
        features
    }

    fn row(&mut self, node: &Node) -> Option<Row> {
        const KNOWN: [&str; 8] =
            ["versions", "support", "carried-out", "scope", "when", "note", "source", "checked"];
        let fields = self.fields(node, &KNOWN)?;
        let versions = self.required(&fields, "versions").and_then(|node| self.parsed::<VersionRange>(node));
        let support = match self.required(&fields, "support") {
            Some(node) => self.word(node, Support::ALL, Support::as_str),
            None => None,
        };
        let effect = self.effect(&fields);
        let support = support?;
        self.check_effect(support, &effect, node.position);
        Some(Row {
            versions: versions?,
            support,
            carried_out: effect.carried_out,
            scope: effect.scope,
            when: effect.when,
            note: effect.note,
            source: effect.source,
            checked: effect.checked?,
            line: node.position.line,
        })
    }

    fn limit(&mut self, node: &Node) -> Option<Limit> {
        const KNOWN: [&str; 10] =
            ["of", "max", "versions", "beyond", "carried-out", "scope", "when", "note", "source", "checked"];
        let fields = self.fields(node, &KNOWN)?;
        let of = match self.required(&fields, "of") {
            Some(node) => self.word(node, Count::ALL, Count::as_str),
            None => None,
        };
        let max = match self.required(&fields, "max") {
            Some(Node { data: Data::Number(number), .. }) if number.parse::<usize>().is_ok() => {
                number.parse().ok()
            }
            Some(node) => {
                self.expected(node, "a count");
                None
            }
            None => None,
        };
        let versions = self.required(&fields, "versions").and_then(|node| self.parsed::<VersionRange>(node));
        let beyond = match self.required(&fields, "beyond") {
            Some(node) => self.word(node, Support::ALL, Support::as_str),
            None => None,
        };
        let effect = self.effect(&fields);
        let beyond = beyond?;
        if beyond == Support::Supported {
            self.error(node.position, "a limit beyond which everything is supported is none");
        }
        self.check_effect(beyond, &effect, node.position);
        Some(Limit {
            of: of?,
            max: max?,
            versions: versions?,
            when: effect.when,
            beyond,
            carried_out: effect.carried_out,
            scope: effect.scope,
            note: effect.note,
            source: effect.source,
            checked: effect.checked?,
            line: node.position.line,
        })
    }

    fn effect(&mut self, fields: &Fields<'_>) -> Effect {
        let checked = match self.required(fields, "checked") {
            Some(node) => self.word(node, Checked::ALL, Checked::as_str),
            None => None,
        };
        let source = fields.get("source").and_then(|node| {
            let source = self.text(node)?;
            if !source.starts_with("https://") && !source.starts_with("http://") {
                self.error(node.position, "a source is a link: https://…");
            }
            Some(source)
        });
        if source.is_none() && matches!(checked, Some(Checked::Source | Checked::Docs | Checked::Issue)) {
            self.error(fields.position, "`source` is missing: the link to where this was checked");
        }
        Effect {
            carried_out: self.optional_word(fields, "carried-out", CarriedOut::ALL, CarriedOut::as_str),
            scope: self.optional_word(fields, "scope", Scope::ALL, Scope::as_str),
            when: fields.get("when").map(|node| self.when(node)).unwrap_or_default(),
            note: self.optional_text(fields, "note"),
            source,
            checked,
        }
    }

    /// That a row says what is done instead, and only where something is.
    fn check_effect(&mut self, support: Support, effect: &Effect, position: Position) {
        let (has_instead, has_scope) = (effect.carried_out.is_some(), effect.scope.is_some());
        match support {
            Support::Supported if has_instead || has_scope => {
                self.error(position, "what is supported has neither `carried-out` nor `scope`");
            }
            Support::Widened | Support::Narrowed if !has_instead => {
                self.error(
                    position,
                    format!("`carried-out` is missing: what is done instead, as it is {support}"),
                );
            }
            Support::Dropped if !has_instead && !has_scope => {
                self.error(position, "`scope` is missing: what is left out");
            }
            _ => {}
        }
    }

    /// Circumstances: a word (`ingress`, `ipv6`), or a map.
    fn when(&mut self, node: &Node) -> When {
        let mut when = When::default();
        if let Data::Text(word) = &node.data {
            when.direction = Direction::ALL.iter().copied().find(|known| known.as_str() == word);
            when.family = Family::ALL.iter().copied().find(|known| known.as_str() == word);
            if when == When::default() {
                let message = format!(
                    "unknown word `{word}`; known are ingress, egress, ipv4, ipv6, and a map with direction, family, variant, \
                     option"
                );
                self.error(node.position, message);
            }
            return when;
        }
        let Some(fields) = self.fields(node, &["direction", "family", "variant", "option"]) else {
            return when;
        };
        when.direction = self.optional_word(&fields, "direction", Direction::ALL, Direction::as_str);
        when.family = self.optional_word(&fields, "family", &Family::ALL, Family::as_str);
        when.variants = self.texts(&fields, "variant");
        when.option = self.optional_text(&fields, "option");
        if let Some(unknown) = when.variants.iter().find(|variant| !self.variants.contains(variant)).cloned()
        {
            self.error(node.position, format!("`{unknown}` is not one of the file's `variants`"));
        }
        if let Some(unknown) = when.option.clone().filter(|option| !self.options.contains_key(option)) {
            self.error(node.position, format!("`{unknown}` is not one of the file's `options`"));
        }
        when
    }

    fn detect(&mut self, node: &Node) -> Option<Detect> {
        const KNOWN: [&str; 7] = ["workload", "namespaces", "names", "image", "version", "variant", "crd"];
        let fields = self.fields(node, &KNOWN)?;
        let (workload, crd) = (fields.get("workload"), fields.get("crd"));
        match (workload, crd) {
            (None, Some(crd)) => Some(Detect::Crd { name: self.text(crd)? }),
            (Some(kind), None) => {
                let kind = self.text(kind)?;
                let version = match fields.get("version") {
                    Some(node) => self.version_from(node)?,
                    None => VersionFrom::Tag,
                };
                let variant = self.optional_text(&fields, "variant");
                if let Some(unknown) = variant.clone().filter(|variant| !self.variants.contains(variant)) {
                    self.error(node.position, format!("`{unknown}` is not one of the file's `variants`"));
                }
                let names = self.texts(&fields, "names");
                let image = self.optional_text(&fields, "image");
                if names.is_empty() && image.is_none() {
                    self.error(
                        node.position,
                        "a workload is found by `names` or by `image`: both are missing",
                    );
                }
                let namespaces = self.texts(&fields, "namespaces");
                Some(Detect::Workload { kind, namespaces, names, image, version, variant })
            }
            _ => {
                self.error(node.position, "expected either `workload` or `crd`");
                None
            }
        }
    }

    /// `tag`, `kubelet`, `none`, `{label: KEY}`, `{annotation: KEY}` or `{object: …}`.
    fn version_from(&mut self, node: &Node) -> Option<VersionFrom> {
        if let Data::Text(word) = &node.data {
            match word.as_str() {
                "tag" => return Some(VersionFrom::Tag),
                "kubelet" => return Some(VersionFrom::Kubelet),
                "none" => return Some(VersionFrom::None),
                _ => {}
            }
        } else if let Data::Map(_) = node.data {
            let fields = self.fields(node, &["label", "annotation", "object"])?;
            if let Some(label) = self.optional_text(&fields, "label") {
                return Some(VersionFrom::Label(label));
            }
            if let Some(annotation) = self.optional_text(&fields, "annotation") {
                return Some(VersionFrom::Annotation(annotation));
            }
            if let Some(object) = fields.get("object") {
                let fields = self.fields(object, &["api-version", "kind", "name", "field"])?;
                return Some(VersionFrom::Object {
                    api_version: self.required_text(&fields, "api-version")?,
                    kind: self.required_text(&fields, "kind")?,
                    name: self.required_text(&fields, "name")?,
                    field: self.required_text(&fields, "field")?,
                });
            }
        }
        self.error(
            node.position,
            "expected tag, kubelet, none, {label: KEY}, {annotation: KEY} or {object: …}",
        );
        None
    }
}
