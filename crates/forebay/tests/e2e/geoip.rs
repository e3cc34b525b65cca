//! Databases of addresses (`use-geoip2`): rules by country and autonomous system, variables, and databases
//! that change while requests are served.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::manifest::{Ingress, secret, service};
use testkit::{Canned, Forebay, SetOnDrop, Setup, mmdb};

use crate::setup;

/// Addresses of Germany, Austria, and of a country that no record names.
const GERMANY: &str = "192.0.2.1";
const AUSTRIA: &str = "198.51.100.1";
const NOWHERE: &str = "203.0.113.1";

fn of_country(code: &str, city: &str) -> Value {
    json!({
        "country": { "iso_code": code, "names": { "en": format!("Country {code}") } },
        "city": { "names": { "en": city } },
        "location": { "latitude": 52.5, "longitude": 13.25 },
    })
}

fn cities() -> Vec<u8> {
    let networks =
        [("192.0.2.0/24", of_country("DE", "Berlin")), ("198.51.100.0/24", of_country("AT", "Wien"))];
    mmdb("GeoLite2-City", 1_790_000_000, &networks)
}

fn systems() -> Vec<u8> {
    let record = |number: u32| json!({ "autonomous_system_number": number, "autonomous_system_organization": "Example" });
    mmdb("GeoLite2-ASN", 1, &[("192.0.2.0/24", record(64_496)), ("198.51.100.0/24", record(64_500))])
}

/// A folder with both databases.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("GeoLite2-City.mmdb"), cities()).expect("a file");
    std::fs::write(folder.path().join("GeoLite2-ASN.mmdb"), systems()).expect("a file");
    folder
}

/// Forebay believes this machine about its clients, and has the databases of a folder.
fn with_databases(folder: &Path) -> Setup {
    let setup = setup().setting("use-geoip2", "true").setting("use-forwarded-headers", "true");
    setup
        .setting("proxy-real-ip-cidr", "127.0.0.0/8")
        .arguments([format!("--geoip-folder={}", folder.display())])
}

fn ingress(name: &str) -> Ingress {
    Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc")
}

fn house(setup: Setup, upstream: &Canned, ingresses: &[Ingress]) -> Forebay {
    let documents = ingresses.iter().map(Ingress::document).collect::<Vec<_>>().join("---\n");
    setup.manifest("house.yaml", format!("{documents}---\n{}", service("svc", &[upstream.address()]))).start()
}

fn status(forebay: &Forebay, host: &str, client: &str) -> u16 {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}.test\r\nX-Forwarded-For: {client}\r\n\r\n");
    forebay.client().ask(&request).status
}

