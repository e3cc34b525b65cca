//! HTTP/1 from an adversary's view: requests in which two readers may see different boundaries, an endpoint
//! that records requests, and strict readers of both directions.
//!
//! Must not be in here: the proxy's parser, which would then judge itself.

pub mod answer;
pub mod generator;
pub mod recorder;
pub mod strict;
