//! Connections to upstreams: whether they are kept alive, and whether the pool is large enough.

use super::outgoing::{Outgoing, PER_REQUEST_MANY, PER_REQUEST_SOME, RATE_MIN};
use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::{count, percent, rate, time, whole};
use crate::read::metrics::{Pages, UPSTREAM_IDLE, UPSTREAM_REGRETTED};
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::text::{Text, say};

/// A connection that lives shorter than the first was not worth its handshake; one that lives shorter than
/// the second was needed again soon.
const LIFE_SHORT_SECONDS: f64 = 1.0;
const LIFE_SOME_SECONDS: f64 = 10.0;
/// Above this share of connections with one request, none are kept alive.
const NOT_KEPT: f64 = 0.95;
/// Where requests are counted, at least so many new connections per request mean that each request opens one.
const ONE_EACH: f64 = 0.99;
/// Above this share of open connections that have received their answer, connections are kept alive:
/// otherwise they would be closed at once.
const KEPT: f64 = 0.1;
/// nginx itself closes a connection after 1,000 requests (before 1.19.10 after 100), so that this many new
/// connections per request do not show that the pool is small.
const PER_REQUEST_FEW: f64 = 0.02;

const KEEP: &str = "nginx: `keepalive 512;` in the upstream block, with `proxy_http_version 1.1;` and `proxy_set_header \
                    Connection \"\";`; ingress-nginx, in its ConfigMap: `upstream-keepalive-connections: \"10000\"`, \
                    `upstream-keepalive-requests: \"10000\"`, `upstream-keepalive-timeout: \"60\"`; Forebay needs nothing";

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "upstream-reuse",
        category: "connections",
        what: "a new connection to the upstream for each request, or for many of them",
        how: "new connections per request (ActiveOpens in /proc/net/snmp, or the proxy's metrics; of Forebay those by which its idle connections grew do not count): above 0.1 a warning, above 0.5 a failure; if requests are not counted, the lifetime of connections and the share that never carried a second request (sock_diag)",
        severity: Verdict::Failure,
        remedy: KEEP,
        case: "A, D",
        look: upstream_reuse,
    },
    Check {
        id: "pool-too-small",
        category: "connections",
        what: "the pool of connections to the upstream is too small: idle ones are closed and opened again at once",
        how: "connections that are partly reused, but opened at more than 10 a second and for fewer than 50 requests each, at least half of them closed by this side (TIME_WAIT). The sufficient cap is the most that one process had open to one address. Forebay counts idle connections closed too early",
        severity: Verdict::Failure,
        remedy: "raise the cap until the number of connections stops falling: nginx `keepalive`, for each worker and upstream; \
                 ingress-nginx `upstream-keepalive-connections`; Forebay sizes the pool by itself where \
                 `upstream-keepalive-connections` is not set",
        case: "D",
        look: pool_too_small,
    },
];

fn upstream_reuse(samples: &Samples) -> Result<Outcome, Unknown> {
    let counted = Pages::of(samples).ok().and_then(|pages| Outgoing::counted(samples, &pages));
    let is_forebay = counted.is_some();
    let seen = counted.map_or_else(|| Outgoing::of(samples), Ok)?;
    let mut outcome = reuse(samples, &seen)?;
    if outcome.verdict == Verdict::Ok {
        seen.is_seen()?;
    }
    if is_forebay {
        outcome = outcome.remedy(say!("endpoints close the connections: raise their keep-alive timeout and number of requests; remove \
             `upstream-keepalive-connections` and `upstream-keepalive-requests` from the ConfigMap, if they are there"));
    } else if pool_is_too_small(&seen) {
        outcome = outcome.remedy(larger_pool(seen.peak));
    }
    Ok(with_evidence(outcome, &seen))
}

fn reuse(samples: &Samples, seen: &Outgoing) -> Result<Outcome, Unknown> {
    let a_second = rate(seen.per_second);
    if seen.per_second < RATE_MIN {
        return Ok(Outcome::ok(say!("{} new upstream connections a second", a_second)));
    }
    let destination = seen.destination();
    if let Some(per_request) = seen.per_request {
        let number = rate(per_request);
        let message =
            say!("{} new upstream connection per request ({} a second{})", number, a_second, destination);
        return Ok(Outcome::new(by_share(per_request, PER_REQUEST_SOME, PER_REQUEST_MANY), message));
    }
    samples.ticks()?;
    let life = seen.mean_life.filter(|_| !seen.remote.is_empty());
    let life = life.ok_or_else(|| {
        Unknown(say!(
            "none of {} new connections a second was seen open: whose they are is not known",
            a_second
        ))
    })?;
    let message =
        say!("{} new upstream connections a second{}, each open for {}", a_second, destination, time(life));
    Ok(match seen.sent_once {
        _ if life >= LIFE_SHORT_SECONDS => Outcome::ok(message),
        // If connections carry ten requests each, one in ten is still at its first.
        Some(share) => {
            let message = say!("{}; {} carried one request alone", message, percent(share));
            Outcome::new(by_share(share, PER_REQUEST_SOME, PER_REQUEST_MANY), message)
        }
        None => Outcome::warning(message),
    })
}

