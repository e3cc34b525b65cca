//! Files below `--files-root`: which are served, and how.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;
use testkit::{Forebay, H2Client, Response, Setup, TlsClient};

/// An Ingress that serves files of `site` at a path, with further annotations.
pub(super) fn ingress(path: &str, path_type: &str, annotations: &[(&str, &str)]) -> String {
    let more: Vec<_> = annotations.iter().map(|(name, value)| format!("    {name}: {value:?}\n")).collect();
    let more = more.concat();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: site\n  annotations:\n    forebay.io/files: site\n{more}\
         spec:\n  rules:\n  - host: web.test\n    http:\n      paths:\n      - path: {path:?}\n        pathType: {path_type}\n\
         \x20       backend: {{service: {{name: nobody, port: {{number: 80}}}}}}\n"
    )
}

/// A root with the folder `site` in it.
pub(super) fn root() -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    fs::create_dir(root.path().join("site")).expect("a folder");
    root
}

pub(super) fn write(root: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = root.path().join("site").join(name);
    fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
    fs::write(path, content).expect("it can be written");
}

pub(super) fn serving(root: &Path, manifest: String) -> Setup {
    let mut flag = std::ffi::OsString::from("--files-root=");
    flag.push(root);
    crate::setup().manifest("web.yaml", manifest).arguments([flag])
}

pub(super) fn site(root: &TempDir, annotations: &[(&str, &str)]) -> Forebay {
    serving(root.path(), ingress("/", "Prefix", annotations)).start()
}

