//! Tests of databases of addresses: files of the folder, archives, downloads, and the loader.
//!
//! Must not be in here: how a database is searched, and annotations.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use geo::{Databases, Edition};
use serde_json::json;
use testkit::{Canned, mmdb};

use super::download::{Fetched, fetch};
use super::folder::Reader;
use super::sources::{Download, Origin, Sources, parse_mirror};
use super::{Loaded, Loader, Wanted, archive};

const COUNTRY: &str = "GeoLite2-Country";

fn edition(name: &str) -> Edition {
    name.parse().unwrap()
}

fn country(code: &str) -> Vec<u8> {
    mmdb(COUNTRY, 1, &[("0.0.0.0/0", json!({ "country": { "iso_code": code } }))])
}

fn sources(folder: &Path, editions: &[&str]) -> Sources {
    let editions = editions.iter().map(|name| edition(name)).collect();
    Sources { folder: folder.to_owned(), editions: Some(editions), download: None }
}

fn code(loaded: &Loaded) -> Option<String> {
    let found = loaded.databases.as_ref()?.country("192.0.2.1".parse().unwrap()).unwrap()?;
    Some(found.code().to_owned())
}

fn tar_gz(path: &str, content: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in [("a/README.txt", &b"text"[..]), (path, content)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn digest(archive: &[u8]) -> String {
    archive::hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, archive).as_ref())
}

#[test]
fn a_file_is_read_anew_when_it_changes_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("GeoLite2-Country.mmdb");
    fs::write(&file, country("DE")).unwrap();
    let mut reader = Reader::new(sources(folder.path(), &[COUNTRY, "GeoLite2-ASN"]), Arc::default());
    let first = reader.read(None);
    assert_eq!(code(&first).as_deref(), Some("DE"));
    assert_eq!(first.faults.len(), 1);
    assert!(
        first.faults[0].starts_with("database GeoLite2-ASN: ") && first.faults[0].contains("No such file")
    );
    let same = reader.read(None);
    assert_eq!(same.databases, first.databases, "nothing has changed");

    fs::write(&file, &country("AT")[..100]).unwrap();
    let broken = reader.read(None);
    assert_eq!(broken.databases, first.databases);
    assert!(broken.faults[0].contains("not a whole database"), "{:?}", broken.faults);
    assert!(broken.faults[0].ends_with("; the one of before stays in use"), "{:?}", broken.faults);

    let beside = folder.path().join("new");
    fs::write(&beside, country("AT")).unwrap();
    fs::rename(&beside, &file).unwrap();
    let second = reader.read(None);
    assert_eq!(code(&second).as_deref(), Some("AT"));
    let serial = |loaded: &Loaded| loaded.databases.as_ref().map(Databases::serial);
    assert!(serial(&second) > serial(&first));
}

#[test]
fn a_download_is_stored_for_the_next_start_and_otherwise_kept_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    for place in [folder.path().to_owned(), folder.path().join("missing")] {
        let mut reader = Reader::new(sources(&place, &[COUNTRY]), Arc::default());
        assert!(reader.accept(edition(COUNTRY), b"text".to_vec()).is_err());
        reader.accept(edition(COUNTRY), country("DE")).unwrap();
        let loaded = reader.read(None);
        assert_eq!((code(&loaded).as_deref(), loaded.faults.len()), (Some("DE"), 0));
    }
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["GeoLite2-Country.mmdb"], "nothing is left beside it");
}

#[test]
fn archives_are_compared_with_their_digest_and_unpacked() {
    let packed = tar_gz("GeoLite2-Country_20260701/GeoLite2-Country.mmdb", b"bytes");
    assert_eq!(archive::unpack(edition(COUNTRY), &packed), Ok(b"bytes".to_vec()));
    let other = archive::unpack(edition("GeoLite2-ASN"), &packed);
    assert_eq!(other, Err("the archive has no GeoLite2-ASN.mmdb".to_owned()));
    assert!(archive::unpack(edition(COUNTRY), &packed[..packed.len() / 2]).is_err());
    assert!(archive::unpack(edition(COUNTRY), b"no archive").is_err());
    assert_eq!(archive::check(&packed, &format!("{}  a.tar.gz\n", digest(&packed))), Ok(()));
    assert!(archive::check(&packed, &digest(b"other")).is_err() && archive::check(&packed, "").is_err());
}

