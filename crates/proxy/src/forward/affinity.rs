//! Endpoints that the request itself decides: by the cookie or the header that its client was given, or by
//! the hash of one of its values.

use std::time::Duration;

use balance::Sticky;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::AffinityCookie;

use crate::admit::Admitted;
use crate::answer::attempted::CookieLine;
use crate::forward::selected::Selected;
use crate::request::Request;
use crate::request::session::session;
use crate::route::values;
use crate::upstream::{Cluster, Keyed, Member};

/// Picks an endpoint by what the request says, which `is_fit` and `takes` it by a number from 0 to 1, unless
/// there is no such endpoint or the request has to stay with another; none if there is no endpoint.
pub(crate) fn pick_by_key<'c>(
    admitted: &Admitted<'_>,
    cluster: &'c Cluster,
    keyed: &Keyed,
    is_fit: impl Fn(&Member) -> bool,
    takes: impl Fn(&Member, &dyn Fn() -> f64) -> bool,
) -> Option<Selected<'c>> {
    match keyed {
        Keyed::Cookie(sticky) => pick_by_cookie(admitted, cluster, sticky, is_fit, takes),
        Keyed::Hash(hashed) => {
            let value = values::expand(admitted, &hashed.by.key);
            cluster.of_hash(hashed, &value, is_fit, takes, &admitted.worker.random).map(Selected::of)
        }
    }
}

/// The endpoint of the client's cookie, however often it fails, and however new it is. A client without one,
/// and one that may be moved from an endpoint that has failed, is given another endpoint and a cookie for it.
fn pick_by_cookie<'c>(
    admitted: &Admitted<'_>,
    cluster: &'c Cluster,
    sticky: &Sticky,
    is_fit: impl Fn(&Member) -> bool,
    takes: impl Fn(&Member, &dyn Fn() -> f64) -> bool,
) -> Option<Selected<'c>> {
    let affinity = &sticky.affinity;
    let value = session(admitted, sticky);
    let known = value.and_then(|value| cluster.of_cookie(sticky, &value));
    let has_failed = admitted.report.tries_len() > 0 || known.is_some_and(|member| !is_fit(member));
    if known.is_some() && !(has_failed && affinity.change_on_failure) {
        return known.map(Selected::of);
    }
    let untried = |member: &Member| !admitted.report.was_tried(member.endpoint.address);
    let random = &admitted.worker.random;
    let fit = |member: &Member| untried(member) && is_fit(member);
    let picked = cluster
        .pick_with_key(sticky, |member| fit(member) && takes(member, &|| random.chance()), random)
        .or_else(|| cluster.pick_with_key(sticky, fit, random))
        .or_else(|| cluster.pick_with_key(sticky, untried, random));
    let Some((member, key)) = picked else { return known.map(Selected::of) };
    let sets_cookie = admitted.own_forward().is_some_and(|forward| forward.sets_affinity_cookie);
    let cookie = admitted.route.filter(|_| sets_cookie).map(|route| {
        let value = sticky.value(&key, admitted.worker.clock.unix());
        Box::new(CookieLine(match affinity.header {
            Some(_) => value,
            None => cookie_line(admitted, &affinity.cookie, &value, route.labels.path()),
        }))
    });
    Some(Selected { cookie, ..Selected::of(member) })
}

/// The value of `Set-Cookie`, with its attributes in the order of `lua-resty-cookie`.
fn cookie_line(request: &Request<'_>, cookie: &AffinityCookie, value: &str, path_of_route: &str) -> String {
    let mut line = format!("{}={value}", cookie.name);
    let mut attribute = |name: &str, value: &str| {
        line.push_str("; ");
        line.push_str(name);
        line.push_str(value);
    };
    if let Some(seconds) = cookie.expires {
        attribute("Expires=", &expires(request.worker.clock.unix(), seconds));
    }
    if let Some(seconds) = cookie.max_age {
        attribute("Max-Age=", &seconds.to_string());
    }
    if let Some(domain) = &cookie.domain {
        attribute("Domain=", domain);
    }
    attribute("Path=", cookie.path.as_deref().unwrap_or_else(|| path_in_cookie(path_of_route)));
    if cookie.is_secure || request.conn.tls.is_some() {
        attribute("Secure", "");
    }
    attribute("HttpOnly", "");
    if let Some(same_site) = same_site(request, cookie) {
        attribute("SameSite=", same_site);
    }
    line
}

fn same_site<'c>(request: &Request<'_>, cookie: &'c AffinityCookie) -> Option<&'c str> {
    let agent = || {
        let field = request.parsed.fields.find_name(request.head, b"user-agent")?;
        std::str::from_utf8(field.value(request.head)).ok()
    };
    let is_left_out = |same_site: &str| {
        cookie.omits_none_for_old_browsers
            && same_site.eq_ignore_ascii_case("none")
            && agent().is_some_and(takes_none_for_strict)
    };
    cookie.same_site.as_deref().filter(|same_site| !is_left_out(same_site))
}

/// The part of a path that an attribute can hold: all of it, or the folder above the first element with a
/// semicolon.
fn path_in_cookie(path: &str) -> &str {
    let Some((begin, _)) = path.split_once(';') else { return path };
    begin.rfind('/').map_or("/", |slash| &begin[..=slash])
}

/// A time so many seconds from now, as nginx writes it in cookies. Beyond what a date can say, it is the
/// last or the first one.
fn expires(now: Duration, seconds: i64) -> String {
    let at = i64::try_from(now.as_secs()).unwrap_or(i64::MAX).saturating_add(seconds);
    let bound = if seconds < 0 { Timestamp::UNIX_EPOCH } else { Timestamp::MAX };
    let time = Timestamp::from_second(at).unwrap_or(bound).to_zoned(TimeZone::UTC);
    time.strftime("%a, %d-%b-%y %H:%M:%S GMT").to_string()
}