#[test]
fn clients_are_let_in_by_their_country_and_autonomous_system() {
    let upstream = Canned::saying("let in");
    let users = secret("users", "Opaque", &[("auth", "a:{PLAIN}secret\n")]);
    let with_password =
        |ingress: Ingress| ingress.annotation("auth-type", "basic").annotation("auth-secret", "users");
    let folder = folder();
    let forebay = house(
        with_databases(folder.path())
            .setting("forebay-client-country-metrics", "true")
            .setting("log-format-upstream", "$host $forebay_reason $geoip2_city_country_code.")
            .manifest("users.yaml", users),
        &upstream,
        &[
            ingress("allowed").annotation("forebay.io/allow-countries", "DE"),
            ingress("denied").annotation("forebay.io/deny-countries", "de,KP"),
            ingress("systems").annotation("forebay.io/allow-asn", "AS64496"),
            ingress("no-system").annotation("forebay.io/deny-asn", "64496"),
            ingress("both")
                .annotation("forebay.io/allow-countries", "DE,AT")
                .annotation("forebay.io/deny-asn", "64500"),
            ingress("networks")
                .annotation("forebay.io/allow-countries", "DE")
                .annotation("whitelist-source-range", "192.0.2.128/25"),
            with_password(ingress("any"))
                .annotation("forebay.io/allow-countries", "DE")
                .annotation("satisfy", "any"),
        ],
    );
    for (host, [germany, austria, nowhere]) in [
        ("allowed", [200, 403, 403]),
        ("denied", [403, 200, 200]),
        ("systems", [200, 403, 403]),
        ("no-system", [403, 200, 200]),
        ("both", [200, 403, 403]),
        ("networks", [403, 403, 403]),
        ("any", [200, 401, 401]),
    ] {
        let expected = [(GERMANY, germany), (AUSTRIA, austria), (NOWHERE, nowhere)];
        for (client, expected) in expected {
            assert_eq!(status(&forebay, host, client), expected, "{host} for {client}");
        }
    }
    assert_eq!(status(&forebay, "networks", "192.0.2.200"), 200);
    forebay.await_access_log("allowed.test place_denied AT.");
    forebay.await_access_log("networks.test address_denied DE.");
    forebay.await_access_log("systems.test place_denied -.");
    let counted =
        |country| forebay.metrics().sum("forebay_client_countries_requests_total", &[("country", country)]);
    forebay.await_that("each request to be counted", || ["DE", "AT", "unknown"].map(counted) == [8, 7, 7]);
    let denied = forebay.metrics().sum("forebay_faults_total", &[("reason", "place_denied")]);
    assert_eq!(denied, 8);
    let told = forebay.admin("/explain?url=http://allowed.test/&client-ip=198.51.100.1");
    assert!(told.text().contains("198.51.100.1 of AT may not"), "{}", told.text());
    assert!(told.text().contains("forebay.io/allow-countries"), "{}", told.text());
    let page = forebay.admin("/console/traffic");
    assert!(page.text().contains("Germany"), "{}", page.text());
}

#[test]
fn logs_headers_and_snippets_have_the_variables() {
    let upstream = Canned::saying("ok");
    let folder = folder();
    let headers = testkit::manifest::config_map(
        "headers",
        &[("X-Country", "$geoip2_city_country_code"), ("X-City", "$geoip2_city"), ("X-AS", "AS$geoip2_asn")],
    );
    let map = "map $geoip2_city_country_code $greeting { default hello; DE hallo; AT servus; }";
    let forebay = house(
        with_databases(folder.path())
            .setting("proxy-set-headers", "default/headers")
            .setting("http-snippet", map)
            .setting("allow-snippet-annotations", "true")
            .setting("annotations-risk-level", "Critical")
            .setting("log-format-upstream", "$host $geoip2_latitude $geoip2_org $geoip2_is_tor_exit_node.")
            .manifest("headers.yaml", headers),
        &upstream,
        &[
            ingress("web").annotation("configuration-snippet", "more_set_headers \"X-Greeting: $greeting\";"),
            ingress("closed")
                .annotation("configuration-snippet", "if ($geoip2_city_country_code = AT) { return 451; }"),
        ],
    );
    let ask = |client: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-For: {client}\r\n\r\n");
        forebay.client().ask(&request).header("x-greeting")
    };
    assert_eq!(ask(GERMANY).as_deref(), Some("hallo"));
    assert_eq!(ask(AUSTRIA).as_deref(), Some("servus"));
    assert_eq!(ask(NOWHERE).as_deref(), Some("hello"));
    forebay.await_access_log("web.test 52.50000 Example -.");
    forebay.await_access_log("web.test - - -.");
    let heads: Vec<_> = upstream.heads().iter().map(|head| head.to_ascii_lowercase()).collect();
    for (head, country, city, system) in [(0, "de", "berlin", "64496"), (1, "at", "wien", "64500")] {
        for line in [format!("x-country: {country}"), format!("x-city: {city}"), format!("x-as: as{system}")]
        {
            assert!(heads[head].contains(&format!("\r\n{line}\r\n")), "{line}: {}", heads[head]);
        }
    }
    assert!(!heads[2].contains("x-country:"), "a header whose text is empty is not sent: {}", heads[2]);
    assert_eq!([GERMANY, AUSTRIA, NOWHERE].map(|client| status(&forebay, "closed", client)), [200, 451, 200]);
}

