//! The other replicas of this Forebay: their addresses, how they authenticate each other, and what they
//! exchange.
//!
//! ```text
//! members   the list of addresses, and the home of a key among them
//! peers     the secret that all of them share, and the ones that failed recently
//! mark      the header by which one recognises the request of another
//! used_marks  how often a mark has been used
//! peer_request  a request that another replica sends for an object whose home is here
//! forget    orders to forget: keys after a change, purges
//! tell      a worker sends orders to all others
//! sign_ins  messages about sessions of people who have signed in
//! checks    reports about endpoints, so that each is checked by one replica
//! stops     stops of canaries
//! announce  purges from outside the workers, sent by one of them
//! ```
//!
//! Never in here: the path of a request, which is `drive::serve`'s, and cached responses, which are
//! `store`'s.

mod announce;
mod checks;
mod forget;
mod mark;
mod members;
mod peer_request;
mod peers;
mod sign_ins;
mod stops;
mod tell;
mod used_marks;

pub use announce::Elsewhere;
pub(crate) use announce::{Announcement, Announcer, announce};
pub(crate) use checks::{members as checking_members, read_reports, report_checks};
pub(crate) use forget::{Order, read as read_orders};
pub(crate) use mark::{Kind, NAME, NAME_LOWER, add as add_mark, read as read_mark};
pub use members::addresses as other_replicas;
pub(crate) use members::{home, is_other, listed as listed_replicas};
pub(crate) use peer_request::{NO_ANSWER, PeerFetch, PeerRequest};
pub(crate) use peers::Peers;
pub use peers::ReplicaSecret;
pub(crate) use sign_ins::{renew_at_home, tell_sign_in};
pub(crate) use stops::{read_stops, tell_stops};
pub(crate) use tell::tell;
