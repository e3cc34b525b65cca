//! One database in memory.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use maxminddb::{MaxMindDbError, Reader};

use crate::country::Country;
use crate::edition::{Edition, Kind};
use crate::field::Field;
use crate::value::Value;

/// A database whose structure has been verified. It is in memory and not mapped from its file: a file that is
/// replaced or cut short in place would end the process with a signal at the next look-up.
pub struct Database {
    edition: Edition,
    reader: Reader<Vec<u8>>,
    bytes: usize,
}

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
        Ok(Self { edition, reader, bytes: size })
    }

    /// The edition that the database was read as.
    pub fn edition(&self) -> Edition {
        self.edition
    }

    /// The time at which the publisher made the database, in seconds since the epoch.
    pub fn build_epoch(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Size of the database.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The country of an address; none if the database has none for it.
    pub(crate) fn country(&self, address: IpAddr) -> Option<Country> {
        let record = self.reader.lookup(address).ok()?;
        let code: &str = record.decode_path(Field::CountryCode.path()).ok()??;
        Country::of_code(code)
    }

    /// The number of the autonomous system of an address; none if the database has none for it.
    pub(crate) fn system(&self, address: IpAddr) -> Option<u32> {
        self.reader.lookup(address).ok()?.decode_path(Field::Asn.path()).ok()?
    }

    /// The value of a field; none if the database has none for the address.
    pub(crate) fn value(&self, address: IpAddr, field: Field) -> Option<Cow<'_, str>> {
        let record = self.reader.lookup(address).ok()?;
        record.decode_path::<Value<'_>>(field.path()).ok()?.map(|value| value.0)
    }
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
