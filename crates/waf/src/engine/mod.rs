//! A transaction: one exchange, from the request's head to the end of the response, and the verdicts of its
//! rules.
//!
//! Never in here: sockets, clocks, parsing of HTTP.

mod apply;
mod audit;
mod computed;
mod groups;
mod named;
mod request;
mod response;
mod run;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod texts;
mod values;

pub use request::RequestLine;

use std::net::SocketAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::body::Parser;
use crate::collections::{Collections, Key};
use crate::report::{Report, Verdict};
use crate::rule::{Allow, Choice, RemovedTargets};
use crate::rules::Rules;
use crate::settings::{AuditMode, Mode};
use groups::GroupCache;
use named::Tx;
use store::Store;
use values::Matched;

/// The facts about an exchange that are known before its request.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The address and port of the client.
    pub client: SocketAddr,
    /// The address that the client connected to.
    pub server: SocketAddr,
    /// The id of the exchange, for `UNIQUE_ID`.
    pub unique_id: String,
    /// The time at the beginning, in microseconds since 1970.
    pub unix_time: u64,
    /// A random number: it keeps clients from choosing names that collide in maps.
    pub seed: u64,
}

/// One exchange under the eyes of a rule set.
pub struct Transaction {
    rules: Arc<Rules>,
    collections: Arc<Collections>,
    connection: Connection,
    /// Microseconds since 1970, at the last step that brought the time.
    now: u64,
    store: Store,
    tx: Tx,
    groups: GroupCache,
    mode: Mode,
    reads_request_body: bool,
    reads_response_body: bool,
    request_body_bytes_max: usize,
    response_body_bytes_max: usize,
    audit_mode: AuditMode,
    phase: u8,
    allowed: Option<Allow>,
    verdict: Verdict,
    /// Rules that `ctl` has removed.
    removed_rules: Vec<Arc<Choice>>,
    /// Targets that `ctl` has removed.
    removed_targets: Vec<Arc<RemovedTargets>>,
    /// The values that the current chain has matched.
    matched: Vec<Matched>,
    last_match: Option<Matched>,
    /// The place of the current rule among the items of the set.
    rule: Option<u32>,
    attached: SmallVec<[Key; 2]>,
    parser: Option<Parser>,
    /// The body for `REQUEST_BODY`, while it comes.
    request_body: Vec<u8>,
    response_body: Vec<u8>,
    report: Report,
    scratch: Vec<values::Item>,
}

impl Transaction {
    /// Begins an exchange.
    pub fn new(rules: Arc<Rules>, collections: Arc<Collections>, connection: Connection) -> Transaction {
        let settings = rules.settings();
        Transaction {
            now: connection.unix_time,
            store: Store::new(connection.seed),
            tx: Tx::new(rules.names(), connection.seed),
            groups: GroupCache::new(rules.groups().len()),
            mode: settings.mode,
            reads_request_body: settings.request_body,
            reads_response_body: settings.response_body,
            request_body_bytes_max: settings.request_body_bytes_max,
            response_body_bytes_max: settings.response_body_bytes_max,
            audit_mode: settings.audit.mode,
            phase: 0,
            allowed: None,
            verdict: Verdict::Pass,
            removed_rules: Vec::new(),
            removed_targets: Vec::new(),
            matched: Vec::new(),
            last_match: None,
            rule: None,
            attached: SmallVec::new(),
            parser: None,
            request_body: Vec::new(),
            response_body: Vec::new(),
            report: Report {
                audit_parts: settings.audit.parts.clone(),
                highest_severity: 255,
                ..Report::default()
            },
            scratch: Vec::new(),
            collections,
            connection,
            rules,
        }
    }

    /// Tells the time, in microseconds since 1970, for `DURATION` and the ends of persistent values.
    pub fn set_time(&mut self, unix_time: u64) {
        self.now = unix_time;
    }

    /// Whether rules run and may stop the exchange, as `SecRuleEngine` and `ctl:ruleEngine` say.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The verdict so far.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// True if the rules took too much work: no further one runs, and the exchange is refused unless rules
    /// only detect.
    pub fn is_exhausted(&self) -> bool {
        self.store.texts.exhausted
    }

    /// Runs the last phase, and says what happened.
    pub fn finish(mut self) -> Report {
        self.run(5);
        self.summarize()
    }

    /// The time in seconds since 1970.
    fn seconds(&self) -> u64 {
        self.now / 1_000_000
    }
}
