//! One database in memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use maxminddb::{LookupResult, MaxMindDbError, Reader, WithinOptions};

use crate::country::Country;
use crate::edition::{Edition, Kind};
use crate::field::Field;
use crate::known::Known;
use crate::ranges::{Builder, Ranges};
use crate::record;
use crate::tree::Tree;

/// A database whose structure has been verified. It is in memory and not mapped from its file: a file that is
/// replaced or cut short in place would end the process with a signal at the next look-up.
pub struct Database {
    edition: Edition,
    build_epoch: u64,
    bytes: Box<[u8]>,
    tree: Tree,
    /// Positions of texts that were looked up.
    known: Known,
    /// The countries of addresses, to be found faster than in the tree; none in a database without them, or
    /// with a tree of an unusual form.
    countries: Option<Ranges<Country>>,
    /// The autonomous systems of addresses, in the same way.
    systems: Option<Ranges<u32>>,
}

type Record<'a> = LookupResult<'a, &'a [u8]>;

/// The bytes are not a database of the edition.
#[derive(Debug, thiserror::Error)]
pub enum InvalidDatabase {
    /// The bytes are not in the format of `MaxMind`, or are damaged.
    #[error("it is not a whole database in MaxMind's format: {0}")]
    Format(#[from] MaxMindDbError),
    /// The tree has a form that the format does not have.
    #[error("it is not a whole database in MaxMind's format: its tree has another form")]
    Tree,
    /// The database has other contents.
    #[error("it is a database of type {0:?}")]
    Type(String),
}

impl Database {
    /// Reads a database, and verifies all of its tree and records.
    ///
    /// # Errors
    ///
    /// The bytes are no database, are damaged, or are a database with other contents.
    pub fn read(edition: Edition, bytes: Vec<u8>) -> Result<Self, InvalidDatabase> {
        let bytes = bytes.into_boxed_slice();
        let reader = Reader::from_source(&*bytes)?;
        reader.verify()?;
        let metadata = reader.metadata();
        let database_type = &metadata.database_type;
        if !has_content(database_type, edition.kind) {
            return Err(InvalidDatabase::Type(database_type.clone()));
        }
        let tree = Tree::of(metadata, &bytes).ok_or(InvalidDatabase::Tree)?;
        let has = |field: Field| field.kinds().contains(&edition.kind);
        let countries = has(Field::CountryCode).then(|| ranges(&reader, country_of)).flatten();
        let systems = has(Field::Asn).then(|| ranges(&reader, system_of)).flatten();
        let build_epoch = metadata.build_epoch;
        let known = Known::of(bytes.len());
        Ok(Self { edition, build_epoch, bytes, tree, known, countries, systems })
    }

    /// The edition that the database was read as.
    pub fn edition(&self) -> Edition {
        self.edition
    }

    /// The time at which the publisher made the database, in seconds since the epoch.
    pub fn build_epoch(&self) -> u64 {
        self.build_epoch
    }

    /// Bytes of memory that the database takes.
    pub fn bytes(&self) -> usize {
        let ranges = self.countries.as_ref().map_or(0, Ranges::bytes);
        let ranges = ranges + self.systems.as_ref().map_or(0, Ranges::bytes);
        self.bytes.len() + self.tree.table_bytes() + self.known.bytes() + ranges
    }

    /// The country of an address; none if the database has none for it.
    pub(crate) fn country(&self, address: IpAddr) -> Option<Country> {
        match &self.countries {
            Some(countries) if !is_alias(address) => countries.get(address),
            _ => Country::of_code(&self.value(address, Field::CountryCode)?),
        }
    }

    /// The number of the autonomous system of an address; none if the database has none for it.
    pub(crate) fn system(&self, address: IpAddr) -> Option<u32> {
        match &self.systems {
            Some(systems) if !is_alias(address) => systems.get(address),
            _ => self.value(address, Field::Asn)?.parse().ok(),
        }
    }

    /// The value of a field; none if the database has none for the address.
    pub(crate) fn value(&self, address: IpAddr, field: Field) -> Option<Cow<'_, str>> {
        let record = self.tree.find(&self.bytes, address)?;
        let data = self.bytes.get(self.tree.data_start()..)?;
        // Records with positions beyond 4 GiB are looked up each time.
        let number = u32::try_from(record).ok();
        let known = number.and_then(|number| self.known.get(field, number));
        let position = known.unwrap_or_else(|| {
            let found = record::find(data, record, field.path());
            if let Some(number) = number {
                self.known.keep(field, number, found);
            }
            found
        });
        record::text(data, position?)
    }
}

fn country_of(record: &Record<'_>) -> Option<Country> {
    let code: &str = record.decode_path(Field::CountryCode.path()).ok()??;
    Country::of_code(code)
}

fn system_of(record: &Record<'_>) -> Option<u32> {
    record.decode_path(Field::Asn.path()).ok()?
}

