//! Followers at a hub: what they are given, and when they are refused or cut.

use super::*;

const PATH: &str = "/slices";

fn slice(name: &str, version: u64, address: &str) -> Slice {
    let text = format!(
        r#"{{"metadata": {{"namespace": "a", "name": "{name}", "labels": {{"kubernetes.io/service-name": "s"}}}},
            "addressType": "IPv4", "endpoints": [{{"addresses": ["{address}"]}}],
            "ports": [{{"port": 80}}]}}"#
    );
    let object = serde_json::from_str(&text).unwrap();
    let read = Some(Arc::new(Sourced { origin: crate::objects::Origin::default(), object }));
    Slice { key: NsName::new("a", name), version, read }
}

/// A hub that watches from version 10, with one slice.
fn watching() -> Hub {
    let hub = Hub::default();
    hub.ask_api_server(PATH);
    hub.begin_list();
    hub.list(slice("x", 7, "192.0.2.1"));
    hub.end_list();
    hub.watches_from(10);
    hub
}

fn lines(hub: &Hub, place: Place) -> (Vec<(String, u64)>, Place) {
    let Read::Lines(text, next) = hub.read(place) else { panic!("there is nothing to read") };
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(|line| {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        let version = value["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        (value["type"].as_str().unwrap().to_owned(), version)
    });
    (events.collect(), next)
}

#[test]
fn events_come_once_and_in_order_from_wherever_a_follower_begins() {
    let hub = watching();
    let early = hub.follow(PATH, 10, 0, 9).unwrap();
    assert!(matches!(hub.read(early), Read::Nothing(10)));
    hub.change(slice("x", 11, "192.0.2.2"), false);
    hub.change(slice("y", 12, "192.0.2.3"), false);
    let late = hub.follow(PATH, 11, 11, 9).unwrap();
    let modified = |version| ("MODIFIED".to_owned(), version);
    let (events, early) = lines(&hub, early);
    assert_eq!(events, [modified(11), modified(12)]);
    assert_eq!(lines(&hub, late).0, [modified(12)]);
    hub.change(slice("y", 13, "192.0.2.3"), true);
    assert_eq!(lines(&hub, early).0, [("DELETED".to_owned(), 13)]);
    assert_eq!(hub.figures().followers, 2);
}

#[test]
fn nobody_is_taken_on_who_knows_more_or_too_little() {
    let hub = watching();
    let refused = |path, from, seen, most| hub.follow(path, from, seen, most).unwrap_err();
    assert_eq!(refused(PATH, 11, 11, 9), Refusal::Behind);
    assert_eq!(refused(PATH, 9, 0, 9), Refusal::TooOld);
    assert_eq!(refused("/other", 10, 0, 9), Refusal::OtherPath);
    assert_eq!(refused(PATH, 10, 0, 0), Refusal::Full);
    assert_eq!(hub.begin_pages(PATH, 11).err(), Some(Refusal::Behind));
    hub.shut();
    assert_eq!(refused(PATH, 10, 0, 9), Refusal::NotWatching);
    hub.watches_from(12);
    assert!(hub.follow(PATH, 12, 11, 9).is_ok());
}

#[test]
fn a_follower_with_a_later_bookmark_gets_what_comes_after_it() {
    let hub = watching();
    let ahead = hub.follow(PATH, 14, 7, 9).unwrap();
    assert!(matches!(hub.read(ahead), Read::Nothing(14)));
    hub.change(slice("gone", 12, "192.0.2.2"), false);
    hub.change(slice("gone", 13, "192.0.2.2"), true);
    assert!(matches!(hub.read(ahead), Read::Nothing(14)), "it was listed after that");
    hub.change(slice("x", 15, "192.0.2.2"), false);
    assert_eq!(lines(&hub, ahead).0, [("MODIFIED".to_owned(), 15)]);
}

#[test]
fn a_follower_that_comes_back_before_it_gets_a_bookmark_is_not_too_late() {
    let hub = watching();
    hub.watches_from(50);
    let place = hub.follow(PATH, 10, 7, 9).unwrap();
    assert!(matches!(hub.read(place), Read::Nothing(50)));
}

#[test]
fn a_follower_that_is_too_slow_is_cut_and_the_row_has_a_bound() {
    let hub = watching();
    let slow = hub.follow(PATH, 10, 0, 9).unwrap();
    let (mut version, first) = (10, hub.lock().row.first);
    while hub.lock().row.first == first {
        version += 1;
        hub.change(slice("x", version, "192.0.2.1"), false);
    }
    assert!(hub.lock().row.bytes <= ROW_BYTES_MAX);
    assert!(matches!(hub.read(slow), Read::Cut));
    assert_eq!(hub.figures().cut, 1);
    assert_eq!(hub.follow(PATH, 10, 10, 9).unwrap_err(), Refusal::TooOld);
    let next = hub.follow(PATH, 11, 11, 9).unwrap();
    assert_eq!(lines(&hub, next).0[0], ("MODIFIED".to_owned(), 12));
}

#[test]
fn who_lists_anew_fails_or_follows_cuts_its_followers() {
    let ends: [fn(&Hub); 4] =
        [Hub::begin_list, Hub::shut, |hub| hub.ask_relay(IpAddr::from([192, 0, 2, 9])), Hub::give_up];
    for end in ends {
        let hub = watching();
        let place = hub.follow(PATH, 10, 0, 9).unwrap();
        end(&hub);
        assert!(matches!(hub.read(place), Read::Cut));
        assert_eq!(hub.figures().cut, 0, "it was not slow");
    }
}

#[test]
fn events_that_came_from_a_relay_are_not_handed_on_later() {
    let hub = watching();
    hub.ask_relay(IpAddr::from([192, 0, 2, 9]));
    hub.change(slice("x", 20, "192.0.2.2"), false);
    hub.ask_api_server(PATH);
    hub.watches_from(21);
    assert_eq!(hub.follow(PATH, 19, 19, 9).unwrap_err(), Refusal::TooOld);
    let place = hub.follow(PATH, 21, 20, 9).unwrap();
    assert!(matches!(hub.read(place), Read::Nothing(21)));
    assert_eq!(hub.begin_pages(PATH, 20).unwrap().version, 21);
}

#[test]
fn pages_are_of_one_version_whatever_happens_between_them() {
    let hub = watching();
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        hub.change(slice(name, 11 + number as u64, "192.0.2.4"), false);
    }
    let list = hub.begin_pages(PATH, 14).unwrap();
    hub.change(slice("d", 15, "192.0.2.4"), true);
    let again = hub.pages(list.number).unwrap();
    let names = |begin| {
        let page: serde_json::Value =
            serde_json::from_slice(&again.page(begin, 3, |at| at.to_string())).unwrap();
        assert_eq!(page["metadata"]["resourceVersion"], "14");
        let items = page["items"].as_array().unwrap();
        let names = items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), page["metadata"]["continue"].as_str().map(str::to_owned))
    };
    assert_eq!(names(0), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], Some("3".to_owned())));
    assert_eq!(names(3), (vec!["d".to_owned(), "x".to_owned()], None));
    assert!(hub.pages(list.number + 1).is_none());
}