/// Browsers that take `SameSite=None` for `SameSite=Strict`: Chrome 40 to 69, those of iOS 12, and Safari on
/// macOS 10.14.
fn takes_none_for_strict(agent: &str) -> bool {
    let is_old_chrome = ["Chrome/", "Chromium/"].iter().any(|name| {
        let version = agent.split_once(name).map(|(_, version)| version.as_bytes());
        matches!(version, Some([b'4'..=b'6', ..]))
    });
    let is_ios_12 = agent.contains("iPhone OS 12_") || agent.contains("CPU OS 12_");
    let is_safari = agent.contains("Safari/") && !agent.contains("Chrom");
    is_old_chrome || is_ios_12 || agent.contains("Mac OS X 10_14") && is_safari
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Action, Affinity, AffinityMode, Balance, Forward};

    use super::*;
    use crate::testing::{TWO, World, forward, model, route};

    /// A world in which clients stay with the endpoints of [`TWO`] by a cookie.
    fn sticky_world(mode: AffinityMode, change_on_failure: bool) -> World {
        let affinity = Affinity {
            mode,
            change_on_failure,
            cookie: AffinityCookie::default(),
            header: None,
            age_max: None,
            key: None,
        };
        let sets = Forward { sets_affinity_cookie: true, ..forward(TWO) };
        let mut model = model([route("/app", Action::Forward(sets))]);
        let mut cluster = model::Cluster::clone(model.clusters.get(TWO));
        cluster.balance = Balance::Cookie(Arc::new(affinity));
        model.clusters.insert(TWO, Arc::new(cluster));
        World::new(&model)
    }

    /// Picks an endpoint for a request with these lines, after a try of the one at `tried`. Returns its
    /// place in the cluster, and the cookie that the client is given.
    fn picked(world: &World, lines: &str, tried: Option<usize>) -> (usize, Option<String>) {
        world.admitted(lines, |admitted, _| {
            let cluster = admitted.cluster_of(TWO);
            let keyed = cluster.keyed().unwrap();
            if let Some(at) = tried {
                let address = cluster.members()[at].endpoint.address;
                admitted.report.begin_try(address, admitted.worker.clock.now());
            }
            let selected = pick_by_key(&admitted, cluster, keyed, |_| true, |_, _| true).unwrap();
            let at = cluster.members().iter().position(|member| std::ptr::eq(member, selected.member));
            (at.unwrap(), selected.cookie.map(|cookie| cookie.0))
        })
    }

    #[test]
    fn a_client_stays_where_its_cookie_says_unless_it_may_be_moved_after_a_failure() {
        for (change_on_failure, moves) in [(false, false), (true, true)] {
            let world = sticky_world(AffinityMode::Balanced, change_on_failure);
            let (first, cookie) = picked(&world, "GET /app", None);
            let cookie = cookie.unwrap();
            assert!(
                cookie.starts_with("INGRESSCOOKIE=") && cookie.ends_with("; Path=/app; HttpOnly"),
                "{cookie}"
            );
            let lines = format!("GET /app\nCookie: {}", cookie.split_once(';').unwrap().0);
            for _ in 0..4 {
                assert_eq!(picked(&world, &lines, None), (first, None), "it has its cookie already");
            }
            let (second, cookie) = picked(&world, &lines, Some(first));
            assert_eq!((second != first, cookie.is_some()), (moves, moves));
        }
    }

    #[test]
    fn only_a_persistent_cookie_can_stand_for_no_endpoint() {
        for (mode, is_replaced) in [(AffinityMode::Balanced, false), (AffinityMode::Persistent, true)] {
            let world = sticky_world(mode, false);
            let (_, cookie) = picked(&world, "GET /app\nCookie: INGRESSCOOKIE=unknown", None);
            assert_eq!(cookie.is_some(), is_replaced, "{mode:?}");
        }
    }

    #[test]
    fn a_cookie_given_over_tls_is_secure() {
        let (_, cookie) = picked(&sticky_world(AffinityMode::Balanced, false).over_tls(), "GET /app", None);
        assert!(cookie.unwrap().ends_with("; Path=/app; Secure; HttpOnly"));
    }

    #[test]
    fn a_path_adds_no_attribute() {
        for (path, said) in [("/a/b", "/a/b"), ("/a;b", "/"), ("/a/b; Domain=test", "/a/"), ("/a;/b/c", "/")]
        {
            assert_eq!(path_in_cookie(path), said);
        }
    }

    #[test]
    fn times_are_those_of_nginx() {
        assert_eq!(expires(Duration::from_secs(1_290_079_655), 0), "Thu, 18-Nov-10 11:27:35 GMT");
        assert_eq!(expires(Duration::from_secs(10), -3_600), "Wed, 31-Dec-69 23:00:10 GMT");
        assert_eq!(expires(Duration::from_secs(0), i64::MIN), "Thu, 01-Jan-70 00:00:00 GMT");
    }

    #[test]
    fn browsers_that_know_none_are_told_apart() {
        for (agent, is_old) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/66.0.1 Safari/537.36",
                true,
            ),
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.1 Safari/537.36",
                false,
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 12_0 like Mac OS X) AppleWebKit/604.1 Version/12.0 Safari/604.1",
                true,
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_14_2) AppleWebKit/605.1.15 Version/12.0.2 Safari/605.1.15",
                true,
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1.15 Version/13.0 Safari/605.1.15",
                false,
            ),
        ] {
            assert_eq!(takes_none_for_strict(agent), is_old, "{agent}");
        }
    }
}
