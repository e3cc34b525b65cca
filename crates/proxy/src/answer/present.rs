//! The head of a response that has a head of its own already (an endpoint's, one that was kept, a file's) as
//! the client of a request gets it: what the route, scripts and settings change, and how its body ends.
//!
//! Never in here: answers that the proxy makes itself, which are `reply`'s.

use std::time::Duration;

use model::ResponsePolicy;
use observe::CacheResult;
use routing::Needs;
use wire::cache::Head;
use wire::h1::{Body, Response, Version};

use crate::admit::cache_head;
use crate::admit::script_heads;
use crate::answer::attempted::Attempted;
use crate::answer::deliver::Outcome;
use crate::answer::edits::{response_edits, tell_of_services};
use crate::answer::recode::Recode;
use crate::body::{Framing, Source};
use crate::io::buffer::Buffer;
use crate::replicas;
use crate::request::head::{Delivery, HeadEdits, HeadWriter, write_response_head};
use crate::request::reply::Scope;
use crate::route::filters;

/// A response that has a head of its own.
pub(crate) struct ReceivedResponse<'r> {
    pub(crate) response: &'r Response,
    /// Its head as HTTP/1.
    pub(crate) head: &'r [u8],
    /// The status that the client gets in place of the head's.
    pub(crate) status: Option<(u16, &'static str)>,
    /// The body that follows the head.
    pub(crate) body: Body,
    pub(crate) policy: Option<&'r ResponsePolicy>,
    pub(crate) recode: Option<Recode>,
    /// The client's connection cannot take another request.
    pub(crate) is_last: bool,
}

/// The head of a response as the client gets it, and how the rest follows.
pub(crate) struct Presented {
    status: u16,
    head: Buffer,
    pub(crate) delivery: Delivery,
}

impl Presented {
    /// With its body, for whose source there is so much time between two reads.
    pub(crate) fn with<'r>(
        self,
        body: Source<'r>,
        read_timeout: Duration,
        policy: Option<&'r ResponsePolicy>,
    ) -> Outcome<'r> {
        let Self { status, head, delivery } = self;
        Outcome { status, head, body, framing: delivery.framing, read_timeout, policy }
    }
}

