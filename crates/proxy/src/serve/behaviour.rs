//! Requests of clients whose behaviour is far off the others'. Entered only while there is such a client.

use model::{Conditions, HostName};
use routing::Resolution;

use super::{HEALTH_PATH, Stop};
use crate::access;
use crate::conditions;
use crate::exchange::Exchange;
use crate::filters::FilterResult;

impl Exchange<'_> {
    /// Has the request wait, or refuses it, which is recorded as its route's. That is looked up for this alone: what comes of a request that goes on
    /// is settled later, as for all.
    pub(super) async fn check_behaviour(&self) -> Result<(), Stop> {
        let path = self.client_path();
        let accepts = |conditions: &Conditions| conditions::hold(conditions, self.head, self.request);
        let route =
            match self.config.snapshot.resolve(self.conn.listener, self.host(), path, &self.steps, accepts) {
                // Load balancers that ask whether the proxy is there are told.
                Resolution::UnknownHost if path == HEALTH_PATH => return Ok(()),
                Resolution::Route(host, _) if *host.name() == HostName::Any && path == HEALTH_PATH => {
                    return Ok(());
                }
                Resolution::Route(_, route) | Resolution::AddSlash(_, route) => Some(route),
                Resolution::UnknownHost | Resolution::Undecided(_) | Resolution::UnknownPath(_) => None,
            };
        self.route.set(route);
        let result = access::abuse::check(self).await;
        if result == FilterResult::Continue {
            self.route.set(None);
        }
        result.into()
    }
}
