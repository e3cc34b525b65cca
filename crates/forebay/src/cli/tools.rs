//! The command lines of what is neither proxy nor control plane: servers to try it on, completions and manual pages.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::Output;

#[derive(Args, Debug)]
pub(crate) struct Payload {
    /// Port; 0 is any free one.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: u16,
    /// Address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
}

#[derive(Args, Debug)]
pub(crate) struct PlainProxy {
    /// Address.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// Idle connections that are kept to each Pod.
    #[arg(long, value_name = "N")]
    pub(crate) keepalive: usize,
    /// Pods.
    #[arg(value_name = "ADDRESS:PORT", required = true)]
    pub(crate) backends: Vec<SocketAddr>,
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell that is to read them.
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Folder for forebay.1, forebay-serve.1 and the others; made where it is missing [default: forebay.1 is printed].
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Version {
    /// How it is printed.
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

impl Payload {
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}