pub(super) fn said(response: &Response) -> (u16, String) {
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

#[test]
fn a_file_is_served() {
    let root = root();
    write(&root, "a.txt", "hello");
    let forebay = site(&root, &[]);
    let response = forebay.get("/a.txt");
    assert_eq!(said(&response), (200, "hello".to_owned()));
}

/// Bytes in which no two places look alike, more than is kept in memory.
fn large() -> Vec<u8> {
    (0_u32..1 << 18).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn ask(forebay: &Forebay, target: &str, headers: &str) -> Response {
    forebay.client().ask(&format!("GET {target} HTTP/1.1\r\nHost: web.test\r\n{headers}\r\n"))
}

pub(super) fn header(response: &Response, name: &str) -> String {
    response.header(name).unwrap_or_else(|| panic!("no {name} in {response:?}"))
}

#[test]
fn a_file_says_what_it_is() {
    let root = root();
    write(&root, "a.html", "<p>");
    write(&root, "empty.css", "");
    write(&root, "a b/ü%.svg", "<svg/>");
    let forebay = site(&root, &[("forebay.io/files-cache-control", "public, max-age=60")]);
    let response = forebay.get("/a.html");
    assert_eq!(said(&response), (200, "<p>".to_owned()));
    assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8");
    assert_eq!(header(&response, "accept-ranges"), "bytes");
    assert_eq!(header(&response, "cache-control"), "public, max-age=60");
    assert!(
        header(&response, "last-modified").ends_with(" GMT") && header(&response, "etag").starts_with('"')
    );
    assert!(response.header("vary").is_none() && response.header("date").is_some());
    assert_eq!(said(&forebay.get("/empty.css")), (200, String::new()));
    let response = forebay.get("/a%20b/%C3%BC%25.svg?x=/y");
    assert_eq!((response.status, header(&response, "content-type").as_str()), (200, "image/svg+xml"));
    let mut client = forebay.client();
    client.send("HEAD /a.html HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let response = client.read_response_to_head();
    assert_eq!((response.status, header(&response, "content-length").as_str()), (200, "3"));
    // The connection goes on after a HEAD.
    assert_eq!(said(&client.get("web.test", "/a.html")), (200, "<p>".to_owned()));
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let response = forebay
            .client()
            .ask(&format!("{method} /a.html HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((response.status, header(&response, "allow").as_str()), (405, "GET, HEAD"), "{method}");
    }
}

#[test]
fn folders_have_index_files_and_a_slash() {
    let root = root();
    write(&root, "index.html", "top");
    write(&root, "docs/index.htm", "docs");
    write(&root, "bare/a", "");
    let forebay = site(&root, &[("forebay.io/files-index", "index.html, index.htm")]);
    assert_eq!(said(&forebay.get("/")), (200, "top".to_owned()));
    assert_eq!(said(&forebay.get("/docs/")), (200, "docs".to_owned()));
    let response = forebay.get("/docs?a=b");
    assert_eq!((response.status, header(&response, "location").as_str()), (301, "http://web.test/docs/?a=b"));
    assert_eq!(forebay.get("/bare/").status, 403, "no listing unless it is asked for");
    assert_eq!(forebay.get("/index.html/").status, 404);
}

#[test]
fn the_path_of_the_ingress_is_no_part_of_names() {
    let root = root();
    write(&root, "a.txt", "a");
    write(&root, "index.html", "i");
    let forebay = serving(root.path(), ingress("/app", "Prefix", &[])).start();
    assert_eq!(said(&forebay.get("/app/a.txt")), (200, "a".to_owned()));
    assert_eq!(header(&forebay.get("/app"), "location"), "http://web.test/app/");
    assert_eq!(said(&forebay.get("/app/")), (200, "i".to_owned()));
    assert_eq!((forebay.get("/a.txt").status, forebay.get("/application").status), (404, 404));
    drop(forebay);
    let forebay = serving(root.path(), ingress("/x/a.txt", "Exact", &[])).start();
    assert_eq!(said(&forebay.get("/x/a.txt")), (200, "a".to_owned()));
    drop(forebay);
    let rewrite = [
        ("nginx.ingress.kubernetes.io/rewrite-target", "/$1.txt"),
        ("nginx.ingress.kubernetes.io/use-regex", "true"),
    ];
    let forebay = serving(root.path(), ingress("/r/(.*)", "ImplementationSpecific", &rewrite)).start();
    assert_eq!(said(&forebay.get("/r/a")), (200, "a".to_owned()), "what is rewritten is the name");
}

#[test]
fn the_form_that_a_client_likes_best_is_sent() {
    let root = root();
    for (name, content) in
        [("a.js", "plain"), ("a.js.br", "brotli"), ("a.js.gz", "gzip"), ("a.js.zst", "zstd"), ("b.js", "b")]
    {
        write(&root, name, content);
    }
    let forebay = site(&root, &[]);
    for (accepted, body, coding) in [
        ("gzip, br", "brotli", Some("br")),
        ("gzip, br;q=0.5", "gzip", Some("gzip")),
        ("zstd", "zstd", Some("zstd")),
        ("br;q=0, *;q=0.1", "zstd", Some("zstd")),
        ("deflate", "plain", None),
        ("identity, gzip;q=0.5", "plain", None),
    ] {
        let response = ask(&forebay, "/a.js", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!(said(&response), (200, body.to_owned()), "{accepted}");
        assert_eq!(response.header("content-encoding").as_deref(), coding, "{accepted}");
        assert_eq!(header(&response, "vary"), "Accept-Encoding");
        assert_eq!(header(&response, "content-type"), "text/javascript; charset=utf-8");
    }
    let tags: std::collections::HashSet<_> = ["gzip", "br", "zstd", "identity"]
        .map(|coding| header(&ask(&forebay, "/a.js", &format!("Accept-Encoding: {coding}\r\n")), "etag"))
        .into();
    assert_eq!(tags.len(), 4, "each form has a tag of its own");
    let response = ask(&forebay, "/b.js", "Accept-Encoding: br\r\n");
    assert!(response.header("vary").is_none() && response.header("content-encoding").is_none());
}

#[test]
fn conditions_are_evaluated() {
    let root = root();
    write(&root, "a.txt", "hello");
    let forebay = site(&root, &[("forebay.io/files-cache-control", "no-cache")]);
    let first = forebay.get("/a.txt");
    let (tag, modified) = (header(&first, "etag"), header(&first, "last-modified"));
    for (condition, status) in [
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-None-Match: \"x\", W/{tag}"), 304),
        ("If-None-Match: *".to_owned(), 304),
        ("If-None-Match: \"x\"".to_owned(), 200),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}"), 200),
        (format!("If-Modified-Since: {modified}"), 304),
        ("If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT".to_owned(), 200),
        ("If-Match: \"x\"".to_owned(), 412),
        (format!("If-Match: {tag}"), 200),
        ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:01 GMT".to_owned(), 412),
    ] {
        let response = ask(&forebay, "/a.txt", &format!("{condition}\r\n"));
        assert_eq!(response.status, status, "{condition}");
        if status == 304 {
            assert_eq!(header(&response, "etag"), tag);
            assert_eq!(header(&response, "cache-control"), "no-cache");
            assert!(response.header("content-length").is_none() && response.header("content-type").is_none());
        }
    }
}

#[test]
fn parts_are_sent_of_short_and_long_files() {
    let (root, long) = (root(), large());
    write(&root, "short.txt", "0123456789");
    write(&root, "long.bin", &long);
    let forebay = site(&root, &[]);
    let range = |range: &str| ask(&forebay, "/short.txt", &format!("Range: bytes={range}\r\n"));
    for (asked, body, told) in
        [("0-3", "0123", "bytes 0-3/10"), ("8-", "89", "bytes 8-9/10"), ("-3", "789", "bytes 7-9/10")]
    {
        let response = range(asked);
        assert_eq!(said(&response), (206, body.to_owned()), "{asked}");
        assert_eq!(header(&response, "content-range"), told);
    }
    let response = range("10-");
    assert_eq!((response.status, header(&response, "content-range").as_str()), (416, "bytes */10"));
    assert_eq!(said(&range("3-1")), (200, "0123456789".to_owned()), "what is malformed is passed over");
    let several = range("0-0,5-6");
    assert!(header(&several, "content-type").starts_with("multipart/byteranges; boundary="));
    let text = several.text();
    assert!(text.contains("Content-Range: bytes 0-0/10\r\n\r\n0\r\n--"), "{text}");
    assert!(
        text.contains("Content-Range: bytes 5-6/10\r\n\r\n56\r\n--") && text.ends_with("--\r\n"),
        "{text}"
    );
    let response = ask(&forebay, "/long.bin", "Range: bytes=1000-600000\r\n");
    assert_eq!((response.status, &response.body[..]), (206, &long[1000..=600_000]));
    let response = ask(&forebay, "/long.bin", "Range: bytes=1-2,700000-900000\r\n");
    let text = String::from_utf8_lossy(&response.body);
    assert!(text.contains("Content-Range: bytes 700000-900000/1048576"));
    assert!(response.body.windows(4096).any(|window| window == &long[800_000..804_096]));
    let tag = header(&forebay.get("/short.txt"), "etag");
    let with = |condition: &str| {
        ask(&forebay, "/short.txt", &format!("Range: bytes=0-1\r\nIf-Range: {condition}\r\n")).status
    };
    assert_eq!((with(&tag), with("\"other\""), with(&format!("W/{tag}"))), (206, 200, 200));
}

#[test]
fn long_files_come_whole_whatever_is_spoken() {
    let (root, long) = (root(), large());
    write(&root, "long.bin", &long);
    write(&root, "short.txt", "short");
    let forebay = site(&root, &[]);
    let mut client = forebay.client();
    for _ in 0..2 {
        assert!(client.get("web.test", "/long.bin").body == long, "in clear");
        assert_eq!(client.get("web.test", "/short.txt").body, b"short");
    }
    let tls = TlsClient::new("web.test");
    let mut client = forebay.tls_client(&tls);
    assert!(client.get("web.test", "/long.bin").body == long, "TLS");
    assert_eq!(client.get("web.test", "/short.txt").body, b"short");
    for client in [H2Client::clear(forebay.address()), H2Client::tls(forebay.https_address(), &tls)] {
        assert!(client.get("web.test", "/long.bin").body == long, "HTTP/2");
        assert_eq!(client.get("web.test", "/short.txt").body, b"short");
        let part = client.call("GET", "web.test", "/long.bin", &[("range", "bytes=70000-200000")], true);
        let mut part = part;
        let part = part.read_response();
        assert!(part.status == 206 && part.body == long[70_000..=200_000]);
        let mut several = client.call("GET", "web.test", "/long.bin", &[("range", "bytes=0-0,9-9")], true);
        assert_eq!(several.read_response().status, 206);
    }
    let response = forebay.client().ask("GET /long.bin HTTP/1.0\r\nHost: web.test\r\n\r\n");
    assert!(response.body == long, "HTTP/1.0");
}

#[test]
fn a_short_file_that_changes_is_seen() {
    let root = root();
    write(&root, "a.txt", "one");
    let forebay = site(&root, &[]);
    assert_eq!(forebay.get("/a.txt").body, b"one");
    write(&root, "a.txt", "two, longer");
    forebay.await_that("the change to be seen", || forebay.get("/a.txt").body == b"two, longer");
    fs::remove_file(root.path().join("site/a.txt")).unwrap();
    forebay.await_that("the file to be gone", || forebay.get("/a.txt").status == 404);
    write(&root, "a.txt", "three");
    write(&root, "a.txt.gz", "zipped");
    forebay.await_that("a new form to be seen", || {
        ask(&forebay, "/a.txt", "Accept-Encoding: gzip\r\n").body == b"zipped"
    });
}

#[test]
fn pages_of_an_application_are_one_file() {
    let root = root();
    write(&root, "index.html", "app");
    write(&root, "app.js", "js");
    let forebay = site(&root, &[("forebay.io/files-fallback", "/index.html")]);
    for (target, said_of_it) in [
        ("/", (200, "app")),
        ("/orders/1", (200, "app")),
        ("/orders/", (200, "app")),
        ("/app.js", (200, "js")),
    ] {
        let (status, body) = said(&forebay.get(target));
        assert_eq!((status, body.as_str()), said_of_it, "{target}");
    }
    assert_eq!(forebay.get("/missing.js").status, 404);
    assert_eq!(forebay.get("/.git").status, 404, "no name that is refused is a page");
}

#[test]
fn a_page_may_say_that_there_is_nothing() {
    let root = root();
    write(&root, "404.html", "nothing here");
    let forebay = site(&root, &[("forebay.io/files-404", "/404.html")]);
    let response = forebay.get("/x");
    assert_eq!(said(&response), (404, "nothing here".to_owned()));
    assert!(response.header("etag").is_none() && header(&response, "content-type").starts_with("text/html"));
    assert_eq!(ask(&forebay, "/x", "Range: bytes=0-1\r\nIf-None-Match: *\r\n").status, 404);
    assert_eq!(forebay.get("/404.html").status, 200);
}

#[test]
fn folders_are_listed_where_that_is_asked_for() {
    let root = root();
    write(&root, "<b>&.txt", "");
    write(&root, "sub/x", "");
    write(&root, ".secret", "");
    write(&root, "with/index.html", "index");
    symlink("/etc", root.path().join("site/outside")).unwrap();
    let forebay = site(&root, &[("forebay.io/files-listing", "true")]);
    let response = forebay.get("/");
    let text = response.text();
    assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8");
    assert!(text.contains("<a href=\"./%3Cb%3E%26.txt\">&lt;b&gt;&amp;.txt</a>"), "{text}");
    assert!(text.contains("<a href=\"./sub/\">sub/</a>"));
    assert!(!text.contains("secret") && !text.contains("outside") && !text.contains("../"), "{text}");
    assert!(forebay.get("/sub/").text().contains("<a href=\"../\">../</a>"));
    assert_eq!(forebay.get("/with/").body, b"index");
}

#[test]
fn a_root_that_vanishes_is_back_when_it_is() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("root");
    let make = |content: &str| {
        fs::create_dir_all(root.join("site")).unwrap();
        fs::write(root.join("site/a.txt"), content).unwrap();
    };
    make("one");
    let forebay = serving(&root, ingress("/", "Prefix", &[])).start();
    assert_eq!(forebay.get("/a.txt").body, b"one");
    fs::rename(&root, parent.path().join("aside")).unwrap();
    forebay.await_that("the loss to be seen", || forebay.get("/a.txt").status == 503);
    assert_eq!((forebay.get("/a.txt").status, forebay.get("/b.txt").status), (503, 503));
    forebay.await_log("the folder of files is not there");
    assert_eq!(forebay.log().iter().filter(|line| line.contains("is not there")).count(), 1, "told once");
    make("two");
    forebay.await_that("the new folder to be seen", || forebay.get("/a.txt").body == b"two");
    forebay.await_log("the folder of files is there again");
}

#[test]
fn what_a_route_asks_for_holds_for_files_too() {
    let root = root();
    write(&root, "a.txt", "a");
    let nginx = |name: &str| format!("nginx.ingress.kubernetes.io/{name}");
    let (cors, limit) = (nginx("enable-cors"), nginx("whitelist-source-range"));
    let forebay = site(&root, &[(&cors, "true"), (&limit, "127.0.0.0/8,::1")]);
    let response = forebay.get("/a.txt");
    assert_eq!((response.status, header(&response, "access-control-allow-origin").as_str()), (200, "*"));
    let preflight =
        forebay.client().ask("OPTIONS /a.txt HTTP/1.1\r\nHost: web.test\r\nOrigin: http://x\r\n\r\n");
    assert_eq!(preflight.status, 204);
    assert!(forebay.await_access_log("/a.txt").contains(" 200 "));
    drop(forebay);
    let forebay = site(&root, &[(&limit, "10.0.0.0/8")]);
    assert_eq!(forebay.get("/a.txt").status, 403);
}

#[test]
fn without_a_root_files_are_closed() {
    let forebay = crate::setup().manifest("web.yaml", ingress("/", "Prefix", &[])).start();
    forebay.await_log("no files are served without --files-root");
    assert_eq!(forebay.get("/a.txt").status, 503);
}

#[test]
fn a_folder_is_served_by_one_line() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("index.html"), "laptop").unwrap();
    fs::write(root.path().join("a.txt"), "a").unwrap();
    let mut root_flag = std::ffi::OsString::from("--files-root=");
    root_flag.push(root.path());
    let nothing = "apiVersion: v1\nkind: List\nitems: []\n";
    let forebay = crate::setup()
        .manifest("web.yaml", nothing)
        .arguments([root_flag, "--serve-files=/".into(), "--files-memory=0".into()])
        .start();
    let mut client = forebay.client();
    for host in ["localhost", "web.test", "127.0.0.1"] {
        assert_eq!(said(&client.get(host, "/")), (200, "laptop".to_owned()), "{host}");
    }
    let mut client = forebay.tls_client(&TlsClient::new("localhost"));
    assert_eq!(said(&client.get("localhost", "/a.txt")), (200, "a".to_owned()));
}

