//! The target of a URL: its addresses, and the parts of a request.
//!
//! Must not be in here: load.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use http::{HeaderName, HeaderValue, Uri};
use rustix::net::sockopt::set_socket_linger;

/// Headers that other arguments set, each with the argument.
const OWN_HEADERS: [(&str, &str); 3] = [
    ("connection", "--keep-alive decides about it"),
    ("content-length", "--body decides about it"),
    ("transfer-encoding", "--body decides about it"),
];

/// Longest time for connecting to one of several addresses.
const PROBE_LIMIT: Duration = Duration::from_secs(3);

/// The parts of a URL.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) is_tls: bool,
    /// Name or address of the host; an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of the Host header: without the port if it is the default one of the scheme.
    pub(crate) authority: String,
    /// Path with query.
    pub(crate) path: String,
}

/// An argument `HOST:PORT:ADDR[,ADDR...]`, in the form that curl has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolve {
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
}

/// An argument `NAME: VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The addresses of a name.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) all: Vec<SocketAddr>,
    /// Time for resolving the name; `None` if that was not needed.
    pub(crate) dns: Option<Duration>,
}

impl Target {
    /// Parses a URL. An error says which part is wrong.
    pub(crate) fn parse(url: &str) -> anyhow::Result<Target> {
        let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("{url} is no URL that begins with http:// or https://"),
        };
        let authority = uri.authority().with_context(|| format!("{url} names no host"))?;
        ensure!(!authority.as_str().contains('@'), "a URL with a user name is not understood");
        let default_port = if is_tls { 443 } else { 80 };
        // `Authority::port` ignores an invalid port, so that it is parsed here.
        let port = match authority.as_str()[authority.host().len()..].strip_prefix(':') {
            Some(port) => port.parse().with_context(|| format!("{url} has no port that can be"))?,
            None => default_port,
        };
        ensure!(!authority.host().is_empty() && port > 0, "{url} names no host or no port");
        let bracketed = authority.host();
        let host_header =
            if port == default_port { bracketed.to_owned() } else { format!("{bracketed}:{port}") };
        Ok(Target {
            is_tls,
            host: bracketed.trim_matches(['[', ']']).to_owned(),
            port,
            authority: host_header,
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// All addresses of the host, from `resolve` or from the system.
    pub(crate) fn addresses(&self, resolve: &[Resolve]) -> anyhow::Result<Addresses> {
        let is_ours =
            |entry: &&Resolve| entry.port == self.port && entry.host.eq_ignore_ascii_case(&self.host);
        let named = resolve.iter().rev().find(is_ours);
        let literal = self.host.parse::<IpAddr>().ok().map(|address| vec![address]);
        if let Some(addresses) = named.map(|entry| entry.addresses.clone()).or(literal) {
            let all = addresses.into_iter().map(|address| (address, self.port).into()).collect();
            return Ok(Addresses { all, dns: None });
        }
        let start = Instant::now();
        let all: Vec<_> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .with_context(|| format!("cannot look up {}", self.host))?
            .collect();
        ensure!(!all.is_empty(), "{} has no address", self.host);
        Ok(Addresses { all, dns: Some(start.elapsed()) })
    }
}

impl Addresses {
    /// Removes addresses of the other address family than that of the first, and tries none: there is no
    /// connection over UDP that could be tried without the load. Returns no errors.
    pub(crate) fn keep_one_family(&mut self) -> Vec<String> {
        let is_ipv4 = self.all.first().is_some_and(SocketAddr::is_ipv4);
        self.all.retain(|address| address.is_ipv4() == is_ipv4);
        Vec::new()
    }

    /// Removes addresses that accept no connection. It also removes those of the other address family than
    /// that of the first that accepts one, since both families usually lead to the same servers. Returns the
    /// errors. A single address is not tried, since the load will show whether it works.
    pub(crate) fn keep_reachable(&mut self) -> anyhow::Result<Vec<String>> {
        if self.all.len() == 1 {
            return Ok(Vec::new());
        }
        let tried: Vec<_> = self.all.iter().map(|address| (*address, probe(*address))).collect();
        let Some((first, _)) = tried.iter().find(|(_, result)| result.is_ok()) else {
            let each: Vec<_> = tried
                .iter()
                .filter_map(|(address, result)| Some((address, result.as_ref().err()?)))
                .collect();
            bail!(
                "cannot connect to {}",
                join(each.iter().map(|(address, error)| format!("{address}: {error}")))
            );
        };
        let is_kept = |address: &SocketAddr| address.is_ipv4() == first.is_ipv4();
        self.all = tried
            .iter()
            .filter(|(address, result)| is_kept(address) && result.is_ok())
            .map(|(address, _)| *address)
            .collect();
        let left_out = tried.iter().filter(|(address, _)| is_kept(address));
        Ok(left_out
            .filter_map(|(address, result)| Some(format!("{address}: {}", result.as_ref().err()?)))
            .collect())
    }
}

/// Connects and resets the connection, so that the port is free at once.
fn probe(address: SocketAddr) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(&address, PROBE_LIMIT)?;
    Ok(set_socket_linger(&stream, Some(Duration::ZERO))?)
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

impl FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Resolve, String> {
        let wrong = || format!("{text} is not HOST:PORT:ADDR");
        // An IPv6 address is in brackets.
        let (host, rest) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(wrong)?,
            None => text.split_once(':').ok_or_else(wrong)?,
        };
        let (port, addresses) = rest.split_once(':').ok_or_else(wrong)?;
        let addresses = addresses
            .split(',')
            .map(|address| address.trim_matches(['[', ']']).parse::<IpAddr>())
            .collect::<Result<_, _>>()
            .map_err(|_| wrong())?;
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() { Err(wrong()) } else { Ok(Resolve { host: host.into(), port, addresses }) }
    }
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Header, String> {
        let (name, value) = text.split_once(':').ok_or_else(|| format!("{text} is not NAME: VALUE"))?;
        let (name, value) = (name.trim(), value.trim());
        HeaderName::try_from(name).map_err(|_| format!("{name} is no header's name"))?;
        HeaderValue::try_from(value).map_err(|_| format!("{name} cannot have that value"))?;
        match OWN_HEADERS.iter().find(|(own, _)| name.eq_ignore_ascii_case(own)) {
            Some((_, why)) => Err(format!("{name} is not for --header: {why}")),
            None => Ok(Header { name: name.into(), value: value.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let parse = |url| Target::parse(url).map(|t| (t.is_tls, t.host, t.port, t.authority, t.path)).ok();
        let of = |tls, host: &str, port, authority: &str, path: &str| {
            Some((tls, host.to_owned(), port, authority.to_owned(), path.to_owned()))
        };
        assert_eq!(parse("http://a.test"), of(false, "a.test", 80, "a.test", "/"));
        assert_eq!(parse("https://a.test:443/b?c=d"), of(true, "a.test", 443, "a.test", "/b?c=d"));
        assert_eq!(parse("http://[::1]:8080/x"), of(false, "::1", 8080, "[::1]:8080", "/x"));
        for wrong in ["a.test/x", "ftp://a.test", "http://", "http://a:99999/", "http://u:p@a/", "/x", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_resolution_is_read_as_curl_reads_it() {
        let addresses = |text: &str| text.parse::<Resolve>().map(|resolve| resolve.addresses.len()).ok();
        assert_eq!(addresses("a.test:80:127.0.0.1"), Some(1));
        assert_eq!(addresses("a.test:80:127.0.0.1,::1,[::2]"), Some(3));
        assert_eq!(addresses("[::1]:80:::1"), Some(1));
        for wrong in ["a.test:80", "a.test:x:127.0.0.1", "a.test:80:b.test", ":80:127.0.0.1", ""] {
            assert_eq!(addresses(wrong), None, "{wrong}");
        }
        let target = Target::parse("http://A.test/").unwrap();
        let addresses = target.addresses(&["a.test:80:192.0.2.1".parse().unwrap()]).unwrap();
        assert_eq!(addresses.all, [SocketAddr::from(([192, 0, 2, 1], 80))]);
        assert_eq!(addresses.dns, None);
    }

    #[test]
    fn of_several_addresses_those_are_kept_that_take_connections() {
        let listening = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let up = listening.each_ref().map(|listener| listener.local_addr().unwrap());
        let refusing = testkit::Refusing::default();
        let down = refusing.address();
        let mut addresses = Addresses { all: vec![up[0], down, up[1]], dns: None };
        let left_out = addresses.keep_reachable().unwrap();
        assert_eq!(addresses.all, up);
        assert!(left_out.len() == 1 && left_out[0].starts_with(&down.to_string()), "{left_out:?}");
        let error = Addresses { all: vec![down, down], dns: None }.keep_reachable().unwrap_err();
        assert!(error.to_string().contains(&down.to_string()), "{error}");
        let sixth = "[::1]:1".parse().unwrap();
        let mut addresses = Addresses { all: vec![sixth, up[0], sixth], dns: None };
        assert!(addresses.keep_one_family().is_empty());
        assert_eq!(addresses.all, [sixth, sixth]);
    }

    #[test]
    fn headers_that_would_break_a_request_are_refused() {
        assert!("X-A: b: c".parse::<Header>().is_ok_and(|header| header.value == "b: c"));
        for wrong in ["X-A", "X A: b", "X-A: b\r\nX-B: c", "connection: close", "Content-Length: 3"] {
            assert!(wrong.parse::<Header>().is_err(), "{wrong}");
        }
    }
}
