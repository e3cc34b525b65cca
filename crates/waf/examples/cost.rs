//! Measures what the core rules cost: compiling, memory, and ordinary requests.
//!
//! `cargo run --release -p waf --example cost -- RULES [PARANOIA [REQUEST [ROUNDS]]]`, where RULES is a
//! folder with `crs-setup.conf.example`, the rules and their data, as the package of the core rules has them.

#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

struct Request<'a> {
    name: &'a str,
    method: &'a str,
    target: &'a str,
    kind: &'a str,
    body: Vec<u8>,
}

#[inline(never)]
fn exchange(rules: &Arc<Rules>, collections: &Arc<Collections>, request: &Request) -> Report {
    let mut transaction = Transaction::new(Arc::clone(rules), Arc::clone(collections), connection());
    let length = request.body.len().to_string();
    let mut headers: Vec<(&[u8], &[u8])> =
        HEADERS.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    if !request.body.is_empty() {
        headers.push((b"Content-Type", request.kind.as_bytes()));
        headers.push((b"Content-Length", length.as_bytes()));
    }
    let line = RequestLine {
        method: request.method.as_bytes(),
        target: request.target.as_bytes(),
        protocol: "HTTP/1.1",
    };
    transaction.request_head(line, headers);
    for piece in request.body.chunks(16 << 10) {
        transaction.request_body(piece);
    }
    transaction.request_end();
    transaction.response_head(200, "HTTP/1.1", [(&b"Content-Type"[..], &b"application/json"[..])]);
    transaction.response_end();
    transaction.finish()
}

fn measure(rules: &Arc<Rules>, request: &Request, rounds: Option<u32>) {
    let collections = Arc::new(Collections::new(1));
    let start = Instant::now();
    let report = exchange(rules, &collections, request);
    let first = start.elapsed();
    let matched: Vec<u64> = report.matches.iter().map(|matched| matched.rule).collect();
    if let Some(rounds) = rounds {
        for _ in 1..rounds {
            exchange(rules, &collections, request);
        }
        println!("{}: {rounds} times, matches {matched:?}", request.name);
        return;
    }
    let (mut rounds, mut best) = (0u32, Duration::MAX);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        let batch = if first > Duration::from_millis(20) { 1 } else { 20 };
        for _ in 0..batch {
            exchange(rules, &collections, request);
        }
        best = best.min(start.elapsed() / batch);
        rounds += batch;
    }
    let mean = begin.elapsed() / rounds;
    println!(
        "{}: {:.1?} at best, {:.1?} on average, {:.1?} at first, {} bytes of work, {} matches {:?}",
        request.name,
        best,
        mean,
        first,
        report.work,
        matched.len(),
        &matched[..matched.len().min(12)],
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

const ATTACKS: &[&str] = &[
    "select",
    "union",
    "%27",
    "or",
    "1%3d1",
    "<script",
    ">",
    "onerror%3d",
    "javascript:",
    "..%2f",
    "etc%2fpasswd",
    ";",
    "cat",
    "|",
    "$(",
    ")",
    "`",
    "php:%2f%2f",
    "eval(",
    "base64_decode",
    "%5cx41",
    "exec",
    "xp_cmdshell",
    "--",
    "%2f*",
    "*%2f",
    "sleep(",
    "%20",
    "having",
    "{{",
    "}}",
    "__proto__",
    "java.lang",
    "${jndi:",
    "<!",
    "&lt%3b",
    "%00",
    "curl",
    "wget",
    "bash",
    "-c",
    "&&",
    "||",
];

/// A form that is meant to cost much.
fn hostile(name: &str, body: String) -> Request<'_> {
    let kind = "application/x-www-form-urlencoded";
    Request { name, method: "POST", target: "/order", kind, body: body.into_bytes() }
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

fn pieces(text: &str, bytes: usize) -> String {
    let bytes = bytes / 3 * 3;
    let mut out = String::new();
    for index in 0..text.len() / bytes {
        let _ = write!(out, "a{index}={}&", &text[index * bytes..(index + 1) * bytes]);
    }
    out
}

/// Printable bytes, or pieces of attacks, in an order that no automaton has seen.
fn shuffled(pieces: &[&str], bytes: usize) -> String {
    let (mut state, mut out) = (1u64, String::from("q="));
    while out.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match pieces.get((state >> 33) as usize % pieces.len().max(1)) {
            Some(piece) => out.push_str(piece),
            None => {
                let _ = write!(out, "%{:02x}", 32 + (state >> 33) % 95);
            }
        }
    }
    out
}

fn requests(texts: &[(String, String)]) -> Vec<Request<'static>> {
    let form = "name=Ada+Lovelace&street=12+St.+James+Square&city=London&comment=".to_owned()
        + &"please+ring+twice+".repeat(110);
    vec![
        Request {
            name: "GET with 12 headers",
            method: "GET",
            target: "/catalogue/shoes?page=3&sort=price&q=running",
            kind: "",
            body: Vec::new(),
        },
        Request {
            name: "form of 2 KB",
            method: "POST",
            target: "/order",
            kind: "application/x-www-form-urlencoded",
            body: form.into_bytes(),
        },
        Request {
            name: "JSON of 50 KB",
            method: "POST",
            target: "/api/items",
            kind: "application/json",
            body: json(50 << 10),
        },
        hostile("hostile: the rules as one argument", "q=".to_owned() + &escaped(texts, 100 << 10)),
        hostile("hostile: the rules as 900 arguments", pieces(&escaped(texts, 100 << 10), 110)),
        hostile("hostile: quotes and brackets", "q=".to_owned() + &"%27%22<(%5c`;%7b$%26".repeat(5_000)),
        hostile("hostile: one word again and again", "q=".to_owned() + &"select%20union%20".repeat(6_000)),
        hostile("hostile: random bytes", shuffled(&[], 120 << 10)),
        hostile("hostile: pieces of attacks", shuffled(ATTACKS, 60 << 10)),
        hostile("hostile: white space", "q=select".to_owned() + &"%20%0a%09".repeat(10_000)),
    ]
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
        Rules::extend(&rules, Around { before: &[], after: &own }, &Folder(folder)).expect("rules");
    println!("extended in {:.1?}, {} KB resident", start.elapsed(), resident().saturating_sub(before));
    assert_eq!(extended.len() + 1, rules.len());

    let requests = requests(&texts);
    let only = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|text| text.parse().ok());
    for request in requests.iter().filter(|request| request.name.contains(&only)) {
        measure(&rules, request, rounds);
    }
    println!("{} KB resident", resident());
}
