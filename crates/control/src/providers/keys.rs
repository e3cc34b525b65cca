//! Fetches the keys of an issuer, again and again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::CACHE_CONTROL;
use identity::{KeySet, KeySource, Origin};
use tokio::time::Instant;

use super::address::Place;
use super::client::Answer;
use super::shared::Shared;

/// Least time between fetches that nobody requests.
const KEPT_MIN: Duration = Duration::from_mins(1);

/// Most time between fetches.
const KEPT_MAX: Duration = Duration::from_hours(24);

/// Time between fetches if the issuer does not say how long its keys may be kept.
const KEPT: Duration = Duration::from_hours(1);

/// Time before the next fetch after the first failure. It doubles with each failure.
const RETRY: Duration = Duration::from_secs(1);

/// Most time before the next fetch after failures.
const RETRY_MAX: Duration = Duration::from_mins(1);

/// Time between looks at whether anybody still has the source.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// The keys at a place, which are fetched from now on.
pub(super) fn fetched(shared: &Arc<Shared>, place: Place) -> Arc<KeySource> {
    let mut state = shared.lock();
    if let Some(known) = state.sources.get(&place).and_then(Weak::upgrade) {
        return known;
    }
    let source = Arc::new(KeySource::fetched(place.url.to_string()));
    let weak = Arc::downgrade(&source);
    state.sources.insert(place.clone(), Weak::clone(&weak));
    let shared = Arc::clone(shared);
    tokio::spawn(async move { follow(&shared, &place, &weak).await });
    source
}

/// Keeps a source filled until nobody else has it. There is one fetch at a time.
pub(super) async fn follow(shared: &Shared, place: &Place, source: &Weak<KeySource>) {
    let mut failures = 0;
    while let Some(source) = source.upgrade() {
        source.begin();
        let fetched = shared.client.get(place).await.and_then(|answer| read(&answer));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let count = if fetched.is_ok() { &shared.fetched } else { &shared.failed };
        count.fetch_add(1, Ordering::Relaxed);
        let pause = match fetched {
            Ok((keys, kept)) => {
                if failures > 0 {
                    tracing::info!(url = source.name(), "the keys of the issuer can be fetched again");
                }
                for why in keys.ignored() {
                    tracing::debug!(url = source.name(), "a key of the issuer is ignored: {why}");
                }
                source.put(Ok(keys), now);
                failures = 0;
                // Before the end, and not all replicas at the same moment.
                spread(kept.mul_f32(0.8))
            }
            Err(why) => {
                if failures == 0 {
                    let state =
                        if source.generation() == 0 { "there are none" } else { "the last ones stay" };
                    tracing::warn!(
                        url = source.name(),
                        "the keys of the issuer cannot be fetched, {state}: {why}"
                    );
                }
                source.put(Err(why), now);
                failures += 1;
                spread(RETRY.saturating_mul(1 << (failures - 1).min(10)).min(RETRY_MAX))
            }
        };
        if sleep(shared, place, &source, pause).await {
            return;
        }
    }
}

/// Waits until the next fetch is due, or a worker requests one. Returns whether nobody has the source any
/// more.
async fn sleep(shared: &Shared, place: &Place, source: &Arc<KeySource>, pause: Duration) -> bool {
    let due = Instant::now() + pause;
    loop {
        let look = due.min(Instant::now() + LOOK_INTERVAL);
        tokio::select! {
            () = source.wanted() => return false,
            () = tokio::time::sleep_until(look) => {}
        }
        if shared.forget_unused(place, source) {
            return true;
        }
        if Instant::now() >= due {
            return false;
        }
    }
}

/// The keys in an answer, and how long they may be kept.
fn read(answer: &Answer) -> Result<(KeySet, Duration), String> {
    if answer.status != http::StatusCode::OK {
        return Err(format!("HTTP {}", answer.status.as_u16()));
    }
    let keys = KeySet::parse(&answer.body, Origin::Public)?;
    Ok((keys, kept(&answer.headers)))
}

/// How long an answer may be kept (RFC 9111 section 5.2.2), within our bounds.
fn kept(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directives = values.flat_map(|value| value.split(',')).map(|one| one.trim().to_ascii_lowercase());
    let mut kept = None;
    for directive in directives {
        match directive.split_once('=') {
            Some(("max-age", seconds)) => {
                kept = kept.or_else(|| seconds.trim_matches('"').parse().ok().map(Duration::from_secs));
            }
            None if directive == "no-store" || directive == "no-cache" => return KEPT_MIN,
            _ => {}
        }
    }
    kept.unwrap_or(KEPT).clamp(KEPT_MIN, KEPT_MAX)
}

/// A time that is up to a tenth shorter.
pub(super) fn spread(time: Duration) -> Duration {
    let mut byte = [0];
    // Without randomness, all replicas fetch at once.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    time.mul_f32(1.0 - f32::from(byte[0]) / 2560.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_as_the_issuer_says_within_bounds() {
        for (value, seconds) in [
            ("max-age=3600", 3600),
            ("public, Max-Age=\"7200\", must-revalidate", 7200),
            ("max-age=5", 60),
            ("max-age=0", 60),
            ("max-age=99999999", 86400),
            ("max-age=99999999999999999999999", 3600),
            ("no-store, max-age=900", 60),
            ("no-cache", 60),
            ("private", 3600),
        ] {
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, value.parse().unwrap())]);
            assert_eq!(kept(&headers), Duration::from_secs(seconds), "{value}");
        }
        assert_eq!(kept(&HeaderMap::new()), KEPT);
    }

    #[test]
    fn times_are_spread() {
        for _ in 0..100 {
            let time = spread(KEPT);
            assert!(time <= KEPT && time >= KEPT.mul_f32(0.89), "{time:?}");
        }
    }
}