/// The values of all networks; none where the tree has a form that ranges cannot show.
fn ranges<T: Copy + PartialEq>(
    reader: &Reader<&[u8]>,
    value_of: impl Fn(&Record<'_>) -> Option<T>,
) -> Option<Ranges<T>> {
    let mut known: HashMap<usize, Option<T>> = HashMap::new();
    let mut builder = Builder::new();
    for record in reader.networks(WithinOptions::default()).ok()? {
        let record = record.ok()?;
        let value = *known.entry(record.offset()?).or_insert_with(|| value_of(&record));
        let network = record.network().ok()?;
        // The addresses of IPv4 are in `::/96`: a larger network would have to be in both parts.
        let holds_ipv4 = network.ip().is_ipv6() && network.ip().is_unspecified() && network.prefix() <= 96;
        if holds_ipv4 || !builder.add(network.ip(), network.prefix(), value) {
            return None;
        }
    }
    Some(builder.finish())
}

/// Whether an address of IPv6 may stand for one of IPv4 (`::/96`, 6to4, Teredo), which only the tree knows.
fn is_alias(address: IpAddr) -> bool {
    let IpAddr::V6(address) = address else { return false };
    matches!(address.segments(), [0 | 0x2002, ..] | [0x2001, 0, ..] | [0x64, 0xff9b, ..])
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, {} bytes", self.edition, self.build_epoch, self.bytes())
    }
}

/// Whether databases of this type have the contents. Files are often made by other publishers, whose types
/// are not those of `MaxMind`: only a type that says another content is refused.
fn has_content(database_type: &str, kind: Kind) -> bool {
    let says = |name: &str| database_type.contains(name);
    let kinds: &[(&str, &[Kind])] = &[
        ("City", &[Kind::City, Kind::Country]),
        ("Enterprise", &[Kind::City, Kind::Country]),
        ("Country", &[Kind::Country]),
        ("ASN", &[Kind::Asn]),
        ("ISP", &[Kind::Isp, Kind::Asn]),
        ("Anonymous-IP", &[Kind::Anonymous]),
        ("Connection-Type", &[Kind::ConnectionType]),
        ("Domain", &[Kind::Domain]),
    ];
    kinds.iter().find(|(name, _)| says(name)).is_none_or(|(_, has)| has.contains(&kind))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::field::FIELDS;

    /// The text of a value in the form of variables.
    fn text(value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(value) => Some(u8::from(*value).to_string()),
            Value::Number(number) if number.is_f64() => Some(format!("{:.5}", number.as_f64()?)),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Texts are read by our own code, and databases are verified by `maxminddb`: both have to agree.
    #[test]
    fn texts_are_those_of_the_reader() {
        let names = |number: u32| json!({ "de": format!("Stadt {number}"), "en": format!("City {number}") });
        let record = |number: u32| {
            let country = json!({ "geoname_id": number, "iso_code": "DE", "names": names(number % 7) });
            match number % 4 {
                0 => {
                    json!({ "city": { "geoname_id": number << 8, "names": names(number) }, "country": country })
                }
                1 => {
                    json!({ "country": country, "location": { "latitude": f64::from(number) / 7.0, "metro_code": number } })
                }
                2 => json!({ "city": "no map", "postal": { "code": "x".repeat(number as usize % 400) } }),
                _ => {
                    json!({ "subdivisions": [{ "iso_code": "BE" }, { "names": names(number) }], "country": [country] })
                }
            }
        };
        let networks: Vec<_> = (0..2000_u32)
            .map(|number| match number % 3 {
                0 => (format!("10.{}.{}.0/24", number >> 8, number & 255), record(number)),
                1 => (format!("20.{}.0.0/{}", number & 255, 9 + number % 24), record(number)),
                _ => (format!("2001:{number:x}::/{}", 20 + number % 60), record(number)),
            })
            .collect();
        let networks: Vec<_> =
            networks.iter().map(|(name, record)| (name.as_str(), record.clone())).collect();
        let bytes = testkit::mmdb("GeoLite2-City", 0, &networks);
        let reader = Reader::from_source(bytes.clone()).unwrap();
        let database = Database::read("GeoLite2-City".parse().unwrap(), bytes).unwrap();
        let mut found = 0;
        for number in 0..2000_u32 {
            for address in [
                format!("10.{}.{}.9", number >> 8, number & 255),
                format!("20.{}.{}.1", number & 255, number % 9),
                format!("2001:{number:x}::{number:x}"),
                format!("2002:0a{:02x}:{:02x}00::", number >> 8, number & 255),
            ] {
                let address: IpAddr = address.parse().unwrap();
                for field in FIELDS.iter().filter_map(|(name, _)| Field::named(name)) {
                    let record = reader.lookup(address).unwrap();
                    let expected: Option<Value> = record.decode_path(field.path()).ok().flatten();
                    let expected = expected.as_ref().and_then(text);
                    let value = database.value(address, field);
                    assert_eq!(value.as_deref(), expected.as_deref(), "{} of {address}", field.name());
                    found += usize::from(expected.is_some());
                }
            }
        }
        assert!(found > 10_000, "{found}");
    }
}
