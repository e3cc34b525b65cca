//! Endpoints that answer as no endpoint should: their own clients may suffer, nobody else, and the proxy not
//! at all.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use adversary::endpoint::{Endpoint, read_head};
use adversary::http1::answer::{Answer, Answers, NoAnswer};
use adversary::mutate::mutate;
use adversary::{Attack, Case, Random, Run, binary};
use testkit::frames::{FrameClient, Outcome};
use testkit::{Canned, Forebay, PATIENCE, Upstream};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "endpoints-answers", cases: 500, play: answers },
    Attack { name: "endpoints-cut", cases: 0, play: answers_that_are_cut_off },
    Attack { name: "endpoints-made-up-names", cases: 0, play: names_that_are_made_up },
    Attack { name: "endpoints-early", cases: 0, play: answers_before_the_request_has_ended },
    Attack { name: "endpoints-endless", cases: 0, play: heads_without_end },
];

/// The endpoint's behaviour for the next request for `/evil`.
#[derive(Clone, Debug, Default)]
struct Script {
    pieces: Vec<Vec<u8>>,
    ends_with: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Nothing,
    Close,
    Reset,
}

/// The script, and how often it was played to its end.
#[derive(Debug, Default)]
struct Stage {
    script: Mutex<(Script, u64)>,
    played: Condvar,
}

impl Stage {
    fn endpoint(self: &Arc<Self>) -> Endpoint {
        let stage = Arc::clone(self);
        Endpoint::serving(move |stream| while stage.serves(stream) {})
    }

    fn serves(&self, stream: &mut TcpStream) -> bool {
        let Some(head) = read_head(stream) else { return false };
        let head = String::from_utf8_lossy(&head).into_owned();
        let target = head.split(' ').nth(1).unwrap_or_default();
        if !target.starts_with("/evil") {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len());
            return stream.write_all(answer.as_bytes()).is_ok();
        }
        let script = self.lock().0.clone();
        let all_sent = script.pieces.iter().all(|piece| stream.write_all(piece).is_ok());
        if script.ends_with == End::Reset {
            let _ = socket2::SockRef::from(&*stream).set_linger(Some(std::time::Duration::ZERO));
        }
        self.lock().1 += 1;
        self.played.notify_all();
        all_sent && script.ends_with == End::Nothing
    }

    /// Sets another script; how often one was played before.
    fn set(&self, script: Script) -> u64 {
        let mut current = self.lock();
        current.0 = script;
        current.1
    }

    fn await_played(&self, before: u64) {
        let guard = self.lock();
        let waited = self.played.wait_timeout_while(guard, PATIENCE, |(_, times)| *times == before);
        assert!(!waited.unwrap_or_else(PoisonError::into_inner).1.timed_out(), "the endpoint was not asked");
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Script, u64)> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Generated answers: what the client gets is no malformed message, and who comes next gets nothing of it.
fn answers(run: &Run) {
    let stage = Arc::new(Stage::default());
    let endpoint = stage.endpoint();
    let forebay = binary::setup()
        .endpoint(endpoint.address())
        .annotation("proxy-read-timeout", "1")
        .annotation("proxy-next-upstream", "off")
        .start();
    run.each(|case| play(case, &stage, &forebay));
    assert_eq!(forebay.get("/honest").status, 200);
}

fn play(case: &mut Case, stage: &Stage, forebay: &Forebay) {
    let script = script(&mut case.random);
    case.sends(&script.pieces.concat());
    let before = stage.set(script);
    if case.random.once_in(4) {
        let mut client = FrameClient::begin(forebay.client());
        client.get(1, "web.test", "/evil");
        assert!(
            !matches!(client.outcome(1), Outcome::Closed | Outcome::GoAway(_)),
            "an endpoint ends its client's connection"
        );
    } else {
        let method = *case.random.pick(&["GET", "HEAD"]);
        let (answer, rest) = ask(forebay, method, "/evil");
        assert!(!matches!(answer, Err(NoAnswer::Malformed(_))), "the client is sent {answer:?}");
        assert_eq!(rest.escape_ascii().to_string(), "", "after {answer:?}");
    }
    stage.await_played(before);
    let target = format!("/honest-{}", case.number);
    let (answer, _) = ask(forebay, "GET", &target);
    let answer = answer.expect("an honest answer");
    assert_eq!((answer.status, String::from_utf8_lossy(&answer.body).as_ref()), (200, &*target));
}

