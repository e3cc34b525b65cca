//! Resolves names outside the cluster (`ExternalName`).
//!
//! Translation never waits for DNS: it returns the names that it needs and uses the addresses that are
//! known. The driver resolves the names meanwhile, and translates again when addresses change. A request
//! never waits for DNS either.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::base::iana::Rtype;
use domain::base::name::Name;
use domain::resolv::StubResolver;
use domain::resolv::lookup::host::FoundHosts;
use domain::resolv::stub::Answer as Message;
use domain::resolv::stub::conf::ResolvConf;
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

/// Time that the first configuration waits for the first look-ups: without addresses the routes to these
/// names would return 503, in a process that calls itself ready.
pub const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The most look-ups at the same time; further look-ups queue. The number of names is unbounded, because each
/// host may need a name of its own.
pub const LOOKUPS_MAX: usize = 64;

/// A DNS resolver: the system's, or a test's.
pub trait Resolver: Clone + Send + Sync + 'static {
    /// The addresses of a name, and their time to live.
    fn look_up(&self, name: String) -> impl Future<Output = Answer> + Send;
}

/// Addresses with their time to live, or the error.
pub type Answer = Result<(Vec<IpAddr>, Duration), String>;

/// Asks the name servers in `/etc/resolv.conf`. `/etc/hosts` is not read: it holds names of this machine,
/// which authors of Services have no right to.
#[derive(Clone)]
pub struct SystemResolver(Option<Arc<StubResolver>>);

impl SystemResolver {
    /// Reads `/etc/resolv.conf`. Without a usable one, every look-up is an error.
    pub fn new() -> Self {
        let mut conf = ResolvConf::new();
        let read = conf.parse_file("/etc/resolv.conf");
        Self(match read {
            Ok(()) => Some(stub_of(conf)),
            Err(error) => {
                tracing::warn!(%error, "no resolver for external names");
                None
            }
        })
    }
}

