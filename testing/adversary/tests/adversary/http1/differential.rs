//! Generated conversations: what the endpoint got parses as the requests that were answered, and others'
//! servers agree.

use std::io::Write;
use std::net::TcpStream;

use adversary::http1::answer::{Answer, Answers, NoAnswer};
use adversary::http1::generator::conversation;
use adversary::http1::recorder::{Record, Recorder, SEEN, Seen};
use adversary::http1::strict::{Request, read_all};
use adversary::peers::{self, Peer, Understood};
use adversary::{Case, Run, binary};
use testkit::{Forebay, PATIENCE};

pub(super) fn play(run: &Run) {
    let folder = tempfile::tempdir().expect("a folder");
    let peers = peers::start(folder.path());
    let recorder = Recorder::default();
    let forebay = binary::setup().endpoint(recorder.address()).start();
    run.each(|case| play_case(case, &forebay, &recorder, &peers));
    // The next request is served.
    assert_eq!(forebay.get("/").status, 200);
}

fn play_case(case: &mut Case, forebay: &Forebay, recorder: &Recorder, peers: &[Peer]) {
    // Requests left over from a case that failed do not belong to this one.
    recorder.take();
    let bytes = conversation(&mut case.random);
    case.sends(&bytes);
    let (meant, _) = read_all(&bytes);
    let answers = converse(case, forebay, &bytes, &meant);
    let record = recorder.take();
    check(&answers, &meant, &record);
    for peer in peers {
        agrees(peer, &record.seen);
    }
}

/// Sends the bytes in pieces; all answers up to the end.
fn converse(case: &mut Case, forebay: &Forebay, bytes: &[u8], meant: &[Request]) -> Vec<Answer> {
    let mut stream = TcpStream::connect(forebay.address()).expect("it listens");
    stream.set_nodelay(true).expect("a socket option");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    let mut reader = Answers::of(stream.try_clone().expect("a descriptor"));
    for piece in case.random.pieces(bytes, 3) {
        // It may have closed already.
        let _ = stream.write_all(&piece);
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answers = Vec::new();
    loop {
        let method = meant.get(answers.len()).map_or("GET", |request| request.method.as_str());
        match reader.next(method) {
            // A refusal ends the connection; `http1-refused-head` tests that the answer to a HEAD has no
            // body.
            Ok(answer) if answer.status >= 400 && answer.field("connection") == Some("close") => {
                reader.rest();
                answers.push(answer);
                return answers;
            }
            Ok(answer) => answers.push(answer),
            Err(NoAnswer::Ended(0)) => return answers,
            Err(other) => panic!("no answer is {other:?}"),
        }
    }
}

fn check(answers: &[Answer], meant: &[Request], record: &Record) {
    let malformed: Vec<_> =
        record.malformed.iter().map(|(bytes, why)| (bytes.escape_ascii().to_string(), why)).collect();
    assert!(malformed.is_empty(), "the endpoint got what is no request: {malformed:?}");
    let mut seen = record.seen.iter();
    for (index, answer) in answers.iter().enumerate() {
        let Some(told) = answer.field(SEEN) else { continue };
        let seen = seen.next().unwrap_or_else(|| panic!("an answer {told:?} to no request"));
        assert_eq!(told, format!("{} {}", seen.number, seen.request.method), "answers are in order");
        let meant = meant.get(index);
        let meant =
            meant.unwrap_or_else(|| panic!("passed on as {:?}, which is no request", show(&seen.raw)));
        assert_eq!(seen.request.method, meant.method);
        assert_eq!(show(&seen.request.body), show(&meant.body), "the body of {:?}", show(&seen.raw));
    }
    let unanswered: Vec<_> = seen.map(|seen| show(&seen.raw)).collect();
    assert!(unanswered.is_empty(), "the endpoint got what nobody was answered: {unanswered:?}");
}

/// A server of others sees the same requests, or refuses one and all that follow.
fn agrees(peer: &Peer, seen: &[Seen]) {
    let upgrades = |seen: &&Seen| seen.request.fields.iter().any(|(name, _)| name == "upgrade");
    let plain: Vec<&Seen> = seen.iter().filter(|seen| !upgrades(seen)).collect();
    let bytes: Vec<u8> = plain.iter().flat_map(|seen| seen.raw.clone()).collect();
    let methods: Vec<&str> = plain.iter().map(|seen| seen.request.method.as_str()).collect();
    let reading = peer.read(&bytes, &methods);
    assert!(reading.refused.is_some() || reading.requests.len() == plain.len(), "{}: {reading:?}", peer.name);
    for (index, understood) in reading.requests.iter().enumerate() {
        let meant = plain.get(index).map(|seen| &seen.request);
        let meant = meant.unwrap_or_else(|| panic!("{} sees one more: {understood:?}", peer.name));
        let expected = Understood {
            method: meant.method.clone(),
            target: if peer.name == "python3" {
                without_slashes(&meant.target)
            } else {
                meant.target.clone()
            },
            length: understood.length.map(|_| meant.body.len()),
        };
        assert_eq!(*understood, expected, "{} sees another request in {:?}", peer.name, show(&bytes));
    }
}

/// Python's http.server takes several slashes at the beginning of a path for one.
fn without_slashes(target: &str) -> String {
    if target.starts_with("//") { format!("/{}", target.trim_start_matches('/')) } else { target.to_owned() }
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
