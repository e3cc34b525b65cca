//! The changes to the head of a response, of all who have a say in it: the settings, the route, the checks of the client, the choice of the
//! endpoint.
//!
//! Never in here: how a head is written.

use model::ResponseFilter;

use crate::exchange::Exchange;
use crate::filtered;
use crate::filters;
use crate::head::HeadEdits;
use crate::reply::Scope;
use crate::values;

impl Exchange<'_> {
    /// The changes to the head of the response, whoever made it.
    pub(crate) fn response_edits(&self, status: u16, scope: Scope) -> HeadEdits<'_> {
        let settings = self.config.settings();
        let expand = |template: &_| values::expand_field_for(self, status, template);
        let scope = self.final_scope(scope);
        let has_hsts = self.conn.tls.is_some() && matches!(scope, Scope::Location | Scope::Closed);
        let mut edits = filters::response(settings, has_hsts, expand);
        let has_filter = |filter: &&ResponseFilter| match scope {
            Scope::Location => true,
            Scope::Signin => matches!(filter, ResponseFilter::Cors(_) | ResponseFilter::CrossOrigin(_)),
            Scope::Closed | Scope::Host => false,
        };
        if let Some(rewritten) = self.rewritten.get().filter(|_| scope == Scope::Location) {
            filtered::edit_response(rewritten, &mut edits);
        }
        if let Some(route) = self.route.get() {
            let filters = route.response_filters.as_slice().iter().filter(has_filter);
            filters::response::apply(filters, || self.asking(), &mut edits);
        }
        let admitted = self.admitted.get().filter(|_| scope != Scope::Host);
        for cookie in admitted.into_iter().flat_map(|admitted| admitted.cookies_for(status)) {
            edits.add("Set-Cookie", cookie.as_slice());
        }
        if let Some(told) = admitted.and_then(|admitted| admitted.quota.as_ref()) {
            edits.add("RateLimit-Policy", told.policy.as_bytes());
            edits.add("RateLimit", told.left.as_bytes());
        }
        if let Some(cookie) = self.affinity_cookie.borrow().as_deref() {
            self.tell_session(cookie.0.clone(), &mut edits);
        }
        for challenge in self.error_page.get().into_iter().flat_map(|page| &page.challenges) {
            edits.add("WWW-Authenticate", challenge.as_slice());
        }
        edits
    }

    /// Where a response is made after all: neither a backend of errors nor the snippet of a host answers within a location.
    pub(crate) fn final_scope(&self, scope: Scope) -> Scope {
        let is_of_host =
            self.error_page.get().is_some() || self.script.get().is_some_and(|script| script.is_of_host);
        if is_of_host { Scope::Host } else { scope }
    }
}
