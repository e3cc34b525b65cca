//! HTTP/1 as an adversary sees it: requests in which two readers may see different boundaries, an endpoint that writes down
//! what it gets, and strict readers of both directions.
//!
//! Must not be in here: the proxy's parser, by which it would judge itself.

pub mod answer;
pub mod generator;
pub mod recorder;
pub mod strict;
