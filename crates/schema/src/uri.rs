//! URLs as Go's `net/url` parses them.

use std::net::{IpAddr, Ipv4Addr};

/// What is asked of a parsed URL.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) user: Option<String>,
    pub(crate) query: String,
}

/// `url.ParseRequestURI` without an error.
pub(crate) fn is_request_uri(text: &str) -> bool {
    parse(text, true).is_ok()
}

/// `url.Parse` or `url.ParseRequestURI`, without the fragment; an error in Go's words.
pub(crate) fn parse(text: &str, request: bool) -> Result<Url, String> {
    let mut url = Url::default();
    if text.bytes().any(|one| one < b' ' || one == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(url);
    }
    let (scheme, mut rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    if rest.ends_with('?') && rest.matches('?').count() == 1 {
        rest = &rest[..rest.len() - 1];
    } else if let Some((path, query)) = rest.split_once('?') {
        rest = path;
        url.query = query.to_owned();
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if (!url.scheme.is_empty() || !request && !rest.starts_with("///"))
        && let Some(after) = rest.strip_prefix("//")
    {
        let (authority, path) = after.find('/').map_or((after, ""), |at| after.split_at(at));
        rest = path;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        url.host = parse_host(&url.scheme, host)?;
        if let Some(user) = user {
            let allowed = |one: u8| one.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&one);
            if !user.bytes().all(allowed) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user, Mode::Path)?;
            url.user = Some(user.to_owned());
        }
    }
    unescape(rest, Mode::Path)?;
    Ok(url)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, one) in text.bytes().enumerate() {
        match one {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn bad_port(port: &str) -> Option<String> {
    let good = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|one| one.is_ascii_digit()));
    (!good).then(|| format!("invalid port {} after host", settled_go::strconv::quote(port)))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    if let Some(open) = host.rfind('[') {
        if open > 0 {
            return Err("invalid IP-literal".to_owned());
        }
        let Some(close) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
        if let Some(why) = bad_port(&host[close + 1..]) {
            return Err(why);
        }
        let name = &host[1..close];
        let (address, zone) = name.find("%25").map_or((name, ""), |at| name.split_at(at));
        let address = unescape(address, Mode::Host)?;
        let zone = unescape(zone, Mode::Zone)?;
        let bare = address.split('%').next().unwrap_or_default();
        if zone == "%" || bare.parse::<IpAddr>().is_err() {
            return Err("invalid host".to_owned());
        }
        if bare.parse::<Ipv4Addr>().is_ok() {
            return Err("invalid IP-literal".to_owned());
        }
        return Ok(host.to_owned());
    }
    if let Some(first) = host.find(':') {
        let last = host.rfind(':').unwrap_or(first);
        // Databases have lists of hosts there.
        let at = if last != first && !matches!(scheme, "http" | "https") { last } else { first };
        if let Some(why) = bad_port(&host[at..]) {
            return Err(why);
        }
    }
    unescape(host, Mode::Host)
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Path,
    Host,
    Zone,
}

fn unescape(text: &str, mode: Mode) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&one) = bytes.get(at) {
        if one == b'%' {
            let code = text.get(at + 1..at + 3).and_then(|hex| {
                hex.bytes().all(|one| one.is_ascii_hexdigit()).then(|| u8::from_str_radix(hex, 16).ok())?
            });
            let wrong = || {
                let end = (at + 3).min(bytes.len());
                let part = String::from_utf8_lossy(&bytes[at..end]).into_owned();
                format!("invalid URL escape {}", settled_go::strconv::quote(&part))
            };
            let Some(code) = code else { return Err(wrong()) };
            if mode == Mode::Host && code < 0x80 && code != b'%' {
                return Err(wrong());
            }
            if mode == Mode::Host && code == b'%' && &bytes[at..at + 3] != b"%25" {
                return Err(wrong());
            }
            if mode == Mode::Zone && code != b'%' && code != b' ' && !host_byte(code) && code < 0x80 {
                return Err(wrong());
            }
            out.push(code);
            at += 3;
            continue;
        }
        if mode != Mode::Path && one < 0x80 && !host_byte(one) {
            let part = (one as char).to_string();
            return Err(format!("invalid character {} in host name", settled_go::strconv::quote(&part)));
        }
        out.push(one);
        at += 1;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn host_byte(one: u8) -> bool {
    one.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&one)
}
