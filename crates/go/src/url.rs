//! `net/url`: URLs, their queries and escapes.

use std::error;
use std::fmt;

use percent_encoding::percent_decode;

use crate::netip::{self, ParseAddrError};
use crate::strconv::{quote, quote_bytes};

/// `urlmaxqueryparams`: queries with more parameters yield none.
const MAX_QUERY_PARAMETERS: usize = 10_000;

/// `url.URL`, the parts that Kubernetes uses.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Url {
    /// Scheme in lower case, or empty.
    pub scheme: String,
    /// User and password, still escaped.
    pub user: Option<String>,
    /// Host and port, unescaped.
    pub host: String,
    /// `RawQuery`: without the question mark.
    pub query: String,
    path: String,
}

/// `url.Error`: parse error of a URL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    /// The text.
    pub url: String,
    /// The reason.
    pub reason: Reason,
}

/// Reason why a URL is invalid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// A control character.
    ControlCharacter,
    /// An empty request URI.
    Empty,
    /// A leading colon.
    MissingScheme,
    /// A request URI that is neither an absolute URL nor an absolute path.
    InvalidRequestUri,
    /// A relative path whose first segment has a colon.
    ColonInFirstSegment,
    /// An invalid character in the user or password.
    InvalidUserinfo,
    /// Brackets around anything but an IPv6 address.
    InvalidIpLiteral,
    /// A missing closing bracket.
    MissingBracket,
    /// An invalid port.
    InvalidPort(String),
    /// An invalid address in brackets.
    InvalidHost(ParseAddrError),
    /// An invalid character in the host.
    InvalidHostCharacter(char),
    /// An invalid escape.
    Escape(EscapeError),
}

/// `url.EscapeError`: an escape that is malformed or not allowed there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EscapeError(Box<[u8]>);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parse {}: {}", quote(&self.url), self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlCharacter => "net/url: invalid control character in URL",
            Self::Empty => "empty url",
            Self::MissingScheme => "missing protocol scheme",
            Self::InvalidRequestUri => "invalid URI for request",
            Self::ColonInFirstSegment => "first path segment in URL cannot contain colon",
            Self::InvalidUserinfo => "net/url: invalid userinfo",
            Self::InvalidIpLiteral => "invalid IP-literal",
            Self::MissingBracket => "missing ']' in host",
            Self::InvalidPort(port) => return write!(f, "invalid port {} after host", quote(port)),
            Self::InvalidHost(error) => return write!(f, "invalid host: {error}"),
            Self::InvalidHostCharacter(char) => {
                return write!(f, "invalid character {} in host name", quote(&char.to_string()));
            }
            Self::Escape(error) => return error.fmt(f),
        })
    }
}

impl fmt::Display for EscapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid URL escape {}", quote_bytes(&self.0))
    }
}

impl error::Error for Error {}
impl error::Error for EscapeError {}

/// `url.Parse`; the fragment is dropped.
///
/// ```
/// use settled_go::url;
///
/// assert_eq!(url::parse("HTTPS://a.example:443/b?c#d").map(|url| url.host).as_deref(), Ok("a.example:443"));
/// let error = url::parse(":a").unwrap_err();
/// assert_eq!(error.to_string(), r#"parse ":a": missing protocol scheme"#);
/// ```
///
/// # Errors
/// The URL is invalid.
pub fn parse(text: &str) -> Result<Url, Error> {
    let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
    let parsed = parse_reference(url, false).map_err(|reason| Error { url: url.to_owned(), reason })?;
    unescape(fragment, Mode::Path).map_err(|reason| Error { url: text.to_owned(), reason }).map(|_| parsed)
}

/// `url.ParseRequestURI`: an absolute URL or an absolute path; `#` has no special meaning.
///
/// # Errors
/// The URI is invalid.
pub fn parse_request_uri(text: &str) -> Result<Url, Error> {
    parse_reference(text, true).map_err(|reason| Error { url: text.to_owned(), reason })
}

/// `url.PathUnescape`; invalid UTF-8 is replaced.
///
/// # Errors
/// An escape is invalid.
pub fn path_unescape(text: &str) -> Result<String, EscapeError> {
    check_escapes(text)?;
    Ok(percent_decode(text.as_bytes()).decode_utf8_lossy().into_owned())
}

/// `url.QueryUnescape`; invalid UTF-8 is replaced.
///
/// # Errors
/// An escape is invalid.
pub fn query_unescape(text: &str) -> Result<String, EscapeError> {
    check_escapes(text)?;
    path_unescape(&text.replace('+', " "))
}

impl Url {
    /// `Hostname`: without the port and brackets.
    pub fn hostname(&self) -> &str {
        let (host, _) = self.split_host();
        host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
    }

    /// `Port`: empty if there is none.
    pub fn port(&self) -> &str {
        self.split_host().1
    }

