//! Resolves names outside the cluster (`ExternalName`).
//!
//! Translation never waits for DNS: it returns the names that it needs and uses the addresses that are known. The driver resolves
//! the names meanwhile, and translates again when addresses change. A request never waits for DNS either.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ResolveHosts, ResolverOpts};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The result of each look-up: addresses, or the error.
pub type Resolved = HashMap<String, Result<Vec<IpAddr>, String>>;

/// Least time before a name is looked up again, even if its TTL is shorter.
pub const KEPT_MIN: Duration = Duration::from_secs(5);

/// Most time before a name is looked up again, even if its TTL is longer.
pub const KEPT_MAX: Duration = Duration::from_mins(5);

/// Time before a name is looked up again after an error.
pub const RETRY: Duration = Duration::from_secs(5);

/// Most look-ups at a time. Others wait: each host may have a name of its own that is needed.
pub const LOOKUPS_MAX: usize = 64;

/// Resolves names.
pub trait Resolver: Clone + Send + Sync + 'static {
    /// The addresses of a name, and their time to live.
    fn look_up(&self, name: String) -> impl Future<Output = Answer> + Send;
}

/// Addresses with their time to live, or the error.
pub type Answer = Result<(Vec<IpAddr>, Duration), String>;

/// Asks the name servers in `/etc/resolv.conf`. `/etc/hosts` is not read: it holds names of this machine, which authors of Services
/// have no right to.
#[derive(Clone)]
pub struct SystemResolver(Option<TokioResolver>);

impl SystemResolver {
    /// Reads `/etc/resolv.conf`. Without a usable one, every look-up is an error.
    pub fn new() -> Self {
        let built = TokioResolver::builder_tokio().and_then(|mut builder| {
            restrict(builder.options_mut());
            builder.build()
        });
        Self(built.inspect_err(|error| tracing::warn!(%error, "no resolver for external names")).ok())
    }
}

fn restrict(options: &mut ResolverOpts) {
    options.use_hosts_file = ResolveHosts::Never;
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for SystemResolver {
    async fn look_up(&self, name: String) -> Answer {
        let resolver = self.0.as_ref().ok_or("there is no usable /etc/resolv.conf")?;
        // The dot at the end keeps search domains out: the name of an `ExternalName` Service is absolute.
        let found = resolver.lookup_ip(format!("{name}.")).await.map_err(|error| error.to_string())?;
        let holds = found.valid_until().saturating_duration_since(Instant::now());
        Ok((found.iter().collect(), holds))
    }
}

/// Keeps the addresses of the names that are needed, and of no others.
pub(crate) struct Names<R> {
    resolver: R,
    resolved: Resolved,
    /// When to look each name up again; none while a look-up is under way.
    due: HashMap<String, Option<Instant>>,
    turns: Arc<Semaphore>,
    lookups: JoinSet<(String, Answer)>,
}

impl<R: Resolver> Names<R> {
    pub(crate) fn new(resolver: R) -> Self {
        let turns = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { resolver, resolved: Resolved::new(), due: HashMap::new(), turns, lookups: JoinSet::new() }
    }

    pub(crate) fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Sets the names that are needed.
    pub(crate) fn need(&mut self, names: &BTreeSet<String>) {
        self.due.retain(|name, _| names.contains(name));
        self.resolved.retain(|name, _| names.contains(name));
        for name in names {
            if !self.due.contains_key(name) {
                self.look_up(name);
            }
        }
    }

    /// Waits until the addresses of a name have changed.
    pub(crate) async fn changed(&mut self) {
        loop {
            let next = self.due.values().flatten().min().copied();
            let timer = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(done) = self.lookups.join_next() => {
                    let Ok((name, answer)) = done else { continue };
                    let mut differs = self.take(name, answer, Instant::now());
                    // What has come in meanwhile is told of at once: each change is translated.
                    while let Some(done) = self.lookups.try_join_next() {
                        let Ok((name, answer)) = done else { continue };
                        differs |= self.take(name, answer, Instant::now());
                    }
                    if differs {
                        return;
                    }
                }
                () = timer => self.refresh(Instant::now()),
            }
        }
    }

    fn refresh(&mut self, now: Instant) {
        let is_due = |due: &Option<Instant>| due.is_some_and(|due| due <= now);
        let due: Vec<_> =
            self.due.iter().filter(|(_, due)| is_due(due)).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.look_up(&name);
        }
    }

    fn look_up(&mut self, name: &str) {
        let (name, resolver, turns) = (name.to_owned(), self.resolver.clone(), Arc::clone(&self.turns));
        self.due.insert(name.clone(), None);
        self.lookups.spawn(async move {
            // Nobody closes the semaphore.
            let _turn = turns.acquire().await;
            let answer = resolver.look_up(name.clone()).await;
            (name, answer)
        });
    }

    /// Takes the result of a look-up. Returns whether it differs from the one before.
    fn take(&mut self, name: String, answer: Answer, now: Instant) -> bool {
        let Some(due) = self.due.get_mut(&name) else { return false };
        let holds = answer.as_ref().map_or(RETRY, |(_, holds)| (*holds).clamp(KEPT_MIN, KEPT_MAX));
        *due = Some(now + holds);
        let known = self.resolved.get(&name);
        let answer = match answer {
            Ok((mut addresses, _)) => {
                addresses.sort_unstable();
                Ok(addresses)
            }
            // An error keeps the addresses that are known: a name server that fails for a moment must not take endpoints away.
            Err(_) if matches!(known, Some(Ok(_))) => return false,
            Err(why) => Err(why),
        };
        let differs = known != Some(&answer);
        self.resolved.insert(name, answer);
        differs
    }
}

