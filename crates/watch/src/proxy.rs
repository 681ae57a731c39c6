//! Proxies of the environment: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, as Go's `http.ProxyFromEnvironment` reads them.
//!
//! kube-client compares `NO_PROXY` with the address of the proxy instead of the server's, and knows no `HTTP_PROXY`.

use std::net::IpAddr;

use http::Uri;

/// What the environment says of proxies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    https: String,
    http: String,
    no_proxy: String,
}

impl Environment {
    pub(crate) fn of_process() -> Self {
        let read = |names: [&str; 2]| {
            let values = names.into_iter().filter_map(|name| std::env::var(name).ok());
            values.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
        };
        // In a CGI program, a request's header `Proxy` would be HTTP_PROXY.
        let is_cgi = std::env::var_os("REQUEST_METHOD").is_some_and(|method| !method.is_empty());
        Self {
            https: read(["HTTPS_PROXY", "https_proxy"]),
            http: if is_cgi { String::new() } else { read(["HTTP_PROXY", "http_proxy"]) },
            no_proxy: read(["NO_PROXY", "no_proxy"]),
        }
    }

    /// The proxy for a URL, if it is to be reached by one.
    pub(crate) fn proxy_for(&self, url: &Uri) -> Result<Option<Uri>, String> {
        let is_https = url.scheme_str() == Some("https");
        let proxy = if is_https { &self.https } else { &self.http };
        let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        if proxy.is_empty() || !self.is_proxied(url.host().unwrap_or_default(), port) {
            return Ok(None);
        }
        parse(proxy).map(Some)
    }

    /// `useProxy` of golang.org/x/net/http/httpproxy.
    fn is_proxied(&self, host: &str, port: u16) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        if host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback()) {
            return false;
        }
        let mut entries = self.no_proxy.split(',').map(|entry| entry.trim().to_ascii_lowercase());
        !entries.any(|entry| exempts(&entry, &host, address, port))
    }
}

/// Whether an entry of `NO_PROXY` is about this host.
fn exempts(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = entry.split_once('/') {
        let parsed = network.parse::<IpAddr>().ok().zip(bits.parse::<u32>().ok());
        return parsed
            .zip(address)
            .is_some_and(|((network, bits), address)| contains(network, bits, address));
    }
    let (name, only_port) = match entry.rsplit_once(':') {
        // An address without brackets is no port.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (entry, None),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name.is_empty() || only_port.is_some_and(|only| only != port.to_string()) {
        return false;
    }
    if let Ok(named) = name.parse::<IpAddr>() {
        return address.is_some_and(|address| address.to_canonical() == named.to_canonical());
    }
    // `example.com` is about its subdomains as well, `.example.com` and `*.example.com` about those alone.
    match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
        Some(domain) => host.strip_suffix(domain).is_some_and(|head| head.ends_with('.')),
        None => host == name || host.strip_suffix(name).is_some_and(|head| head.ends_with('.')),
    }
}

/// Whether a network has this address.
fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (network.to_canonical(), address.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(address)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        _ => false,
    }
}

/// The URL of a proxy; without a scheme it is HTTP.
pub(crate) fn parse(proxy: &str) -> Result<Uri, String> {
    let url = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
    match url.parse::<Uri>() {
        Ok(url) if url.host().is_some() => Ok(url),
        // It may have a password in it.
        _ => Err("the proxy's URL cannot be used: write http://HOST:PORT".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_exempt_as_with_go() {
        // The table of golang.org/x/net/http/httpproxy, with its NO_PROXY.
        let no_proxy = "foobar.com, .barbaz.net, *.wildcard.io, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80, 10.0.0.0/30, 2001:db8::52:0:1, \
                        [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80, 2002:db8:a::45/64";
        let cases = [
            ("localhost", false),
            ("127.0.0.1", false),
            ("127.0.0.2", false),
            ("[::1]", false),
            ("[::2]", true),
            ("192.168.1.1", false),
            ("192.168.1.2", true),
            ("192.168.1.3", false),
            ("192.168.1.4", true),
            ("10.0.0.2", false),
            ("10.0.0.4", true),
            ("[2001:db8::52:0:1]", false),
            ("[2001:db8::52:0:2]", true),
            ("[2001:db8::52:0:3]", false),
            ("[2002:db8:a::123]", false),
            ("[fe80::424b:c8be:1643:a1b6]", true),
            ("barbaz.net", true),
            ("www.barbaz.net", false),
            ("foobar.com", false),
            ("www.foobar.com", false),
            ("foofoobar.com", true),
            ("baz.com", true),
            ("localhost.net", true),
            ("local.localhost", true),
            ("barbarbaz.net", true),
            ("wildcard.io", true),
            ("nested.wildcard.io", false),
            ("awildcard.io", true),
        ];
        let environment = Environment { no_proxy: no_proxy.to_owned(), ..Environment::default() };
        for (host, expected) in cases {
            assert_eq!(environment.is_proxied(host, 80), expected, "{host}");
        }
        let none = Environment { no_proxy: "*".to_owned(), ..Environment::default() };
        assert!(!none.is_proxied("example.com", 80));
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        let environment = Environment {
            https: "https://secure:8443".to_owned(),
            http: "proxy:3128".to_owned(),
            no_proxy: "internal".to_owned(),
        };
        let cases = [
            ("https://example.com/a", Some("https://secure:8443/")),
            ("http://example.com/a", Some("http://proxy:3128/")),
            ("https://internal:6443/", None),
            ("https://127.0.0.1:6443/", None),
        ];
        for (url, expected) in cases {
            let proxy = environment.proxy_for(&url.parse().unwrap()).unwrap();
            assert_eq!(proxy.map(|url| url.to_string()).as_deref(), expected, "{url}");
        }
        let wrong = Environment { http: "http://user:secret@".to_owned(), ..Environment::default() };
        let error = wrong.proxy_for(&"http://example.com".parse().unwrap()).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}
