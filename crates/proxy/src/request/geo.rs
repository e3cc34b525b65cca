//! The place of a client, by the databases of the request's configuration. A request that does not ask for it
//! pays nothing.

use ::geo::{Country, Field, NoDatabase};

use crate::request::Request;

/// The country of the client; none if the database has none for its address.
pub(crate) fn country(request: &Request<'_>) -> Result<Option<Country>, NoDatabase> {
    let databases = request.config.settings().databases.as_ref().ok_or(NoDatabase)?;
    request.worker.last_place.country(databases, request.forwarded.client)
}

/// The autonomous system of the client; none if the database has none for its address.
pub(crate) fn system(request: &Request<'_>) -> Result<Option<u32>, NoDatabase> {
    let databases = request.config.settings().databases.as_ref().ok_or(NoDatabase)?;
    request.worker.last_place.system(databases, request.forwarded.client)
}

/// The text of a variable; none if no database has one for the client's address.
pub(crate) fn value(request: &Request<'_>, field: Field) -> Option<Box<[u8]>> {
    let databases = request.config.settings().databases.as_ref()?;
    request.worker.last_place.value(databases, request.forwarded.client, field)
}