/// Names that resolve to this machine, and addresses written as names. Some resolvers read a name whose last label is a number as
/// an address, such as `127.1`, `0x7f.1` or `2130706433` (WHATWG URL, "ends in a number").
pub(crate) fn is_forbidden(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    name == "localhost"
        || last == "localhost"
        || name == "localhost.localdomain"
        || is_number
        || name.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_outside_name_is_forbidden() {
        for name in ["localhost", "a.localhost", "127.0.0.1", "127.1", "0x7f.0x1", "::1", "2130706433", ""] {
            assert!(is_forbidden(name), "{name}");
        }
        for name in ["example.com", "a1", "10.example.com", "db.internal"] {
            assert!(!is_forbidden(name), "{name}");
        }
    }

    #[test]
    fn names_of_this_machine_are_no_outside_names() {
        let mut options = ResolverOpts::default();
        options.use_hosts_file = ResolveHosts::Always;
        restrict(&mut options);
        assert_eq!(options.use_hosts_file, ResolveHosts::Never);
    }

    #[derive(Clone)]
    struct Nowhere;

    impl Resolver for Nowhere {
        async fn look_up(&self, _: String) -> Answer {
            std::future::pending().await
        }
    }

    /// Tells of each look-up that has begun.
    #[derive(Clone)]
    struct Telling(tokio::sync::mpsc::UnboundedSender<String>);

    impl Resolver for Telling {
        async fn look_up(&self, name: String) -> Answer {
            let _ = self.0.send(name.clone());
            if name == "first.test" { Ok((Vec::new(), KEPT_MAX)) } else { std::future::pending().await }
        }
    }

    #[tokio::test]
    async fn many_names_are_looked_up_a_few_at_a_time() {
        let (sender, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let mut names = Names::new(Telling(sender));
        let mut needed = BTreeSet::from(["first.test".to_owned()]);
        names.need(&needed);
        needed.extend((0..LOOKUPS_MAX + 5).map(|number| format!("{number}.test")));
        names.need(&needed);
        names.changed().await;
        for _ in 0..=LOOKUPS_MAX {
            begun.recv().await.expect("a look-up");
        }
        // The others have had their chance: all tasks run on this thread.
        tokio::task::yield_now().await;
        assert!(begun.try_recv().is_err(), "one answered, and as many as may be at a time are waited for");
    }

    #[tokio::test]
    async fn answers_are_kept_within_bounds_and_through_failures() {
        let mut names = Names::new(Nowhere);
        let now = Instant::now();
        names.need(&BTreeSet::from(["a.test".to_owned()]));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let mut take = |answer| (names.take("a.test".to_owned(), answer, now), names.due["a.test"]);

        assert_eq!(take(Ok((vec![address], Duration::ZERO))), (true, Some(now + KEPT_MIN)));
        assert_eq!(take(Ok((vec![address], Duration::from_hours(1)))), (false, Some(now + KEPT_MAX)));
        assert_eq!(take(Err("no".to_owned())), (false, Some(now + RETRY)));
        assert_eq!(names.resolved()["a.test"], Ok(vec![address]));

        names.need(&BTreeSet::new());
        assert!(names.resolved().is_empty());
        assert!(!names.take("a.test".to_owned(), Err("late".to_owned()), now), "nobody needs it any more");
    }
}
