//! Properties that hold for all manifests. The fuzz target and the smoke test call the same function.

#[path = "../golden/canonical.rs"]
mod canonical;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::index::Index;
use control::names::NsName;
use control::resolve::Resolved;
use control::source::objects_in;
use control::translate::Translator;
use control::{Options, report};

use canonical::canonical;

/// Longest input, in bytes: a longer one takes more time and finds nothing new.
const INPUT_BYTES_MAX: usize = 16 << 10;

/// The most successive changes of the objects.
const CHANGES_MAX: usize = 6;

/// Separates the objects that exist at first from those that are added later.
const LATER: &str = "\n=====\n";

/// No manifest causes a panic. A translator that keeps results gives the same as a new one, while objects are
/// added and removed. Every result can be written as a report, and every named cluster exists.
pub(crate) fn translate(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if text.len() > INPUT_BYTES_MAX {
        return;
    }
    let (first, later) = text.split_once(LATER).unwrap_or((text, ""));
    let (Ok(first), Ok(later)) = (objects_in(first), objects_in(later)) else { return };
    let (options, resolved) = (options(), resolved());
    let mut index = Index::build(&first).0;
    let mut translator = Translator::default();
    compare(&mut translator, &index, &options, &resolved);
    for object in later.iter().take(CHANGES_MAX) {
        index.apply(object);
        compare(&mut translator, &index, &options, &resolved);
    }
    for object in first.iter().take(CHANGES_MAX) {
        let (kind, key) = object.key();
        index.remove(kind, &key);
        compare(&mut translator, &index, &options, &resolved);
    }
}

fn compare(translator: &mut Translator, index: &Index, options: &Options, resolved: &Resolved) {
    let remembering = translator.translate(index, options, resolved, now());
    let anew = control::translate::translate(index, options, resolved, now());
    assert!(canonical(&remembering) == canonical(&anew), "{remembering:#?}\n{anew:#?}");
    assert_eq!(remembering.model.hosts().count(), remembering.origins.len());
    let mut text = String::new();
    report::write(&mut text, &remembering).expect("a String takes everything");
}

/// Options with every feature turned on.
fn options() -> Options {
    let name = |name: &str| Some(NsName::new("default", name));
    Options {
        configmap: name("settings"),
        default_backend_service: name("svc"),
        default_ssl_certificate: name("good"),
        tcp_services_configmap: name("tcp"),
        udp_services_configmap: name("udp"),
        ssl_passthrough: true,
        zone: Some("a".to_owned()),
        judges_endpoints: true,
        own_addresses: ["192.0.2.2".parse().expect("a literal address")].into(),
        ..Options::default()
    }
}

fn resolved() -> Resolved {
    let address = |text: &str| text.parse().expect("a literal address");
    Resolved::from([
        ("outside.test".to_owned(), Ok(vec![address("192.0.2.1"), address("2001:db8::1")])),
        ("inside.test".to_owned(), Ok(vec![address("192.0.2.2"), address("127.0.0.1")])),
        ("nowhere.test".to_owned(), Err("no such name".to_owned())),
    ])
}

/// The first of July 2026. The certificates in the corpus are valid at this time.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_782_864_000)
}
