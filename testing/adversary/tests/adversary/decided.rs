//! Headers that a route or its auth service sets: no client's value of them reaches the endpoint.
//!
//! The endpoint returns its view in each answer, head and trailers. A client sends values of its own under
//! these names in other spellings, in the head, in trailers and listed in `Connection`, and the key of a
//! limit in several cookies.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use adversary::endpoint::{Endpoint, read_head};
use adversary::{Attack, Case, Random, Run, binary};
use testkit::manifest::{config_map, service};
use testkit::{Forebay, Response};

pub(crate) const ATTACKS: &[Attack] = &[Attack { name: "decided-headers", cases: 400, play }];

/// Names that Forebay, the route and the auth service decide.
const DECIDED: &[&str] = &[
    "X-Real-IP",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Forwarded-Scheme",
    "X-Scheme",
    "X-User",
    "X-Role",
    "X-Route",
    "X_Zone",
    "X-Removed",
];

/// How often a client may come within an hour.
const LIMIT: usize = 3;
/// Values of clients begin so, and no value of ours does.
pub(crate) const EVIL: &str = "evil";

fn play(run: &Run) {
    let endpoint = Endpoint::serving(|stream| while answer(stream) {});
    let auth = Endpoint::serving(|stream| while let_in(stream) {});
    let forebay = binary::setup()
        .endpoint(endpoint.address())
        .setting("enable-underscores-in-headers", "true")
        .setting("ignore-invalid-headers", "false")
        .setting("proxy-set-headers", "default/set")
        .annotation("auth-url", "http://auth.default.svc.cluster.local/")
        .annotation("auth-response-headers", "X-User, X-Role")
        .annotation("auth-cache-key", "$http_x_tenant")
        .annotation("auth-cache-duration", "200 5m")
        .annotation("forebay.io/limit-requests", &format!("{LIMIT}/1h"))
        .annotation("forebay.io/limit-key", "$cookie_id")
        .manifest("auth.yaml", service("auth", &[auth.address()]))
        .manifest(
            "set.yaml",
            config_map("set", &[("X-Route", "ours"), ("X_Zone", "ours"), ("X-Removed", "")]),
        )
        .start();
    run.each(|case| play_case(case, &forebay));
}

fn play_case(case: &mut Case, forebay: &Forebay) {
    let tenant = format!("tenant{}", case.number);
    let mut let_through = 0;
    for _ in 0..LIMIT + 2 {
        let request = request(&mut case.random, case.number, &tenant);
        case.sends(request.as_bytes());
        let response = forebay.client().ask(&request);
        match response.status {
            200 => check(&response),
            400 | 429 => continue,
            other => panic!("{other} to {request:?}"),
        }
        let_through += 1;
    }
    assert!(let_through <= LIMIT, "{let_through} requests of one cookie are let through");
    // The auth service's answer about a tenant holds for that tenant only.
    let plain =
        format!("GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\nX-Tenant: {tenant}\r\n\r\n");
    let response = forebay.client().ask(&plain);
    let user = format!("x-user: of {tenant}");
    assert!(view(&response).contains(&user), "no {user:?} in {response:?}");
}

/// A request of the client `number`, whose endpoint may read the same cookie in each.
fn request(random: &mut Random, number: u64, tenant: &str) -> String {
    let mut fields = vec![format!("Cookie: {}", cookies(random, number))];
    let (mut trailers, mut listed) = (Vec::new(), vec!["close".to_owned()]);
    for at in 0..=random.below(4) {
        let name = *random.pick(DECIDED);
        let name = spelled(random, name);
        let line = format!("{name}: {EVIL}{at}");
        match random.below(3) {
            0 => trailers.push(line),
            _ => fields.push(line),
        }
        if random.once_in(4) {
            listed.push(name);
        }
    }
    if random.once_in(2) {
        fields.push(format!("{}: {tenant}", spelled(random, "X-Tenant")));
        if random.once_in(3) {
            listed.push("x-tenant".to_owned());
        }
    }
    fields.push(format!("Connection: {}", listed.join(", ")));
    let mut request = "POST / HTTP/1.1\r\nHost: web.test\r\n".to_owned();
    for field in fields {
        let _ = write!(request, "{field}\r\n");
    }
    if trailers.is_empty() && random.once_in(2) {
        return request + "Content-Length: 3\r\n\r\nabc";
    }
    request += "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n";
    for trailer in trailers {
        let _ = write!(request, "{trailer}\r\n");
    }
    request + "\r\n"
}

