//! The verdicts of Debian's nginx with libmodsecurity and of the binary, side by side: both run the core
//! rules of Debian's package, as the workloads `waf-...` of `cargo xtask peers` do.
//!
//! Must not be in here: how the two are configured (`xtask/peers/features/waf.yaml`).

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::message::Message;
use super::ordinary;
use super::suite::Test;
use crate::backend::Backend;
use crate::interrupt::Interrupt;
use crate::machine::Cpus;
use crate::peers::{Feature, Peer, Setup};

/// The longest wait for an answer: a test may announce a body that it does not send.
const PATIENCE: Duration = Duration::from_secs(5);

/// The status with which the core rules refuse.
const REFUSED: u16 = 403;

/// The backend's answer for most paths.
const NOT_FOUND: u16 = 404;

/// A request and what the two answer.
pub(super) struct Verdicts {
    name: String,
    nginx: u16,
    forebay: u16,
}

impl Verdicts {
    /// Sends the requests of tests, and so many ordinary ones, to both.
    pub(super) fn of(tests: &[Test], ordinary: u64, level: u8, profile: &str) -> Result<Vec<Self>> {
        let folder = tempfile::tempdir()?;
        let interrupt = Interrupt::install()?;
        let cpus = Cpus::choose()?;
        let backend = Backend::start("payload", &cpus.load, folder.path(), &interrupt)?;
        let feature = Feature::named("waf").with("request", "get").with("level", level).case("/")?;
        let setup = Setup {
            upstreams: vec![backend.address],
            workers: 1,
            profile: Some(profile.to_owned()),
            cpus: cpus.proxy.clone(),
            feature,
            folder: folder.path().into(),
            ..Setup::default()
        };
        let nginx = Peer::NginxModsecurity.start(&setup, &interrupt)?;
        let forebay = Peer::Forebay.start(&setup, &interrupt)?;
        let verdicts = verdicts(&messages(tests, ordinary)?, nginx.address, forebay.address)?;
        interrupt.check()?;
        Ok(verdicts)
    }
}

fn messages(tests: &[Test], count: u64) -> Result<Vec<(String, Message)>> {
    let mut messages = Vec::new();
    for test in tests {
        for (number, stage) in test.stages.iter().enumerate() {
            messages.push((format!("{}/{number}", test.id), Message::new(&stage.input)?));
        }
    }
    messages.extend((0..count).map(|seed| (format!("ordinary/{seed}"), ordinary::message(seed))));
    Ok(messages)
}

fn verdicts(messages: &[(String, Message)], nginx: SocketAddr, forebay: SocketAddr) -> Result<Vec<Verdicts>> {
    let threads = thread::available_parallelism().map_or(1, usize::from) * 2;
    let share = messages.len().div_ceil(threads).max(1);
    let of = |(name, message): &(String, Message)| {
        let [nginx, forebay] = [nginx, forebay].map(|address| status(address, message));
        let name = name.clone();
        Ok(Verdicts { nginx: nginx?, forebay: forebay.with_context(|| name.clone())?, name })
    };
    thread::scope(|scope| {
        let askers: Vec<_> = messages
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(of).collect::<Result<Vec<_>>>()))
            .collect();
        let parts = askers.into_iter().map(|asker| asker.join().expect("an asker does not panic"));
        Ok(parts.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// The status of the answer; 0 without one.
fn status(address: SocketAddr, message: &Message) -> Result<u16> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // A server may refuse a head before it has read the body.
    let _ = (&stream).write_all(&[message.head(), message.framed_body()].concat());
    let mut line = String::new();
    let _ = BufReader::new(&stream).read_line(&mut line);
    Ok(line.split(' ').nth(1).and_then(|word| word.trim().parse().ok()).unwrap_or(0))
}

/// Prints the differences that are not known. The parsers of the two refuse different requests: that is none.
pub(super) fn told(verdicts: &[Verdicts], known: &BTreeMap<String, String>) -> ExitCode {
    let is_of_parser =
        |status: u16| status == 0 || (status >= 400 && ![REFUSED, NOT_FOUND].contains(&status));
    let mut both = 0;
    let mut parsers = 0;
    let mut explained = 0;
    let mut new = 0;
    for Verdicts { name, nginx, forebay } in verdicts {
        let refused = [nginx, forebay].map(|status| *status == REFUSED);
        if refused[0] == refused[1] {
            both += usize::from(refused[0]);
        } else if is_of_parser(*nginx) || is_of_parser(*forebay) {
            parsers += 1;
        } else if known.keys().any(|test| name.starts_with(test)) {
            explained += 1;
        } else {
            new += 1;
            println!("{name}: nginx {nginx}, Forebay {forebay}");
        }
    }
    let count = verdicts.len();
    println!(
        "{count} requests: {both} refused by both, {parsers} by the rules of one and the parser of the other, \
         {explained} by one for a known reason, {new} for a new one"
    );
    if new == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