    fn split_host(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if is_number(port) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// `EscapedPath`: the original encoding if that is valid.
    pub fn escaped_path(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
        let is_valid = |byte: u8| is_plain(byte) || b"!'()*[]%".contains(&byte);
        if self.path == "*" || self.path.bytes().all(is_valid) {
            return self.path.clone();
        }
        let mut escaped = String::with_capacity(self.path.len());
        for byte in percent_decode(self.path.as_bytes()) {
            if is_plain(byte) {
                escaped.push(char::from(byte));
            } else {
                escaped.push_str(percent_encoding::percent_encode_byte(byte));
            }
        }
        escaped
    }

    /// The pairs of `Query` in input order, without invalid ones.
    pub fn query_pairs(&self) -> Vec<(String, String)> {
        if self.query.matches('&').count() >= MAX_QUERY_PARAMETERS {
            return Vec::new();
        }
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .filter_map(|(key, value)| Some((query_unescape(key).ok()?, query_unescape(value).ok()?)))
            .collect()
    }
}

/// Go's `parse`.
fn parse_reference(text: &str, is_request: bool) -> Result<Url, Reason> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(Reason::ControlCharacter);
    }
    if text.is_empty() && is_request {
        return Err(Reason::Empty);
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = text.to_owned();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if is_request {
            return Err(Reason::InvalidRequestUri);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err(Reason::ColonInFirstSegment);
        }
    }
    if (!url.scheme.is_empty() || !is_request && !rest.starts_with("///"))
        && let Some(after) = rest.strip_prefix("//")
    {
        let (authority, path) = after.find('/').map_or((after, ""), |start| after.split_at(start));
        rest = path;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        url.host = parse_host(&url.scheme, host)?;
        if let Some(user) = user {
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(is_valid) {
                return Err(Reason::InvalidUserinfo);
            }
            for part in user.splitn(2, ':') {
                check_escapes(part).map_err(Reason::Escape)?;
            }
            url.user = Some(user.to_owned());
        }
    }
    check_escapes(rest).map_err(Reason::Escape)?;
    url.path = rest.to_owned();
    Ok(url)
}

/// `getScheme`.
fn split_scheme(text: &str) -> Result<(&str, &str), Reason> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err(Reason::MissingScheme),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `validOptionalPort`.
fn check_port(port: &str) -> Result<(), Reason> {
    if port.is_empty() || port.strip_prefix(':').is_some_and(is_number) {
        return Ok(());
    }
    Err(Reason::InvalidPort(port.to_owned()))
}

/// `parseHost`.
fn parse_host(scheme: &str, host: &str) -> Result<String, Reason> {
    if let Some(open) = host.rfind('[') {
        if open > 0 {
            return Err(Reason::InvalidIpLiteral);
        }
        let (inner, port) = host[1..].rsplit_once(']').ok_or(Reason::MissingBracket)?;
        check_port(port)?;
        let (address, zone) = inner.find("%25").map_or((inner, ""), |start| inner.split_at(start));
        let address = unescape(address, Mode::Host)? + &unescape(zone, Mode::Zone)?;
        let parsed = netip::parse_addr(&address).map_err(Reason::InvalidHost)?;
        if parsed.ip.is_ipv4() {
            return Err(Reason::InvalidIpLiteral);
        }
        return Ok(format!("[{address}]{port}"));
    }
    if let Some(first) = host.find(':') {
        let last = host.rfind(':').unwrap_or(first);
        // Connection strings of some databases have lists of hosts.
        let start = if matches!(scheme, "http" | "https") { first } else { last };
        check_port(&host[start..])?;
    }
    unescape(host, Mode::Host)
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Mode {
    Path,
    Host,
    Zone,
}

/// The escape at the beginning of a text: its byte, or an error.
fn escaped(text: &[u8]) -> Result<u8, EscapeError> {
    let digit = |index: usize| text.get(index).and_then(|byte| char::from(*byte).to_digit(16));
    let code = digit(1).zip(digit(2)).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
    code.ok_or_else(|| EscapeError(text[..text.len().min(3)].into()))
}

fn check_escapes(text: &str) -> Result<(), EscapeError> {
    text.match_indices('%').try_for_each(|(start, _)| escaped(&text.as_bytes()[start..]).map(drop))
}

/// Go's `unescape`; invalid UTF-8 is replaced.
fn unescape(text: &str, mode: Mode) -> Result<String, Reason> {
    let bytes = text.as_bytes();
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        if byte == b'%' {
            let code = escaped(&bytes[index..]).map_err(Reason::Escape)?;
            // A percent sign introduces the zone of an IPv6 address.
            let is_allowed = code == b'%'
                || match mode {
                    Mode::Path => true,
                    Mode::Host => !code.is_ascii(),
                    Mode::Zone => code == b' ' || is_host_byte(code),
                };
            if !is_allowed {
                return Err(Reason::Escape(EscapeError(bytes[index..index + 3].into())));
            }
            index += 3;
            continue;
        }
        if mode != Mode::Path && byte.is_ascii() && !is_host_byte(byte) {
            return Err(Reason::InvalidHostCharacter(char::from(byte)));
        }
        index += 1;
    }
    Ok(percent_decode(bytes).decode_utf8_lossy().into_owned())
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}