fn stub_of(mut conf: ResolvConf) -> Arc<StubResolver> {
    conf.finalize();
    Arc::new(StubResolver::from_conf(conf))
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for SystemResolver {
    async fn look_up(&self, name: String) -> Answer {
        let resolver = self.0.as_ref().ok_or("there is no usable /etc/resolv.conf")?;
        // The name of an `ExternalName` Service is absolute: search domains are not tried.
        let name: Name<Vec<u8>> = name.parse().map_err(|_| "the name is no domain name")?;
        let (v4, v6) = tokio::join!(ask(resolver, &name, Rtype::A), ask(resolver, &name, Rtype::AAAA));
        let shortest = [&v4, &v6].into_iter().flatten().filter_map(shortest_ttl).min();
        let codes = [&v4, &v6].map(|message| message.as_ref().ok().map(|message| message.header().rcode()));
        let found = FoundHosts::<StubResolver>::new(v6, v4).map_err(|error| error.to_string())?;
        let addresses: Vec<_> = found.iter().collect();
        if addresses.is_empty() {
            let codes: BTreeSet<_> = codes.into_iter().flatten().map(|code| code.to_string()).collect();
            return Err(format!("no addresses ({})", Vec::from_iter(codes).join(", ")));
        }
        Ok((addresses, shortest.unwrap_or_default()))
    }
}

/// The shortest TTL of the records that lead to the addresses: aliases, and those of the canonical name.
fn shortest_ttl(message: &Message) -> Option<Duration> {
    let canonical = message.canonical_name()?;
    let records = message.answer().ok()?.flatten();
    let used = records.filter(|record| record.rtype() == Rtype::CNAME || record.owner() == canonical);
    used.map(|record| record.ttl().into_duration()).min()
}

/// Sends a query, and repeats it after a timeout, because a datagram may be lost.
async fn ask(resolver: &StubResolver, name: &Name<Vec<u8>>, kind: Rtype) -> io::Result<Message> {
    for _ in 1..resolver.options().attempts {
        match resolver.query((name, kind)).await {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            answer => return answer,
        }
    }
    resolver.query((name, kind)).await
}

/// Resolves the names that a translation needs, and caches their addresses.
pub(crate) struct Names<R> {
    resolver: R,
    resolved: Resolved,
    /// The time of the next look-up of each name; none while a look-up is running.
    due: HashMap<String, Option<Instant>>,
    turns: Arc<Semaphore>,
    lookups: JoinSet<(String, Answer)>,
    /// End of the wait for the first look-ups; none before the first name is needed.
    first_until: Option<Instant>,
    /// Whether that end has been reported.
    first_is_over: bool,
}

impl<R: Resolver> Names<R> {
    pub(crate) fn new(resolver: R) -> Self {
        let turns = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self {
            resolver,
            resolved: Resolved::new(),
            due: HashMap::new(),
            turns,
            lookups: JoinSet::new(),
            first_until: None,
            first_is_over: false,
        }
    }

    /// Whether a name has not been looked up yet, and the first configuration should wait for it.
    pub(crate) fn is_pending(&self, now: Instant) -> bool {
        self.first_until.is_some_and(|until| now < until) && self.lacks_result()
    }

    fn lacks_result(&self) -> bool {
        self.due.keys().any(|name| !self.resolved.contains_key(name))
    }

    pub(crate) fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Sets the names that are needed.
    pub(crate) fn need(&mut self, names: &BTreeSet<String>) {
        self.due.retain(|name, _| names.contains(name));
        self.resolved.retain(|name, _| names.contains(name));
        if !names.is_empty() {
            self.first_until.get_or_insert_with(|| Instant::now() + FIRST_WAIT);
        }
        for name in names {
            if !self.due.contains_key(name) {
                self.look_up(name);
            }
        }
    }

    /// Waits until the addresses of a name have changed, or the wait for the first ones is over.
    pub(crate) async fn changed(&mut self) {
        loop {
            let first = self.first_until.filter(|_| !self.first_is_over && self.lacks_result());
            if first.is_some_and(|until| until <= Instant::now()) {
                self.first_is_over = true;
                return;
            }
            let next = self.due.values().flatten().copied().chain(first).min();
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
                    // Look-ups that ended meanwhile are reported together, because each report causes a
                    // translation.
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
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            let answer = resolver.look_up(name.clone()).await;
            (name, answer)
        });
    }

    /// Stores the result of a look-up. Returns whether the result differs from the previous one.
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
            // An error keeps the addresses that are known: a name server that fails for a moment must not
            // take endpoints away.
            Err(_) if matches!(known, Some(Ok(_))) => return false,
            Err(why) => Err(why),
        };
        let differs = known != Some(&answer);
        self.resolved.insert(name, answer);
        differs
    }
}

