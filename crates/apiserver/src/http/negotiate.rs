//! Content negotiation: the headers `Accept` and `Content-Type`.

use http::header::{self, HeaderMap};
use settled_go as go;

use crate::ApiError;
use crate::kinds::partial::MetaVersion;
use crate::kinds::table::IncludeObject;
use crate::request::Query;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media types of objects, as upstream lists them; it also answers in protobuf. Watches know no YAML.
const OBJECTS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// What custom resources can be sent in. Upstream lists protobuf here too, and then breaks the connection.
const CUSTOM: &str = "application/json, application/yaml";
/// More clauses than these are ignored: sorting them takes quadratic time.
const MAX_CLAUSES: usize = 256;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// What an answer is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    /// The object or the list, as it is.
    Object,
    /// `as=Table`.
    Table(MetaVersion),
    /// `as=PartialObjectMetadata`.
    Partial(MetaVersion),
    /// `as=PartialObjectMetadataList`.
    PartialList(MetaVersion),
    /// `as=APIGroupDiscoveryList`.
    Discovery,
}

/// Clients that people read the answers of (`isPrettyPrint` upstream).
const HUMAN_AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Whether JSON is indented: as the parameter `pretty` says, else by the user agent (`isPrettyPrint` upstream).
pub(crate) fn is_pretty(query: &Query, headers: &HeaderMap) -> bool {
    let parameter = query.get("pretty");
    if !parameter.is_empty() {
        // As Go's `strconv.ParseBool`.
        return matches!(parameter, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    HUMAN_AGENTS.iter().any(|prefix| agent.starts_with(prefix))
}

/// What is being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// An object or a list of a resource.
    Resource,
    /// A watch of a resource.
    Watch,
    /// `/api` or `/apis`.
    Discovery,
    /// Anything else: nothing but the object itself.
    Plain,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// How the body is written.
    pub(crate) format: Format,
    /// What is in it.
    pub(crate) representation: Representation,
    /// Whether JSON is indented: `pretty=1` in the header, or [`is_pretty`].
    pub(crate) pretty: bool,
}

impl Negotiated {
    const DEFAULT: Self =
        Self { format: Format::Json, representation: Representation::Object, pretty: false };

    /// The `Content-Type` of the answer.
    pub(crate) fn content_type(self) -> &'static str {
        match (self.representation, self.format) {
            (Representation::Discovery, Format::Json) => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (Representation::Discovery, Format::Yaml) => {
                "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            (_, Format::Json) => "application/json",
            (_, Format::Yaml) => "application/yaml",
        }
    }
}

/// One clause of `Accept`.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Chooses what to answer. No header, or an empty one, means JSON.
///
/// # Errors
/// 406, where nothing that the client takes can be had here.
pub(crate) fn negotiate(accept: Option<&str>, endpoint: Endpoint) -> Result<Negotiated, ApiError> {
    let header = accept.unwrap_or_default();
    if header.is_empty() {
        return Ok(Negotiated::DEFAULT);
    }
    let clauses = parse_accept(header);
    let choose = |endpoint| clauses.iter().find_map(|clause| clause.choose(endpoint));
    if endpoint == Endpoint::Discovery {
        // The newer form is taken wherever it stands; if it is not there, the request is an old one.
        let chosen = choose(Endpoint::Discovery).or_else(|| choose(Endpoint::Plain));
        return chosen.ok_or_else(|| not_acceptable(OBJECTS));
    }
    let chosen = choose(endpoint);
    if endpoint == Endpoint::Watch {
        // As upstream: nothing else is tried where YAML comes first, of which there is no stream.
        return chosen.filter(|chosen| chosen.format == Format::Json).ok_or_else(|| not_acceptable(STREAMS));
    }
    chosen.ok_or_else(|| not_acceptable(OBJECTS))
}

/// Upstream's routes of built-in kinds look at `Accept` first, without its parameters, and know no wildcard but `*/*`. `lists` is
/// whether the route is that of lists and watches.
///
/// # Errors
/// 406, where no clause is one of the route's media types.
pub(crate) fn check_route(accept: Option<&str>, lists: bool) -> Result<(), ApiError> {
    let header = accept.unwrap_or_default();
    let known = |clause: &str| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        media == "*/*" || OBJECTS.split(", ").any(|known| known == media)
    };
    if header.is_empty() || header.split(',').any(known) {
        return Ok(());
    }
    let more = if lists { format!(", {STREAMS}") } else { String::new() };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {OBJECTS}{more}");
    let mut error = ApiError::new(406, "NotAcceptable", message);
    error.detailed = true;
    Err(error)
}

