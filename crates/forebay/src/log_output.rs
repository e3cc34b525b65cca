//! Where the access logs and the audit log of firewalls go: standard output, a file, or a syslog server.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;

use anyhow::Context;
use jiff::Zoned;
use model::Settings;
use model::log::Output;
use observe::Registry;
use observe::log::{self, Writer};

use crate::machine;

/// Where the audit log of firewalls goes. No rule decides that: rules are the tenants'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum AuditLog {
    /// Where the access log goes.
    #[default]
    WithRequests,
    Own(Output),
    Off,
}

impl AuditLog {
    /// Reads the value of `--waf-audit-log`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("a file, stdout, stderr or off is needed".to_owned()),
            "off" => Ok(Self::Off),
            "stdout" | "/dev/stdout" => Ok(Self::Own(Output::Stdout)),
            "stderr" | "/dev/stderr" => Ok(Self::Own(Output::Stderr)),
            path => Ok(Self::Own(Output::File(path.to_owned()))),
        }
    }

    /// Fails where its file cannot be opened.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self::Own(Output::File(path)) = self else { return Ok(()) };
        append_to(path).map(drop).with_context(|| format!("--waf-audit-log {path}"))
    }
}

/// Begins to write the logs, to standard output until they are redirected.
pub(crate) fn begin(audit: &AuditLog, registry: &Arc<Registry>) -> io::Result<Writer> {
    let writer = Writer::spawn(io::stdout(), registry)?;
    match audit {
        AuditLog::WithRequests => {}
        AuditLog::Own(output) => writer.redirect_audit(open(output)),
        AuditLog::Off => return Ok(writer.without_audit()),
    }
    Ok(writer)
}

/// Has the logs go where the settings say, if that is not where they go already.
pub(crate) fn redirect(writer: &Writer, before: Option<&Settings>, settings: &Settings) {
    let outputs =
        |settings: &Settings| [&settings.access_log.output, &settings.stream.log_output].map(Output::clone);
    let wanted = outputs(settings);
    if before.map_or_else(Default::default, outputs) == wanted {
        return;
    }
    let [requests, streams] = wanted;
    let own = (streams != requests).then(|| open(&streams));
    writer.redirect(open(&requests), own);
}

/// A path that cannot be opened is replaced by standard output, so that no line is lost.
fn open(output: &Output) -> log::Output {
    match output {
        Output::Stdout => Box::new(io::stdout()),
        Output::Stderr => Box::new(io::stderr()),
        Output::File(path) => match append_to(path) {
            Ok(file) => Box::new(file),
            Err(error) => {
                tracing::error!(path, %error, "cannot write the log there: it goes to standard output");
                Box::new(io::stdout())
            }
        },
        Output::Syslog { host, port } => Box::new(Syslog::new(host, *port)),
    }
}

fn append_to(path: &str) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// Sends each line in a UDP datagram of its own, as nginx does: facility local7, severity info, tag `nginx`
/// (RFC 3164 section 4.1).
struct Syslog {
    host: String,
    port: u16,
    hostname: String,
    socket: Option<UdpSocket>,
}

/// Facility times eight, plus severity.
const PRIORITY: u8 = 23 * 8 + 6;

impl Syslog {
    fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, hostname: machine::hostname(), socket: None }
    }

    /// The name is looked up for the first line, and again after a line that could not be sent.
    fn connect(&self) -> io::Result<UdpSocket> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let server = (host, self.port).to_socket_addrs()?.next().ok_or_else(unknown)?;
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        Ok(socket)
    }

    fn send(&mut self, lines: &[u8]) -> io::Result<()> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.connect()?,
        };
        let header =
            format!("<{PRIORITY}>{} {} nginx: ", Zoned::now().strftime("%b %e %H:%M:%S"), self.hostname);
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            socket.send(&[header.as_bytes(), line].concat())?;
        }
        self.socket = Some(socket);
        Ok(())
    }
}

impl Write for Syslog {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.send(lines)?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_datagram_with_priority_time_host_and_tag() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut syslog = Syslog::new("127.0.0.1", server.local_addr().unwrap().port());
        syslog.write_all(b"first\nsecond\n").unwrap();
        for line in ["first", "second"] {
            let mut datagram = [0; 1024];
            let len = server.recv(&mut datagram).unwrap();
            let text = std::str::from_utf8(&datagram[..len]).unwrap();
            let rest = text.strip_prefix("<190>").unwrap();
            // `Nov  2 11:03:50 host nginx: first`
            let (time, rest) = rest.split_at("Nov  2 11:03:50".len());
            assert!(time.as_bytes()[9] == b':' && time.as_bytes()[12] == b':', "{text}");
            assert_eq!(rest, format!(" {} nginx: {line}", machine::hostname()));
        }
    }

    #[test]
    fn a_file_is_appended_to_and_one_that_cannot_be_opened_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let output = Output::File(path.to_str().unwrap().to_owned());
        for line in ["first\n", "second\n"] {
            open(&output).write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        drop(open(&Output::File(folder.path().join("missing/log").to_str().unwrap().to_owned())));
    }
}
