//! How a command tells what it found.

use clap::ValueEnum;

/// Forms of what a command tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
}
