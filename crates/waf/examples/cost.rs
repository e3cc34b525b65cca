//! Measures what the core rules cost: compiling, memory, ordinary requests, and the requests of the corpus in
//! `tests/hostile`.
//!
//! `cargo run --release -p waf --example cost -- RULES [PARANOIA [REQUEST [ROUNDS]]]`, where RULES is a
//! folder with the rules and their data, and REQUEST a part of a request's name. Times are CPU time, at best
//! and of the first exchange, which finds no automaton's states made.

#![allow(clippy::disallowed_methods)]

#[path = "../tests/hostile/corpus.rs"]
mod corpus;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corpus::Case;
use waf::{Around, Collections, Connection, Files, Report, RequestLine, Rules, Source, Transaction};

struct Folder(PathBuf);

impl Files for Folder {
    fn expand(&self, pattern: &str, _from: &str) -> Vec<String> {
        vec![pattern.to_owned()]
    }

    fn read(&self, name: &str, _from: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join(name)).map_err(|error| format!("{name}: {error}"))
    }
}

const BASE: &str = "SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecRule REQUEST_HEADERS:Content-Type \"^(?:application(?:/soap\\+|/)|text/)xml\" \
    \"id:200000,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=XML\"
SecRule REQUEST_HEADERS:Content-Type \"^application/(?:[a-z0-9.-]+[+])?json\" \
    \"id:200001,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=JSON\"
SecDefaultAction \"phase:1,log,auditlog,pass\"
SecDefaultAction \"phase:2,log,auditlog,pass\"
";

const HEADERS: &[(&str, &str)] = &[
    ("Host", "shop.example.com"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Referer", "https://shop.example.com/catalogue/shoes?page=2"),
    ("Connection", "keep-alive"),
    ("Cookie", "session=5f2b7c9e1d4a4e0f8c3b; theme=dark; _ga=GA1.2.1234567890.1700000000"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "same-origin"),
];

fn sources(folder: &Path, paranoia: u8) -> Vec<(String, String)> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder of rules")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    names.sort();
    let setup = format!(
        "SecAction \"id:900990,phase:1,nolog,pass,t:none,setvar:tx.crs_setup_version=4250,\
         setvar:tx.blocking_paranoia_level={paranoia}\""
    );
    let mut sources = vec![("base".to_owned(), BASE.to_owned()), ("setup".to_owned(), setup)];
    for name in names {
        let text = std::fs::read_to_string(&name).expect("a file of rules");
        sources.push((name.display().to_string(), text));
    }
    sources
}

fn connection() -> Connection {
    Connection {
        client: "192.0.2.7:4711".parse().expect("an address"),
        server: "192.0.2.1:443".parse().expect("an address"),
        unique_id: "5f2b7c9e1d4a4e0f".to_owned(),
        unix_time: 1_700_000_000_000_000,
        seed: 1,
    }
}

