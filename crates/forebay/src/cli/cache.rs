//! The command line of `forebay cache`.

use clap::{Args, Subcommand};

use super::Output;

#[derive(Args, Debug)]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Forget what is kept: at URLs, below prefixes, of hosts, with tags, or all. All forms may be given
    /// several times, and together. Exit status: 0 it is forgotten, 1 there was nothing, and no route of a
    /// host that is named has a cache, 2 it could not be done.
    Purge(Purge),
    /// Tell how full the cache is, in memory and on disk, and what it did for the requests to each Ingress.
    Status(Asking),
}

#[derive(Args, Debug)]
#[group(id = "what", required = true, multiple = true, args = ["url", "prefix", "host", "tag", "all"])]
pub(crate) struct Purge {
    /// URL as clients ask for it, in all its variants. Both schemes are meant, and every port.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Beginning of URLs: `https://shop.example.com/images/`
    #[arg(long, value_name = "URL")]
    pub(crate) prefix: Vec<String>,
    /// Host of the objects to purge.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Tag that a response has in Cache-Tag or Surrogate-Key, in any letter case.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Purge the whole cache.
    #[arg(long, conflicts_with_all = ["url", "prefix", "host", "tag"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// The Forebay to ask, and the form in which its answer is printed.
#[derive(Args, Debug)]
pub(crate) struct Asking {
    /// URL of the admin server of the Forebay that is asked.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:10254")]
    pub(crate) admin: String,
    /// How the result is printed.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}
