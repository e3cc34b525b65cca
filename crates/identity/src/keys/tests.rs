use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;

const NOW: Duration = Duration::from_secs(1_800_000_000);

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn keys(secret: u8) -> Result<KeySet, String> {
    KeySet::of_secret(&[secret; 32])
}

fn source() -> Arc<KeySource> {
    Arc::new(KeySource::fetched("https://issuer.test/keys".to_owned()))
}

fn is_ready(future: impl Future<Output = ()>, waker: &Waker) -> bool {
    pin!(future).poll(&mut Context::from_waker(waker)).is_ready()
}

#[test]
fn the_last_good_set_stays() {
    let source = source();
    assert!(source.current().is_none() && source.generation() == 0);
    assert!(!source.put(Err("no route".to_owned()), NOW));
    assert!(source.put(keys(1), NOW));
    let (first, generation) = source.current().unwrap();
    assert!(!source.put(keys(1), NOW), "nothing has changed");
    assert!(!source.put(Err("HTTP 500".to_owned()), NOW));
    let (kept, same) = source.current().unwrap();
    assert_eq!((&*first, generation), (&*kept, same));
    let condition = source.condition();
    assert_eq!((condition.fetches, condition.failures, condition.fetched), (2, 2, Some(NOW)));
    assert_eq!(condition.failure, Some((NOW, "HTTP 500".to_owned())));
    assert!(source.put(keys(2), NOW));
    assert!(source.generation() != generation && source.condition().failure.is_none());
}

#[test]
fn one_refresh_for_all_that_wait() {
    let source = source();
    source.put(keys(1), NOW);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    assert!(!is_ready(source.wanted(), &waker));
    let (mut one, mut other) = (source.refresh(NOW).unwrap(), source.refresh(NOW).unwrap());
    assert_eq!(counter.0.load(Ordering::Relaxed), 1, "the fetcher is woken once");
    assert!(is_ready(source.wanted(), &waker));
    let wakers = [Arc::new(Counter::default()), Arc::new(Counter::default())];
    for (refresh, counter) in [&mut one, &mut other].into_iter().zip(&wakers) {
        assert!(!is_ready(refresh, &Waker::from(Arc::clone(counter))));
    }
    source.put(keys(2), NOW);
    assert!(wakers.iter().all(|counter| counter.0.load(Ordering::Relaxed) == 1));
    assert!(is_ready(one, &waker) && is_ready(other, &waker));
    assert!(!is_ready(source.wanted(), &waker));
}

#[test]
fn refreshes_have_an_interval() {
    let source = source();
    let initial = source.refresh(NOW).unwrap();
    source.put(Err("away".to_owned()), NOW);
    assert!(is_ready(initial, Waker::noop()));
    let first = source.refresh(NOW).unwrap();
    source.begin();
    assert!(source.refresh(NOW).is_some(), "the fetch that is under way serves for it");
    source.put(Err("away".to_owned()), NOW);
    assert!(is_ready(first, Waker::noop()), "a failure ends the wait, too");
    assert!(source.refresh(NOW + REFRESH_INTERVAL / 2).is_none());
    assert!(source.refresh(NOW + REFRESH_INTERVAL).is_some());
}

#[test]
fn sources_are_compared_by_what_is_fixed() {
    let fixed = |name: &str, secret| KeySource::fixed(name.to_owned(), keys(secret).unwrap());
    assert_eq!(fixed("a", 1), fixed("a", 1));
    assert_ne!(fixed("a", 1), fixed("a", 2));
    assert_ne!(fixed("a", 1), fixed("b", 1));
    assert_ne!(fixed("a", 1).generation(), fixed("a", 1).generation());
    let (one, other) = (source(), source());
    assert!(one == one && one != other);
}

#[test]
fn fixed_keys_stay() {
    let source = Arc::new(KeySource::fixed("Secret a/b".to_owned(), keys(1).unwrap()));
    assert!(source.current().is_some() && source.refresh(NOW).is_none() && !source.is_fetched());
}

#[test]
fn the_queue_is_bounded() {
    let source = source();
    let mut all = Vec::new();
    for _ in 0..WAITING_MAX {
        let mut refresh = source.refresh(NOW).unwrap();
        assert!(!is_ready(&mut refresh, &Waker::from(Arc::new(Counter::default()))));
        all.push(refresh);
    }
    assert!(source.refresh(NOW).is_none());
}
