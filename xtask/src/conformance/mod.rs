//! `cargo xtask conformance`: what others have written to tell a good implementation from a bad one, run
//! against Forebay.
//!
//! Must not be in here: our own tests; they are the crates'.

mod acme;
mod applications;
mod autobahn;
mod clients;
mod connectrpc;
mod console;
mod dex;
mod exceptions;
mod h2spec;
mod hpack;
mod http3;
mod http_cache;
mod interop;
mod lint;
mod monitoring;
mod oidc;
mod php;
mod stage;
mod suites;
mod talk;
mod tools;
mod verdicts;

use anyhow::{Result, bail};
use clap::ValueEnum as _;

use crate::interrupt::Interrupt;
use stage::Stage;

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs these only; all by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Suite>,
    /// Has suites run in full that are cut short without: Autobahn's sends 1,000 messages in each case about
    /// compression, which takes an hour.
    #[arg(long)]
    thorough: bool,
}

/// A suite of tests of conformance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// h2spec: RFC 9113 and RFC 7541, in clear and over TLS.
    H2spec,
    /// aioquic, a client of HTTP/3.
    Http3,
    /// The cases of the QUIC interop runner, by aioquic and quic-go, over links with delay and loss.
    QuicInterop,
    /// A page with pictures over HTTP/3 in a real browser.
    Pictures,
    /// The interoperability stories of HPACK.
    Hpack,
    /// gRPC's interoperability tests, in clear and over TLS.
    Grpc,
    /// testssl.sh: what is offered to clients of TLS.
    Offer,
    /// A client and a server of the `ws` package.
    Websocket,
    /// The cases of Autobahn's suite for WebSocket, over HTTP/1.1 and HTTP/2.
    Autobahn,
    /// connectrpc's suite: Connect, gRPC and gRPC-Web over all versions of HTTP.
    Connectrpc,
    /// curl, Apache's ab, and clients of HTTP in Go, Python, Node and Java.
    Clients,
    /// `REDbot`, the lint for resources of HTTP.
    Lint,
    /// redis-benchmark and redis-server through a TCP service.
    Redis,
    /// PHP-FPM, by `FastCGI`.
    Php,
    /// The public suite for HTTP caches.
    HttpCache,
    /// oauth2-proxy as the service of `auth-url`, with a provider of `OpenID` Connect.
    Signin,
    /// An application below a path, as Grafana is.
    Subpath,
    /// Ingresses as cert-manager makes them for HTTP-01 challenges.
    Challenges,
    /// Certificates from Pebble, an ACME server that refuses nonces and is slow.
    Acme,
    /// The console in a real browser.
    Console,
    /// Sign-in at npm's oidc-provider, by a client of its own and by a real browser, and at Dex.
    Oidc,
    /// A real Prometheus: rules, and every query of our dashboards and of ingress-nginx's.
    Monitoring,
}

impl Suite {
    /// Runs it; what is to be said of it.
    fn run(self, stage: &Stage) -> Result<String> {
        match self {
            Self::H2spec => h2spec::run(stage),
            Self::Http3 => http3::run(stage),
            Self::QuicInterop => interop::cases(stage),
            Self::Pictures => interop::pictures(stage),
            Self::Hpack => hpack::run(stage),
            Self::Grpc => suites::grpc(stage),
            Self::Offer => suites::offer(stage),
            Self::Websocket => suites::websocket(stage),
            Self::Autobahn => autobahn::run(stage),
            Self::Connectrpc => connectrpc::run(stage),
            Self::Clients => clients::run(stage),
            Self::Lint => lint::run(stage),
            Self::Redis => suites::redis(stage),
            Self::Php => php::run(stage),
            Self::HttpCache => http_cache::run(stage),
            Self::Signin => applications::signin(stage),
            Self::Subpath => applications::subpath(stage),
            Self::Challenges => applications::challenges(stage),
            Self::Acme => acme::run(stage),
            Self::Console => console::run(stage),
            Self::Oidc => oidc::run(stage),
            Self::Monitoring => monitoring::run(stage),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let suites =
        if arguments.only.is_empty() { Suite::value_variants().to_vec() } else { arguments.only.clone() };
    let tools = tools::Tools::install()?;
    let folder = tempfile::tempdir()?;
    let stage = Stage::set(tools, folder.path(), Interrupt::install()?, arguments.thorough)?;
    let mut failed = Vec::new();
    for suite in suites {
        match suite.run(&stage) {
            Ok(said) => println!("{suite:?}: {said}"),
            Err(error) => {
                stage.interrupt.check()?;
                println!("{suite:?}: FAILED: {error:#}");
                failed.push(format!("{suite:?}"));
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("not passed: {}", failed.join(", ")) }
}
