//! The command line of `forebay abuse`.

use clap::{Args, Subcommand};

use super::Asking;

#[derive(Args, Debug)]
pub(crate) struct Abuse {
    #[command(subcommand)]
    pub(crate) command: AbuseCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AbuseCommand {
    /// Show the clients that were noticed, those first that are slowed or refused. Exit status: 0 they were
    /// told, 2 it could not be done.
    List(Asking),
    /// Forget what is held against a client, or against all. Exit status: 0 it is forgotten, 1 nothing was
    /// held, 2 it could not be done.
    Release(Release),
}

#[derive(Args, Debug)]
#[group(id = "whom", required = true, multiple = false, args = ["client", "key", "all"])]
pub(crate) struct Release {
    /// Its address, or its network of IPv6 or `key:...` as it is listed.
    #[arg(value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// The value that identifies the client, where clients are identified by a value
    /// (`forebay.io/abuse-key`).
    #[arg(long, value_name = "VALUE")]
    pub(crate) key: Option<String>,
    /// Release all clients.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
}