fn not_acceptable(supported: &str) -> ApiError {
    let message = format!("only the following media types are accepted: {supported}");
    ApiError::new(406, "NotAcceptable", message)
}

/// The answer to a list that was asked for as one object, or the reverse. `go_type` is what upstream calls its type,
/// `*core.PodList` for instance.
pub(crate) fn wrong_shape(representation: Representation, go_type: &str) -> ApiError {
    let message = match representation {
        Representation::PartialList(_) => {
            format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({go_type})"
            )
        }
        _ => format!("you requested PartialObjectMetadata, but the requested object is a list ({go_type})"),
    };
    ApiError::new(406, "NotAcceptable", message)
}

/// The clauses in the order in which they are tried.
fn parse_accept(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    for part in header.split(',').filter_map(Clause::parse).take(MAX_CLAUSES) {
        // Upstream's order is no order: what comes out hangs on how it is sorted. So this is how Go sorts few.
        let mut place = clauses.len();
        while place > 0 && part.before(&clauses[place - 1]) {
            place -= 1;
        }
        clauses.insert(place, part);
    }
    clauses
}

/// The clauses as lines, for comparisons with upstream's parser.
pub(crate) fn clauses(header: &str) -> String {
    let line = |clause: Clause<'_>| {
        let mut parameters = clause.parameters;
        parameters.sort_unstable();
        let parameters: String = parameters.iter().map(|(name, value)| format!("|{name}={value}")).collect();
        format!("{}|{}|{}{parameters}\n", clause.kind, clause.subtype, clause.quality)
    };
    parse_accept(header).into_iter().map(line).collect()
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let trim = |text: &'a str| text.trim_matches(' ');
        let mut parts = trim(text).split(';');
        let media = parts.next().unwrap_or_default();
        let (kind, subtype) = match media.split_once('/') {
            Some((kind, subtype)) if !subtype.is_empty() => (trim(kind), subtype),
            _ => match trim(media.trim_end_matches('/')) {
                "*" => ("*", "*"),
                _ => return None,
            },
        };
        let subtype = match subtype.split_once('/') {
            Some((_, more)) if !more.is_empty() => return None,
            Some((subtype, _)) => subtype,
            None => subtype,
        };
        let mut clause = Self { kind, subtype: trim(subtype), quality: 1.0, parameters: Vec::new() };
        for parameter in parts {
            let Some((name, value)) = parameter.split_once('=').filter(|(_, value)| !value.is_empty()) else {
                continue;
            };
            let value = match value.split_once('=') {
                Some((_, more)) if !more.is_empty() => continue,
                Some((value, _)) => value,
                None => value,
            };
            match trim(name) {
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                // The last one of a name counts.
                name => {
                    clause.parameters.retain(|(other, _)| *other != name);
                    if clause.parameters.len() < MAX_CLAUSES {
                        clause.parameters.push((name, trim(value)));
                    }
                }
            }
        }
        Some(clause)
    }

    /// Whether this is to be tried before another one.
    fn before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.kind != "*" && other.kind == "*"
            || self.subtype != "*" && other.subtype == "*"
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    /// What this clause gets from an endpoint, if anything.
    fn choose(&self, endpoint: Endpoint) -> Option<Negotiated> {
        let format = match (self.kind, self.subtype) {
            ("application", "json" | "*") | ("*", "*") => Format::Json,
            ("application", "yaml") => Format::Yaml,
            _ => return None,
        };
        let stream = self.parameter("stream").unwrap_or_default();
        if !stream.is_empty() && (stream != "watch" || format == Format::Yaml) {
            return None;
        }
        let version = self.parameter("sv").unwrap_or_default();
        if !version.is_empty()
            && (version != "v1" || !matches!(endpoint, Endpoint::Resource | Endpoint::Watch))
        {
            return None;
        }
        let representation = self.representation(endpoint)?;
        let pretty = self.parameter("pretty") == Some("1");
        Some(Negotiated { format, representation, pretty })
    }

    fn representation(&self, endpoint: Endpoint) -> Option<Representation> {
        let [kind, group, version] = ["as", "g", "v"].map(|name| self.parameter(name));
        if (kind, group, version) == (None, None, None) {
            return (endpoint != Endpoint::Discovery).then_some(Representation::Object);
        }
        let target = [kind, group, version].map(Option::unwrap_or_default);
        match (endpoint, target) {
            (Endpoint::Discovery, ["APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"]) => {
                Some(Representation::Discovery)
            }
            (Endpoint::Resource | Endpoint::Watch, [kind, "meta.k8s.io", version]) => {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1beta1,
                    _ => return None,
                };
                match kind {
                    "Table" => Some(Representation::Table(version)),
                    "PartialObjectMetadata" => Some(Representation::Partial(version)),
                    "PartialObjectMetadataList" => Some(Representation::PartialList(version)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// What the body of a request is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Text(Format),
    /// Only objects of built-in kinds, and options of deletions.
    Protobuf,
}

/// What the body of a request is written in. No header, or an empty one, means JSON. `protobuf` is whether that will do.
///
/// # Errors
/// 415 for anything else.
pub(crate) fn body_format(content_type: Option<&str>, protobuf: bool) -> Result<Input, ApiError> {
    match media_type(content_type.unwrap_or_default()).as_deref() {
        Some("" | "application/json") => Ok(Input::Text(Format::Json)),
        Some("application/yaml") => Ok(Input::Text(Format::Yaml)),
        Some(PROTOBUF) if protobuf => Ok(Input::Protobuf),
        other => {
            let known = if other == Some(PROTOBUF) { CUSTOM } else { OBJECTS };
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: {known}"
            );
            Err(ApiError::new(415, "UnsupportedMediaType", message))
        }
    }
}

/// The media type of a header in lower case, without parameters. `None` if the header is not correct.
pub(crate) fn media_type(header: &str) -> Option<String> {
    let (media, parameters) = header.split_once(';').unwrap_or((header, ""));
    let media = media.trim().to_ascii_lowercase();
    let token = |text: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    let correct = header.is_empty() || media.split('/').count() <= 2 && media.split('/').all(token);
    if !correct {
        return None;
    }
    let mut rest = parameters.trim_start();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let end = if let Some(quoted) = value.strip_prefix('"') {
            let mut escaped = false;
            let end = quoted.bytes().position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            end? + 2
        } else {
            let end = value.find([';', ' ', '\t']).unwrap_or(value.len());
            if !token(&value[..end]) {
                return None;
            }
            end
        };
        if !token(name.trim()) {
            return None;
        }
        rest = value[end..].trim_start();
        match rest.strip_prefix(';') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => {}
            None => return None,
        }
    }
    Some(media)
}

