//! Defences against clients with unusual behaviour: abuse detection, slow-client limits, bounds on
//! connections. Must not be in here: how a client is detected.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::AddressSet;
use crate::overload::Mode;
use crate::template::Template;

/// Abuse detection for a route: its mode, and how clients are identified. With mode off clients are not
/// counted; with watch unusual clients are detected and reported; with enforce their requests are slowed and
/// then refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Abuse {
    /// Whether anything is done.
    pub mode: Mode,
    /// The value that identifies a client; none to use its address.
    pub key: Option<Arc<AbuseKey>>,
}

/// A value of the request that identifies a client in place of its address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbuseKey {
    /// The value. A request whose value is empty is counted for the client's address.
    pub template: Template,
    /// Values are compared within one zone only, so that a client cannot have somebody else refused by
    /// sending the same value to another owner's hosts.
    pub zone: u64,
}

/// Clients whose behaviour is far off the others', for the proxy as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AbuseSettings {
    /// For connections, and for requests that no route takes; routes have their own.
    pub general: Abuse,
    /// Clients that are neither counted nor refused.
    pub allowed: Option<Arc<AddressSet>>,
}

/// A least rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MinRate {
    /// Bytes a second.
    pub bytes: NonZeroU32,
    /// Time at the start of a request during which the client may be slower than the rate.
    pub grace: Duration,
}

/// How slow clients may be, and how many connections there may be. Where there is none of them, nginx's
/// timeouts are all there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientBounds {
    /// Of a request's head and body.
    pub send_rate_min: Option<MinRate>,
    /// Lowest rate at which a client has to read a response.
    pub read_rate_min: Option<MinRate>,
    /// Connections of one client, all workers together.
    pub connections_per_client: Option<NonZeroU32>,
    /// Connections of all clients and all workers together. The limit on file descriptors applies in any
    /// case.
    pub connections: Option<NonZeroU32>,
}
