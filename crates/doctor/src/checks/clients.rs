//! Connections of clients: whether they are kept alive.

use super::outgoing::RATE_MIN;
use super::subject::{Subject, listener, pid};
use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::{percent, rate, time, whole};
use crate::read::metrics::{CONNECTIONS_TOTAL, Pages, REQUESTS_TOTAL};
use crate::read::{counters, sockets};
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::sockets::{Direction, SocketGroup, State};
use crate::text::say;

/// Requests per connection below which connections are as good as not kept alive.
const REQUESTS_FEW: f64 = 1.5;
/// A connection that ends sooner probably carried one request.
const LIFE_SHORT_SECONDS: f64 = 1.0;
/// With fewer open connections their share with one answer says nothing.
const OPEN_MIN: f64 = 10.0;
/// Common values of `keep-alive-requests`: 100 was nginx's default before 1.19.10 and is that of case A;
/// 1,000 is nginx's and Forebay's now.
const REQUESTS_LIMITS: [f64; 2] = [100.0, 1000.0];

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "client-keepalive",
    category: "connections",
    what: "clients open a connection for each request, or keep-alive-requests forces them to",
    how: "requests per accepted connection (metrics, or PassiveOpens in /proc/net/snmp): fewer than 1.5, or a mean at 100 or 1,000 (common keep-alive-requests), are a warning; otherwise the lifetime of connections (sock_diag)",
    severity: Verdict::Warning,
    remedy: "have clients reuse connections: HTTP/1.1 without `Connection: close`, `ab -k`, keep-alive in a load balancer in front; in the ConfigMap `keep-alive: \"75\"` and `keep-alive-requests: \"10000\"` (nginx: \
             `keepalive_timeout 75s; keepalive_requests 10000;`)",
    case: "A",
    look: client_keepalive,
}];

/// The connections of clients between the samples.
struct Clients {
    per_second: f64,
    /// Requests per connection; none if requests were not counted.
    requests: Option<f64>,
    /// Mean life of a connection in seconds, and the share of open connections that have sent no second
    /// answer, both derived from sockets.
    life: Option<f64>,
    sent_once: Option<f64>,
}

fn client_keepalive(samples: &Samples) -> Result<Outcome, Unknown> {
    let counted = Pages::of(samples).ok().and_then(|pages| by_metrics(samples, &pages));
    let clients = counted.map_or_else(|| by_sockets(samples), Ok)?;
    let a_second = rate(clients.per_second);
    let outcome = match (clients.requests, clients.life) {
        _ if clients.per_second < RATE_MIN => {
            Outcome::ok(say!("{} new connections of clients a second", a_second))
        }
        (Some(requests), _) => by_requests(requests, &a_second),
        (None, Some(life)) => {
            let once = clients.sent_once.unwrap_or(0.0);
            let message = say!(
                "{} new connections of clients a second, each open for {}; {} sent one answer alone",
                a_second,
                time(life),
                percent(once)
            );
            let is_short = life < LIFE_SHORT_SECONDS && once > 0.5;
            if is_short { Outcome::warning(message) } else { Outcome::ok(message) }
        }
        (None, None) => {
            let why = say!("of {} new connections of clients a second hardly any was seen open", a_second);
            return Err(Unknown(why));
        }
    };
    let outcome = outcome.with("connections_per_second", clients.per_second);
    let figures = [
        ("requests_per_connection", clients.requests),
        ("mean_life_ms", clients.life.map(|seconds| seconds * 1000.0)),
        ("sent_once_percent", clients.sent_once.map(|share| share * 100.0)),
    ];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(known.fold(outcome, |outcome, (name, value)| outcome.with(name, value)))
}

fn by_requests(requests: f64, a_second: &str) -> Outcome {
    let message =
        say!("clients send {} requests on a connection ({} new ones a second)", rate(requests), a_second);
    let limit = REQUESTS_LIMITS.into_iter().find(|limit| (0.95 * limit..1.02 * limit).contains(&requests));
    match limit {
        _ if requests < REQUESTS_FEW => Outcome::warning(message),
        Some(limit) => Outcome::warning(say!(
            "{}: keep-alive-requests seems to be {}, and is reached",
            message,
            whole(limit)
        )),
        None => Outcome::ok(message),
    }
}

/// From Forebay's metrics, whose counters of connections and requests are only about clients.
fn by_metrics(samples: &Samples, pages: &Pages<'_>) -> Option<Clients> {
    let is_accepted =
        |series: &crate::read::prometheus::Series<'_>| series.label("state").as_deref() == Some("accepted");
    let accepted = pages.growth_where(CONNECTIONS_TOTAL, is_accepted)?;
    let requests = pages.growth(REQUESTS_TOTAL)?;
    let per_second = accepted / samples.seconds().ok()?;
    Some(Clients { per_second, requests: Some(requests / accepted.max(1.0)), life: None, sent_once: None })
}