fn by_share(share: f64, warning: f64, failure: f64) -> Verdict {
    match share {
        share if share > failure => Verdict::Failure,
        share if share > warning => Verdict::Warning,
        _ => Verdict::Ok,
    }
}

fn with_evidence(outcome: Outcome, seen: &Outgoing) -> Outcome {
    let outcome = outcome.with("connections_per_second", seen.per_second);
    let figures = [
        ("connections_per_request", seen.per_request),
        ("mean_life_ms", seen.mean_life.map(|seconds| seconds * 1000.0)),
        ("sent_once_percent", seen.sent_once.map(|share| share * 100.0)),
        ("answered_percent", seen.answered.map(|share| share * 100.0)),
        ("closed_here_percent", seen.closed_here.map(|share| share * 100.0)),
    ];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let outcome = known.fold(outcome, |outcome, (name, value)| outcome.with(name, value));
    if seen.remote.is_empty() {
        return outcome;
    }
    outcome.with("remote", seen.remote.as_str()).with("remote_percent", seen.remote_share * 100.0)
}

fn pool_too_small(samples: &Samples) -> Result<Outcome, Unknown> {
    if let Some(outcome) = Pages::of(samples).ok().and_then(|pages| regrets(samples, &pages)) {
        return Ok(outcome);
    }
    let seen = Outgoing::of(samples)?;
    if seen.per_second >= RATE_MIN {
        samples.ticks()?;
        is_kept_in_part(&seen).ok_or_else(|| {
            Unknown(say!("no open connection was seen: whether they are kept is not known"))
        })?;
    }
    let a_second = rate(seen.per_second);
    let outcome = if seen.per_second < RATE_MIN {
        Outcome::ok(say!("{} new upstream connections a second", a_second))
    } else if is_kept_in_part(&seen) == Some(false) {
        Outcome::ok(say!("connections are not kept at all: upstream-reuse reports it"))
    } else if pool_is_too_small(&seen) {
        let message = say!(
            "of {} upstream connections a second this side closes {} and opens them again; {} were open to one \
             address at most, a cap of {} would have sufficed",
            a_second,
            percent(seen.closed_here.unwrap_or_default()),
            count(seen.peak),
            count(cap(seen.peak))
        );
        Outcome::new(eviction(&seen), message).remedy(larger_pool(seen.peak))
    } else {
        Outcome::ok(say!(
            "{} new upstream connections a second, {} of them closed by this side",
            a_second,
            percent(seen.closed_here.unwrap_or_default())
        ))
    };
    if outcome.verdict == Verdict::Ok {
        seen.is_seen()?;
    }
    Ok(with_evidence(outcome, &seen).with("peak", seen.peak).with("cap", cap(seen.peak)))
}

/// The counter of Forebay: evictions after which a new connection was needed soon.
fn regrets(samples: &Samples, pages: &Pages<'_>) -> Option<Outcome> {
    let regretted = pages.growth(UPSTREAM_REGRETTED)?;
    let seen = Outgoing::counted(samples, pages)?;
    let idle = crate::read::prometheus::sum(pages.last(), UPSTREAM_IDLE).unwrap_or(0.0);
    let share = regretted / seen.requests.unwrap_or(0.0).max(regretted).max(1.0);
    let outcome = if regretted > 0.0 {
        let message = say!("{} idle connections were closed and missed soon after", whole(regretted));
        let verdict = if share > PER_REQUEST_SOME { Verdict::Failure } else { Verdict::Warning };
        Outcome::new(verdict, message).remedy(say!(
            "remove `upstream-keepalive-connections` from the ConfigMap: Forebay sizes the pool by itself"
        ))
    } else {
        Outcome::ok(say!("no idle connection was closed too soon"))
    };
    Some(outcome.with("regretted", regretted).with("idle", idle))
}

