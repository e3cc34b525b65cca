//! Slow replies and handshakes, from the proxy's metrics.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::contention::{Contention, contention};
use super::outgoing::RATE_MIN;
use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::{percent, rate, whole};
use crate::read::cgroups;
use crate::read::metrics::{
    HANDSHAKES, HTTP_BUCKET, HTTP_COUNT, HTTP_HEAD_BUCKET, HTTP_HEAD_COUNT, Pages, REQUESTS_TOTAL,
    STREAM_COUNT, STREAM_RATIO,
};
use crate::read::prometheus::{self, Series};
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::text::{Text, say};

/// The share of slow replies in case E.
const STREAM_SLOW: f64 = 0.001;
/// An HTTP response can be slow for good reasons, so that the share has to be larger and the time longer.
const HTTP_SLOW: f64 = 0.01;
const HTTP_SLOW_BOUND: &str = "1";
/// Fewer slow replies are chance: of 200 answers a single one is above the share.
const SLOW_MIN: f64 = 5.0;

/// Share of handshakes above which they are reported.
const MOST: f64 = 0.9;

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "slow-replies",
        category: "traffic",
        what: "responses are slow now and then: by a CPU quota while nothing looks busy, by CPUs that are contended, or by the upstream itself",
        how: "the proxy's metrics: more than 0.1 % of TCP responses over --stream-response-threshold (10 ms), or more than 1 % of HTTP responses whose head took over 1 s (the whole response, where the proxy does not measure heads), from five slow ones on. A failure if a cgroup was throttled meanwhile; otherwise /proc/pressure/cpu, or /proc/stat, says whether the machine's CPUs were contended",
        severity: Verdict::Failure,
        remedy: "look for the cause at the upstream: cpu-throttled, with --pods for all Pods on this node",
        case: "E",
        look: slow_replies,
    },
    Check {
        id: "tls-cost",
        category: "traffic",
        what: "CPU goes into TLS handshakes: sessions are not resumed, or keys are RSA where ECDSA would do",
        how: "forebay_tls_handshakes_total, from ten full handshakes a second on: fewer than one in ten resumed, or one in ten or more with RSA",
        severity: Verdict::Warning,
        remedy: "in the ConfigMap `ssl-session-cache: \"true\"` and `ssl-session-tickets: \"true\"`; clients that keep \
                 connections, or at least sessions (client-keepalive)",
        case: "C",
        look: tls_cost,
    },
];

/// The replies of one kind: their number, and how many were slow.
struct Replies {
    of: Text,
    count: f64,
    slow: f64,
    bearable: f64,
}

impl Replies {
    fn share(&self) -> f64 {
        self.slow / self.count.max(1.0)
    }

    fn is_slow(&self) -> bool {
        self.slow >= SLOW_MIN && self.share() > self.bearable
    }
}

fn slow_replies(samples: &Samples) -> Result<Outcome, Unknown> {
    let pages = Pages::of(samples)?;
    let replies: Vec<Replies> = streams(samples)?.into_iter().chain(http(&pages)).collect();
    if replies.is_empty() {
        let seen =
            [STREAM_COUNT, HTTP_COUNT].iter().any(|name| prometheus::sum(pages.last(), name).is_some());
        let is_proxy = prometheus::sum(pages.last(), REQUESTS_TOTAL).is_some();
        return if seen || is_proxy {
            Ok(Outcome::ok(say!("no replies were counted meanwhile")))
        } else {
            Err(Unknown(say!("the proxy's metrics have no times of replies")))
        };
    }
    let excess = |replies: &Replies| replies.share() / replies.bearable;
    let worst = replies
        .iter()
        .max_by(|one, other| one.is_slow().cmp(&other.is_slow()).then(excess(one).total_cmp(&excess(other))));
    let Some(worst) = worst else { return Err(Unknown(say!("no replies were counted"))) };
    let message = say!("{} of {} {} were slow", percent(worst.share()), whole(worst.count), &worst.of);
    let throttled = throttled(samples)?;
    let contention = contention(samples);
    let outcome = match (worst.is_slow(), &throttled, contention) {
        (true, Some((group, ms)), _) => {
            Outcome::failure(say!("{}, while {} waited {} ms for its CPU quota", message, group, rate(*ms)))
        }
        (true, None, Some(contention)) => {
            Outcome::warning(contention.beside(&message)).remedy(Contention::remedy())
        }
        (true, None, None) => Outcome::warning(message),
        (false, ..) => Outcome::ok(message),
    };
    let outcome = outcome
        .with("replies", worst.count)
        .with("slow", worst.slow)
        .with("slow_percent", worst.share() * 100.0)
        .with("of", worst.of.english());
    let outcome = contention.into_iter().fold(outcome, |outcome, contention| contention.evident(outcome));
    Ok(match throttled {
        Some((group, ms)) => outcome.with("throttled_group", group.english()).with("throttled_ms", ms),
        None => outcome,
    })
}