/// Another spelling of a name, or the same one.
pub(crate) fn spelled(random: &mut Random, name: &str) -> String {
    let spell = |char: char| match char {
        '-' | '_' => *random.pick(&['-', '-', '_', '_', '.', '~']),
        letter if random.once_in(2) => letter.to_ascii_uppercase(),
        letter => letter.to_ascii_lowercase(),
    };
    name.chars().map(spell).collect()
}

/// Cookies of which one is the client's own in a spelling that some framework reads, among others.
fn cookies(random: &mut Random, number: u64) -> String {
    let own = *random.pick(&["id=c", "ID=c", "%69d=c", "id=%63", "id=\"c\"", "id=\"\\143\"", "i%64=c"]);
    let own = if let Some(start) = own.strip_suffix('"') {
        format!("{start}{number}\"")
    } else {
        format!("{own}{number}")
    };
    let mut all = vec![own];
    for _ in 0..random.below(4) {
        let name = *random.pick(&["id", "Id", "%69d", "other"]);
        let place = random.below(all.len() + 1);
        all.insert(place, format!("{name}=junk{}", random.number()));
    }
    all.join("; ")
}

/// Fails where a client's value stands under a decided name.
pub(crate) fn check(response: &Response) {
    for line in view(response) {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        let is_decided = DECIDED.iter().any(|decided| plain(decided) == plain(name));
        assert!(!is_decided || !value.contains(EVIL), "the endpoint saw {line:?}");
    }
}

/// A name as CGI, WSGI and Rack have it.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace(|char: char| !char.is_ascii_alphanumeric(), "_")
}

/// The body of the endpoint's response.
fn view(response: &Response) -> Vec<String> {
    let view = response.header("x-view").expect("the endpoint says what it saw");
    view.split("\\n").map(str::to_owned).collect()
}

/// Answers a request with the endpoint's view of it. False once the connection is over.
pub(crate) fn answer(stream: &mut TcpStream) -> bool {
    let Some(head) = read_head(stream) else { return false };
    let mut lines = fields(&head);
    let is_in_chunks = lines.iter().any(|line| line == "transfer-encoding: chunked");
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let trailers = if is_in_chunks { read_chunks(stream) } else { skip(stream, length.unwrap_or(0)) };
    let Some(trailers) = trailers else { return false };
    lines.extend(fields(&trailers));
    let view = lines.join("\n").as_bytes().escape_ascii().to_string();
    let answer = format!("HTTP/1.1 200 OK\r\nX-View: {view}\r\nContent-Length: 2\r\n\r\nok");
    stream.write_all(answer.as_bytes()).is_ok()
}

/// Lets everybody in, as the user of the tenant that the question names.
fn let_in(stream: &mut TcpStream) -> bool {
    let Some(head) = read_head(stream) else { return false };
    let lines = fields(&head);
    let tenant = lines.iter().find_map(|line| line.strip_prefix("x-tenant: ")).unwrap_or("nobody");
    let answer = format!("HTTP/1.1 200 OK\r\nX-User: of {tenant}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).is_ok()
}

/// The lines of a head or of trailers that are fields, names in lower case.
fn fields(lines: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(lines).into_owned();
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some(format!("{}: {}", name.to_ascii_lowercase(), value.trim()))
    };
    text.lines().filter_map(field).collect()
}

/// The trailers of a body in chunks.
fn read_chunks(stream: &mut TcpStream) -> Option<Vec<u8>> {
    loop {
        let line = read_line(stream)?;
        let length = usize::from_str_radix(std::str::from_utf8(&line).ok()?.trim(), 16).ok()?;
        if length == 0 {
            break;
        }
        skip(stream, length + 2)?;
    }
    let mut trailers = Vec::new();
    loop {
        let line = read_line(stream)?;
        if line == b"\r\n" {
            return Some(trailers);
        }
        trailers.extend(line);
    }
}

fn read_line(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") {
        stream.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    Some(line)
}

/// Reads what nobody looks at; there are no trailers behind it.
fn skip(stream: &mut TcpStream, length: usize) -> Option<Vec<u8>> {
    stream.read_exact(&mut vec![0; length]).ok().map(|()| Vec::new())
}
