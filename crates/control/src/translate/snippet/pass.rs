//! The directive `proxy_pass`: requests for a Service of the cluster, or for a host outside.

use std::sync::Arc;

use model::{Pass, PassTarget, ScriptPath};

use super::parse::Directive;
use super::{Fault, PassDraft, Reader};
use crate::translate::claim::AuthService;
use crate::translate::ingress::auth::external::parse_url;

/// The most destinations of one snippet: each makes a route for each path of the host.
const PASSES_MAX: usize = 16;

/// Whether any of the directives, or of those in their conditions, forwards requests.
pub(super) fn forwards(directives: &[Directive]) -> bool {
    let inside = |one: &Directive| one.name == "if" && forwards(one.block.as_deref().unwrap_or_default());
    directives.iter().any(|one| one.name == "proxy_pass" || inside(one))
}

impl Reader<'_> {
    /// Reads `proxy_pass URL`. `place` has the path of the location, if it stands in one of the snippet.
    pub(super) fn pass(&self, directive: &Directive, place: Option<&ScriptPath>) -> Result<Pass, Fault> {
        let [url] = directive.arguments()?;
        let authority = url.find("://").map_or(0, |at| at + 3);
        let end = url[authority..].find(['/', '?', '$']).map_or(url.len(), |at| authority + at);
        let (url, uri) = url.split_at(end);
        let has_host = !url[authority..].is_empty() && !url.ends_with(':');
        if !has_host || (uri.starts_with('$') && !uri.starts_with("$request_uri") && !uri.starts_with("$uri"))
        {
            let what = "takes its host from a variable, so that nobody can say where requests would go; \
                write one proxy_pass for each host, in conditions";
            return Err(directive.fault(what));
        }
        let (service, _) = parse_url(url).map_err(|why| directive.fault(format!("cannot be used: {why}")))?;
        if service.host == "upstream_balancer" {
            let what =
                "leads to ingress-nginx's own upstream; use http://SERVICE.NAMESPACE.svc.cluster.local:PORT";
            return Err(directive.fault(what));
        }
        let target = match uri {
            "" => PassTarget::Same,
            uri if uri.contains('$') => PassTarget::Whole(self.template(directive, uri)?),
            uri => match place {
                Some(ScriptPath::Exact(path) | ScriptPath::Prefix(path) | ScriptPath::FirmPrefix(path))
                    if !uri.contains('?') =>
                {
                    PassTarget::Beginning { len: path.len(), with: uri.to_owned() }
                }
                _ => {
                    let what =
                        "has a path, which nginx allows in a location with a plain path only; use variables";
                    return Err(directive.fault(what));
                }
            },
        };
        let scheme = if service.is_encrypted { "https" } else { "http" };
        let to: Arc<str> = format!("{scheme}://{}:{}", service.host, service.port).into();
        let mut passes = self.passes.borrow_mut();
        if passes.iter().all(|known| known.to != to) {
            if passes.len() >= PASSES_MAX {
                return Err(directive.fault(format!("is one of more than {PASSES_MAX} destinations")));
            }
            let host = host_of(&service);
            passes.push(PassDraft { to: Arc::clone(&to), service, host, is_of_place: self.is_of_host });
        }
        Ok(Pass { to, target })
    }
}

/// The host that an endpoint is asked for, as nginx's `$proxy_host`.
fn host_of(service: &AuthService) -> String {
    let usual = if service.is_encrypted { 443 } else { 80 };
    if service.port == usual { service.host.clone() } else { format!("{}:{}", service.host, service.port) }
}
