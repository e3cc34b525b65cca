//! The client's address, and the `X-Forwarded-*` headers that tell it to an endpoint, as ingress-nginx
//! sets them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use model::{ForwardedHeaders, ForwardedSettings};
use wire::h1::Request;
use wire::{Known, field};

use crate::request::head::HeadWriter;

/// The facts that the headers tell.
pub(crate) struct Forwarded<'a> {
    /// Address of the client, behind the proxies that are trusted.
    pub(crate) client: IpAddr,
    /// Host that the endpoint is told, with its port if it came with one: a trusted hop may say which it
    /// was. Never to find a route by.
    pub(crate) host: &'a [u8],
    /// Scheme that the client used.
    pub(crate) scheme: &'a [u8],
    /// Scheme that the connection to this proxy uses.
    pub(crate) own_scheme: &'a [u8],
    port: Port<'a>,
    /// Incoming `X-Forwarded-For` and `X-Forwarded-Host`, told apart from ours under other names.
    original_for: Option<&'a [u8]>,
    original_host: Option<&'a [u8]>,
    /// The incoming list of addresses and the one to append to it, where the list is kept. On the heap,
    /// since it seldom is.
    append: Option<Box<(&'a [u8], IpAddr)>>,
}

/// How a request came in.
#[derive(Clone, Copy)]
pub(crate) struct Via {
    /// The other end of the connection, or the address that a PROXY header names.
    pub(crate) peer: IpAddr,
    /// Port that endpoints are told.
    pub(crate) port: u16,
    /// `http` or `https`, as far as the client's side is known.
    pub(crate) scheme: &'static str,
    /// The same of this connection.
    pub(crate) own_scheme: &'static str,
}

/// The headers that endpoints are told.
pub(crate) const NAMES: &[&str] = &[
    "X-Real-IP",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Forwarded-Scheme",
    "X-Scheme",
    "X-Original-Forwarded-For",
    "X-Original-Forwarded-Host",
];

/// The lines that were written last on a connection, and what they depended on.
#[derive(Default)]
pub(crate) struct LastLines {
    client: Option<IpAddr>,
    /// Where the host stands in the lines.
    host: Range<usize>,
    lines: Box<[u8]>,
}

impl LastLines {
    fn host(&self) -> &[u8] {
        &self.lines[self.host.clone()]
    }
}

enum Port<'a> {
    Own(u16),
    Reported(&'a [u8]),
}

impl<'a> Forwarded<'a> {
    /// Settles the facts for a request. What a peer says of others is believed only where it is trusted.
    pub(crate) fn of(head: &'a [u8], request: &'a Request, via: Via, settings: &ForwardedSettings) -> Self {
        let value = |known| {
            request.fields.find(known).map(|field| field.value(head)).filter(|value| !value.is_empty())
        };
        let peer_ip = via.peer.to_canonical();
        let believed = settings.use_incoming && is_trusted(peer_ip, settings);
        let reported = |known| if believed { value(known) } else { None };
        let (incoming_for, incoming_host) = (value(Known::XForwardedFor), value(Known::XForwardedHost));
        let (original_for, original_host) = match &settings.other_headers {
            None => (incoming_for, incoming_host),
            Some(names) => named_otherwise(head, request, names),
        };
        Self {
            client: client_address(head, request, peer_ip, settings),
            host: original_host
                .filter(|_| believed)
                .and_then(|hosts| field::list(hosts).next())
                .filter(|host| wire::host::is_valid(host))
                .unwrap_or(&head[request.host.clone()]),
            scheme: reported(Known::XForwardedProto).unwrap_or(via.scheme.as_bytes()),
            own_scheme: via.own_scheme.as_bytes(),
            port: reported(Known::XForwardedPort).map_or(Port::Own(via.port), Port::Reported),
            original_for,
            original_host,
            append: incoming_for
                .filter(|_| believed && settings.compute_full)
                .map(|list| Box::new((list, peer_ip))),
        }
    }