impl Attempted<'_, '_> {
    /// Writes and notes the head that the client gets. What it takes to write it is not kept while the
    /// response is sent. `change` makes changes of its own, which the route's may replace; `tell` writes
    /// lines that nothing replaces.
    #[inline]
    pub(crate) fn present<'r>(
        &'r self,
        own: &ReceivedResponse<'r>,
        change: impl FnOnce(&mut HeadEdits<'r>),
        tell: impl FnOnce(&mut HeadWriter<'_>, &HeadEdits<'_>),
    ) -> Presented {
        let ReceivedResponse { response, head: received, .. } = *own;
        let status = own.status.map_or(response.status, |(status, _)| status);
        let mut delivery = self.delivery(status, own.body);
        delivery.keep_alive &= !own.is_last;
        if self.peer_request.is_some() {
            let head = self.write_head_for_replica(own, delivery, change, tell);
            self.note_head(status, head.data());
            return Presented { status, head, delivery };
        }
        let mut head = Buffer::small(&self.worker.buffers);
        let mut edits =
            response_edits(self, status, Scope::Location).put_over(Head::of_response(received, response));
        edits.status = own.status;
        change(&mut edits);
        if self.needs.has_any(Needs::RESPONSE_HEAD) {
            self.edit_own(own, status, &mut edits);
        }
        let date = || self.worker.date();
        let tell = |writer: &mut HeadWriter<'_>| {
            tell(writer, &edits);
            if let Some(report) = self.cache_report() {
                cache_head::tell(&report, writer);
            }
        };
        write_response_head(received, response, delivery, &edits, (date, tell), &mut head);
        self.note_head(status, head.data());
        Presented { status, head, delivery }
    }

    /// Makes the changes of the route, its scripts, its cache and the settings to a head that somebody else
    /// has written.
    fn edit_own<'r>(&'r self, own: &ReceivedResponse<'r>, status: u16, edits: &mut HeadEdits<'r>) {
        let ReceivedResponse { response, head: received, policy, recode, .. } = *own;
        if let Some(policy) = policy {
            filters::response::translate(policy, || self.redirect_origin(), edits);
        }
        let last_modified = || {
            let field = response.fields.find_name(received, b"last-modified")?;
            wire::date::parse(field.value(received), self.worker.clock.unix().as_secs())
        };
        tell_of_services(self, edits);
        script_heads::edit_response(self, status, Scope::Location, last_modified, edits);
        if let Some(recode) = recode {
            recode.edit(edits);
        }
        if let Some(miss) = self.miss() {
            cache_head::remove_tags(Head::of_response(received, response), edits);
            if miss.report.get().home.is_some() {
                edits.remove(replicas::NAME);
            }
        }
        script_heads::hide(self, edits);
        if let Some(heads) = &self.config.settings().heads {
            filters::response::hide(heads, edits);
        }
    }

    /// The head for another replica, which does for its client what the route asks for.
    #[cold]
    fn write_head_for_replica<'r>(
        &'r self,
        own: &ReceivedResponse<'r>,
        delivery: Delivery,
        change: impl FnOnce(&mut HeadEdits<'r>),
        tell: impl FnOnce(&mut HeadWriter<'_>, &HeadEdits<'_>),
    ) -> Buffer {
        let mut head = Buffer::small(&self.worker.buffers);
        let mut edits = HeadEdits::default();
        edits.status = own.status;
        change(&mut edits);
        // It counts there what has been done here.
        let report = self.cache_report();
        let result = report.map_or(CacheResult::Bypass, |report| report.result());
        edits.set(replicas::NAME, result.name().as_bytes());
        let date = || self.worker.date();
        let tell = |writer: &mut HeadWriter<'_>| {
            tell(writer, &edits);
            if let Some(report) = report {
                cache_head::tell(&report, writer);
            }
        };
        write_response_head(own.head, own.response, delivery, &edits, (date, tell), &mut head);
        head
    }

    /// How the end of a body is told to a client that may not know chunks.
    #[inline]
    pub(crate) fn delivery(&self, status: u16, body: Body) -> Delivery {
        let version = self.parsed.version;
        let has_length = matches!(body, Body::Empty | Body::Length(_));
        let is_raw = has_length || version == Version::Http10 || self.client.is_stream();
        let framing = if is_raw { Framing::Raw } else { Framing::Chunked };
        // A response that refuses the request while its body is still being sent will not see the end of it.
        let is_refusal = status >= 400 || self.error_page.is_some();
        let refused_early = is_refusal && !self.progress.is_body_done();
        let keep_alive =
            self.may_keep_alive() && (has_length || framing == Framing::Chunked) && !refused_early;
        Delivery { framing, keep_alive, version }
    }

    /// Notes that the client is being answered, and with what.
    #[inline]
    pub(crate) fn note_head(&self, status: u16, head: &[u8]) {
        self.report.status.set(status);
        self.report.note_sent_head(head.len());
        self.progress.note_answered();
        if self.config.logs_response_headers {
            *self.report.response_head.borrow_mut() = head.to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::admit::{Admitted, ErrorPage};
    use crate::testing::{TWO, World, route_to};

    const LENGTH: Body = Body::Length(3);

    /// The head that the client gets in place of this one, and how the rest follows.
    fn presented(head: &str, status: Option<(u16, &'static str)>, is_last: bool) -> (String, Delivery) {
        let mut response = Response::default();
        assert!(response.parse(head.as_bytes()).unwrap());
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            let attempted = Attempted::new(&admitted);
            let own = ReceivedResponse {
                response: &response,
                head: head.as_bytes(),
                status,
                body: response.body(false),
                policy: None,
                recode: None,
                is_last,
            };
            let Presented { status, head, delivery } = attempted.present(&own, |_| (), |_, _| ());
            assert_eq!(admitted.report.status.get(), status);
            assert!(admitted.progress.is_answered());
            (String::from_utf8_lossy(head.data()).into_owned(), delivery)
        })
    }

    #[test]
    fn the_end_of_a_body_is_told_as_the_client_understands_it() {
        for (lines, body, framing, keep_alive) in [
            ("GET /", LENGTH, Framing::Raw, true),
            ("GET /", Body::Empty, Framing::Raw, true),
            ("GET /", Body::Chunked, Framing::Chunked, true),
            ("GET /", Body::UntilClose, Framing::Chunked, true),
            ("GET / HTTP/1.0", Body::Chunked, Framing::Raw, false),
            ("GET / HTTP/1.0\nConnection: keep-alive", Body::Chunked, Framing::Raw, false),
            ("GET / HTTP/1.0\nConnection: keep-alive", LENGTH, Framing::Raw, true),
            ("GET /\nConnection: close", Body::Chunked, Framing::Chunked, false),
        ] {
            World::of(route_to(TWO)).admitted(lines, |admitted, _| {
                let Delivery { framing: found, keep_alive: kept, .. } =
                    Attempted::new(&admitted).delivery(200, body);
                assert_eq!((found, kept), (framing, keep_alive), "{lines} {body:?}");
            });
        }
    }

    #[test]
    fn a_refusal_of_a_body_that_is_still_sent_closes_the_connection() {
        let world = World::of(route_to(TWO));
        let keeps =
            |admitted: &Admitted<'_>, status| Attempted::new(admitted).delivery(status, LENGTH).keep_alive;
        world.admitted("POST /\nContent-Length: 9", |admitted, _| {
            admitted.progress.note_body_begun();
            assert!(keeps(&admitted, 200) && !keeps(&admitted, 404));
            let page = ErrorPage { status: 413, challenges: Vec::new(), is_bodiless: true };
            let replaced = Admitted { error_page: Some(Rc::new(page)), ..admitted };
            assert!(!keeps(&replaced, 200), "whatever the status of the page is");
            replaced.progress.note_body_whole();
            assert!(keeps(&replaced, 404));
        });
    }

    #[test]
    fn the_head_is_written_for_the_client() {
        let of_endpoint = "HTTP/1.1 200 Fine\r\nServer: other\r\nKeep-Alive: timeout=5\r\nX-Own: 1\r\n\r\n";
        let (head, _) = presented(of_endpoint, None, false);
        assert!(head.starts_with("HTTP/1.1 200 Fine\r\nX-Own: 1\r\n"), "{head}");
        assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
        assert!(!head.contains("Connection:") && !head.contains("other"), "{head}");
    }

    #[test]
    fn the_status_may_be_another_and_the_connection_the_last_one() {
        let of_endpoint = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        let (head, delivery) = presented(of_endpoint, Some((304, "Not Modified")), true);
        assert!(head.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{head}");
        assert!(head.contains("Connection: close\r\n") && !delivery.keep_alive, "{head}");
    }
}