/// Whether a name resolves to this machine, or is an address written as a name. Some resolvers read a name
/// whose last label is a number as an address, such as `127.1`, `0x7f.1` or `2130706433` (WHATWG URL, "ends
/// in a number").
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
    use std::net::Ipv4Addr;

    use domain::base::iana::{Class, Rcode};
    use domain::base::{MessageBuilder, RecordData, Ttl};
    use domain::rdata::{A, Aaaa, AllRecordData, Cname};
    use domain::resolv::stub::conf::{ServerConf, Transport};
    use tokio::net::UdpSocket;

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

    /// A name server that sends `answer(n, question)` to the `n`th datagram; none sends nothing.
    async fn name_server(
        mut answer: impl FnMut(usize, &Query) -> Option<Vec<u8>> + Send + 'static,
    ) -> SystemResolver {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut conf = ResolvConf::new();
        conf.servers.push(ServerConf::new(socket.local_addr().unwrap(), Transport::UdpTcp));
        conf.options.timeout = Duration::from_secs(1);
        tokio::spawn(async move {
            for number in 0.. {
                let mut buffer = vec![0; 1500];
                let (len, client) = socket.recv_from(&mut buffer).await.unwrap();
                buffer.truncate(len);
                if let Some(answer) = answer(number, &Query::from_octets(buffer).unwrap()) {
                    socket.send_to(&answer, client).await.unwrap();
                }
            }
        });
        SystemResolver(Some(stub_of(conf)))
    }

    type Query = domain::base::Message<Vec<u8>>;
    type Data = AllRecordData<Vec<u8>, Name<Vec<u8>>>;

    /// A response with the records that match this question.
    fn answered(query: &Query, code: Rcode, records: &[(&str, u32, Data)]) -> Vec<u8> {
        let mut answer = MessageBuilder::new_vec().start_answer(query, code).unwrap();
        let asked = query.sole_question().unwrap().qtype();
        for (owner, ttl, data) in records {
            if data.rtype() == asked || data.rtype() == Rtype::CNAME {
                let owner: Name<Vec<u8>> = owner.parse().unwrap();
                answer.push((owner, Class::IN, Ttl::from_secs(*ttl), data.clone())).unwrap();
            }
        }
        answer.finish()
    }

    #[tokio::test]
    async fn addresses_are_those_of_the_canonical_name_for_the_shortest_ttl() {
        let resolver = name_server(|_, query| {
            let alias = Cname::new("b.test".parse().unwrap());
            let records = [
                ("a.test", 300, alias.into()),
                ("b.test", 60, A::from_octets(192, 0, 2, 1).into()),
                ("c.test", 5, A::from_octets(192, 0, 2, 9).into()),
                ("b.test", 90, Aaaa::new("2001:db8::1".parse().unwrap()).into()),
            ];
            Some(answered(query, Rcode::NOERROR, &records))
        });
        let (mut addresses, holds) = resolver.await.look_up("a.test".to_owned()).await.unwrap();
        addresses.sort_unstable();
        assert_eq!(addresses, ["192.0.2.1".parse::<IpAddr>().unwrap(), "2001:db8::1".parse().unwrap()]);
        assert_eq!(holds, Duration::from_secs(60));
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_an_error() {
        for (code, text) in [(Rcode::NXDOMAIN, "NXDOMAIN"), (Rcode::NOERROR, "NOERROR")] {
            let resolver = name_server(move |_, query| Some(answered(query, code, &[]))).await;
            let why = resolver.look_up("a.test".to_owned()).await.unwrap_err();
            assert_eq!(why, format!("no addresses ({text})"));
        }
    }

    #[tokio::test]
    async fn a_question_whose_answer_is_lost_is_asked_again() {
        let records = [("a.test", 60, A::from_octets(192, 0, 2, 1).into())];
        let resolver =
            name_server(move |number, query| (number > 1).then(|| answered(query, Rcode::NOERROR, &records)));
        let (addresses, _) = resolver.await.look_up("a.test".to_owned()).await.unwrap();
        assert_eq!(addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    }

    #[derive(Clone)]
    struct Nowhere;

    impl Resolver for Nowhere {
        async fn look_up(&self, _: String) -> Answer {
            std::future::pending().await
        }
    }

    /// A resolver that reports the start of each look-up to the test.
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
        // The other tasks get a turn, because all tasks run on this thread.
        tokio::task::yield_now().await;
        assert!(begun.try_recv().is_err(), "one answered, and as many as may be at a time are waited for");
    }

    /// The first configuration waits for addresses, and no longer than it should for a server that is silent.
    #[tokio::test]
    async fn first_lookups_are_waited_for_within_bounds() {
        let mut names = Names::new(Nowhere);
        assert!(!names.is_pending(Instant::now()), "no name is needed");
        names.need(&BTreeSet::from(["a.test".to_owned()]));
        let begun = Instant::now();
        assert!(names.is_pending(begun) && !names.is_pending(begun + FIRST_WAIT));
        assert!(!names.take("other.test".to_owned(), Err("no".to_owned()), begun));
        assert!(names.take("a.test".to_owned(), Err("no".to_owned()), begun));
        assert!(!names.is_pending(begun), "an error is a result too");
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
