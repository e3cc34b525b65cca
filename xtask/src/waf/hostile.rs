//! `cargo xtask waf --hostile`: requests that are meant to cost much, and large ones that people send, played
//! to the core rules at the paranoia levels that are in wide use.
//!
//! Must not be in here: the requests, which a test of the firewall plays to rules of its own, too.

#[path = "../../../crates/waf/tests/hostile/corpus.rs"]
mod corpus;

use std::path::Path;
use std::sync::Arc;

use ::waf::{Collections, Connection, Report, RequestLine, Rules, Transaction};
use anyhow::{Result, ensure};

use corpus::Case;

/// The paranoia levels that are played.
const LEVELS: [u8; 2] = [1, 2];

/// Plays all requests at each level, and prints the work of those that take most.
pub(super) fn play(folder: &Path) -> Result<()> {
    for level in LEVELS {
        let setup = format!(
            "SecRuleEngine On\nSecAction \"id:900005,phase:1,nolog,pass,setvar:tx.blocking_paranoia_level={level}\""
        );
        let rules = super::rules::compile_with(folder, &setup)?;
        let mut reports: Vec<_> =
            corpus::cases().into_iter().map(|case| (exchange(&rules, &case), case)).collect();
        reports.sort_by_key(|(report, _)| std::cmp::Reverse(report.work));
        for (report, case) in reports.iter().take(10) {
            let end = if report.exhausted { ", refused for it" } else { "" };
            println!("paranoia level {level}: {} of work{end}: {}", report.work, case.name);
        }
        let refused = reports.iter().find(|(report, case)| case.is_ordinary && report.exhausted);
        ensure!(refused.is_none(), "{} is refused", refused.map_or("", |(_, case)| &case.name));
    }
    Ok(())
}

fn exchange(rules: &Arc<Rules>, case: &Case) -> Report {
    let connection = Connection {
        client: ([127, 0, 0, 1], 54321).into(),
        server: ([127, 0, 0, 1], 80).into(),
        unique_id: "hostile".into(),
        unix_time: 1_767_225_600_000_000,
        seed: 1,
    };
    let mut transaction = Transaction::new(Arc::clone(rules), Arc::new(Collections::new(1)), connection);
    let line = RequestLine { method: b"POST", target: case.target.as_bytes(), protocol: "HTTP/1.1" };
    let headers = case.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    transaction.request_head(line, headers);
    for piece in case.body.chunks(16 << 10) {
        transaction.request_body(piece);
    }
    transaction.request_end();
    transaction.finish()
}
