//! The cases of Autobahn's suite for WebSocket servers, by `testing/websocket/fuzzing.cjs`: over HTTP/1.1 in
//! clear and over TLS, and over HTTP/2 (RFC 8441).
//!
//! Must not be in here: cases; they are in `testing/websocket/cases.cjs`. What may fail stands in
//! `testing/websocket/exceptions.txt`.

use std::time::Duration;

use anyhow::Result;

use super::stage::{HOST, Stage};
use super::verdicts::Verdicts;

const LIMIT: Duration = Duration::from_mins(4);
/// With all messages of the cases about compression.
const LIMIT_OF_ALL: Duration = Duration::from_mins(60);

/// Messages of each case about compression, of which there are 216; the suite itself has all of them.
const MESSAGES: &str = "5";
const MESSAGES_OF_ALL: &str = "1000";

/// The cases of one way.
const CASES: usize = 517;

pub(super) fn run(stage: &Stage) -> Result<String> {
    let ways = [
        ("http1", stage.http, false),
        ("tls", stage.https, true),
        ("h2c", stage.http, false),
        ("h2", stage.https, true),
    ];
    let (messages, limit) =
        if stage.is_thorough { (MESSAGES_OF_ALL, LIMIT_OF_ALL) } else { (MESSAGES, LIMIT) };
    let mut verdicts = Verdicts::default();
    for (way, address, is_tls) in ways {
        let mut command = stage.tools.node_script("websocket/fuzzing.cjs");
        command.arg(way).arg(address.to_string()).args(["/websocket", messages]);
        if is_tls {
            command.arg(&stage.certificate_file).arg(HOST);
        }
        let output = stage.output("autobahn", command, limit)?;
        verdicts.read(&format!("{way} "), &output);
    }
    let list = stage.tools.testing.join("websocket/exceptions.txt");
    let (passed, excepted) = verdicts.judge(&list, CASES * ways.len())?;
    Ok(format!("{passed} cases pass over HTTP/1.1 and HTTP/2, in clear and over TLS, {excepted} excepted"))
}