/// Whether connections carry more than one request at all; none if neither requests nor connections were
/// seen.
fn is_kept_in_part(seen: &Outgoing) -> Option<bool> {
    let is_open_after = seen.answered.is_some_and(|share| share > KEPT);
    match seen.per_request {
        Some(share) => Some(share < NOT_KEPT || (share < ONE_EACH && is_open_after)),
        None => seen.sent_once.map(|share| share < NOT_KEPT || is_open_after),
    }
}

fn pool_is_too_small(seen: &Outgoing) -> bool {
    eviction(seen) > Verdict::Ok
}

/// The verdict on connections that this side closes and then needs again; ok if it does not.
fn eviction(seen: &Outgoing) -> Verdict {
    let closes = seen.closed_here.is_some_and(|share| share >= 0.5);
    if seen.per_second < RATE_MIN || !closes || is_kept_in_part(seen) != Some(true) {
        return Verdict::Ok;
    }
    // An open connection is halfway through its life on average.
    let carries_many = seen.sent_each.is_some_and(|sent| sent * 2.0 * PER_REQUEST_FEW > 1.0);
    match (seen.per_request, seen.mean_life) {
        (Some(per_request), _) => by_share(per_request, PER_REQUEST_FEW, PER_REQUEST_SOME),
        _ if carries_many => Verdict::Ok,
        (None, Some(life)) if life < LIFE_SHORT_SECONDS => Verdict::Failure,
        (None, Some(life)) if life < LIFE_SOME_SECONDS => Verdict::Warning,
        _ => Verdict::Ok,
    }
}

/// A recommended size: the peak and a quarter more, since the true peak may have been between two readings.
fn cap(peak: u64) -> u64 {
    (peak + peak.div_ceil(4)).next_multiple_of(16)
}

