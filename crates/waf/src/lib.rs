//! A web application firewall: rules in SecLang, ModSecurity's language, compiled once to typed steps.
//!
//! A transaction is given a request head, a body, a response head and its body, and returns verdicts.
//!
//! Never in here: sockets, clocks, threads, files, HTTP parsing. Time, randomness and the content of files
//! are arguments.

pub mod body;
mod collections;
mod compile;
mod engine;
mod exchange;
mod exclusion;
pub mod inject;
mod limits;
mod operators;
mod prefilter;
pub mod report;
mod rule;
mod rules;
pub mod seclang;
pub mod settings;
mod tables;
mod template;
pub mod transform;
mod triggers;
mod variables;

pub use collections::Collections;
pub use compile::{ACTIONS, ActionEntry};
pub use engine::{Connection, RequestLine, Transaction};
pub use exchange::{Exchange, Header, Outcome, Response};
pub use exclusion::{ExcludedPath, Exclusion};
pub use limits::VALUE_BYTES_MAX;
pub use operators::{Entry as OperatorEntry, OPERATORS};
pub use report::{AuditBody, Match, MatchedVariable, Report, Verdict};
pub use rule::Mask;
pub use rules::{Around, Inside, Rules};
pub use seclang::{DIRECTIVES, DirectiveEntry, Files, NoFiles, Problem, Source};
pub use settings::Settings;
pub use variables::{Entry as VariableEntry, Shape, VARIABLES, Variable};
