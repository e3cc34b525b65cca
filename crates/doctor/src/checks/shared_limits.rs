//! Limits that replicas keep together by a Redis, from Forebay's metrics.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::read::metrics::{LIMIT_REDIS_EXCHANGES, LIMIT_REDIS_REQUESTS, Pages};
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::text::say;

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "limit-redis",
    category: "clients",
    what: "the Redis that counts for shared limits is slow or unreachable: each replica counts alone, or refuses requests",
    how: "Forebay's forebay_limit_redis_exchanges_total and forebay_limit_redis_requests_total, by result",
    severity: Verdict::Failure,
    remedy: "check the log, the address, password and certificate of `--limit-redis`, and the latency of Redis",
    case: "none",
    look: limit_redis,
}];

fn limit_redis(samples: &Samples) -> Result<Outcome, Unknown> {
    let pages = Pages::of(samples)?;
    let growth = |name: &str, results: &[&str]| {
        pages.growth_where(name, |series| {
            series.label("result").is_some_and(|result| results.contains(&result.as_ref()))
        })
    };
    let exchanges = |results: &[&str]| growth(LIMIT_REDIS_EXCHANGES, results);
    let Some(good) = exchanges(&["in_time"]) else {
        return Err(Unknown(say!("the metrics have no forebay_limit_redis_exchanges_total")));
    };
    let slow = exchanges(&["slow"]).unwrap_or(0.0);
    let failed = exchanges(&["unreachable", "silent", "refused", "not_redis"]).unwrap_or(0.0);
    let requests = |result: &str| growth(LIMIT_REDIS_REQUESTS, &[result]).unwrap_or(0.0);
    let (alone, closed) = (requests("alone"), requests("closed"));
    let told = |outcome: Outcome| {
        let outcome = outcome.with("in_time", good).with("slow", slow).with("failed", failed);
        outcome.with("alone", alone).with("closed", closed)
    };
    let without = say!("{} requests were counted by this replica alone, and {} were refused", alone, closed);
    Ok(told(if good + slow + failed == 0.0 {
        Outcome::ok(say!("no Redis counts for limits"))
    } else if failed > 0.0 && good + slow == 0.0 {
        Outcome::failure(say!("the Redis that counts for limits does not answer; {}", without))
    } else if failed > 0.0 || alone + closed > 0.0 {
        Outcome::warning(say!(
            "the Redis that counts for limits was not there in time: {} exchanges failed, {} were slow; {}",
            failed,
            slow,
            without
        ))
    } else {
        Outcome::ok(say!("the Redis that counts for limits answers"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    const ID: &str = "limit-redis";

    fn page(in_time: u32, slow: u32, failed: u32, alone: u32) -> String {
        format!(
            "forebay_limit_redis_exchanges_total{{result=\"in_time\"}} {in_time}\n\
             forebay_limit_redis_exchanges_total{{result=\"slow\"}} {slow}\n\
             forebay_limit_redis_exchanges_total{{result=\"unreachable\"}} {failed}\n\
             forebay_limit_redis_requests_total{{result=\"alone\"}} {alone}\n"
        )
    }

    #[test]
    fn a_redis_that_is_gone_or_slow_is_told_of() {
        let finding = |after: String| scene().grows("forebay/metrics", &page(9, 9, 9, 9), &after).finding(ID);
        let gone = finding(page(9, 9, 12, 29));
        assert_eq!(gone.verdict, Verdict::Failure);
        assert_eq!((gone.number("failed"), gone.number("alone")), (3.0, 20.0));
        assert_eq!(finding(page(19, 9, 10, 9)).verdict, Verdict::Warning, "it was gone for a while");
        assert_eq!(finding(page(9, 12, 9, 10)).verdict, Verdict::Warning, "it is slow");
        assert_eq!(finding(page(19, 10, 9, 9)).verdict, Verdict::Ok);
        assert_eq!(finding(page(9, 9, 9, 9)).verdict, Verdict::Ok, "there is none");
        assert_eq!(finding("a 1\n".into()).verdict, Verdict::Unknown);
    }
}