    /// The port that a trusted hop reported, if one did.
    pub(crate) fn reported_port(&self) -> Option<&'a [u8]> {
        match self.port {
            Port::Own(_) => None,
            Port::Reported(port) => Some(port),
        }
    }

    /// The port that endpoints are told.
    pub(crate) fn told_port(&self) -> Cow<'a, [u8]> {
        match self.port {
            Port::Own(port) => port.to_string().into_bytes().into(),
            Port::Reported(port) => port.into(),
        }
    }

    /// Gives to `add`, part by part, what endpoints are told but of the client's address.
    pub(crate) fn write_key(&self, mut add: impl FnMut(&[u8])) {
        add(self.scheme);
        add(self.host);
        match self.port {
            Port::Own(port) => add(&port.to_be_bytes()),
            Port::Reported(port) => add(port),
        }
        add(self.original_host.unwrap_or_default());
    }

    /// Appends the header lines. Those of a connection's requests are nearly always the same, so that the
    /// last ones are kept.
    pub(crate) fn write(&self, last: Option<&RefCell<LastLines>>, out: &mut HeadWriter<'_>) {
        let Some(last) = last.filter(|_| self.depends_on_connection_and_host_only()) else {
            self.write_lines(|_| false, out);
            return;
        };
        let mut last = last.borrow_mut();
        if last.client == Some(self.client) && last.host() == self.host {
            return out.write([&last.lines]);
        }
        let start = out.len();
        let host_end = self.write_lines(|_| false, out) - start;
        *last = LastLines {
            client: Some(self.client),
            host: host_end - self.host.len()..host_end,
            lines: out.written_since(start).into(),
        };
    }

    fn depends_on_connection_and_host_only(&self) -> bool {
        self.original_for.is_none()
            && self.append.is_none()
            && self.original_host.is_none()
            && self.scheme == self.own_scheme
            && matches!(self.port, Port::Own(_))
    }

    /// The value of `X-Forwarded-For`.
    pub(crate) fn forwarded_for(&self) -> Vec<u8> {
        let mut text = [0; 64];
        match self.append.as_deref() {
            Some((list, peer)) => [list, &b", "[..], display(&mut text, *peer)].concat(),
            None => display(&mut text, self.client).to_vec(),
        }
    }

    /// Appends the header lines, less those of some names.
    pub(crate) fn write_but(&self, is_left_out: impl Fn(&str) -> bool, out: &mut HeadWriter<'_>) {
        self.write_lines(is_left_out, out);
    }

    /// Returns where the value of `X-Forwarded-Host` ends.
    fn write_lines(&self, is_left_out: impl Fn(&str) -> bool, out: &mut HeadWriter<'_>) -> usize {
        let mut field = |name: &str, value: &[u8]| {
            if !is_left_out(name) {
                out.field(name, value);
            }
            out.len()
        };
        let mut text = [0; 64];
        let client = display(&mut text, self.client);
        field("X-Real-IP", client);
        match self.append {
            Some(_) => field("X-Forwarded-For", &self.forwarded_for()),
            None => field("X-Forwarded-For", client),
        };
        let host_end = field("X-Forwarded-Host", self.host) - b"\r\n".len();
        match self.port {
            Port::Own(port) => field("X-Forwarded-Port", itoa::Buffer::new().format(port).as_bytes()),
            Port::Reported(port) => field("X-Forwarded-Port", port),
        };
        for name in ["X-Forwarded-Proto", "X-Forwarded-Scheme", "X-Scheme"] {
            field(name, self.scheme);
        }
        if let Some(value) = self.original_for {
            field("X-Original-Forwarded-For", value);
        }
        if let Some(value) = self.original_host {
            field("X-Original-Forwarded-Host", value);
        }
        host_end
    }

    #[cfg(test)]
    pub(crate) fn sample_behind_tls() -> Self {
        Self { scheme: b"https", ..Self::sample() }
    }

    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            client: IpAddr::from([127, 0, 0, 1]),
            host: b"web.test.com:8080",
            scheme: b"http",
            own_scheme: b"http",
            port: Port::Own(8080),
            original_for: None,
            original_host: None,
            append: None,
        }
    }
}

/// Whether ours replaces an incoming field.
pub(crate) fn replaces(known: Known) -> bool {
    matches!(
        known,
        Known::XRealIp
            | Known::XForwardedFor
            | Known::XForwardedHost
            | Known::XForwardedPort
            | Known::XForwardedProto
            | Known::XForwardedScheme
            | Known::XScheme
            | Known::XOriginalForwardedFor
            | Known::XOriginalForwardedHost
    )
}

/// The forwarding headers that came under other names than the usual ones.
#[cold]
fn named_otherwise<'a>(
    head: &'a [u8],
    request: &'a Request,
    names: &ForwardedHeaders,
) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    let value = |name: &str| {
        let field = request.fields.find_name(head, name.as_bytes());
        field.map(|field| field.value(head)).filter(|value| !value.is_empty())
    };
    (value(&names.address), value(&names.host))
}

fn display(text: &mut [u8; 64], address: IpAddr) -> &[u8] {
    let mut rest = &mut text[..];
    write!(rest, "{address}").expect("an address has at most 45 characters");
    let left = rest.len();
    let used = text.len() - left;
    &text[..used]
}

