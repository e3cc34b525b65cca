//! Limits that several instances keep together by a Redis, a real one: well, gone, slow, and with TLS and
//! users.

use std::cell::Cell;
use std::time::{Duration, Instant};

use testkit::{Authority, Canned, Forebay, RedisServer, Response, Setup};

use crate::setup;

const EXCHANGES: &str = "forebay_limit_redis_exchanges_total";
const REQUESTS: &str = "forebay_limit_redis_requests_total";

/// One that is limited by the header `X-Key`.
fn limited(backend: &Canned, redis: &str, limit: &str) -> Setup {
    setup()
        .setting("forebay-limit-requests", limit)
        .annotation("forebay.io/limit-shared", "true")
        .annotation("forebay.io/limit-key", "$http_x_key")
        .endpoint(backend.address())
        .arguments([format!("--limit-redis={redis}")])
}

fn url(redis: &RedisServer) -> String {
    format!("redis://{}/0", redis.address())
}

fn head(key: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: web.test\r\nX-Key: {key}\r\nConnection: close\r\n\r\n")
}

fn ask(forebay: &Forebay, key: &str) -> Response {
    forebay.client().ask(&head(key))
}

/// The remaining quota by a response's headers.
fn left(response: &Response) -> u32 {
    let field = response.header("ratelimit").expect("a limit");
    let left = field.split(';').find_map(|part| part.strip_prefix("r=")).expect("what is left");
    left.parse().expect("a number")
}

/// Asks until a request is refused. How many were admitted before.
fn exhaust(forebay: &Forebay, key: &str) -> u32 {
    let admitted = Cell::new(0);
    forebay.await_that("a request to be refused", || {
        let status = ask(forebay, key).status;
        admitted.set(admitted.get() + u32::from(status == 200));
        status == 429
    });
    admitted.get()
}

/// Whether Redis has answered each request within the 100 ms that one waits for it at most. A machine that is
/// busy with other things may need longer, and then a request is admitted by what this instance alone knows.
fn was_in_time(forebay: &Forebay) -> bool {
    forebay.metrics().sum(REQUESTS, &[("result", "alone")]) == 0
}

/// Requests that Redis has counted.
fn stored(redis: &RedisServer) -> u32 {
    let keys = redis.ask("KEYS forebay:*");
    keys.iter()
        .flat_map(|key| redis.ask(&format!("GET {key}")))
        .map(|value| value.parse::<u32>().unwrap())
        .sum()
}

#[test]
fn what_one_instance_admits_is_taken_from_all() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let backend = Canned::saying("ok");
    let [first, second] = [(); 2].map(|()| limited(&backend, &url(&redis), "40/1h").start());
    for asked in 1..=30 {
        assert_eq!(left(&ask(&first, "a client")), 40 - asked);
    }
    first.await_that("all to be stored", || stored(&redis) == 30);
    // It knows nothing of this client, and waits for what Redis says.
    let admitted = exhaust(&second, "a client");
    if was_in_time(&second) {
        assert_eq!(admitted, 10);
        assert!(second.metrics().sum(REQUESTS, &[("result", "waited")]) > 0);
    }
    let refused = ask(&second, "a client");
    assert_eq!((refused.status, left(&refused)), (429, 0));
    assert!(refused.header("retry-after").is_some());
    // The first one hears of it between two exchanges, or before a request where it has not asked for long.
    let admitted = 30 + admitted + exhaust(&first, "a client");
    assert!((40..70).contains(&admitted), "each alone admits 40: {admitted}");
    assert_eq!(left(&ask(&first, "another")), 39);
    let keys = redis.ask("KEYS *");
    assert!(keys.iter().all(|key| key.starts_with("forebay:limit:{") && !key.contains("client")), "{keys:?}");
    assert!(keys.iter().all(|key| redis.ask(&format!("TTL {key}"))[0].parse::<u32>().unwrap() > 3600));
}

