//! Error messages for invalid command lines.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::EXIT_UNUSABLE;
use crate::output::complain;

/// Prints what clap has to say: help as it is, an error in one line with its suggestion.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(EXIT_UNUSABLE);
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(arguments)) if first.ends_with(':') => {
            format!(" {}", arguments.join(", "))
        }
        _ => String::new(),
    };
    let valid = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => {
            format!("; there are {}", values.join(", "))
        }
        _ => String::new(),
    };
    let hint = match error.get(ContextKind::SuggestedArg).or(error.get(ContextKind::SuggestedSubcommand)) {
        Some(ContextValue::String(name)) => format!("; did you mean {name}?"),
        Some(ContextValue::Strings(names)) => format!("; did you mean {}?", names.join(" or ")),
        _ => String::new(),
    };
    complain(&format!("{first}{missing}{valid}{hint}"));
    ExitCode::from(EXIT_UNUSABLE)
}
