//! Databases that say where an address is and whose it is, in the format of `MaxMind`: read, and their values
//! by name.
//!
//! Never in here: sockets, clocks, threads, files.

mod countries;
mod country;
mod database;
mod databases;
mod edition;
mod field;
mod ranges;
mod systems;
mod value;

pub use countries::Countries;
pub use country::{Country, InvalidCountry, NAMES};
pub use database::{Database, InvalidDatabase};
pub use databases::{Coverage, Databases, NoDatabase};
pub use edition::{EDITIONS, Edition, Kind, UnknownEdition};
pub use field::{FIELDS, Field};
pub use systems::{InvalidSystem, Systems};