fn download(server: &Canned, pause: Duration) -> Download {
    let origin = Origin::Mirror(parse_mirror(&format!("http://{}/geoip/", server.address())).unwrap());
    Download { origin, attempts: 3, pause, interval: Duration::ZERO }
}

fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn a_mirror_is_asked_for_the_archive_and_its_digest() {
    let packed = tar_gz("GeoLite2-Country.mmdb", &country("DE"));
    let right = digest(&packed);
    let server = Canned::choosing(move |head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        match target {
            "/geoip/GeoLite2-Country.tar.gz"
                if head.to_ascii_lowercase().contains("if-modified-since: then") =>
            {
                answer("304 Not Modified", "", b"")
            }
            "/geoip/GeoLite2-Country.tar.gz" => answer("302 Found", "Location: /elsewhere\r\n", b""),
            "/elsewhere" => answer("200 OK", "Last-Modified: then\r\n", &packed),
            "/geoip/GeoLite2-Country.tar.gz.sha256" => answer("200 OK", "", right.as_bytes()),
            "/geoip/GeoLite2-ASN.tar.gz" => answer("200 OK", "", &packed),
            "/geoip/GeoLite2-ASN.tar.gz.sha256" => answer("200 OK", "", digest(b"other").as_bytes()),
            "/geoip/GeoIP2-City.tar.gz" => answer("401 Unauthorized", "", b""),
            _ => answer("404 Not Found", "", b""),
        }
    });
    let download = download(&server, Duration::ZERO);
    let Ok(Fetched::Archive { bytes, modified }) = fetch(&download, edition(COUNTRY), None).await else {
        panic!("it was not downloaded");
    };
    assert_eq!(
        archive::unpack(edition(COUNTRY), &bytes).map(|database| database.len()),
        Ok(country("DE").len())
    );
    assert_eq!(modified.as_deref(), Some("then"));
    let again = fetch(&download, edition(COUNTRY), Some("then")).await;
    assert!(matches!(again, Ok(Fetched::Unchanged)));
    for (name, why) in [
        ("GeoLite2-ASN", "the archive has another SHA-256 than its .sha256 says"),
        ("GeoIP2-City", "401 Unauthorized (is the license key right?)"),
        ("GeoIP2-ISP", "404 Not Found"),
    ] {
        let Err(error) = fetch(&download, edition(name), None).await else { panic!("{name} was downloaded") };
        assert!(error.ends_with(why), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again_and_one_that_refuses_is_not() {
    for (status, attempts) in [("503 Service Unavailable", 3), ("404 Not Found", 1)] {
        let server = Canned::answering(answer(status, "", b""));
        let result = fetch(&download(&server, Duration::from_millis(1)), edition(COUNTRY), None).await;
        assert!(result.is_err());
        assert_eq!(server.heads().len(), attempts, "{status}");
    }
}

#[test]
fn the_key_of_a_license_is_not_shown() {
    let origin = Origin::MaxMind(super::LicenseKey("s3cret".to_owned()));
    assert!(origin.url(edition(COUNTRY)).contains("license_key=s3cret&edition_id=GeoLite2-Country"));
    assert!(!format!("{origin:?} {}", origin.public_url(edition(COUNTRY))).contains("s3cret"));
    for text in ["", "mirror.test", "ftp://mirror.test", "http://mirror.test/?a=b"] {
        assert!(parse_mirror(text).is_err(), "{text:?}");
    }
}

#[tokio::test]
async fn a_loader_hands_over_what_settings_ask_for_and_frees_what_nobody_uses() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(folder.path().join("GeoLite2-Country.mmdb")).unwrap();
    file.write_all(&country("DE")).unwrap();
    let mut loader = Loader::new(sources(folder.path(), &[COUNTRY]));
    assert!(!loader.is_pending());
    let on = Wanted { is_on: true, ..Wanted::default() };
    loader.want(&on);
    assert!(loader.is_pending());
    loader.changed().await;
    assert!(!loader.is_pending() && loader.loaded().coverage().countries);
    assert_eq!(code(loader.loaded()).as_deref(), Some("DE"));
    let in_use = loader.loaded().databases.clone();
    loader.want(&Wanted::default());
    assert_eq!((loader.loaded().databases.is_some(), loader.retired()), (false, 1));
    drop(in_use);
    // The task that read them ends at its next turn.
    while loader.retired() > 0 {
        tokio::task::yield_now().await;
        loader.sweep();
    }
}