impl IncludeObject {
    /// Reads the parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for a word that says nothing.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, ApiError> {
        match text.unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', \
                 'Object', 'None', or empty",
                go::strconv::quote(other)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn clients_get_what_they_ask_for() {
        use Endpoint::{Discovery, Plain, Resource, Watch};
        let kubectl = format!("{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let old_discovery =
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let cases: &[(&str, Endpoint, &str)] = &[
            ("", Resource, "json object"),
            ("*/*", Resource, "json object"),
            ("*", Resource, "json object"),
            ("application/*", Watch, "json object"),
            ("text/*", Resource, "406"),
            ("application/vnd.kubernetes.protobuf,application/json", Resource, "json object"),
            ("application/vnd.kubernetes.protobuf", Resource, "406"),
            ("application/vnd.kubernetes.protobuf, */*;q=0.5", Resource, "json object"),
            ("application/yaml", Resource, "yaml object"),
            ("application/yaml", Watch, "406"),
            ("application/json;q=0.5, application/yaml", Resource, "yaml object"),
            ("application/json;stream=watch", Watch, "json object"),
            ("application/json;stream=other", Watch, "406"),
            (&kubectl, Resource, "json table"),
            (&kubectl, Watch, "json table"),
            (&kubectl, Plain, "json object"),
            (TABLE, Plain, "406"),
            ("application/json;as=Table;v=v2;g=meta.k8s.io,application/yaml", Resource, "yaml object"),
            ("application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1,application/json", Resource, "json object"),
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Resource, "yaml table"),
            (partial, Resource, "json partial list"),
            ("application/json;as=Nothing;v=v1;g=meta.k8s.io", Resource, "406"),
            (discovery, Discovery, "json discovery"),
            (old_discovery, Discovery, "json object"),
            ("application/json", Discovery, "json object"),
            (discovery, Resource, "json object"),
            ("application/json/x", Resource, "406"),
            ("application", Resource, "406"),
        ];
        for (accept, endpoint, expected) in cases {
            let found = match negotiate(Some(accept), *endpoint) {
                Ok(chosen) => {
                    let format = if chosen.format == Format::Json { "json" } else { "yaml" };
                    let what = match chosen.representation {
                        Representation::Object => "object",
                        Representation::Table(_) => "table",
                        Representation::Partial(_) => "partial",
                        Representation::PartialList(_) => "partial list",
                        Representation::Discovery => "discovery",
                    };
                    format!("{format} {what}")
                }
                Err(error) => error.code.to_string(),
            };
            assert_eq!(&found, expected, "{accept} at {endpoint:?}");
        }
    }