fn by_sockets(samples: &Samples) -> Result<Clients, Unknown> {
    let accepted = samples.growth(|sample| counters::tcp(sample, "PassiveOpens"))?;
    let seconds = samples.seconds()?;
    samples.sockets()?;
    let taken = &samples.last()?.taken;
    let all: Vec<SocketGroup> =
        samples.all.iter().flat_map(|sample| sockets::of(sample).unwrap_or_default()).collect();
    // Connections that the processes open within the namespace count as incoming there too, and other
    // processes may listen there.
    let subject = Subject::of(taken, &[], &all);
    let is_asked_about = |local: &str| {
        let owner = listener(&all, local).and_then(pid);
        taken.pids.is_empty() || owner.is_none_or(|pid| taken.pids.contains(&pid))
    };
    let is_open =
        |group: &&SocketGroup| group.direction == Direction::Incoming && group.state == State::Established;
    let (clients, others): (Vec<&SocketGroup>, Vec<&SocketGroup>) = all
        .iter()
        .filter(is_open)
        .partition(|group| is_asked_about(&group.local) && !subject.goes_to(&group.local));
    let sum = |groups: &[&SocketGroup], value: fn(&SocketGroup) -> u64| -> f64 {
        groups.iter().map(|group| value(group)).sum::<u64>() as f64
    };
    // The kernel's counter is that of the whole namespace. Their part of it is estimated by the share of
    // young connections that is theirs.
    let (young, other_young) =
        (sum(&clients, |group| group.sent_once), sum(&others, |group| group.sent_once));
    let share = if other_young > 0.0 { young / (young + other_young) } else { 1.0 };
    let accepted = accepted as f64 * share;
    let (open, counted) = (sum(&clients, |group| group.count), sum(&clients, |group| group.counted));
    let per_second = accepted / seconds;
    let mean_open = open / samples.all.len() as f64;
    let requests = samples.requests.map(|requests| requests as f64 / accepted.max(1.0));
    Ok(Clients {
        per_second,
        requests,
        life: (open >= OPEN_MIN).then(|| mean_open / per_second.max(f64::MIN_POSITIVE)),
        sent_once: (counted > 0.0).then(|| young / counted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, incoming, listening, outgoing, scene};

    const ID: &str = "client-keepalive";

    /// A server that accepted so many connections in ten seconds, with so many open, of which so many have
    /// sent one answer.
    fn accepting(accepted: u64, open: u64, once: u64) -> Scene {
        let groups = [
            incoming(State::Established, "10.0.0.1:80", open).of(7, "nginx").once(once),
            incoming(State::TimeWait, "10.0.0.1:80", 1000),
        ];
        scene().pids(&[7]).snmp(&[("PassiveOpens", accepted)]).sockets(&groups)
    }

    #[test]
    fn a_connection_for_each_request_is_told() {
        let finding = accepting(43_000, 100, 100).requests(43_000).finding(ID);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.message, "clients send 1.0 requests on a connection (4,300 new ones a second)");
        assert!(finding.tells("requests_per_connection", 1.0));
        assert_eq!(accepting(1000, 100, 0).requests(43_000).finding(ID).verdict, Verdict::Ok);
        assert_eq!(accepting(50, 100, 0).requests(50).finding(ID).verdict, Verdict::Ok, "five a second");
    }

    #[test]
    fn without_requests_the_life_of_connections_tells() {
        let finding = accepting(43_000, 100, 98).finding(ID);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(
            finding.message,
            "4,300 new connections of clients a second, each open for 23 ms; 98 % sent one answer alone"
        );
        assert_eq!(accepting(43_000, 100, 10).finding(ID).verdict, Verdict::Ok);
        assert_eq!(accepting(200, 100, 100).finding(ID).verdict, Verdict::Ok, "each open for five seconds");
    }

    fn metrics(accepted: u64, requests: u64) -> String {
        format!(
            "{CONNECTIONS_TOTAL}{{state=\"accepted\"}} {accepted}\n{CONNECTIONS_TOTAL}{{state=\"handled\"}} 9\n\
             {REQUESTS_TOTAL} {requests}\n"
        )
    }

    #[test]
    fn the_proxys_own_counters_are_exact() {
        let finding = |accepted, requests| {
            scene().grows("forebay/metrics", &metrics(0, 0), &metrics(accepted, requests)).finding(ID)
        };
        assert_eq!(finding(1000, 1010).verdict, Verdict::Warning);
        assert_eq!(finding(1000, 20_000).verdict, Verdict::Ok);
        let limit = finding(1000, 99_500);
        assert_eq!(limit.verdict, Verdict::Warning);
        assert!(
            limit.message.ends_with("keep-alive-requests seems to be 100, and is reached"),
            "{}",
            limit.message
        );
        assert_eq!(finding(0, 20_000).verdict, Verdict::Ok);
    }

    #[test]
    fn what_goes_elsewhere_is_no_client() {
        let groups = [
            incoming(State::Established, "10.0.0.1:80", 20).of(7, "nginx").once(0),
            outgoing(State::Established, "10.0.0.1:9000", 100).of(7, "nginx").once(100),
            incoming(State::Established, "10.0.0.1:9000", 100).of(8, "web").once(100),
            listening("0.0.0.0:9001").of(9, "other"),
            incoming(State::Established, "10.0.0.1:9001", 100).once(100),
        ];
        let finding = accepting(43_000, 1, 1).sockets(&groups).finding(ID);
        assert_eq!((finding.verdict, finding.number("connections_per_second")), (Verdict::Ok, 0.0));
    }

    #[test]
    fn what_cannot_be_seen_is_unknown() {
        assert_eq!(accepting(43_000, 0, 0).sockets(&[]).finding(ID).verdict, Verdict::Unknown);
        assert_eq!(accepting(43_000, 4, 4).finding(ID).verdict, Verdict::Unknown, "eight in two samples");
        let finding = accepting(43_000, 1, 1).forbids("forebay/sockets.json").finding(ID);
        assert!(finding.message.ends_with("permission denied"), "{}", finding.message);
    }
}
