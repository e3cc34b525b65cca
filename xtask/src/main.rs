//! The tasks of this repository: `cargo xtask ...`.
//!
//! Must not be in here: anything that ships.

mod adversary;
mod ask;
mod backend;
mod cached;
mod chart;
mod child;
mod cluster;
mod conformance;
mod dist;
mod dropin;
mod fresh;
mod fuzz;
mod gateway;
mod image;
mod instructions;
mod interrupt;
mod load;
mod machine;
mod measured;
mod overload;
mod peers;
mod peers_kubernetes;
mod proxies;
mod recorder;
mod replay;
mod template;
mod tidy;
mod upgrades;
mod waf;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Automation of the Forebay repository.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Checks what lints cannot see: lengths, crate edges, module docs, forbidden words.
    Tidy,
    /// Measures Forebay and its peers side by side.
    Peers(peers::Arguments),
    /// Measures Forebay in a cluster: at scale, under change and in trouble.
    PeersKubernetes(peers_kubernetes::Arguments),
    /// Measures a replica before a replayed API server, and predicts larger clusters.
    Scale(replay::Arguments),
    /// Overloads services, and has clients ask for more than their part.
    Overload(overload::Arguments),
    /// Upgrades the binary again and again under load.
    Upgrades(upgrades::Arguments),
    /// Makes what people install: archives, Debian packages, bills of materials, sums.
    Dist(dist::What),
    /// Makes the container image, without a container daemon.
    Image(image::Arguments),
    /// Runs the image as the chart would.
    ImageTest(image::TestArguments),
    /// Checks the Helm chart, and what is made from it.
    Chart(chart::Arguments),
    /// Runs the conformance suites of others against Forebay.
    Conformance(conformance::Arguments),
    /// Runs the Gateway API's official conformance suite against Forebay in a cluster.
    GatewayConformance(gateway::Arguments),
    /// Asks Forebay and Traefik what ingress-nginx's documentation and tests say.
    Dropin(dropin::Arguments),
    /// Plays the attacks of testing/adversary against Forebay.
    Adversary(adversary::Arguments),
    /// Runs the fuzz targets, and stops at the first find.
    Fuzz(fuzz::Arguments),
    /// Plays the regression tests of the OWASP core rules to the firewall.
    Waf(waf::Arguments),
    /// Measures what the flight recorder costs with thousands of Ingresses.
    Recorder(recorder::Arguments),
    /// Counts the instructions of a request, and compares with those agreed on.
    Instructions(instructions::Arguments),
    /// Runs the README's commands on a machine that has nothing but the toolchains.
    Fresh(fresh::Arguments),
    /// Starts a Kubernetes cluster, in namespaces of its own.
    Cluster(cluster::Arguments),
    /// A payload server, for the processes that this program starts.
    #[command(hide = true)]
    Payload { listen: SocketAddr },
    /// An HTTP/2 server in the clear, likewise.
    #[command(hide = true)]
    H2c { listen: SocketAddr },
    /// A server that can do so much and no more, likewise.
    #[command(hide = true)]
    Endpoint {
        listen: SocketAddr,
        #[command(flatten)]
        work: overload::endpoint::Work,
    },
    /// The endpoint of a Service in the cluster of `dropin`.
    #[command(hide = true)]
    DropinEndpoint { service: String, listen: SocketAddr },
    /// A byte relay, likewise.
    #[command(hide = true)]
    Relay { listen: SocketAddr, upstream: SocketAddr },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::PeersKubernetes(arguments) => return exit_code(peers_kubernetes::run(&arguments)),
        Task::Scale(arguments) => return exit_code(replay::run(&arguments)),
        Task::Overload(arguments) => return exit_code(overload::run(&arguments)),
        Task::Upgrades(arguments) => return exit_code(upgrades::run(&arguments)),
        Task::GatewayConformance(arguments) => return exit_code(gateway::run(&arguments)),
        Task::Dropin(arguments) => return exit_code(dropin::run(&arguments)),
        Task::Cluster(arguments) => return exit_code(cluster::run(&arguments)),
        Task::Fresh(arguments) => return exit_code(fresh::run(&arguments)),
        Task::Adversary(arguments) => return exit_code(adversary::run(&arguments)),
        Task::Fuzz(arguments) => return exit_code(fuzz::run(&arguments)),
        Task::Recorder(arguments) => return exit_code(recorder::run(&arguments)),
        Task::Waf(arguments) => return exit_code(waf::run(&arguments)),
        Task::ImageTest(arguments) => return exit_code(image::test(&arguments)),
        Task::Dist(arguments) => dist::run(&arguments),
        Task::Image(arguments) => image::run(&arguments),
        Task::Tidy => tidy::run(),
        Task::Instructions(arguments) => instructions::run(&arguments),
        Task::Peers(arguments) => peers::run(&arguments),
        Task::Chart(arguments) => chart::run(&arguments),
        Task::Conformance(arguments) => conformance::run(&arguments),
        Task::Payload { listen } => child::serve_payload(listen),
        Task::H2c { listen } => child::serve_h2c(listen),
        Task::Endpoint { listen, work } => overload::endpoint::serve(listen, work),
        Task::DropinEndpoint { service, listen } => dropin::serve_endpoint(&service, listen),
        Task::Relay { listen, upstream } => child::serve_relay(listen, upstream),
    };
    exit_code(result.map(|()| ExitCode::SUCCESS))
}

fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
