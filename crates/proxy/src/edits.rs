//! The changes to the head of a response, of all who have a say in it: the settings, the route, the checks of the client, the choice of the
//! endpoint.
//!
//! Never in here: how a head is written.

use crate::exchange::Exchange;
use crate::filters;
use crate::head::HeadEdits;
use crate::values;

impl Exchange<'_> {
    /// The changes to the head of the response, whoever made it.
    pub(crate) fn response_edits(&self, status: u16, without_hsts: bool) -> HeadEdits<'_> {
        let settings = self.config.settings();
        if settings.heads.is_some() {
            // For variables.
            self.report.status.set(status);
        }
        let expand = |template: &_| values::expand_field(self, template);
        let mut edits = filters::response(settings, self.conn.tls.is_some() && !without_hsts, expand);
        let is_of_route = self.script.get().is_none_or(|script| !script.is_of_host);
        if let Some(route) = self.route.get().filter(|_| is_of_route) {
            filters::response::apply(route.response_filters.as_slice(), self.origin(), &mut edits);
        }
        for cookie in self.admitted.get().into_iter().flat_map(|admitted| admitted.cookies_for(status)) {
            edits.add("Set-Cookie", cookie.as_slice());
        }
        if let Some(cookie) = self.affinity_cookie.take() {
            edits.add("Set-Cookie", Vec::from(cookie.into_boxed_bytes()));
        }
        for challenge in self.error_page.get().into_iter().flat_map(|page| &page.challenges) {
            edits.add("WWW-Authenticate", challenge.as_slice());
        }
        edits
    }
}
