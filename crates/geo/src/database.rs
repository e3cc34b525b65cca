//! One database in memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use maxminddb::{LookupResult, MaxMindDbError, Reader, WithinOptions};

use crate::country::Country;
use crate::edition::{Edition, Kind};
use crate::field::Field;
use crate::ranges::{Builder, Ranges};
use crate::value::Value;

/// A database whose structure has been verified. It is in memory and not mapped from its file: a file that is
/// replaced or cut short in place would end the process with a signal at the next look-up.
pub struct Database {
    edition: Edition,
    reader: Reader<Vec<u8>>,
    bytes: usize,
    /// The countries of addresses, to be found faster than in the tree; none in a database without them, or
    /// with a tree of an unusual form.
    countries: Option<Ranges<Country>>,
    /// The autonomous systems of addresses, in the same way.
    systems: Option<Ranges<u32>>,
}

type Record<'a> = LookupResult<'a, Vec<u8>>;

/// The bytes are not a database of the edition.
#[derive(Debug, thiserror::Error)]
pub enum InvalidDatabase {
    /// The bytes are not in the format of `MaxMind`, or are damaged.
    #[error("it is not a whole database in MaxMind's format: {0}")]
    Format(#[from] MaxMindDbError),
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
        let size = bytes.len();
        let reader = Reader::from_source(bytes)?;
        reader.verify()?;
        let database_type = &reader.metadata().database_type;
        if !has_content(database_type, edition.kind) {
            return Err(InvalidDatabase::Type(database_type.clone()));
        }
        let has = |field: Field| field.kinds().contains(&edition.kind);
        let countries = has(Field::CountryCode).then(|| ranges(&reader, country_of)).flatten();
        let systems = has(Field::Asn).then(|| ranges(&reader, system_of)).flatten();
        let bytes =
            size + countries.as_ref().map_or(0, Ranges::bytes) + systems.as_ref().map_or(0, Ranges::bytes);
        Ok(Self { edition, reader, bytes, countries, systems })
    }

    /// The edition that the database was read as.
    pub fn edition(&self) -> Edition {
        self.edition
    }

    /// The time at which the publisher made the database, in seconds since the epoch.
    pub fn build_epoch(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Bytes of memory that the database takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The country of an address; none if the database has none for it.
    pub(crate) fn country(&self, address: IpAddr) -> Option<Country> {
        match &self.countries {
            Some(countries) if !is_alias(address) => countries.get(address),
            _ => country_of(&self.reader.lookup(address).ok()?),
        }
    }

    /// The number of the autonomous system of an address; none if the database has none for it.
    pub(crate) fn system(&self, address: IpAddr) -> Option<u32> {
        match &self.systems {
            Some(systems) if !is_alias(address) => systems.get(address),
            _ => system_of(&self.reader.lookup(address).ok()?),
        }
    }

    /// The value of a field; none if the database has none for the address.
    pub(crate) fn value(&self, address: IpAddr, field: Field) -> Option<Cow<'_, str>> {
        let record = self.reader.lookup(address).ok()?;
        record.decode_path::<Value<'_>>(field.path()).ok()?.map(|value| value.0)
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
    reader: &Reader<Vec<u8>>,
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
        write!(f, "{} of {}, {} bytes", self.edition, self.build_epoch(), self.bytes)
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
