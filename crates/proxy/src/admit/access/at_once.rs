//! Requests whose only check is made without a wait: their token was verified before, or their session
//! counts. They are most of the requests of such routes, and need no future for their checks.

use std::rc::Rc;

use model::Access;

use super::{jwt, oidc};
use crate::admit::Targeted;
use crate::request::decision::Decision;
use crate::route::filters::FilterResult;

/// The decision for a request that is let in at once. None for all others, whose checks are made in their
/// order.
pub(crate) fn at_once(
    targeted: &Targeted<'_>,
    access: &Access,
) -> Option<(Option<Rc<Decision>>, FilterResult)> {
    if !access.has_credentials_alone() {
        return None;
    }
    if access.jwt.is_none() && access.oidc.is_none() && !oidc::has_cookies(targeted) {
        return Some((None, FilterResult::Continue));
    }
    let mut made = Rc::<Decision>::default();
    let decision = Rc::get_mut(&mut made)?;
    if access.hides_sessions {
        oidc::hide_cookies(targeted, decision);
    }
    match (&access.jwt, &access.oidc) {
        (Some(jwt), None) => jwt::let_in_at_once(targeted, jwt, decision)?,
        (None, Some(oidc)) => oidc::let_in_at_once(targeted, oidc, decision)?,
        (Some(_), Some(_)) => return None,
        (None, None) => {}
    }
    Some((Some(made).filter(|decision| !decision.is_empty()), FilterResult::Continue))
}
