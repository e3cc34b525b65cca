//! The exit status of commands that print findings.
//!
//! Must not be in here: which findings count.

use std::process::ExitCode;

use doctor::Verdict;

/// The exit status for the worst finding that was printed.
pub(crate) fn exit_code(worst: Verdict) -> ExitCode {
    ExitCode::from(match worst {
        Verdict::Ok | Verdict::Unknown => 0,
        Verdict::Warning => 1,
        Verdict::Failure => 2,
    })
}