#[test]
fn what_no_database_can_decide_is_closed_and_the_rest_is_served() {
    let upstream = Canned::saying("ok");
    let folder = folder();
    std::fs::write(folder.path().join("GeoLite2-City.mmdb"), &cities()[..200]).expect("a file");
    let forebay = house(
        with_databases(folder.path()),
        &upstream,
        &[
            ingress("country").annotation("forebay.io/deny-countries", "KP"),
            ingress("system").annotation("forebay.io/allow-asn", "64496"),
            ingress("web"),
        ],
    );
    let line = forebay.await_log("database GeoLite2-City");
    assert!(line.contains(" WARN ") && line.contains("not a whole database"), "{line}");
    let line = forebay.await_log("annotation forebay.io/deny-countries: no database of countries is loaded");
    assert!(line.contains("house.yaml"), "{line}");
    assert!(forebay.admin("/status").text().contains("database GeoLite2-City"));
    assert_eq!(["country", "system", "web"].map(|host| status(&forebay, host, GERMANY)), [503, 200, 200]);
    // A change of the settings has the files read again, and so does geoip2-autoreload-in-minutes.
    std::fs::write(folder.path().join("GeoLite2-City.mmdb"), cities()).expect("a file");
    let settings = [
        ("use-geoip2", "true"),
        ("use-forwarded-headers", "true"),
        ("proxy-real-ip-cidr", "127.0.0.0/8"),
        ("geoip2-autoreload-in-minutes", "60"),
    ];
    forebay.replace("settings.yaml", &testkit::manifest::config_map("settings", &settings));
    forebay.await_that("the database to be loaded", || status(&forebay, "country", GERMANY) == 200);
}

/// A Secret with a database of countries that has this code for all addresses, and so many networks.
fn countries(code: &str, networks: u32) -> String {
    let names: Vec<String> =
        (0..networks).map(|number| format!("{}/32", std::net::Ipv4Addr::from(number << 8))).collect();
    let record = |code: &str| json!({ "country": { "iso_code": code } });
    let mut all = vec![("0.0.0.0/0", record(code))];
    all.extend(names.iter().map(|name| (name.as_str(), record("ZZ"))));
    let database = STANDARD.encode(mmdb("GeoLite2-Country", 1, &all));
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "namespace": "default", "name": "databases" },
        "data": { "GeoLite2-Country.mmdb": database },
    })
    .to_string()
}

/// Requests of a connection, fewer than those after which it is closed (`keep-alive-requests`).
const REQUESTS_EACH: usize = 500;

/// Requests with which those during replacements are compared.
const REQUESTS_MAX: usize = 5000;

/// Keeps asking until it is told to stop. Returns the times of the requests.
fn ask_until(forebay: &Forebay, is_over: &AtomicBool) -> Vec<Duration> {
    let mut client = forebay.client();
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let response = client.get("web.test", "/");
        times.push(begin.elapsed());
        assert_eq!(response.status, 200, "request {}", times.len());
        if times.len() % REQUESTS_EACH == 0 {
            client = forebay.client();
        }
    }
    times
}

/// Has two clients ask while something is done. Returns the times of their requests, in order.
fn ask_during(forebay: &Forebay, work: impl FnOnce()) -> Vec<Duration> {
    let is_over = AtomicBool::new(false);
    let mut times: Vec<_> = std::thread::scope(|scope| {
        let ends = SetOnDrop(&is_over);
        let asking: Vec<_> = (0..2).map(|_| scope.spawn(|| ask_until(forebay, &is_over))).collect();
        work();
        drop(ends);
        asking.into_iter().flat_map(|thread| thread.join().expect("no request failed")).collect()
    });
    times.sort_unstable();
    times
}

