//! Everything at once for a long time: clients of all protocols and bad ones, endpoints that come, go, hang
//! and reset, changes of the configuration, services that go away, shortages, kills and restarts. Each answer
//! and each record of the access log is checked.
//!
//! It all happens in network namespaces of its own, and follows from a seed, so that a run can be repeated;
//! the moments at which the kernel and the processes do things differ. Must not be in here: code of the
//! proxy, which would then judge itself; bounds on times, which a busy machine would break.

mod api_server;
mod ask;
mod audit;
mod beacon;
mod changes;
mod clients;
mod clock;
mod content;
mod disturb;
mod effect;
mod endpoints;
mod exchange;
mod http3;
mod judge;
mod ledger;
mod lock;
mod memory;
mod names;
mod objects;
mod options;
mod parts;
mod process;
mod quiet;
mod report;
mod rude;
mod run;
mod samples;
mod schedule;
mod shared;
mod slope;
mod streams;
mod switch;
mod windows;

pub use run::main;
