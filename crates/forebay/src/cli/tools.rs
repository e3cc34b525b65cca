//! The command lines of helpers: servers to try the proxy with, completions and manual pages.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Args, Debug)]
pub(crate) struct Payload {
    /// Port; 0 is any free one.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: u16,
    /// Address to listen at.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell that is to read them.
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Folder for forebay.1, forebay-serve.1 and the others; made where it is missing [default: forebay.1 is
    /// printed].
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

impl Payload {
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}
