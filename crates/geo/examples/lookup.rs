//! Measures look-ups in a database of many networks: `cargo run --release --example lookup`.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use geo::{Database, Databases, Field};
use serde_json::json;
use testkit::mmdb;

/// Networks of the database: one of 256 addresses in each of as many of 4096.
const NETWORKS: u32 = 200_000;

/// Look-ups of each kind.
const LOOKUPS: u32 = 5_000_000;

fn main() {
    let names: Vec<String> = (0..NETWORKS).map(|number| format!("{}/24", address(number))).collect();
    let record = |number: usize| {
        let code = geo::NAMES[number % geo::NAMES.len()];
        json!({
            "city": { "geoname_id": number, "names": { "en": format!("City {number}") } },
            "continent": { "code": "EU", "names": { "en": "Europe" } },
            "country": { "geoname_id": number % 250, "iso_code": code.0, "names": { "en": code.1 } },
            "location": { "latitude": 1.5, "longitude": 2.5, "time_zone": "Europe/Berlin" },
        })
    };
    let networks: Vec<_> = names.iter().enumerate().map(|(at, name)| (name.as_str(), record(at))).collect();
    let bytes = mmdb("GeoLite2-City", 0, &networks);
    let size = bytes.len() >> 20;
    let begin = Instant::now();
    let database = Database::read("GeoLite2-City".parse().expect("an edition"), bytes).expect("a database");
    println!("{size} MiB, {NETWORKS} networks, read and verified in {:?}", begin.elapsed());
    let databases = Databases::new([Arc::new(database)], 1);
    for clients in [1, 10_000, NETWORKS] {
        println!("addresses of {clients} networks:");
        measure("country", clients, |ip| databases.country(ip).is_ok_and(|found| found.is_some()));
        measure("$geoip2_city_country_code", clients, |ip| {
            databases.value(ip, Field::CityCountryCode).is_some()
        });
        measure("$geoip2_city", clients, |ip| databases.value(ip, Field::City).is_some());
    }
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(number << 12)
}

/// Looks up addresses in an order that no cache of the processor foresees.
fn measure(what: &str, clients: u32, look_up: impl Fn(IpAddr) -> bool) {
    let mut number: u32 = 1;
    let mut found = 0;
    let begin = cpu_time();
    for _ in 0..LOOKUPS {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let client = (u64::from(number) * u64::from(clients)) >> 32;
        found += u32::from(look_up(black_box(address(client as u32).into())));
    }
    let each = cpu_time().saturating_sub(begin) / LOOKUPS;
    println!("  {what}: {each:?} of CPU time each, {found} of {LOOKUPS} found");
}

/// The CPU time of this thread, which other processes lengthen less than the time of the clock
/// (`/proc/thread-self/schedstat`).
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = text.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.expect("it begins with the time"))
}
