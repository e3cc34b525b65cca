//! How far a request has come: the stages from which its values are taken.

use model::{Action, Canary, ClusterId};

use crate::request::decision::Decision;
use crate::route::Routed;
use crate::route::script_state::ScriptState;
use crate::store::CacheReport;

/// ingress-nginx's name for its built-in default backend, which answers where no Ingress names a Service.
const DEFAULT_BACKEND: &str = "upstream-default-backend";

/// A request as far as it has come. Later steps fill what is missing at first.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s> {
    pub(crate) routed: &'s Routed<'s>,
    /// The cluster whose endpoints are asked, once it is chosen.
    pub(crate) cluster: Option<ClusterId>,
    /// The canary that serves the request, if one does.
    pub(crate) canary: Option<&'s Canary>,
    /// Whether filters have changed the target for endpoints.
    pub(crate) is_target_rewritten: bool,
    /// The outcome of the checks of the client.
    pub(crate) decision: Option<&'s Decision>,
    /// The cache's part in the request.
    pub(crate) cache: Option<CacheReport>,
}

/// A stage of a request, whose values texts can have.
pub(crate) trait HasValues {
    fn scope(&self) -> Scope<'_>;
}

impl HasValues for Routed<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope {
            routed: self,
            cluster: None,
            canary: None,
            is_target_rewritten: self.rewritten.as_ref().is_some_and(|it| it.target.is_some()),
            decision: None,
            cache: None,
        }
    }
}

impl HasValues for Scope<'_> {
    fn scope(&self) -> Scope<'_> {
        *self
    }
}

impl<'s> Scope<'s> {
    pub(super) fn script(&self) -> Option<&'s ScriptState<'s>> {
        self.routed.script.as_deref()
    }

    /// Whether there is nobody to send the request to.
    fn is_for_nobody(&self) -> bool {
        match self.routed.route {
            Some(route) => route.action == Action::NotFound,
            None => self.routed.report.status.get() == 404,
        }
    }

    /// The cluster of the request as ingress-nginx names it.
    pub(super) fn upstream_name(&self) -> Option<&'s str> {
        let only = || self.routed.own_forward()?.backends.only();
        let cluster = self.canary.map(|canary| canary.mainline).or(self.cluster).or_else(only);
        let name = cluster.map(|cluster| self.routed.request.config.snapshot.cluster(cluster).name.as_str());
        name.or_else(|| self.is_for_nobody().then_some(DEFAULT_BACKEND))
    }
}