#[inline(never)]
fn exchange(rules: &Arc<Rules>, collections: &Arc<Collections>, case: &Case) -> Report {
    let mut transaction = Transaction::new(Arc::clone(rules), Arc::clone(collections), connection());
    let length = case.body.len().to_string();
    let mut headers: Vec<(&[u8], &[u8])> =
        HEADERS.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    headers.extend(case.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let method = if case.body.is_empty() { "GET" } else { "POST" };
    if !case.body.is_empty() {
        headers.push((b"Content-Length", length.as_bytes()));
    }
    let line =
        RequestLine { method: method.as_bytes(), target: case.target.as_bytes(), protocol: "HTTP/1.1" };
    transaction.request_head(line, headers);
    for piece in case.body.chunks(16 << 10) {
        transaction.request_body(piece);
    }
    transaction.request_end();
    transaction.response_head(200, "HTTP/1.1", [(&b"Content-Type"[..], &b"application/json"[..])]);
    transaction.response_end();
    transaction.finish()
}

/// The time that this thread has been on a CPU. The kernel counts it when a thread yields.
fn on_cpu() -> Duration {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

fn measure(rules: &Arc<Rules>, case: &Case, rounds: Option<u32>) {
    let collections = Arc::new(Collections::new(1));
    let start = on_cpu();
    let report = exchange(rules, &collections, case);
    let first = on_cpu().saturating_sub(start);
    let matched: Vec<u64> = report.matches.iter().map(|matched| matched.rule).collect();
    if let Some(rounds) = rounds {
        for _ in 1..rounds {
            exchange(rules, &collections, case);
        }
        println!("{}: {rounds} times, matches {matched:?}", case.name);
        return;
    }
    let batch = if first > Duration::from_millis(1) { 1 } else { 50 };
    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        let start = on_cpu();
        for _ in 0..batch {
            exchange(rules, &collections, case);
        }
        best = best.min(on_cpu().saturating_sub(start) / batch);
    }
    println!(
        "{}: {:.1?} at best, {:.1?} at first, {} of work{}, {} matches {:?}",
        case.name,
        best,
        first,
        report.work,
        if report.exhausted { " (all)" } else { "" },
        matched.len(),
        &matched[..matched.len().min(6)],
    );
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

fn json(bytes: usize) -> Vec<u8> {
    let mut text = String::from("[");
    for index in 0.. {
        let _ = write!(
            text,
            "{{\"id\":{index},\"name\":\"Running shoe {index}\",\"price\":{}.95,\"tags\":[\"new\",\"sale\"]}}",
            index % 200
        );
        if text.len() > bytes {
            break;
        }
        text.push(',');
    }
    text.push(']');
    text.into_bytes()
}

/// The text of the rules, in which all their literals are.
fn escaped(texts: &[(String, String)], bytes: usize) -> String {
    let rules = texts.iter().filter(|(name, _)| name.contains("REQUEST-9")).map(|(_, text)| text);
    let lines = rules.flat_map(|text| text.lines()).filter(|line| line.contains("@rx"));
    let mut out = String::new();
    for byte in lines.flat_map(str::bytes) {
        let _ = write!(out, "%{byte:02x}");
    }
    out.truncate(bytes / 3 * 3);
    out
}

/// A request without headers but those that all have.
fn plain(name: &str, target: &str, kind: &str, body: Vec<u8>) -> Case {
    let headers = vec![("Content-Type".to_owned(), kind.to_owned())];
    let headers = if kind.is_empty() { Vec::new() } else { headers };
    Case { name: name.to_owned(), target: target.to_owned(), headers, body, is_ordinary: true }
}

fn requests(texts: &[(String, String)]) -> Vec<Case> {
    const FORM: &str = "application/x-www-form-urlencoded";
    let form = "name=Ada+Lovelace&street=12+St.+James+Square&city=London&comment=".to_owned()
        + &"please+ring+twice+".repeat(110);
    let rules = "q=".to_owned() + &escaped(texts, 120 << 10);
    let mut cases = vec![
        plain("GET with 12 headers", "/catalogue/shoes?page=3&sort=price&q=running", "", Vec::new()),
        plain("form of 2 KB", "/order", FORM, form.into_bytes()),
        plain("JSON of 50 KB", "/api/items", "application/json", json(50 << 10)),
        plain("expressions of the rules", "/order", FORM, rules.into_bytes()),
    ];
    cases.extend(corpus::cases());
    cases
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder of rules"));
    let paranoia = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let texts = sources(&folder, paranoia);
    let sources: Vec<Source> = texts.iter().map(|(name, text)| Source { name, text }).collect();
    let before = resident();
    let start = Instant::now();
    let rules = match Rules::compile(&sources, &Folder(folder.clone())) {
        Ok(rules) => Arc::new(rules),
        Err(problems) => {
            for problem in problems {
                println!("{problem}");
            }
            return;
        }
    };
    let (took, after) = (start.elapsed(), resident());
    println!(
        "{} rules in {took:.1?}, {} KB counted, {} KB resident",
        rules.len(),
        rules.memory() >> 10,
        after - before
    );

    let start = Instant::now();
    let own = [Source {
        name: "own",
        text: "SecRuleRemoveById 942100\nSecRuleUpdateTargetById 942110 \"!ARGS:q\"",
    }];
    let before = resident();
    let extended =
        Rules::extend(&rules, Around { after: &own, ..Around::default() }, &Folder(folder)).expect("rules");
    println!("extended in {:.1?}, {} KB resident", start.elapsed(), resident().saturating_sub(before));
    assert_eq!(extended.len() + 1, rules.len());

    let requests = requests(&texts);
    let only = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|text| text.parse().ok());
    for case in requests.iter().filter(|case| case.name.contains(&only)) {
        measure(&rules, case, rounds);
    }
    println!("{} KB resident", resident());
}