fn larger_pool(peak: u64) -> Text {
    let cap = cap(peak);
    say!(
        "nginx: `keepalive {};` in the upstream block (for each worker; as many times more as the block has servers); \
         ingress-nginx, in its ConfigMap: `upstream-keepalive-connections: \"{}\"`; Forebay sizes the pool by itself",
        cap,
        cap
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::{SocketGroup, State};
    use crate::testing::{Scene, connection_ticks, listening, outgoing, scene};
    use crate::ticks::Ticks;

    const REMOTE: &str = "10.0.0.2:80";

    /// Ten seconds of nginx: connections that were opened, connections open at any time, the percentage of
    /// these that carried one request, and the connections in `TIME_WAIT` at the end.
    fn nginx(opened: u64, open: u64, once_percent: u64, time_wait: u64) -> Scene {
        let established = outgoing(State::Established, REMOTE, 100).of(7, "nginx").once(once_percent);
        let first = [established.clone()];
        let last = [established, outgoing(State::TimeWait, REMOTE, time_wait)];
        let connections = connection_ticks(7, REMOTE, open, time_wait);
        scene()
            .pids(&[7])
            .snmp(&[("ActiveOpens", opened)])
            .netstat(&[("TW", 0), ("TWRecycled", 0)])
            .sockets_grow(&first, &last)
            .ticks(&Ticks { connections, ..Ticks::default() })
    }

    #[test]
    fn a_connection_for_each_request_is_told_exactly() {
        let finding = nginx(43_000, 5, 100, 0).requests(43_000).finding("upstream-reuse");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "1.0 new upstream connection per request (4,300 a second, 100 % of them to 10.0.0.2:80)"
        );
        assert!(finding.remedy.contains("upstream-keepalive-connections: \"10000\""), "{}", finding.remedy);
        assert!(finding.tells("connections_per_second", 4300.0));
        assert_eq!(finding.text("remote"), REMOTE);
        let verdict = |requests| nginx(1000, 5, 0, 0).requests(requests).finding("upstream-reuse").verdict;
        assert_eq!(verdict(5000), Verdict::Warning);
        assert_eq!(verdict(50_000), Verdict::Ok);
    }

    #[test]
    fn the_senders_own_connections_do_not_count() {
        let finding =
            nginx(43_000, 5, 100, 0).requests(43_000).own_connections(42_990).finding("upstream-reuse");
        assert_eq!(finding.verdict, Verdict::Ok);
    }

    #[test]
    fn the_proxys_count_of_requests_serves_as_well() {
        let requests = |number: u64| {
            format!("{}{{controller_pod=\"a\"}} {number}\n", crate::read::metrics::REQUESTS_TOTAL)
        };
        let page = nginx(43_000, 5, 100, 0).grows("forebay/metrics", &requests(7), &requests(43_007));
        assert!(page.finding("upstream-reuse").tells("connections_per_request", 1.0));
    }

    #[test]
    fn without_requests_the_life_of_connections_tells() {
        let finding = nginx(43_000, 5, 100, 0).finding("upstream-reuse");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "4,300 new upstream connections a second, 100 % of them to 10.0.0.2:80, each open for 1.2 ms; 100 % carried \
             one request alone"
        );
        let verdict = |opened, open, once| nginx(opened, open, once, 0).finding("upstream-reuse").verdict;
        assert_eq!(verdict(43_000, 5, 20), Verdict::Warning, "some are reused");
        assert_eq!(verdict(200, 100, 100), Verdict::Ok, "each open for five seconds");
        assert_eq!(verdict(50, 0, 100), Verdict::Ok, "five a second");
    }

    #[test]
    fn whose_connections_were_not_seen_is_not_blamed() {
        let hidden = nginx(43_000, 0, 0, 0).sockets(&[]);
        let finding = hidden.finding("upstream-reuse");
        assert_eq!(finding.verdict, Verdict::Unknown);
        assert!(finding.message.ends_with("whose they are is not known"), "{}", finding.message);
    }

    #[test]
    fn connections_of_others_in_the_namespace_are_left_out() {
        let groups = [
            outgoing(State::Established, REMOTE, 50).of(7, "nginx").once(0),
            outgoing(State::Established, "10.0.0.1:80", 50).of(9, "ab").once(50),
        ];
        let finding = nginx(43_000, 50, 0, 0).sockets(&groups).finding("upstream-reuse");
        assert_eq!(finding.verdict, Verdict::Ok, "{}", finding.message);
    }

    #[test]
    fn of_all_that_listen_none_is_fine_before_it_is_seen() {
        let groups = [
            listening("127.0.0.1:80").of(7, "nginx"),
            listening("127.0.0.1:9000").of(8, "web"),
            outgoing(State::Established, "127.0.0.1:9000", 50).once(50),
        ];
        let mut samples = nginx(43_000, 0, 0, 0).pids(&[7, 8]).sockets(&groups).requests(43_000).samples();
        samples.all.iter_mut().for_each(|sample| sample.taken.pid = None);
        for check in CHECKS {
            let why = (check.look)(&samples).expect_err("they are nginx's, or a client's").0.english();
            assert_eq!(
                why,
                "whose 4,300 new connections a second are was not seen: name the process (--pid)"
            );
        }
    }

    fn forebay(opened: u64, requests: u64, regretted: u64) -> String {
        format!(
            "forebay_upstream_connections_opened_total{{endpoint=\"{REMOTE}\"}} {opened}\n\
             forebay_upstream_requests_total{{endpoint=\"{REMOTE}\"}} {requests}\n\
             forebay_upstream_connections_regretted_total{{endpoint=\"{REMOTE}\"}} {regretted}\n"
        )
    }

    #[test]
    fn forebay_is_judged_by_its_own_counters() {
        let finding = |id, last: &str| scene().grows("forebay/metrics", &forebay(0, 0, 0), last).finding(id);
        let reused = finding("upstream-reuse", &forebay(300, 40_000, 0));
        assert_eq!(reused.verdict, Verdict::Ok, "{}", reused.message);
        assert!(reused.tells("connections_per_request", 0.0075));
        let closed = finding("upstream-reuse", &forebay(40_000, 40_000, 0));
        assert_eq!(closed.verdict, Verdict::Failure);
        assert!(closed.remedy.starts_with("endpoints close the connections"), "{}", closed.remedy);
        let regretted = finding("pool-too-small", &forebay(9000, 40_000, 8000));
        assert_eq!(regretted.verdict, Verdict::Failure);
        assert_eq!(regretted.message, "8,000 idle connections were closed and missed soon after");
        assert_eq!(finding("pool-too-small", &forebay(300, 40_000, 0)).verdict, Verdict::Ok);
    }

    #[test]
    fn a_pool_that_fills_is_no_lack_of_reuse() {
        let page = |opened, idle| {
            format!("{}forebay_upstream_connections_idle {idle}\n", forebay(opened, opened, 0))
        };
        let finding =
            |last: String| scene().grows("forebay/metrics", &page(0, 0), &last).finding("upstream-reuse");
        let fills = finding(page(900, 890));
        assert_eq!(fills.verdict, Verdict::Ok, "{}", fills.message);
        assert!(fills.tells("connections_per_second", 90.0), "{fills:?}");
        let closed = finding(page(900, 10));
        assert_eq!(closed.verdict, Verdict::Failure, "{}", closed.message);
    }

    #[test]
    fn a_pool_that_evicts_what_it_needs_is_too_small() {
        let scene = || nginx(6000, 487, 60, 5900).requests(20_000);
        let finding = scene().finding("pool-too-small");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "of 600 upstream connections a second this side closes 98 % and opens them again; 487 were open to one \
             address at most, a cap of 624 would have sufficed"
        );
        assert!(finding.remedy.contains("`keepalive 624;`"), "{}", finding.remedy);
        assert_eq!((finding.number("peak"), finding.number("cap")), (487.0, 624.0));
        let reuse = scene().finding("upstream-reuse");
        assert_eq!((reuse.verdict, reuse.remedy), (Verdict::Warning, finding.remedy));
    }

    #[test]
    fn a_pool_is_seen_between_bursts_too() {
        let idle = |open, answered| {
            let open =
                outgoing(State::Established, REMOTE, open).of(7, "nginx").once(open).answered(answered);
            let groups = [open, outgoing(State::TimeWait, REMOTE, 6000)];
            nginx(6000, 50, 100, 6000).sockets_grow(&[], &groups).finding("pool-too-small")
        };
        assert_eq!(idle(40, 40).verdict, Verdict::Failure, "{}", idle(40, 40).message);
        assert_eq!(idle(40, 2).verdict, Verdict::Ok, "they are about to be closed");
        assert_eq!(idle(1, 1).verdict, Verdict::Ok, "one may be as well");
    }

    #[test]
    fn a_pool_is_not_blamed_for_what_others_do() {
        let none_kept = nginx(20_000, 5, 100, 19_000).requests(20_000).finding("pool-too-small");
        assert_eq!(none_kept.verdict, Verdict::Ok);
        assert!(none_kept.message.ends_with("upstream-reuse reports it"), "{}", none_kept.message);
        let other_side = nginx(6000, 487, 60, 100).requests(20_000).finding("pool-too-small");
        assert_eq!(other_side.verdict, Verdict::Ok, "{}", other_side.message);
        let now_and_then = nginx(200, 20, 0, 200).requests(20_000).finding("pool-too-small");
        assert_eq!(now_and_then.verdict, Verdict::Ok, "after a hundred requests each");
    }

    #[test]
    fn who_closes_after_many_requests_has_room_enough() {
        // Short bursts that had ended when sockets were read: the connections that were still open had
        // carried the most requests.
        for (open, segments_each, verdict) in
            [(487, 500, Verdict::Ok), (487, 3, Verdict::Failure), (40, 500, Verdict::Failure)]
        {
            let sent = |mut group: SocketGroup| {
                group.segments_sent = group.count * segments_each;
                group
            };
            let established =
                sent(outgoing(State::Established, REMOTE, open).of(7, "nginx").once(1).answered(open));
            let waiting = outgoing(State::TimeWait, REMOTE, 9000);
            let scene = nginx(9000, 487, 60, 0)
                .sockets_grow(std::slice::from_ref(&established), &[established.clone(), waiting]);
            let finding = scene.finding("pool-too-small");
            assert_eq!(finding.verdict, verdict, "{open} {segments_each}: {}", finding.message);
        }
    }

    #[test]
    fn time_wait_that_ended_meanwhile_was_closed_here_too() {
        let waiting = [outgoing(State::TimeWait, REMOTE, 30_000)];
        let established = outgoing(State::Established, REMOTE, 100).of(7, "nginx").once(60);
        let groups: Vec<SocketGroup> = waiting.into_iter().chain([established]).collect();
        let steady = nginx(6000, 487, 60, 0).sockets(&groups).netstat(&[("TW", 5000), ("TWRecycled", 500)]);
        let finding = steady.finding("pool-too-small");
        assert_eq!(finding.verdict, Verdict::Failure, "{}", finding.message);
        assert!((finding.number("closed_here_percent") - 91.7).abs() < 0.1);
    }

    #[test]
    fn whether_connections_are_kept_has_to_be_seen() {
        let finding = nginx(6000, 487, 60, 5900).sockets(&[]).finding("pool-too-small");
        assert_eq!(finding.verdict, Verdict::Unknown);
        let finding = nginx(6000, 487, 60, 5900).forbids("forebay/sockets.json").finding("pool-too-small");
        assert_eq!(finding.verdict, Verdict::Unknown);
    }
}
