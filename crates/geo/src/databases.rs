//! All loaded databases.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::country::Country;
use crate::database::Database;
use crate::edition::Kind;
use crate::field::Field;

/// The databases that are loaded at one time. Clones share them.
#[derive(Clone)]
pub struct Databases {
    all: Arc<[Arc<Database>]>,
    serial: u64,
}

/// No loaded database has values of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDatabase;

/// The questions that databases can answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coverage {
    /// A database has countries.
    pub countries: bool,
    /// A database has autonomous systems.
    pub systems: bool,
}

impl Databases {
    /// Databases with a number that no other databases of this process have.
    pub fn new(all: impl Into<Arc<[Arc<Database>]>>, serial: u64) -> Self {
        Self { all: all.into(), serial }
    }

    /// The number of the databases.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The single databases.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.all.iter()
    }

    /// The questions that the databases can answer.
    pub fn coverage(&self) -> Coverage {
        let has = |field: Field| self.with(field).is_some();
        Coverage { countries: has(Field::CountryCode), systems: has(Field::Asn) }
    }

    /// The country of an address; none if the database has none for it.
    ///
    /// # Errors
    ///
    /// No database has countries.
    pub fn country(&self, address: IpAddr) -> Result<Option<Country>, NoDatabase> {
        Ok(self.with(Field::CountryCode).ok_or(NoDatabase)?.country(address.to_canonical()))
    }

    /// The number of the autonomous system of an address; none if the database has none for it.
    ///
    /// # Errors
    ///
    /// No database has autonomous systems.
    pub fn system(&self, address: IpAddr) -> Result<Option<u32>, NoDatabase> {
        Ok(self.with(Field::Asn).ok_or(NoDatabase)?.system(address.to_canonical()))
    }

    /// The text of a field; none if no database has one for the address.
    pub fn value(&self, address: IpAddr, field: Field) -> Option<Cow<'_, str>> {
        let found = self.with(field)?.value(address.to_canonical(), field);
        found.or(field.default().map(Cow::Borrowed))
    }

    /// Whether this is the only owner of the databases, so that dropping it frees their memory.
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.all) == 1
    }

    /// The database that a field is taken from. Of several editions with the same content the last one
    /// counts, as in ingress-nginx.
    fn with(&self, field: Field) -> Option<&Database> {
        let of = |kind: &Kind| self.all.iter().rev().find(|one| one.edition().kind == *kind);
        field.kinds().iter().find_map(of).map(|found| &**found)
    }
}

/// Databases are equal if they were loaded at the same time.
impl PartialEq for Databases {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial && Arc::ptr_eq(&self.all, &other.all)
    }
}

impl Eq for Databases {}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter()).finish()
    }
}

/// As a list of editions with the times at which they were made.
impl Serialize for Databases {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.all.iter().map(|one| format!("{one:?}")))
    }
}