fn is_trusted(peer: IpAddr, settings: &ForwardedSettings) -> bool {
    settings.trusted.iter().any(|network| network.contains(&peer))
}

/// nginx's `real_ip` module with `real_ip_recursive`: from the last address of the list back to the first
/// that is not a trusted proxy's, beginning with the peer's own.
fn client_address(head: &[u8], request: &Request, peer: IpAddr, settings: &ForwardedSettings) -> IpAddr {
    if !settings.use_incoming && !settings.real_ip {
        return peer;
    }
    let mut client = peer;
    let fields = request.fields.iter().rev();
    let values = fields.filter(|field| field.name(head).eq_ignore_ascii_case(settings.header.as_bytes()));
    for address in values.flat_map(|field| field.value(head).rsplit(|&b| b == b',')) {
        match parse_address(address.trim_ascii()) {
            Some(next) if is_trusted(client, settings) => client = next,
            _ => break,
        }
    }
    client
}

/// An address with or without a port.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let plain = || text.trim_start_matches('[').trim_end_matches(']').parse().ok();
    text.parse::<SocketAddr>().map(|address| address.ip()).ok().or_else(plain)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wire::h1::{Fields, RequestLimits, parse_request};

    use super::*;
    use crate::io::buffer::{Buffer, Buffers};

    fn written(fields: &str, settings: &ForwardedSettings) -> String {
        let head = format!("GET / HTTP/1.1\r\nHost: a:81\r\n{fields}\r\n");
        let limits = RequestLimits { line_bytes_max: 8192, head_bytes_max: 8192 };
        let request = parse_request(head.as_bytes(), limits, Fields::default()).unwrap().unwrap();
        let via = Via { peer: IpAddr::from([10, 0, 0, 9]), port: 80, scheme: "http", own_scheme: "http" };
        let mut out = Buffer::empty(&Rc::new(Buffers::default()));
        Forwarded::of(head.as_bytes(), &request, via, settings)
            .write(None, &mut HeadWriter::new(&mut out, 0));
        String::from_utf8(out.data().to_vec()).unwrap()
    }

    #[test]
    fn incoming_values_are_replaced_by_default() {
        let text = written(
            "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\n",
            &ForwardedSettings::default(),
        );
        assert_eq!(
            text,
            "X-Real-IP: 10.0.0.9\r\nX-Forwarded-For: 10.0.0.9\r\nX-Forwarded-Host: a:81\r\n\
             X-Forwarded-Port: 80\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Scheme: http\r\nX-Scheme: http\r\n\
             X-Original-Forwarded-For: 1.2.3.4\r\nX-Original-Forwarded-Host: b\r\n"
        );
    }

    #[test]
    fn a_trusted_proxy_is_believed() {
        let settings =
            ForwardedSettings { use_incoming: true, compute_full: true, ..ForwardedSettings::default() };
        let text = written(
            "X-Forwarded-For: 1.2.3.4, 10.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n",
            &settings,
        );
        assert!(text.starts_with(
            "X-Real-IP: 1.2.3.4\r\nX-Forwarded-For: 1.2.3.4, 10.1.1.1, 10.0.0.9\r\nX-Forwarded-Host: a:81\r\n\
             X-Forwarded-Port: 443\r\nX-Forwarded-Proto: https\r\n"
        ), "{text}");
    }

    #[test]
    fn a_stranger_is_not_believed() {
        let trusted = vec!["192.0.2.0/24".parse().unwrap()];
        let settings = ForwardedSettings { use_incoming: true, trusted, ..ForwardedSettings::default() };
        let text = written(
            "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nX-Forwarded-Port: 443\r\n",
            &settings,
        );
        assert!(
            text.starts_with(
                "X-Real-IP: 10.0.0.9\r\nX-Forwarded-For: 10.0.0.9\r\nX-Forwarded-Host: a:81\r\n\
             X-Forwarded-Port: 80\r\nX-Forwarded-Proto: http\r\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_walk_ends_at_the_first_stranger() {
        let trusted = vec!["10.0.0.0/8".parse().unwrap()];
        let settings = ForwardedSettings { real_ip: true, trusted, ..ForwardedSettings::default() };
        let text = written("X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.1.1.1\r\n", &settings);
        assert!(text.starts_with("X-Real-IP: 1.2.3.4\r\n"), "{text}");
        let text = written("X-Forwarded-For: 6.6.6.6, nonsense\r\n", &settings);
        assert!(text.starts_with("X-Real-IP: 10.0.0.9\r\n"), "{text}");
    }
}
