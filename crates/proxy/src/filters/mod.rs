//! What routes do to requests before they are forwarded: a closed set, one file each.
//!
//! They run in the order of [`request`], whatever their order in the route. It is nginx's order of phases as
//! ingress-nginx uses them: redirects come before anything that refuses.

pub(crate) mod client_certificate;
pub(crate) mod forwarded;
mod tls_redirect;

use model::Filter;
use observe::Reason;

use crate::reply::Answer;
pub(crate) use client_certificate::Presented;
pub(crate) use forwarded::{Forwarded, Via};

/// What the filters know of a request.
pub(crate) struct Subject<'a> {
    /// Path and query, as sent.
    pub(crate) target: &'a [u8],
    /// Normalised path.
    pub(crate) path: &'a [u8],
    /// Who asks, and what for.
    pub(crate) forwarded: &'a Forwarded<'a>,
    /// What its connection says of it, if it came over TLS.
    pub(crate) client: Option<Presented<'a>>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It goes on.
    Continue,
    /// It is answered.
    Answer(Answer),
    /// It is refused.
    Refuse(Reason),
}

/// Position in the order of phases.
fn phase(filter: &Filter) -> u8 {
    match filter {
        Filter::TlsRedirect(_) => 0,
        Filter::Forbidden { .. } => 1,
        Filter::ClientCertificate(_) => 2,
        Filter::Unavailable { .. } => 3,
    }
}

/// One past the last phase.
const PHASES: u8 = 4;

/// Runs a route's filters.
pub(crate) fn request(filters: &[Filter], subject: &Subject<'_>) -> Flow {
    if filters.is_empty() {
        return Flow::Continue;
    }
    let in_order = (0..PHASES).flat_map(|at| filters.iter().filter(move |filter| phase(filter) == at));
    for filter in in_order {
        let flow = apply(filter, subject);
        if flow != Flow::Continue {
            return flow;
        }
    }
    Flow::Continue
}

fn apply(filter: &Filter, subject: &Subject<'_>) -> Flow {
    match filter {
        Filter::TlsRedirect(redirect) => tls_redirect::apply(redirect, subject),
        Filter::Forbidden { .. } => Flow::Refuse(Reason::Forbidden),
        Filter::ClientCertificate(demand) => client_certificate::apply(demand, subject),
        Filter::Unavailable { .. } => Flow::Refuse(Reason::Unavailable),
    }
}

#[cfg(test)]
mod tests {
    use model::TlsRedirect;

    use super::*;

    #[test]
    fn the_order_of_phases_decides_not_that_of_the_list() {
        let redirect = Filter::TlsRedirect(TlsRedirect {
            status: 308,
            force: false,
            except: Vec::new(),
            keep_trailing_slash: false,
            port: None,
        });
        let unavailable = Filter::Unavailable { reason: "auth-url".to_owned() };
        let forwarded = Forwarded::sample();
        let subject = Subject { target: b"/a", path: b"/a", forwarded: &forwarded, client: None };
        let flow = request(&[unavailable.clone(), redirect], &subject);
        assert!(matches!(flow, Flow::Answer(answer) if answer.status == 308));
        assert_eq!(request(&[unavailable], &subject), Flow::Refuse(Reason::Unavailable));
    }
}