#[test]
fn two_instances_admit_what_the_limit_says_every_second() {
    const ALLOWED: u32 = 200;
    let Some(redis) = RedisServer::start(&[]) else { return };
    let backend = Canned::saying("ok");
    let limit = format!("{ALLOWED}/1s");
    let start = || limited(&backend, &url(&redis), &limit).setting("keep-alive-requests", "1000000").start();
    let both = [(); 2].map(|()| start());
    let (begin, time) = (Instant::now(), Duration::from_secs(5));
    // At first each admits all that there is until it hears of the other.
    let warm_up = Duration::from_secs(2);
    let asking = |forebay: &Forebay| {
        let mut client = forebay.client();
        let mut admitted = 0;
        while begin.elapsed() < warm_up + time {
            let response = client.ask("GET / HTTP/1.1\r\nHost: web.test\r\nX-Key: a\r\n\r\n");
            admitted += u32::from(response.status == 200 && begin.elapsed() >= warm_up);
        }
        admitted
    };
    let admitted: u32 = std::thread::scope(|scope| {
        let threads = both.each_ref().map(|forebay| scope.spawn(move || asking(forebay)));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let rate = f64::from(admitted) / time.as_secs_f64();
    println!("{rate:.1} a second, of {ALLOWED}");
    let share = rate / f64::from(ALLOWED);
    assert!((0.85..=1.15).contains(&share), "{rate} a second, of {ALLOWED}");
}

#[test]
fn without_redis_each_instance_counts_alone_and_with_it_together_again() {
    let Some(mut redis) = RedisServer::start(&[]) else { return };
    let backend = Canned::saying("ok");
    let forebay = limited(&backend, &url(&redis), "3/1h").setting("forebay-limit-redis-fail", "open").start();
    assert_eq!(left(&ask(&forebay, "a")), 2);
    forebay.await_that("it to be stored", || stored(&redis) == 1);
    redis.kill();
    forebay.await_log("redis does not count for shared limits, which go on without it");
    let statuses: Vec<_> = (0..4).map(|_| ask(&forebay, "b").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert!(forebay.metrics().sum(REQUESTS, &[("result", "alone")]) >= 4);
    assert!(forebay.metrics().sum(EXCHANGES, &[("result", "unreachable")]) > 0);
    redis.start_again();
    forebay.await_log("redis counts for shared limits again");
    // Requests counted without Redis are added to it.
    assert_eq!(ask(&forebay, "b").status, 429);
    forebay.await_that("it to be stored", || stored(&redis) >= 3);
    let lines = forebay.log();
    let told = lines.iter().filter(|line| line.contains("redis does not count")).count();
    assert_eq!(told, 1, "once: {lines:?}");
}

#[test]
fn limits_that_fail_closed_refuse_what_nothing_is_known_of() {
    let Some(mut redis) = RedisServer::start(&[]) else { return };
    let backend = Canned::saying("ok");
    let forebay =
        limited(&backend, &url(&redis), "3/1h").setting("forebay-limit-redis-fail", "closed").start();
    // While Redis is slow nothing is known either.
    forebay.await_that("redis to answer in time", || ask(&forebay, "a").status == 200);
    redis.kill();
    forebay.await_log("redis does not count for shared limits");
    let unknown = || forebay.metrics().sum("forebay_faults_total", &[("reason", "limit_unknown")]);
    let closed = || forebay.metrics().sum(REQUESTS, &[("result", "closed")]);
    let before = (unknown(), closed());
    let refused = ask(&forebay, "b");
    assert_eq!((refused.status, refused.header("retry-after").as_deref()), (503, Some("1")));
    assert_eq!((unknown(), closed()), (before.0 + 1, before.1 + 1));
    assert_eq!(ask(&forebay, "").status, 200, "who is not limited");
    redis.start_again();
    forebay.await_log("redis counts for shared limits again");
    let left_over = Cell::new(None);
    forebay.await_that("redis to answer in time", || {
        let response = ask(&forebay, "b");
        left_over.set((response.status == 200).then(|| left(&response)));
        left_over.get().is_some()
    });
    assert_eq!(left_over.get(), Some(2));
}

#[test]
fn a_redis_that_says_nothing_keeps_nobody_waiting() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let backend = Canned::saying("ok");
    // The first request waits for at most 100 ms, and an exchange is given up after ten times that. A busy
    // machine may add as much, but not each time.
    let is_prompt = (0..5).any(|attempt| {
        let forebay = limited(&backend, &url(&redis), "3/1h").start();
        let timed = |key: &str| {
            let begin = Instant::now();
            (ask(&forebay, &format!("{key}{attempt}")).status, begin.elapsed())
        };
        assert_eq!(left(&ask(&forebay, &format!("a{attempt}"))), 2);
        redis.halt();
        let (status, waited) = timed("b");
        assert_eq!(status, 200);
        forebay.await_log("redis does not count for shared limits");
        let (statuses, times): (Vec<_>, Vec<_>) = (0..5).map(|_| timed("c")).unzip();
        assert_eq!(statuses, [200, 200, 200, 429, 429]);
        assert!(forebay.metrics().sum(EXCHANGES, &[("result", "silent")]) > 0);
        redis.go_on();
        forebay.await_log("redis counts for shared limits again");
        let nobody_waits = times.iter().min() < Some(&Duration::from_millis(100));
        println!("{waited:?} without a word, then {times:?}");
        waited < Duration::from_millis(900) && nobody_waits
    });
    assert!(is_prompt, "requests wait for a redis that is gone");
}

/// The permissions that docs/limits.md lists.
const USER: &str =
    "limits on >s3cret ~forebay:limit:* +evalsha +script|load +time +incrby +get +set +pexpire +select";

#[test]
fn over_tls_as_a_user_who_may_do_little_with_the_password_from_a_file() {
    let (authority, backend) = (Authority::new("redis"), Canned::saying("ok"));
    let user: Vec<_> = ["--user"].into_iter().chain(USER.split(' ')).collect();
    let Some(redis) = RedisServer::start_tls(|address| authority.server(&[address]), &user) else { return };
    let start = |authority: &Authority| {
        let (ca, password) = (redis.file("ca.pem", &authority.pem()), redis.file("password", "s3cret\n"));
        limited(&backend, &format!("rediss://limits@{}/2", redis.tls_address()), "100000/1h")
            .arguments([format!("--limit-redis-password={password}"), format!("--limit-redis-ca={ca}")])
            .start()
    };
    let forebay = start(&authority);
    assert_eq!(left(&ask(&forebay, "a")), 99_999);
    forebay.await_that("it to be stored", || {
        redis.ask("INFO keyspace").iter().any(|line| line.starts_with("db2:keys="))
    });
    // Its first requests may not wait for Redis as long as a busy machine takes for a connection with TLS.
    let (other, asked) = (start(&authority), Cell::new(0));
    other.await_that("what the first one has admitted to be taken from the other", || {
        asked.set(asked.get() + 1);
        left(&ask(&other, "a")) == 99_999 - asked.get()
    });
    let stranger = start(&Authority::new("another"));
    let line = stranger.await_log("redis does not count for shared limits");
    assert!(line.contains("UnknownIssuer") || line.contains("certificate"), "{line}");
}

#[test]
fn a_password_that_is_wrong_is_told_and_not_shown() {
    let Some(redis) = RedisServer::start(&["--requirepass", "right"]) else { return };
    let backend = Canned::saying("ok");
    let forebay = limited(&backend, &format!("redis://:wr0ng@{}", redis.address()), "9/1h").start();
    let line = forebay.await_log("redis does not count for shared limits");
    assert!(line.contains("WRONGPASS") || line.contains("authentication failed"), "{line}");
    forebay.await_that("it to be counted", || forebay.metrics().sum(EXCHANGES, &[("result", "refused")]) > 0);
    assert_eq!(ask(&forebay, "a").status, 200);
    assert!(forebay.log().iter().all(|line| !line.contains("wr0ng")));
}
