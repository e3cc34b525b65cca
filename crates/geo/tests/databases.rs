//! Databases that a test has made, read as those of publishers are.

use std::net::IpAddr;
use std::sync::Arc;

use geo::{Country, Coverage, Database, Databases, Field, NoDatabase};
use serde_json::{Value, json};
use testkit::mmdb;

fn read(edition: &str, database_type: &str, networks: &[(&str, Value)]) -> Arc<Database> {
    let bytes = mmdb(database_type, 1_790_000_000, networks);
    Arc::new(Database::read(edition.parse().unwrap(), bytes).unwrap())
}

fn city() -> Arc<Database> {
    let record = json!({
        "city": { "geoname_id": 2_950_159, "names": { "en": "Berlin" } },
        "continent": { "code": "EU", "geoname_id": 6_255_148, "names": { "en": "Europe" } },
        "country": { "geoname_id": 2_921_044, "iso_code": "DE", "names": { "de": "Deutschland", "en": "Germany" } },
        "location": { "latitude": 52.5244, "longitude": -13.41, "metro_code": 5, "time_zone": "Europe/Berlin" },
        "postal": { "code": "10115" },
        "subdivisions": [
            { "geoname_id": 2_950_157, "iso_code": "BE", "names": { "en": "State of Berlin" } },
            { "geoname_id": 7, "iso_code": "M", "names": { "en": "Mitte" } },
        ],
    });
    let nameless = json!({ "country": { "iso_code": "ZZ" } });
    read("GeoLite2-City", "GeoLite2-City", &[("192.0.2.0/24", record), ("2001:db8::/32", nameless)])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn every_field_of_a_city_is_found() {
    let databases = Databases::new([city()], 1);
    let value = |name: &str| databases.value(ip("192.0.2.7"), Field::named(name).unwrap());
    for (name, expected) in [
        ("geoip2_city", "Berlin"),
        ("geoip2_city_geoname_id", "2950159"),
        ("geoip2_city_country_code", "DE"),
        ("geoip2_city_country_name", "Germany"),
        ("geoip2_city_country_geoname_id", "2921044"),
        ("geoip2_city_continent_code", "EU"),
        ("geoip2_city_continent_name", "Europe"),
        ("geoip2_postal_code", "10115"),
        ("geoip2_dma_code", "5"),
        ("geoip2_latitude", "52.52440"),
        ("geoip2_longitude", "-13.41000"),
        ("geoip2_time_zone", "Europe/Berlin"),
        ("geoip2_region_code", "BE"),
        ("geoip2_region_name", "State of Berlin"),
        ("geoip2_region_geoname_id", "2950157"),
        ("geoip2_subregion_code", "M"),
        ("geoip2_subregion_name", "Mitte"),
        ("geoip2_subregion_geoname_id", "7"),
        ("geoip2_country_code", "DE"),
        ("geoip2_country_name", "Germany"),
        ("geoip2_country_geoname_id", "2921044"),
        ("geoip2_continent_code", "EU"),
        ("geoip2_continent_name", "Europe"),
        ("geoip2_continent_geoname_id", "6255148"),
    ] {
        assert_eq!(value(name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(value("geoip2_asn"), None, "no database has it");
    assert_eq!(databases.value(ip("192.0.3.7"), Field::City), None, "no record has the address");
    assert_eq!(databases.value(ip("2001:db8::1"), Field::City), None, "the record has no city");
    assert_eq!(databases.value(ip("::ffff:192.0.2.7"), Field::City).as_deref(), Some("Berlin"));
}

#[test]
fn countries_and_systems_come_from_the_databases_that_have_them() {
    let country = |code: &str| [("192.0.2.0/24", json!({ "country": { "iso_code": code } }))];
    let countries = read("GeoLite2-Country", "GeoLite2-Country", &country("AT"));
    let system = json!({ "autonomous_system_number": 64_496, "autonomous_system_organization": "Example" });
    let systems = read("GeoLite2-ASN", "GeoLite2-ASN", &[("192.0.2.0/25", system)]);
    let all = Databases::new([city(), countries, systems], 1);
    assert_eq!(all.coverage(), Coverage { countries: true, systems: true });
    assert_eq!(all.country(ip("192.0.2.1")), Ok(Country::of_code("AT")), "the one of countries is preferred");
    assert_eq!(all.value(ip("192.0.2.1"), Field::CityCountryCode).as_deref(), Some("DE"));
    assert_eq!(all.system(ip("192.0.2.1")), Ok(Some(64_496)));
    assert_eq!(all.value(ip("192.0.2.1"), Field::Org).as_deref(), Some("Example"));
    assert_eq!((all.system(ip("192.0.2.200")), all.country(ip("203.0.113.1"))), (Ok(None), Ok(None)));
    let cities = Databases::new([city()], 2);
    assert_eq!(cities.country(ip("192.0.2.1")), Ok(Country::of_code("DE")));
    assert_eq!(cities.system(ip("192.0.2.1")), Err(NoDatabase));
    assert_eq!(cities.country(ip("2001:db8::1")), Ok(Country::of_code("ZZ")), "newer than our table");
}

/// Countries and systems are found in a table of ranges, texts in the tree: both have to agree.
#[test]
fn ranges_and_the_tree_agree() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut networks = vec![("2002::/16".to_owned(), 3), ("::/96".to_owned(), 4)];
    for _ in 0..2000 {
        // Many are next to each other, or within others.
        let [a, b, c] = [random(4), random(256), random(256)];
        networks.push((format!("10.{a}.{b}.{c}/{}", 12 + random(21)), random(5)));
        networks.push((format!("2001:{a:x}:{b:x}:{c:x}::/{}", 20 + random(109)), random(5)));
    }
    let record = |number: u64| match geo::NAMES.get(number as usize) {
        _ if number == 0 => json!({}),
        Some((code, _)) => json!({ "country": { "iso_code": code }, "autonomous_system_number": number }),
        None => json!({}),
    };
    let networks: Vec<_> =
        networks.iter().map(|(network, number)| (network.as_str(), record(*number))).collect();
    let all = Databases::new(
        [
            read("GeoLite2-Country", "GeoLite2-Country", &networks),
            read("GeoLite2-ASN", "GeoLite2-ASN", &networks),
        ],
        1,
    );
    let mut found = 0;
    for _ in 0..20_000 {
        let [a, b, c, d] = [random(5), random(256), random(256), random(256)];
        for text in [
            format!("10.{a}.{b}.{c}"),
            format!("2001:{a:x}:{b:x}:{c:x}::{d:x}"),
            format!("2002:a{a:02x}:{b:02x}{c:02x}::{d:x}"),
            format!("::10.{a}.{b}.{c}"),
            format!("::ffff:10.{a}.{b}.{c}"),
        ] {
            let address = ip(&text);
            let country = all.country(address).unwrap();
            let code = country.map(|country| country.code().to_owned());
            assert_eq!(code.as_deref(), all.value(address, Field::CountryCode).as_deref(), "{text}");
            let system = all.system(address).unwrap().map(|number| number.to_string());
            assert_eq!(system.as_deref(), all.value(address, Field::Asn).as_deref(), "{text}");
            found += usize::from(country.is_some());
        }
    }
    assert!(found > 10_000, "{found}");
}

#[test]
fn of_two_editions_with_the_same_content_the_last_one_counts() {
    let of = |edition: &str, code: &str| {
        read(edition, edition, &[("0.0.0.0/0", json!({ "country": { "iso_code": code } }))])
    };
    let both = Databases::new([of("GeoLite2-Country", "AT"), of("GeoIP2-Country", "CH")], 1);
    assert_eq!(both.country(ip("192.0.2.1")), Ok(Country::of_code("CH")));
}

#[test]
fn networks_for_anonymity_have_a_default_where_a_record_lacks_them() {
    let record = json!({ "is_anonymous": true, "is_tor_exit_node": true });
    let anonymous = read("GeoIP2-Anonymous-IP", "GeoIP2-Anonymous-IP", &[("192.0.2.0/24", record)]);
    let kinds = read(
        "GeoIP2-Connection-Type",
        "GeoIP2-Connection-Type",
        &[("192.0.2.0/24", json!({ "connection_type": "Cable/DSL" }))],
    );
    let isp = json!({ "isp": "Provider", "organization": "User", "autonomous_system_number": 64_497 });
    let isps = read("GeoIP2-ISP", "GeoIP2-ISP", &[("192.0.2.0/24", isp)]);
    let databases = Databases::new([anonymous, kinds, isps], 1);
    let value = |address: &str, name: &str| databases.value(ip(address), Field::named(name).unwrap());
    for (name, inside, outside) in [
        ("geoip2_is_anon", Some("1"), None),
        ("geoip2_is_anonymous", Some("1"), Some("0")),
        ("geoip2_is_anonymous_vpn", Some("0"), Some("0")),
        ("geoip2_is_tor_exit_node", Some("1"), Some("0")),
        ("geoip2_connection_type", Some("Cable/DSL"), None),
        ("geoip2_isp", Some("Provider"), None),
        ("geoip2_isp_org", Some("User"), None),
        ("geoip2_asn", Some("64497"), None),
    ] {
        assert_eq!(value("192.0.2.1", name).as_deref(), inside, "{name}");
        assert_eq!(value("203.0.113.1", name).as_deref(), outside, "{name}");
    }
}

#[test]
fn damaged_files_and_those_of_other_contents_are_refused() {
    let edition = "GeoLite2-City".parse().unwrap();
    let whole =
        mmdb("GeoLite2-City", 0, &[("192.0.2.0/24", json!({ "city": { "names": { "en": "Berlin" } } }))]);
    let told = |bytes: Vec<u8>| Database::read(edition, bytes).unwrap_err().to_string();
    assert!(Database::read(edition, whole.clone()).is_ok());
    for length in [0, 10, whole.len() / 2, whole.len() - 40] {
        assert!(told(whole[..length].to_vec()).starts_with("it is not a whole database"), "{length}");
    }
    let other = mmdb("GeoLite2-ASN", 0, &[]);
    assert_eq!(told(other), "it is a database of type \"GeoLite2-ASN\"");
    assert!(Database::read(edition, mmdb("Our own", 0, &[])).is_ok(), "other publishers have other types");
}

/// No byte of a damaged file leads to a panic, whether or not the damage is found when it is read.
#[test]
fn a_look_up_in_any_damaged_database_ends() {
    let record = json!({ "country": { "iso_code": "DE", "names": { "en": "Germany" } } });
    let whole = mmdb("GeoLite2-Country", 0, &[("192.0.2.0/24", record), ("2001:db8::/32", json!({}))]);
    let mut read = 0;
    for at in 0..whole.len() {
        for byte in [0, 0x20, 0x7f, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            let Ok(database) = Database::read("GeoLite2-Country".parse().unwrap(), damaged) else { continue };
            read += 1;
            let databases = Databases::new([Arc::new(database)], 1);
            for address in ["192.0.2.1", "2001:db8::1", "::"] {
                let _ = databases.country(ip(address));
                let _ = databases.value(ip(address), Field::CountryName);
            }
        }
    }
    assert!(read > 0);
}