    #[test]
    fn people_get_indented_json() {
        let cases = [
            ("", "", false),
            ("", "kubectl/v1.36.3", false),
            ("", "curl/8.5.0", true),
            ("", "Wget/1.21.3", true),
            ("", "wget/1.21.3", false),
            ("", "Mozilla/5.0 (X11; Linux x86_64)", true),
            ("", "Mozilla/4.0", false),
            ("", "Go-http-client/2.0 curl", false),
            ("pretty=", "curl/8.5.0", true),
            ("pretty=false", "curl/8.5.0", false),
            ("pretty=0", "curl/8.5.0", false),
            ("pretty=nonsense", "curl/8.5.0", false),
            ("pretty=true", "", true),
            ("pretty=T", "", true),
            ("pretty=yes", "", false),
        ];
        for (query, agent, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            assert_eq!(is_pretty(&Query::parse(query), &headers), expected, "{query:?} by {agent:?}");
        }
    }

    #[test]
    fn bodies_are_json_yaml_or_protobuf() {
        let cases = [
            ("", Some(Input::Text(Format::Json))),
            ("application/json", Some(Input::Text(Format::Json))),
            ("Application/JSON; charset=utf-8", Some(Input::Text(Format::Json))),
            ("application/json;", Some(Input::Text(Format::Json))),
            (r#"application/yaml; a="b;\"c""#, Some(Input::Text(Format::Yaml))),
            ("application/json; charset", None),
            ("application/json; a=b c", None),
            ("application/x-yaml", None),
            ("application/vnd.kubernetes.protobuf", Some(Input::Protobuf)),
            ("application/json/x", None),
            ("text/plain", None),
            (";", None),
            ("application/json; a=\"b", None),
        ];
        for (header, expected) in cases {
            let found = body_format(Some(header), true);
            assert_eq!(found.as_ref().ok().copied(), expected, "{header}");
            if let Err(error) = found {
                assert_eq!((error.code, error.reason), (415, "UnsupportedMediaType"));
            }
            let custom = body_format(Some(header), false).ok();
            assert_eq!(custom, expected.filter(|input| *input != Input::Protobuf), "{header}");
        }
    }
}
