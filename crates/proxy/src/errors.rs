//! Which responses are replaced by that of a backend of errors, and what that backend is told (ingress-nginx: `custom-http-errors`).
//!
//! Never in here: how it is asked, which is `error_backend`'s.

use std::cell::Cell;

use model::{ErrorPages, HeaderNames};
use wire::h1::TargetForm;

use crate::exchange::{ErrorPage, Exchange};
use crate::head::HeadEdits;
use crate::lookup;
use crate::reply::CLIENT_CLOSED_REQUEST;

impl<'a> Exchange<'a> {
    /// Notes that another backend answers in place of a response with this status, if that is so. A response of that backend is not
    /// replaced again.
    #[cold]
    pub(crate) fn replace(
        &self,
        status: u16,
        challenges: impl FnOnce() -> Vec<Vec<u8>>,
        is_own: bool,
    ) -> bool {
        let may_be_replaced = status != CLIENT_CLOSED_REQUEST
            && self.error_page.get().is_none()
            && self.guest.get().is_none()
            && !self.progress.is_answered()
            && self.request.form != TargetForm::Authority;
        let is_replaced = |pages: &ErrorPages| pages.replaces(status) && (is_own || !pages.spares_endpoints);
        if !may_be_replaced || !self.error_pages().is_some_and(is_replaced) {
            return false;
        }
        let page = ErrorPage {
            status,
            challenges: challenges(),
            is_bodiless: Cell::new(false),
            spent: Cell::new(None),
        };
        self.error_page.set(Box::new(page)).is_ok()
    }

    /// Whether another backend answers in place of an endpoint's response with this status.
    pub(crate) fn replaces(&self, status: u16) -> bool {
        self.error_pages().is_some_and(|pages| pages.replaces(status) && !pages.spares_endpoints)
    }

    /// Whether another backend may have to answer in place of endpoints.
    pub(crate) fn may_be_replaced(&self) -> bool {
        self.error_page.get().is_none()
            && self.error_pages().is_some_and(|pages| !pages.statuses().is_empty())
    }

    /// What becomes of the request's errors.
    pub(crate) fn error_pages(&self) -> Option<&'a ErrorPages> {
        match self.route.get() {
            Some(route) => route.error_pages.as_deref(),
            None => self.config.settings().error_pages.as_deref(),
        }
    }
}

/// Tells a backend of errors, and one that steps in for endpoints that are missing, what it is about. Returns the target for the former.
pub(crate) fn tell<'e>(exchange: &'e Exchange<'_>, edits: &mut HeadEdits<'e>) -> Option<Vec<u8>> {
    let page = exchange.error_page.get();
    let steps_in = || {
        let fallback = exchange.error_pages().and_then(|pages| pages.fallback);
        fallback.is_some() && fallback == exchange.cluster.get()
    };
    let status = match page {
        Some(page) => page.status,
        None if steps_in() => 503,
        None => return None,
    };
    edits.set("X-Code", status.to_string().into_bytes());
    // nginx sends no header without a value.
    match lookup::header_variable(exchange.head, exchange.request, b"accept", HeaderNames::Plain) {
        Some(accept) if !accept.is_empty() => edits.set("X-Format", accept),
        _ => edits.remove("X-Format"),
    }
    let labels = exchange.route.get().map(|route| &*route.labels);
    let label = |of: fn(&model::Labels) -> &String| labels.map_or("", |labels| of(labels));
    for (name, value) in [
        ("X-Namespace", label(|labels| &labels.namespace)),
        ("X-Ingress-Name", label(|labels| &labels.object)),
        ("X-Service-Name", label(|labels| &labels.service)),
        ("X-Service-Port", label(|labels| &labels.service_port)),
    ] {
        if value.is_empty() {
            edits.remove(name);
        } else {
            edits.set(name, value.as_bytes());
        }
    }
    page?;
    let target = exchange.request.origin_target(exchange.head);
    edits.set("X-Original-URI", target);
    let query = wire::path::query_of_target(target);
    Some(query.map_or_else(|| b"/".to_vec(), |query| [b"/?", query].concat()))
}