/// The replies of each TCP service. The metric is a ratio over all answers since the proxy began: together
/// with their number it gives the ratio between the samples.
fn streams(samples: &Samples) -> Result<Vec<Replies>, Unknown> {
    let (first, last) = samples.ends()?;
    let (before, now) =
        (over_threshold(first.text("forebay/metrics")?), over_threshold(last.text("forebay/metrics")?));
    let replies = now.into_iter().map(|(labels, (count, slow))| {
        let (count_before, slow_before) = before.get(labels).copied().unwrap_or_default();
        let series = Series { name: STREAM_COUNT, labels, value: count };
        let label = |name| series.label(name).map_or_else(|| "?".to_owned(), Cow::into_owned);
        let of = say!("answers of {}/{}:{}", label("namespace"), label("service"), label("port"));
        let (count, slow) = (count - count_before, (slow - slow_before).round().max(0.0));
        Replies { of, count, slow, bearable: STREAM_SLOW }
    });
    Ok(replies.filter(|replies| replies.count > 0.0).collect())
}

/// By labels, the number of answers, and of those above the threshold.
fn over_threshold(page: &str) -> BTreeMap<&str, (f64, f64)> {
    let of = |name: &'static str| prometheus::named(page, name);
    let ratios: BTreeMap<&str, f64> = of(STREAM_RATIO).map(|series| (series.labels, series.value)).collect();
    let counts = of(STREAM_COUNT);
    counts
        .map(|series| {
            let ratio = ratios.get(series.labels).copied().unwrap_or(0.0);
            (series.labels, (series.value, series.value * ratio))
        })
        .collect()
}

/// The replies of all HTTP upstreams together, by the time of their heads: a whole response takes long where
/// it is large, or its client reads slowly.
fn http(pages: &Pages<'_>) -> Option<Replies> {
    let has_heads = prometheus::sum(pages.last(), HTTP_HEAD_COUNT).is_some();
    let (count, bucket) =
        if has_heads { (HTTP_HEAD_COUNT, HTTP_HEAD_BUCKET) } else { (HTTP_COUNT, HTTP_BUCKET) };
    let count = pages.growth(count).filter(|count| *count > 0.0)?;
    let quick =
        pages.growth_where(bucket, |series| series.label("le").as_deref() == Some(HTTP_SLOW_BOUND))?;
    let slow = (count - quick).max(0.0);
    Some(Replies { of: say!("responses of upstreams"), count, slow, bearable: HTTP_SLOW })
}

/// The cgroup that was throttled longest between the samples, and how long; none if none was, or none was
/// examined.
fn throttled(samples: &Samples) -> Result<Option<(Text, f64)>, Unknown> {
    let (first, last) = samples.ends()?;
    let waited = cgroups::folders(last).unwrap_or_default().into_iter().filter_map(|folder| {
        let (before, now) = (cgroups::group(first, folder).ok()?, cgroups::group(last, folder).ok()?);
        let waited_us = now.throttled_us.checked_sub(before.throttled_us)?;
        (waited_us > 0).then(|| (cgroups::name(folder), waited_us as f64 / 1000.0))
    });
    Ok(waited.max_by(|(_, one), (_, other)| one.total_cmp(other)))
}

