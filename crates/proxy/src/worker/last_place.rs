//! The last values that a worker has looked up in the databases of addresses: the texts of one request ask
//! for several values of one address.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use geo::{Country, Databases, Field, NoDatabase};

/// The values of one address, from the databases that were loaded at one time.
#[derive(Debug)]
pub(crate) struct LastPlace(RefCell<Known>);

#[derive(Debug)]
struct Known {
    /// The number of the databases.
    serial: u64,
    client: IpAddr,
    country: Option<Found<Country>>,
    system: Option<Found<u32>>,
    values: Vec<(Field, Option<Box<[u8]>>)>,
}

/// The value that a database has for the address, if it has one.
#[derive(Clone, Copy, Debug)]
struct Found<T>(Option<T>);

impl Default for LastPlace {
    fn default() -> Self {
        let client = Ipv4Addr::UNSPECIFIED.into();
        Self(RefCell::new(Known { serial: 0, client, country: None, system: None, values: Vec::new() }))
    }
}

impl Known {
    /// Forgets everything about another address, or from other databases.
    fn turn_to(&mut self, serial: u64, client: IpAddr) {
        if self.serial != serial || self.client != client {
            self.values.clear();
            (self.serial, self.client, self.country, self.system) = (serial, client, None, None);
        }
    }
}

impl LastPlace {
    /// The country of a client; none if the database has none for its address.
    pub(crate) fn country(
        &self,
        databases: &Databases,
        client: IpAddr,
    ) -> Result<Option<Country>, NoDatabase> {
        let known = &mut *self.0.borrow_mut();
        known.turn_to(databases.serial(), client);
        match known.country {
            Some(country) => Ok(country.0),
            None => Ok(known.country.insert(Found(databases.country(client)?)).0),
        }
    }

    /// The autonomous system of a client; none if the database has none for its address.
    pub(crate) fn system(&self, databases: &Databases, client: IpAddr) -> Result<Option<u32>, NoDatabase> {
        let known = &mut *self.0.borrow_mut();
        known.turn_to(databases.serial(), client);
        match known.system {
            Some(system) => Ok(system.0),
            None => Ok(known.system.insert(Found(databases.system(client)?)).0),
        }
    }

    /// The text of a field; none if no database has one for the client's address.
    pub(crate) fn value(&self, databases: &Databases, client: IpAddr, field: Field) -> Option<Box<[u8]>> {
        let known = &mut *self.0.borrow_mut();
        known.turn_to(databases.serial(), client);
        if let Some((_, value)) = known.values.iter().find(|(one, _)| *one == field) {
            return value.clone();
        }
        let found = databases.value(client, field);
        let value: Option<Box<[u8]>> = found.map(|text| text.as_bytes().into());
        known.values.push((field, value.clone()));
        value
    }
}