/// Asks on a connection of its own; the answer, and what follows it.
fn ask(forebay: &Forebay, method: &str, target: &str) -> (Result<Answer, NoAnswer>, Vec<u8>) {
    let mut stream = TcpStream::connect(forebay.address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let request = format!("{method} {target} HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answers = Answers::of(stream);
    let answer = answers.next(method);
    let rest = answers.rest();
    (answer, rest)
}

const LINES: &[&str] = &[
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.1 200 ",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 999 X",
    "HTTP/1.1 600 X",
    "HTTP/1.1 099 X",
    "HTTP/1.1 2000 X",
    "HTTP/1.1 20 X",
    "HTTP/1.1 -20 X",
    "HTTP/2.0 200 OK",
    "http/1.1 200 OK",
    "ICY 200 OK",
    "HTTP/1.1  200 OK",
    "HTTP/1.1 200 a\rb",
    "HTTP/1.1 200 a\0b",
    "HTTP/1.1 101 Switching Protocols",
    "HTTP/1.1 100 Continue",
    "HTTP/1.1 103 Early Hints",
    "",
    "\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 200 OK\r\n folded",
    "stolen",
    "HTTP/1.1 302 Found",
    "HTTP/1.1 205 Reset Content",
    "HTTP/1.1 500 \u{e9}",
];

const FIELDS: &[&str] = &[
    "Content-Length: 6",
    "Content-Length: 5",
    "Content-Length: 7",
    "Content-Length: 6\r\nContent-Length: 6",
    "Content-Length: 6\r\nContent-Length: 3",
    "Content-Length: 06",
    "Content-Length: +6",
    "Content-Length: -1",
    "Content-Length: 6, 6",
    "Content-Length: 18446744073709551615",
    "Content-Length:",
    "Content-Length : 6",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 6",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding:\x0bchunked",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: upgrade\r\nUpgrade: websocket",
    "Connection: Content-Length",
    "X: a\r\n b",
    "X: a\rb",
    "X: a\nb",
    "X: a\0b",
    "X : y",
    ": y",
    "X",
    "Set-Cookie: a=b",
    "Trailer: X",
    "X: \u{e9}",
    "Location: /\r\nX-Injected: y",
    "Keep-Alive: timeout=0",
    "Date: now",
    "Server: x",
    "X: \x7f",
];

const BODIES: &[&str] = &[
    "stolen",
    "",
    "6\r\nstolen\r\n0\r\n\r\n",
    "6\r\nstolen\r\n",
    "6\r\nstolen\r\n0\r\nX: y\r\n\r\n",
    "7\r\nstolen\r\n0\r\n\r\n",
    "6\nstolen\n0\n\n",
    "6 \r\nstolen\r\n0\r\n\r\n",
    "x\r\n",
    "-1\r\n",
    "ffffffffffffffff\r\nstolen",
    "6;a=\"\r\n\"\r\nstolen\r\n0\r\n\r\n",
    "0\r\nContent-Length: 9\r\n\r\n",
    "6\r\nstolen\r\n0\r\nX : y\r\n\r\n",
    "stolenHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen",
    "0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen",
];

fn script(random: &mut Random) -> Script {
    let mut text = String::new();
    for _ in 0..=random.below(2) {
        while random.once_in(8) {
            text += "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        }
        let line = if random.once_in(3) { *random.pick::<&str>(LINES) } else { LINES[0] };
        let _ = write!(text, "{line}\r\n");
        for _ in 0..random.below(3) {
            let _ = write!(text, "{}\r\n", random.pick(FIELDS));
        }
        text += "\r\n";
        text += random.pick::<&str>(BODIES);
    }
    let mut bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    if random.once_in(4) {
        mutate(random, &mut bytes, 3);
    }
    let count = if random.once_in(6) { bytes.len().max(1) } else { 3 };
    let ends_with = *random.pick(&[End::Close, End::Close, End::Reset, End::Nothing]);
    // A reader that waits for more data than is sent waits until its timeout, which costs a test a second.
    let ends_with = if random.once_in(10) {
        ends_with
    } else if ends_with == End::Nothing {
        End::Close
    } else {
        ends_with
    };
    Script { pieces: random.pieces(&bytes, count), ends_with }
}

/// Whatever position an answer is cut off at, the client does not take a part for the whole.
fn answers_that_are_cut_off(_: &Run) {
    let stage = Arc::new(Stage::default());
    let endpoint = stage.endpoint();
    let setup = || binary::setup().endpoint(endpoint.address()).annotation("proxy-next-upstream", "off");
    let forebay = setup().start();
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX: y\r\n\r\nstolen",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nstolen\r\n0\r\nX: y\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen",
    ];
    for (answer, ends_with) in answers.iter().flat_map(|answer| [(answer, End::Close), (answer, End::Reset)])
    {
        for len in 0..answer.len() {
            let piece = answer.as_bytes()[..len].to_vec();
            stage.set(Script { pieces: vec![piece], ends_with });
            let (got, rest) = ask(&forebay, "GET", "/evil");
            let what = format!("{:?} and {ends_with:?}: {got:?}", &answer[..len]);
            match got {
                Ok(got) if got.status == 502 => assert!(got.is_whole, "{what}"),
                Ok(got) => assert!(got.status == 200 && !got.is_whole, "{what}"),
                Err(NoAnswer::Ended(_)) => {}
                Err(NoAnswer::Malformed(_)) => panic!("{what}"),
            }
            assert!(rest.is_empty(), "{what}");
        }
    }
    assert_eq!(forebay.get("/honest").status, 200);
}

/// Invented statuses and methods are not recorded one by one.
fn names_that_are_made_up(_: &Run) {
    const VALUES_MAX: usize = 80;
    let stage = Arc::new(Stage::default());
    let endpoint = stage.endpoint();
    let forebay = binary::setup().endpoint(endpoint.address()).start();
    for status in 200..1000 {
        let answer = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        stage.set(Script { pieces: vec![answer.into_bytes()], ends_with: End::Close });
        let _ = ask(&forebay, "GET", "/evil");
    }
    for number in 0..200 {
        let _ = ask(&forebay, &format!("MADEUP{number}"), "/honest");
    }
    let page = forebay.admin("/metrics");
    for label in ["status", "method", "code"] {
        let mark = format!("{label}=\"");
        let values: BTreeSet<&str> =
            page.text().split(mark.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(
            values.len() <= VALUES_MAX,
            "{} values of {label}; the page has {} bytes",
            values.len(),
            page.body.len()
        );
    }
}

/// An answer that comes while its request is still being sent ends the connection: what an endpoint says on
/// it later could be anybody's. The rest of the request is read as such, and is no request of its own.
fn answers_before_the_request_has_ended(_: &Run) {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let rest = "GET /smuggled HTTP/1.1\r\nHost: web.test\r\n\r\n";
    let upstream = Upstream::new();
    let setup = binary::setup().endpoint(upstream.address());
    let forebay = setup.annotation("proxy-request-buffering", "off").start();
    let framings = [
        (format!("Content-Length: {}", 5 + rest.len()), "hello".to_owned(), rest.to_owned()),
        (
            "Transfer-Encoding: chunked".to_owned(),
            "5\r\nhello\r\n".to_owned(),
            format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len()),
        ),
    ];
    for (framing, first, rest) in framings {
        let mut client = forebay.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: web.test\r\n{framing}\r\n\r\n{first}"));
        let (mut peer, _) = upstream.accept_request();
        peer.read_exactly(first.len());
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
        // It may have been closed, which is as well.
        let _ = client.try_send(&rest);
        let _ = client.try_send("GET /next HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
        // The next request of anybody goes elsewhere.
        let mut other = forebay.client();
        other.send("GET /other HTTP/1.1\r\nHost: web.test\r\n\r\n");
        loop {
            let (mut peer, head) = upstream.accept_request();
            assert!(!head.contains("smuggled"), "{head:?}");
            peer.send(OK);
            if head.starts_with("GET /other ") {
                break;
            }
        }
        assert_eq!(other.read_response().said(), (200, "ok"));
        let (said, _) = peer.read_to_end();
        assert!(
            !said.starts_with(b"GET"),
            "{:?} on the connection that was answered too early",
            said.escape_ascii().to_string()
        );
    }
}

/// An endpoint's endless data is cut off, and the client gets an error.
fn heads_without_end(_: &Run) {
    for again in
        ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", "X: y\r\n", "x"]
    {
        let endpoint = Endpoint::serving(move |stream| {
            let first = if again.starts_with("HTTP") { "" } else { "HTTP/1.1 200 OK\r\nX-" };
            if read_head(stream).is_none() || stream.write_all(first.as_bytes()).is_err() {
                return;
            }
            let many = again.repeat(100);
            while stream.write_all(many.as_bytes()).is_ok() {}
        });
        let forebay =
            binary::setup().endpoint(endpoint.address()).annotation("proxy-next-upstream", "off").start();
        let (answer, _) = ask(&forebay, "GET", "/");
        assert_eq!(answer.map(|answer| answer.status), Ok(502), "after {again:?} without end");
    }
    // One that always says the same is not blamed for it.
    let honest = Canned::saying("hello");
    assert_eq!(binary::setup().endpoint(honest.address()).start().get("/").said(), (200, "hello"));
}