#[test]
fn databases_are_replaced_while_requests_are_served() {
    let upstream = Canned::saying("ok");
    let forebay = house(
        setup()
            .setting("use-geoip2", "true")
            .setting("forebay-geoip-secret", "default/databases")
            .setting("proxy-set-headers", "default/headers")
            .manifest(
                "headers.yaml",
                testkit::manifest::config_map("headers", &[("X-Country", "$geoip2_country_code")]),
            )
            .manifest("databases.yaml", countries("DE", 20_000)),
        &upstream,
        &[ingress("web").annotation("forebay.io/deny-countries", "KP")],
    );
    let replace = || {
        for code in ["AT", "CH", "FR", "DE"] {
            forebay.replace("databases.yaml", &countries(code, 20_000));
            let line = format!("\r\nx-country: {}\r\n", code.to_ascii_lowercase());
            forebay.await_that("the new database", || {
                upstream.last_head().is_some_and(|head| head.to_ascii_lowercase().contains(&line))
            });
        }
    };
    let with = ask_during(&forebay, replace);
    // As many requests without a change, and no more than a busy machine serves in a moment.
    let enough = upstream.requests() + with.len().min(REQUESTS_MAX);
    let without = ask_during(&forebay, || forebay.await_that("as many", || upstream.requests() >= enough));
    for (what, times) in [("with replacements", &with), ("without", &without)] {
        let at = |thousandths: usize| times[times.len() * thousandths / 1000];
        let max = times[times.len() - 1];
        println!("{what}: {} requests, p99 {:?}, p99.9 {:?}, max {max:?}", times.len(), at(990), at(999));
    }
    // A broken database changes nothing.
    let broken = secret("databases", "Opaque", &[("GeoLite2-Country.mmdb", "text")]);
    forebay.replace("databases.yaml", &broken);
    let line = forebay.await_log("database GeoLite2-Country: the Secret");
    assert!(line.contains("; the one of before stays in use"), "{line}");
    assert_eq!(forebay.client().get("web.test", "/").status, 200);
}

fn archive(edition: &str, database: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let name = format!("{edition}_20260701/{edition}.mmdb");
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", database.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let padding = vec![0; database.len().next_multiple_of(512) - database.len() + 1024];
    let tar = [&header[..], database, &padding].concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &tar).expect("memory");
    gzip.finish().expect("memory")
}

#[test]
fn databases_are_downloaded_at_the_start_and_a_refusal_is_a_problem() {
    let answer = |status: &str, body: &[u8]| {
        [format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    };
    let mirror = Canned::choosing(move |head| match head.split(' ').nth(1) {
        Some("/GeoLite2-City.tar.gz") => answer("200 OK", &archive("GeoLite2-City", &cities())),
        Some("/GeoLite2-ASN.tar.gz") => answer("200 OK", &archive("GeoLite2-ASN", &systems())),
        Some("/GeoLite2-ASN.tar.gz.sha256") => answer("200 OK", "0".repeat(64).as_bytes()),
        Some("/GeoIP2-ISP.tar.gz") => answer("401 Unauthorized", b""),
        _ => answer("404 Not Found", b""),
    });
    let upstream = Canned::saying("ok");
    let folder = tempfile::tempdir().expect("a folder");
    let forebay = house(
        with_databases(folder.path()).arguments([
            "--maxmind-edition-ids=GeoLite2-City,GeoLite2-ASN,GeoIP2-ISP".to_owned(),
            "--maxmind-license-key=s3cret".to_owned(),
            format!("--maxmind-mirror=http://{}", mirror.address()),
            "--maxmind-retries-count=2".to_owned(),
            "--maxmind-retries-timeout=1s".to_owned(),
            "--geoip-download-interval=1h".to_owned(),
        ]),
        &upstream,
        &[
            ingress("country").annotation("forebay.io/allow-countries", "DE"),
            ingress("system").annotation("forebay.io/deny-asn", "64496"),
        ],
    );
    assert_eq!(["country", "system"].map(|host| status(&forebay, host, GERMANY)), [200, 503]);
    forebay.await_log("another SHA-256 than its .sha256 says");
    forebay.await_log("401 Unauthorized (is the license key right?)");
    let stored = std::fs::read(folder.path().join("GeoLite2-City.mmdb")).expect("a file");
    assert_eq!(stored, cities(), "the next start needs no download");
    assert!(forebay.log().iter().all(|line| !line.contains("s3cret")));
}
