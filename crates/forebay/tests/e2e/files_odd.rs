//! Files that are not to be served, and files that change while they are sent: whatever protocol the client
//! speaks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};
use testkit::{Forebay, H2Client, Response, TlsClient};

use super::files::{root, said, site, write};

const HUGE: u64 = 64 << 20;

/// The responses to the same GET over HTTP/1 and HTTP/2.
fn by_both(forebay: &Forebay, target: &str) -> [(&'static str, Response); 2] {
    let h2 = H2Client::clear(forebay.address());
    [("HTTP/1", forebay.get(target)), ("HTTP/2", h2.get("web.test", target))]
}

#[test]
fn nothing_above_the_root_is_served() {
    let root = root();
    fs::write(root.path().join("beside"), "beside").unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let site_folder = root.path().join("site");
    write(&root, "in/a.txt", "inside");
    let link = |to: &Path, name: &str| symlink(to, site_folder.join(name)).unwrap();
    link(outside.path(), "out");
    link(&outside.path().join("secret"), "secret");
    link(Path::new("../../../../../../../../etc/passwd"), "climbs");
    link(Path::new("/proc/self/root"), "magic");
    link(Path::new("loop"), "loop");
    link(Path::new("in"), "inside");
    link(Path::new("in/../in/a.txt"), "a.txt");
    link(&outside.path().join("secret"), "in/a.txt.gz");
    let forebay = site(&root, &[]);
    for target in ["/inside/a.txt", "/a.txt", "/in/%2e/../in/a.txt"] {
        for (protocol, response) in by_both(&forebay, target) {
            assert_eq!(said(&response), (200, "inside".to_owned()), "{target} over {protocol}");
        }
    }
    let (long, deep) = (format!("/{}", "x".repeat(300)), format!("/{}", "abcdefg/".repeat(550)));
    for (target, status) in [
        ("/out/secret", 403),
        ("/secret", 403),
        ("/climbs", 403),
        ("/magic/etc/passwd", 403),
        ("/loop", 404),
        ("/..%2fbeside", 400),
        ("/%2e%2e/beside", 400),
        ("/in/%2e%2e/%2e%2e/beside", 400),
        ("/in/..%2f..%2fbeside", 400),
        ("/..%5cbeside", 404),
        ("/..\\beside", 404),
        ("/%252e%252e/beside", 404),
        ("/%c0%ae%c0%ae/beside", 404),
        ("/a.txt%00.html", 400),
        ("/%2fetc/passwd", 404),
        ("//etc/passwd", 404),
        ("/in/.../beside", 404),
        (&long, 404),
        (&deep, 404),
    ] {
        for (protocol, response) in by_both(&forebay, target) {
            assert_eq!(response.status, status, "{target} over {protocol}");
            let text = response.text();
            assert!(!text.contains("beside") && !text.contains("root:"), "{target} over {protocol}");
        }
    }
    // A form beside a file is opened with the same care.
    let accepted = [("accept-encoding", "gzip")];
    let h2 = H2Client::clear(forebay.address());
    let response = h2.call("GET", "web.test", "/in/a.txt", &accepted, true).read_response();
    assert_eq!((said(&response), response.header("content-encoding")), ((200, "inside".to_owned()), None));
}

#[test]
fn what_is_no_regular_file_or_hidden_is_not_served() {
    let root = root();
    let folder = root.path().join("site");
    mkfifoat(CWD, folder.join("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    // Only root may make devices: that of zeros, of which there is no end.
    let zeros = rustix::fs::makedev(1, 5);
    let _ = mknodat(CWD, folder.join("device"), FileType::CharacterDevice, Mode::RUSR, zeros);
    symlink("fifo", folder.join("link-to-fifo")).unwrap();
    mkfifoat(CWD, folder.join("b.txt.gz"), Mode::RUSR | Mode::WUSR).unwrap();
    write(&root, "b.txt", "plain");
    write(&root, ".env", "secret");
    write(&root, ".git/config", "secret");
    write(&root, "a/.htpasswd", "secret");
    write(&root, ".well-known/acme-challenge/token", "proof");
    write(&root, "closed", "secret");
    fs::set_permissions(folder.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    let forebay = site(&root, &[]);
    for target in [
        "/fifo",
        "/link-to-fifo",
        "/socket",
        "/device",
        "/.env",
        "/.git/config",
        "/a/.htpasswd",
        "/a/%2ehtpasswd",
        "/.well-known/../.env",
    ] {
        for (protocol, response) in by_both(&forebay, target) {
            assert_eq!(response.status, 404, "{target} over {protocol}");
        }
    }
    for (protocol, response) in by_both(&forebay, "/.well-known/acme-challenge/token") {
        assert_eq!(response.body, b"proof", "{protocol}");
    }
    let mut client = forebay.client();
    let plain = client.ask("GET /b.txt HTTP/1.1\r\nHost: web.test\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(said(&plain), (200, "plain".to_owned()), "a FIFO is no form of a file");
    // Root may read everything.
    if !rustix::process::geteuid().is_root() {
        for (protocol, response) in by_both(&forebay, "/closed") {
            assert_eq!(response.status, 403, "{protocol}");
        }
    }
}

/// A file of 64 MiB without a block on disk.
fn make_huge(path: &Path) -> fs::File {
    let file = fs::File::create(path).unwrap();
    file.set_len(HUGE).unwrap();
    file
}

/// Asks for a file of 64 MiB, and reads its beginning.
fn begun(mut client: testkit::Connection) -> testkit::Connection {
    client.send("GET /huge.bin HTTP/1.1\r\nHost: web.test\r\n\r\n");
    assert!(client.read_head().contains("Content-Length: 67108864"));
    assert_eq!(client.read_exactly(1000), vec![0; 1000]);
    client
}

#[test]
fn a_file_that_becomes_shorter_breaks_off_the_response() {
    let root = root();
    let path = root.path().join("site/huge.bin");
    for is_tls in [false, true] {
        let file = make_huge(&path);
        let forebay = site(&root, &[]);
        let client = if is_tls { forebay.tls_client(&TlsClient::new("web.test")) } else { forebay.client() };
        let mut client = begun(client);
        file.set_len(4000).unwrap();
        let (rest, _) = client.read_to_end();
        assert!((rest.len() as u64) < HUGE, "never padded: {}", rest.len());
        forebay.await_metric("forebay_faults_total", &[("reason", "file_unreadable")], 1);
    }
}

#[test]
fn a_file_that_becomes_shorter_resets_its_stream_alone() {
    let root = root();
    write(&root, "a.txt", "a");
    let file = make_huge(&root.path().join("site/huge.bin"));
    let forebay = site(&root, &[]);
    let client = H2Client::clear(forebay.address());
    let (head, mut body) = client.call("GET", "web.test", "/huge.bin", &[], true).head().unwrap();
    assert_eq!(head.header("content-length").as_deref(), Some("67108864"));
    assert_eq!(body.read_exactly(1000), vec![0; 1000]);
    file.set_len(4000).unwrap();
    let (rest, ending) = body.read_to_end();
    assert!((rest.len() as u64) < HUGE && ending.is_err(), "{}, {ending:?}", rest.len());
    forebay.await_metric("forebay_faults_total", &[("reason", "file_unreadable")], 1);
    assert_eq!(client.get("web.test", "/a.txt").body, b"a", "other streams go on");
}

#[test]
fn a_file_that_is_replaced_is_sent_as_it_was_opened() {
    let root = root();
    let path = root.path().join("site/huge.bin");
    make_huge(&path);
    let forebay = site(&root, &[]);
    let mut client = begun(forebay.client());
    let h2 = H2Client::clear(forebay.address());
    let (_, mut body) = h2.call("GET", "web.test", "/huge.bin", &[], true).head().unwrap();
    let other = root.path().join("other");
    fs::write(&other, "other").unwrap();
    fs::rename(&other, &path).unwrap();
    let rest = client.read_exactly(HUGE as usize - 1000);
    assert!(rest.iter().all(|&byte| byte == 0));
    let (all, ending) = body.read_to_end();
    assert!(all.len() as u64 == HUGE && ending.is_ok() && all.iter().all(|&byte| byte == 0));
    forebay.await_that("the other to be seen", || {
        by_both(&forebay, "/huge.bin").iter().all(|(_, response)| response.body == b"other")
    });
}
