//! Endpoints that the request itself decides: by the cookie or the header that its client was given, or by the hash of one of its values.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::{Action, Affinity, AffinityCookie};

use crate::exchange::{CookieLine, Exchange};
use crate::head::HeadEdits;
use crate::lookup;
use crate::upstream::{Cluster, Keyed, Member, Sticky};
use crate::values;

impl Exchange<'_> {
    /// Picks an endpoint by what the request says, which `is_fit` and `takes` it by a number from 0 to 1, unless there is no such endpoint or
    /// the request has to stay with another; none if there is no endpoint.
    pub(crate) fn pick_by_key<'c>(
        &self,
        cluster: &'c Cluster,
        keyed: &Keyed,
        is_fit: impl Fn(&Member) -> bool,
        takes: impl Fn(&Member, &dyn Fn() -> f64) -> bool,
    ) -> Option<&'c Rc<Member>> {
        match keyed {
            Keyed::Cookie(sticky) => self.pick_by_cookie(cluster, sticky, is_fit, takes),
            Keyed::Hash(hashed) => {
                let value = values::expand(self, &hashed.by.key);
                cluster.of_hash(hashed, &value, is_fit, takes, &self.worker.random)
            }
        }
    }

    /// The endpoint of the client's cookie, however often it fails, and however new it is. A client without one, and one that may be moved
    /// from an endpoint that has failed, is given another endpoint and a cookie for it.
    fn pick_by_cookie<'c>(
        &self,
        cluster: &'c Cluster,
        sticky: &Sticky,
        is_fit: impl Fn(&Member) -> bool,
        takes: impl Fn(&Member, &dyn Fn() -> f64) -> bool,
    ) -> Option<&'c Rc<Member>> {
        let affinity = &sticky.affinity;
        let value = self.session(sticky);
        let known = value.and_then(|value| cluster.of_cookie(sticky, &value));
        let has_failed = self.report.tries_len() > 0 || known.is_some_and(|member| !is_fit(member));
        if known.is_some() && !(has_failed && affinity.change_on_failure) {
            return known;
        }
        let untried = |member: &Member| !self.report.was_tried(member.endpoint.address);
        let random = &self.worker.random;
        let fit = |member: &Member| untried(member) && is_fit(member);
        let picked = cluster
            .pick_with_key(sticky, |member| fit(member) && takes(member, &|| random.chance()), random)
            .or_else(|| cluster.pick_with_key(sticky, fit, random))
            .or_else(|| cluster.pick_with_key(sticky, untried, random));
        let Some((member, key)) = picked else { return known };
        if let Some(route) = self.route.get()
            && let Action::Forward(forward) = &route.action
            && forward.sets_affinity_cookie
        {
            let value = sticky.value(&key, self.worker.clock.unix());
            let line = match affinity.header {
                Some(_) => value,
                None => self.cookie_line(&affinity.cookie, &value, &route.labels.path),
            };
            self.affinity_cookie.replace(Some(Box::new(CookieLine(line))));
        }
        Some(member)
    }

    /// What the client has been given to name its endpoint, while it counts.
    pub(crate) fn session(&self, sticky: &Sticky) -> Option<Cow<'_, [u8]>> {
        let Affinity { cookie, header, .. } = &*sticky.affinity;
        let value = match header {
            Some(name) => lookup::header(self.head, self.request, name.as_bytes()),
            None => lookup::cookie(self.head, self.request, cookie.name.as_bytes()).map(Cow::Borrowed),
        };
        value.filter(|value| sticky.is_in_time(value, self.worker.clock.unix()))
    }

    /// Whether the client's cookie was given out for a cluster.
    pub(crate) fn is_kept_at(&self, cluster: &Cluster) -> bool {
        let Some(Keyed::Cookie(sticky)) = cluster.keyed() else { return false };
        self.session(sticky).is_some_and(|value| sticky.is_of_cluster(&value))
    }

    /// Tells the client which endpoint it was given, by the header that its cluster has for that, or by a cookie.
    pub(crate) fn tell_session<'e>(&'e self, line: String, edits: &mut HeadEdits<'e>) {
        let cluster = self.cluster.get().map(|id| self.cluster_of(id));
        let header = match cluster.and_then(|cluster| cluster.keyed()) {
            Some(Keyed::Cookie(sticky)) => sticky.affinity.header.as_deref(),
            Some(Keyed::Hash(_)) | None => None,
        };
        match header {
            Some(name) => edits.set(name, line.into_bytes()),
            None => edits.add("Set-Cookie", line.into_bytes()),
        }
    }

    /// The value of `Set-Cookie`, with its attributes in the order of `lua-resty-cookie`.
    fn cookie_line(&self, cookie: &AffinityCookie, value: &str, path_of_route: &str) -> String {
        let mut line = format!("{}={value}", cookie.name);
        let mut attribute = |name: &str, value: &str| {
            line.push_str("; ");
            line.push_str(name);
            line.push_str(value);
        };
        if let Some(seconds) = cookie.expires {
            attribute("Expires=", &expires(self.worker.clock.unix(), seconds));
        }
        if let Some(seconds) = cookie.max_age {
            attribute("Max-Age=", &seconds.to_string());
        }
        if let Some(domain) = &cookie.domain {
            attribute("Domain=", domain);
        }
        attribute("Path=", cookie.path.as_deref().unwrap_or_else(|| path_in_cookie(path_of_route)));
        if cookie.is_secure || self.conn.tls.is_some() {
            attribute("Secure", "");
        }
        attribute("HttpOnly", "");
        if let Some(same_site) = self.same_site(cookie) {
            attribute("SameSite=", same_site);
        }
        line
    }

    fn same_site<'c>(&self, cookie: &'c AffinityCookie) -> Option<&'c str> {
        let agent = || {
            let field = self.request.fields.find_name(self.head, b"user-agent")?;
            std::str::from_utf8(field.value(self.head)).ok()
        };
        let is_left_out = |same_site: &str| {
            cookie.omits_none_for_old_browsers
                && same_site.eq_ignore_ascii_case("none")
                && agent().is_some_and(takes_none_for_strict)
        };
        cookie.same_site.as_deref().filter(|same_site| !is_left_out(same_site))
    }
}

/// The part of a path that an attribute can hold: all of it, or the folder above the first element with a semicolon.
fn path_in_cookie(path: &str) -> &str {
    let Some((begin, _)) = path.split_once(';') else { return path };
    begin.rfind('/').map_or("/", |slash| &begin[..=slash])
}

/// A time so many seconds from now, as nginx writes it in cookies. Beyond what a date can say, it is the last or the first one.
fn expires(now: Duration, seconds: i64) -> String {
    let at = i64::try_from(now.as_secs()).unwrap_or(i64::MAX).saturating_add(seconds);
    let bound = if seconds < 0 { Timestamp::UNIX_EPOCH } else { Timestamp::MAX };
    let time = Timestamp::from_second(at).unwrap_or(bound).to_zoned(TimeZone::UTC);
    time.strftime("%a, %d-%b-%y %H:%M:%S GMT").to_string()
}

/// Browsers that take `SameSite=None` for `SameSite=Strict`: Chrome 40 to 69, those of iOS 12, and Safari on macOS 10.14.
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
    use super::*;

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
