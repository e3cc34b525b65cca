//! Requests whose only check is made without a wait: their token was verified before, or their session
//! counts. They are most of the requests of such routes, and need no future for their checks.

use std::rc::Rc;

use model::Access;

use super::{jwt, oidc};
use crate::admit::Targeted;
use crate::request::decision::Decision;
use crate::route::filters::FilterResult;

/// Whether a request is let in at once.
pub(crate) enum AtOnce {
    Decided(Option<Rc<Decision>>, FilterResult),
    /// The checks are made in their order.
    Undecided {
        /// The request has a token that was looked up, and is not known.
        has_unknown_token: bool,
    },
}

/// The decision for a request that is let in at once. All others have their checks made in their order.
pub(crate) fn at_once(targeted: &Targeted<'_>, access: &Access) -> AtOnce {
    const UNDECIDED: AtOnce = AtOnce::Undecided { has_unknown_token: false };
    if !access.has_credentials_alone() {
        return UNDECIDED;
    }
    if access.jwt.is_none() && access.oidc.is_none() && !oidc::has_cookies(targeted) {
        return AtOnce::Decided(None, FilterResult::Continue);
    }
    let mut made = Rc::<Decision>::default();
    let Some(decision) = Rc::get_mut(&mut made) else { return UNDECIDED };
    if access.hides_sessions {
        oidc::hide_cookies(targeted, decision);
    }
    match (&access.jwt, &access.oidc) {
        (Some(jwt), None) => match jwt::let_in_at_once(targeted, jwt, decision) {
            jwt::AtOnce::Allowed => {}
            outcome => {
                return AtOnce::Undecided { has_unknown_token: outcome == jwt::AtOnce::Unknown };
            }
        },
        (None, Some(oidc)) => {
            if oidc::let_in_at_once(targeted, oidc, decision).is_none() {
                return UNDECIDED;
            }
        }
        (Some(_), Some(_)) => return UNDECIDED,
        (None, None) => {}
    }
    AtOnce::Decided(Some(made).filter(|decision| !decision.is_empty()), FilterResult::Continue)
}