#[test]
fn a_root_that_is_none_is_told_at_the_start() {
    let output = std::process::Command::new(crate::FOREBAY)
        .args(["serve", "--serve-files=/", "--files-root=/does/not/exist", "--healthz-port=0"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("/does/not/exist cannot be opened"), "{said}");
}

#[test]
fn the_examples_of_the_page_serve_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/files.md");
    let page = fs::read_to_string(page).expect("there is a page");
    let examples: Vec<_> =
        page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    let root = root();
    write(&root, "index.html", "site");
    fs::create_dir_all(root.path().join("app/assets")).unwrap();
    fs::write(root.path().join("app/index.html"), "app").unwrap();
    fs::write(root.path().join("app/assets/a.js"), "js").unwrap();
    let forebay = serving(root.path(), examples.join("---\n")).start();
    let errors: Vec<_> =
        forebay.log().into_iter().filter(|line| line.contains("ERROR") || line.contains("WARN")).collect();
    assert_eq!(errors, [""; 0]);
    let get = |host: &str, target: &str| forebay.client().get(host, target);
    assert_eq!(said(&get("www.example.com", "/")), (200, "site".to_owned()));
    let page = get("app.example.com", "/orders/17");
    assert_eq!((said(&page), header(&page, "cache-control").as_str()), ((200, "app".to_owned()), "no-cache"));
    let asset = get("app.example.com", "/assets/a.js");
    assert_eq!(said(&asset), (200, "js".to_owned()));
    assert_eq!(header(&asset, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(get("app.example.com", "/assets/b.js").status, 404);
}

#[test]
fn a_request_for_a_file_can_be_explained() {
    let root = root();
    let forebay = serving(root.path(), ingress("/app", "Prefix", &[])).start();
    let told = forebay.admin("/explain?url=http%3A%2F%2Fweb.test%2Fapp%2Fa.txt");
    assert!(told.text().contains("the file site/a.txt below --files-root"), "{}", told.text());
}
