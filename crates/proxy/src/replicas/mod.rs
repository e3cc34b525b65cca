//! The other replicas of this Forebay: who they are, how they know each other, and what they tell each other.
//!
//! ```text
//! members   who they are: a list of addresses, and the home of a key among them
//! peers     the secret that all of them have, and who has failed a moment ago
//! mark      the header by which one knows the request of another
//! used_marks  how often a mark has counted
//! guest     a request that another sends for what has its home here
//! forget    what others are to forget: keys after a change, purges
//! tell      a worker tells it to all others
//! announce  the same from outside the workers
//! counts    what they tell each other of requests that they count together, as datagrams; tell_counts sends and receives them
//! ```
//!
//! Never in here: the way of a request, which is `serve`'s, and what is kept, which is `cache`'s.

mod announce;
mod counts;
mod forget;
mod guest;
mod mark;
mod members;
mod peers;
mod tell;
mod tell_counts;
mod used_marks;

pub(crate) use announce::Announcer;
pub use announce::Elsewhere;
pub(crate) use counts::CountExchange;
pub(crate) use forget::{Order, read as read_orders};
pub(crate) use guest::{Ask, Guest};
pub(crate) use mark::{Kind, NAME, NAME_LOWER, add as add_mark, read as read_mark};
pub use members::addresses as other_replicas;
pub(crate) use members::{home, is_other};
pub(crate) use peers::Peers;
pub use peers::ReplicaSecret;
pub(crate) use tell::tell;
pub(crate) use tell_counts::{CountParts, CountThread};