fn tls_cost(samples: &Samples) -> Result<Outcome, Unknown> {
    let pages = Pages::of(samples)?;
    let all = pages.growth(HANDSHAKES);
    let all = all.ok_or_else(|| Unknown(say!("the proxy's metrics do not count handshakes")))?;
    let is_full = |series: &Series<'_>| series.label("kind").as_deref() == Some("full");
    let full = pages.growth_where(HANDSHAKES, is_full).unwrap_or(0.0);
    let is_rsa = |series: &Series<'_>| is_full(series) && series.label("key").as_deref() == Some("rsa");
    let rsa = pages.growth_where(HANDSHAKES, is_rsa).unwrap_or(0.0);
    let per_second = full / samples.seconds()?;
    let (share_full, share_rsa) = (full / all.max(1.0), rsa / full.max(1.0));
    let message = say!("{} full handshakes a second, {} of all", rate(per_second), percent(share_full));
    let outcome = if per_second < RATE_MIN {
        Outcome::ok(message)
    } else if share_rsa >= 1.0 - MOST {
        Outcome::warning(say!(
            "{}, {} of them with RSA keys, whose signatures cost many times those of ECDSA",
            message,
            percent(share_rsa)
        ))
        .remedy(say!(
            "a certificate with an ECDSA P-256 key (openssl ecparam -name prime256v1 -genkey; cert-manager: \
             `privateKey: {algorithm: ECDSA, size: 256}`)"
        ))
    } else if share_full > MOST {
        Outcome::warning(say!("{}: hardly any session is resumed", message))
    } else {
        Outcome::ok(message)
    };
    Ok(outcome
        .with("full_per_second", per_second)
        .with("handshakes", all)
        .with("full_percent", share_full * 100.0)
        .with("rsa_percent", share_rsa * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, scene};

    const METRICS: &str = "forebay/metrics";
    const LABELS: &str = "protocol=\"TCP\",port=\"6379\",namespace=\"default\",service=\"redis\"";

    fn redis(count: u64, ratio: &str) -> String {
        format!("{STREAM_COUNT}{{{LABELS}}} {count}\n{STREAM_RATIO}{{{LABELS}}} {ratio}\n")
    }

    fn throttled(scene: Scene) -> Scene {
        let stat = |us: u64| format!("usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
        let path = "sys/fs/cgroup/redis.slice";
        scene.file(&format!("{path}/cpu.max"), "50000 100000\n").grows(
            &format!("{path}/cpu.stat"),
            &stat(1000),
            &stat(321_000),
        )
    }

    #[test]
    fn slow_answers_beside_throttling_are_the_failure() {
        let slow = || scene().grows(METRICS, &redis(1000, "0"), &redis(11_000, "0.004"));
        let finding = slow().finding("slow-replies");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.message, "0.44 % of 10,000 answers of default/redis:6379 were slow");
        let finding = throttled(slow()).finding("slow-replies");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert!(
            finding.message.ends_with("were slow, while cgroup /redis.slice waited 320 ms for its CPU quota"),
            "{}",
            finding.message
        );
        assert!(finding.tells("throttled_ms", 320.0));
    }

    #[test]
    fn slow_answers_on_a_machine_without_cpus_to_spare_say_so() {
        let pressure = |us: u64| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n");
        let contended = |scene: Scene| scene.grows("proc/pressure/cpu", &pressure(7), &pressure(6_300_007));
        let slow = || contended(scene().grows(METRICS, &redis(1000, "0"), &redis(11_000, "0.004")));
        let finding = slow().finding("slow-replies");
        assert_eq!(finding.verdict, Verdict::Warning);
        let expected = "0.44 % of 10,000 answers of default/redis:6379 were slow, while threads of this machine \
                        waited for a CPU 63 % of the time";
        assert_eq!(finding.message, expected);
        assert!(
            finding.remedy.starts_with("more CPUs on this node")
                && finding.tells("cpu_waiting_percent", 63.0)
        );
        let throttled = throttled(slow()).finding("slow-replies");
        assert!(throttled.verdict == Verdict::Failure && throttled.message.ends_with("for its CPU quota"));
        let quick =
            contended(scene().grows(METRICS, &redis(0, "0"), &redis(1000, "0"))).finding("slow-replies");
        assert_eq!(quick.verdict, Verdict::Ok, "contention alone delays nobody");
    }

    #[test]
    fn a_few_slow_answers_are_chance() {
        let finding = |slow: f64| {
            let ratio = format!("{}", slow / 207.0);
            scene().grows(METRICS, &redis(0, "0"), &redis(207, &ratio)).finding("slow-replies").verdict
        };
        assert_eq!([2.0, 4.0, 5.0].map(finding), [Verdict::Ok, Verdict::Ok, Verdict::Warning]);
    }

    #[test]
    fn what_was_slow_before_is_not_now() {
        let finding = scene().grows(METRICS, &redis(1000, "0.5"), &redis(11_000, "0.04545454545454545"));
        let finding = throttled(finding).finding("slow-replies");
        assert_eq!((finding.verdict, finding.number("slow")), (Verdict::Ok, 0.0));
    }

    #[test]
    fn slow_responses_of_http_are_told() {
        let page = |quick: u64, count: u64| {
            format!("{HTTP_BUCKET}{{host=\"a\",le=\"1\"}} {quick}\n{HTTP_COUNT}{{host=\"a\"}} {count}\n")
        };
        let finding = |quick| scene().grows(METRICS, "", &page(quick, 1000)).finding("slow-replies");
        assert_eq!(finding(980).message, "2.0 % of 1,000 responses of upstreams were slow");
        assert_eq!((finding(980).verdict, finding(995).verdict), (Verdict::Warning, Verdict::Ok));
    }

    #[test]
    fn a_response_is_not_slow_whose_body_alone_takes_long() {
        let page = |heads: u64, quick_heads: u64| {
            format!(
                "{HTTP_BUCKET}{{le=\"1\"}} 0\n{HTTP_COUNT} 1000\n\
                 {HTTP_HEAD_BUCKET}{{le=\"1\"}} {quick_heads}\n{HTTP_HEAD_COUNT} {heads}\n"
            )
        };
        let finding = |heads, quick| scene().grows(METRICS, "", &page(heads, quick)).finding("slow-replies");
        assert!(finding(1000, 1000).tells("slow", 0.0) && finding(1000, 980).tells("slow", 20.0));
        assert_eq!(
            (finding(1000, 1000).verdict, finding(1000, 980).verdict),
            (Verdict::Ok, Verdict::Warning)
        );
        assert_eq!(finding(0, 0).verdict, Verdict::Ok, "no head came meanwhile");
    }

    #[test]
    fn without_metrics_nothing_is_known_of_replies() {
        let finding = scene().finding("slow-replies");
        assert_eq!(finding.message, "not checked: the proxy's metrics were not given");
        let others = scene().file(METRICS, "up 1\n").finding("slow-replies");
        assert_eq!(others.verdict, Verdict::Unknown);
        let idle = scene().file(METRICS, &format!("{} 3\n", crate::read::metrics::REQUESTS_TOTAL));
        assert_eq!(idle.finding("slow-replies").verdict, Verdict::Ok);
    }

    fn handshakes(full_ecdsa: u64, full_rsa: u64, resumed: u64) -> Scene {
        let line = |kind, key, count: u64| format!("{HANDSHAKES}{{kind=\"{kind}\",key=\"{key}\"}} {count}\n");
        let page = |ecdsa, rsa, resumed| {
            line("full", "ecdsa", ecdsa) + &line("full", "rsa", rsa) + &line("resumed", "rsa", resumed)
        };
        scene().grows(METRICS, &page(0, 0, 0), &page(full_ecdsa, full_rsa, resumed))
    }

    #[test]
    fn handshakes_are_judged_by_kind_and_key() {
        let rsa = handshakes(0, 30_000, 10_000).finding("tls-cost");
        assert_eq!(rsa.verdict, Verdict::Warning);
        assert_eq!(
            rsa.message,
            "3,000 full handshakes a second, 75 % of all, 100 % of them with RSA keys, whose signatures cost many times \
             those of ECDSA"
        );
        assert!(rsa.remedy.contains("ECDSA"), "{}", rsa.remedy);
        let never = handshakes(30_000, 0, 0).finding("tls-cost");
        assert!(never.message.ends_with("100 % of all: hardly any session is resumed"), "{}", never.message);
        assert_eq!(handshakes(30_000, 0, 10_000).finding("tls-cost").verdict, Verdict::Ok);
        assert_eq!(handshakes(0, 50, 0).finding("tls-cost").verdict, Verdict::Ok, "five a second");
    }

    #[test]
    fn who_does_not_count_handshakes_is_not_judged() {
        let finding = scene().file(METRICS, "up 1\n").finding("tls-cost");
        assert_eq!(finding.message, "not checked: the proxy's metrics do not count handshakes");
    }
}
