//! The values of a request that was refused before its head could be understood.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use observe::Reason;
use observe::access::{Connection, TimeForm, Values};

use super::{connection, write_time};
use crate::request::conn::Conn;
use crate::request::report::Report;
use crate::worker::Worker;

/// The source of the values of such a request.
#[derive(Clone, Copy)]
pub(crate) struct Refused<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) conn: &'a Conn,
    /// The first line that the client sent.
    pub(crate) line: Option<&'a [u8]>,
    /// None until the response has been sent.
    pub(crate) end: Option<RefusalEnd<'a>>,
}

/// The numbers of such a request, and the reason for which it was refused.
#[derive(Clone, Copy)]
pub(crate) struct RefusalEnd<'a> {
    pub(crate) report: &'a Report,
    pub(crate) reason: Reason,
}

impl Refused<'_> {
    fn number(&self, of: impl FnOnce(&Report) -> u64) -> u64 {
        self.end.map_or(0, |end| of(end.report))
    }
}

impl Values for Refused<'_> {
    fn remote_addr(&self) -> IpAddr {
        self.conn.peer.ip().to_canonical()
    }

    fn connection(&self) -> Connection<'_> {
        connection(self.conn)
    }

    fn unix_time(&self) -> Duration {
        self.worker.clock.unix()
    }

    fn write_time(&self, form: TimeForm, out: &mut Vec<u8>) {
        write_time(self.worker, form, out);
    }

    fn hostname(&self) -> &str {
        &self.worker.log.hostname
    }

    fn pid(&self) -> u32 {
        self.worker.log.pid
    }

    fn request_line(&self) -> Option<Cow<'_, [u8]>> {
        self.line.map(Cow::Borrowed)
    }

    fn status(&self) -> u16 {
        self.end.map_or(0, |end| end.report.status.get())
    }

    fn body_bytes_sent(&self) -> u64 {
        self.number(|report| report.sent_body.get())
    }

    fn bytes_sent(&self) -> u64 {
        self.number(Report::sent_bytes)
    }

    fn request_length(&self) -> u64 {
        self.number(Report::request_bytes)
    }

    fn request_time(&self) -> Duration {
        self.end.map_or(Duration::ZERO, |end| self.worker.clock.now().since(end.report.begin))
    }

    fn reason(&self) -> Option<Reason> {
        self.end.map(|end| end.reason)
    }
}
