use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::Labels;
use model::log::{StreamFormat, StreamVariable};
use model::template::Part;

use super::Time;
use super::push::{push_address, push_ip, push_number, push_seconds};

/// The values of a TCP connection or UDP session after it has ended.
#[derive(Clone, Copy, Debug)]
pub struct StreamRecord<'a> {
    /// The time at which it ended.
    pub time: Time<'a>,
    /// The client's address.
    pub remote_addr: IpAddr,
    /// `TCP` or `UDP`.
    pub protocol: &'a str,
    /// The status that nginx would log: 200 for a forwarded stream, 400 if the client sent no valid PROXY
    /// header, 502 if no endpoint could be reached.
    pub status: u16,
    /// Bytes sent to the client.
    pub bytes_sent: u64,
    /// Bytes received from the client.
    pub bytes_received: u64,
    /// Time from its beginning to its end.
    pub session_time: Duration,
    /// Port that the client connected to.
    pub server_port: u16,
    /// The endpoint of the stream; none if no endpoint could be reached.
    pub upstream: Option<SocketAddr>,
    /// Labels of the service.
    pub labels: &'a Labels,
    /// Name of the machine.
    pub hostname: &'a str,
    /// Id of the process.
    pub pid: u32,
}

/// Appends the line of a stream with its `\n`. A missing value is `-`.
pub fn write_stream_line(format: &StreamFormat, record: &StreamRecord<'_>, out: &mut Vec<u8>) {
    for part in format.parts() {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Variable(variable) => write_value(*variable, record, out),
        }
    }
    out.push(b'\n');
}

fn write_value(variable: StreamVariable, record: &StreamRecord<'_>, out: &mut Vec<u8>) {
    match variable {
        StreamVariable::RemoteAddr => push_ip(out, record.remote_addr),
        StreamVariable::TimeLocal => out.extend_from_slice(record.time.local.as_bytes()),
        StreamVariable::TimeIso8601 => out.extend_from_slice(record.time.iso8601.as_bytes()),
        StreamVariable::Msec => push_seconds(out, record.time.unix),
        StreamVariable::Protocol => out.extend_from_slice(record.protocol.as_bytes()),
        StreamVariable::Status => push_number(out, record.status),
        StreamVariable::BytesSent | StreamVariable::UpstreamBytesReceived => {
            push_number(out, record.bytes_sent);
        }
        StreamVariable::BytesReceived | StreamVariable::UpstreamBytesSent => {
            push_number(out, record.bytes_received);
        }
        StreamVariable::SessionTime => push_seconds(out, record.session_time),
        StreamVariable::ServerPort => push_number(out, record.server_port),
        StreamVariable::UpstreamAddr => match record.upstream {
            Some(address) => push_address(out, address),
            None => out.push(b'-'),
        },
        StreamVariable::ProxyUpstreamName => {
            let (labels, protocol) = (record.labels, record.protocol.to_ascii_lowercase());
            let parts = [&*protocol, labels.namespace(), labels.service(), labels.service_port()];
            let name = parts.map(str::as_bytes).join(&b'-');
            out.extend_from_slice(&name);
        }
        StreamVariable::Hostname => out.extend_from_slice(record.hostname.as_bytes()),
        StreamVariable::Pid => push_number(out, record.pid),
    }
}

#[cfg(test)]
mod tests {
    use model::LabelTexts;

    use super::*;

    #[test]
    fn the_line_reads_as_in_ingress_nginx() {
        let labels = Labels::from(LabelTexts {
            namespace: "shop".to_owned(),
            service: "db".to_owned(),
            service_port: "5432".to_owned(),
            ..LabelTexts::default()
        });
        let record = StreamRecord {
            time: Time { local: "20/Nov/2026:11:03:50 +0000", ..Time::default() },
            remote_addr: "192.0.2.7".parse().unwrap(),
            protocol: "TCP",
            status: 200,
            bytes_sent: 12,
            bytes_received: 34,
            session_time: Duration::from_millis(1042),
            server_port: 5432,
            upstream: Some("[2001:db8::1]:5432".parse().unwrap()),
            labels: &labels,
            hostname: "node",
            pid: 7,
        };
        let written = |format: &StreamFormat, record: &StreamRecord<'_>| {
            let mut out = Vec::new();
            write_stream_line(format, record, &mut out);
            String::from_utf8(out).unwrap()
        };
        let line = written(&StreamFormat::default(), &record);
        assert_eq!(line, "[192.0.2.7] [20/Nov/2026:11:03:50 +0000] TCP 200 12 34 1.042\n");
        let format = StreamFormat::parse(
            "$proxy_upstream_name ${server_port} $upstream_addr $upstream_bytes_sent $upstream_bytes_received $hostname $pid",
        );
        let format = format.unwrap();
        assert_eq!(written(&format, &record), "tcp-shop-db-5432 5432 [2001:db8::1]:5432 34 12 node 7\n");
        assert!(written(&format, &StreamRecord { upstream: None, ..record }).contains(" 5432 - 34 "));
        assert!(StreamFormat::parse("$request").is_err());
    }
}
