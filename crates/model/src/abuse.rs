//! Clients that behave far off the others, slow ones, and how many connections there may be. Must not be in here: how they are told apart.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::AddressSet;
use crate::overload::Mode;
use crate::template::Template;

/// What is done about clients whose behaviour is far off the others', and who a client is. Where the mode is off they are not counted; where it
/// is watch they are found and told of; where it is enforce they are slowed, and then refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abuse {
    /// Whether anything is done.
    pub mode: Mode,
    /// What tells clients apart; none for their addresses.
    pub key: Option<Arc<AbuseKey>>,
}

/// A value of requests that tells clients apart, in place of their addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbuseKey {
    /// The value. A request for which it comes to nothing is its address's.
    pub template: Template,
    /// Values are compared with those of the same zone alone: nobody has somebody else refused by saying the same to another owner's hosts.
    pub zone: u64,
}

/// Clients whose behaviour is far off the others', for the proxy as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbuseSettings {
    /// For connections, and for requests that no route takes; routes have their own.
    pub general: Abuse,
    /// Clients that are neither counted nor refused.
    pub allowed: Option<Arc<AddressSet>>,
}

/// A least rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinRate {
    /// Bytes a second.
    pub bytes: NonZeroU32,
    /// Time for which a client may be slower at first.
    pub grace: Duration,
}

/// How slow clients may be, and how many connections there may be. Where there is none of them, nginx's timeouts are all there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientBounds {
    /// Of a request's head and body.
    pub send_rate_min: Option<MinRate>,
    /// At which a client has to take a response.
    pub read_rate_min: Option<MinRate>,
    /// Connections of one client, all workers together.
    pub connections_per_client: Option<NonZeroU32>,
    /// Connections of all clients, all workers together. What the descriptors leave room for is the bound in any case.
    pub connections: Option<NonZeroU32>,
}
