//! Arguments that the commands of `forebay bench` have in common.
//!
//! Must not be in here: their use.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts, in which backticks would be printed")]

use std::path::PathBuf;
use std::time::Duration;

use ::bench::generator::Protocol;
use clap::{Args, ValueEnum};

use super::target::{Header, Resolve};
use crate::output::Format;

/// One measurement of one URL.
#[derive(Args, Debug)]
pub(crate) struct Single {
    /// URL, such as http://HOST/PATH or https://HOST:PORT/PATH.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) load: Load,
    #[command(flatten)]
    pub(crate) telling: Telling,
}

/// Form and destination of the result.
#[derive(Args, Clone, Debug)]
pub(crate) struct Telling {
    /// Form of the result.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// Also write a page with tables and plots, for any browser, in one file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// On and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Options of the load.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// Number of concurrent connections.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// Threads that share them [default: as many as there are CPUs to use].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Duration of the load.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration, default_value = "10s")]
    pub(crate) duration: Duration,
    /// End after this many requests, if that is earlier.
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Open loop: requests per second, whether or not responses arrive; latency counts from when each was due
    /// [default: a closed loop, in which each connection sends its next request when it has its answer].
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Whether a connection carries more than one request.
    #[arg(long, value_enum, value_name = "on|off", default_value_t = Switch::On, hide_possible_values = true)]
    pub(crate) keep_alive: Switch,
    /// Use HTTP/2: by ALPN over TLS, with prior knowledge in clear.
    #[arg(long, group = "multiplexed")]
    pub(crate) http2: bool,
    /// Use HTTP/3, over QUIC; only for https:// URLs.
    #[arg(long, group = "multiplexed")]
    pub(crate) http3: bool,
    /// Concurrent requests per connection of HTTP/2 or HTTP/3.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "multiplexed", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) streams: u16,
    /// Trust any certificate.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Address of HOST:PORT, instead of DNS; ADDR may be a list with commas. May be given several times.
    #[arg(long, value_name = "HOST:PORT:ADDR")]
    pub(crate) resolve: Vec<Resolve>,
    /// A header of each request. May be given several times.
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<Header>,
    /// File with the body of each request.
    #[arg(long, value_name = "FILE")]
    pub(crate) body: Option<PathBuf>,
    /// Method [default: GET, or POST where there is a body].
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<http::Method>,
}

impl Load {
    /// The version of HTTP, with this number of concurrent requests per connection where it has them.
    pub(crate) fn protocol(&self, streams: usize) -> Protocol {
        match (self.http2, self.http3) {
            (_, true) => Protocol::Http3 { streams },
            (true, _) => Protocol::Http2 { streams },
            _ => Protocol::Http1,
        }
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a rate is a number above 0".into()),
    }
}
