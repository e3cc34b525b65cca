use std::net::IpAddr;
use std::time::Duration;

use super::Time;
use super::line::{push_ip, push_number, push_seconds};

/// The values of a TCP connection or UDP session after it has ended.
#[derive(Clone, Copy, Debug)]
pub struct StreamRecord<'a> {
    /// The time at which it ended.
    pub time: Time<'a>,
    /// The client's address.
    pub remote_addr: IpAddr,
    /// `TCP` or `UDP`.
    pub protocol: &'a str,
    /// The status that nginx would log: 200 if it was passed on, 400 if the client sent no valid PROXY header, 502 if no endpoint
    /// could be reached.
    pub status: u16,
    /// Bytes sent to the client.
    pub bytes_sent: u64,
    /// Bytes received from the client.
    pub bytes_received: u64,
    /// Time from its beginning to its end.
    pub session_time: Duration,
}

/// Appends the line of a stream with its `\n`, in ingress-nginx's format:
/// `[$remote_addr] [$time_local] $protocol $status $bytes_sent $bytes_received $session_time`.
pub fn write_stream_line(record: &StreamRecord<'_>, out: &mut Vec<u8>) {
    out.push(b'[');
    push_ip(out, record.remote_addr);
    out.extend_from_slice(b"] [");
    out.extend_from_slice(record.time.local.as_bytes());
    out.extend_from_slice(b"] ");
    out.extend_from_slice(record.protocol.as_bytes());
    out.push(b' ');
    push_number(out, record.status);
    for bytes in [record.bytes_sent, record.bytes_received] {
        out.push(b' ');
        push_number(out, bytes);
    }
    out.push(b' ');
    push_seconds(out, record.session_time);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_reads_as_in_ingress_nginx() {
        let record = StreamRecord {
            time: Time { local: "20/Nov/2026:11:03:50 +0000", ..Time::default() },
            remote_addr: "192.0.2.7".parse().unwrap(),
            protocol: "TCP",
            status: 200,
            bytes_sent: 12,
            bytes_received: 34,
            session_time: Duration::from_millis(1042),
        };
        let mut out = Vec::new();
        write_stream_line(&record, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "[192.0.2.7] [20/Nov/2026:11:03:50 +0000] TCP 200 12 34 1.042\n"
        );
    }
}
