//! `cargo xtask scale`: what a large cluster costs, from an API server that replays it, and a model of larger
//! ones.
//!
//! The API server of `peers-kubernetes` is a real one, and shares the machine: 5,000 objects are what two
//! CPUs carry. Here only the reader's part is measured. `routes` has the same for a Gateway with many routes.
//! Must not be in here: goals.

mod model;
mod objects;
mod relay;
mod replica;
mod route_objects;
mod routes;
mod server;
mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::interrupt::Interrupt;
use crate::{machine, proxies};
use model::{Cost, Load, Model, Point};
use replica::{Measured, Size};

/// Options of `cargo xtask scale`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Ingresses of the largest cluster. The model is made of clusters with a fifth and a half of them.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    ingresses: u32,
    /// Measures a Gateway with so many routes for HTTP instead, and their statuses.
    #[arg(long, value_parser = clap::value_parser!(u32).range(100..=100_000), conflicts_with = "ingresses")]
    routes: Option<u32>,
    /// Milliseconds that the replayed API server takes for a write of a route or a status, as etcd's disks
    /// would.
    #[arg(long, value_name = "MS", default_value_t = 5, requires = "routes")]
    write_latency: u64,
    /// Seconds of each stream of changes.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Forebay's binary; none for what ships.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Measures a replica that hands events on to others (`--replicas-per-watch`) instead.
    #[arg(long, conflicts_with = "routes")]
    relay: bool,
}

/// Endpoints of a Service in most clusters, and in the one that shows what an endpoint costs.
const FEW: u32 = 2;
const MANY: u32 = 10;

/// Measurements that the model is made of.
const PARTS: usize = 3;

/// The cluster of which the costs are predicted beside those that are measured.
const LARGEST: Load = Load {
    replicas: 1_000.0,
    ingresses: 100_000.0,
    endpoints: 1_000_000.0,
    changes_per_second: 10_000.0,
    replicas_per_watch: 1.0,
};

/// Measures, makes the model, and prints both.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => proxies::forebay_binary()?,
    };
    ensure!(binary.is_file(), "{} is not there", binary.display());
    machine::raise_descriptor_limit();
    let interrupt = Interrupt::install()?;
    println!("{}; {}", machine::describe(), binary.display());
    if let Some(routes) = arguments.routes {
        let write_latency = Duration::from_millis(arguments.write_latency);
        println!("{}", routes::Measured::HEADER);
        println!("{}", routes::measure(&binary, routes, write_latency, &interrupt)?);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.relay {
        relay::run(&binary, arguments.ingresses, arguments.seconds, &interrupt)?;
        return Ok(ExitCode::SUCCESS);
    }
    let measured = measure(&binary, arguments.ingresses, arguments.seconds, &interrupt)?;
    let points: Vec<Point> = measured.iter().map(Measured::point).collect();
    let model = model_of(&measured);
    println!("\nprediction / measurement");
    for point in &points[PARTS..] {
        println!("{}", compared(&model.cost(point.ingresses, point.endpoints), point));
    }
    println!("\nprediction");
    for load in loads() {
        println!("{}", described(&model, &load));
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures clusters of five sizes, and prints each.
fn measure(binary: &Path, largest: u32, seconds: u64, interrupt: &Interrupt) -> Result<Vec<Measured>> {
    let sizes =
        [(largest / 5, FEW), (largest / 5, MANY), (largest / 2, FEW), (largest / 4 * 3, FEW), (largest, FEW)];
    println!("{}", Measured::HEADER);
    let measured = sizes.into_iter().map(|(ingresses, per_service)| {
        let one = replica::measure(binary, Size { ingresses, per_service }, seconds, interrupt)?;
        println!("{one}");
        Ok(one)
    });
    measured.collect()
}

/// The model of the first measurements.
fn model_of(measured: &[Measured]) -> Model {
    let [first, denser, larger] = [0, 1, 2].map(|at| measured[at].point());
    Model::of([&first, &denser, &larger], measured[2].event_ms())
}

/// Clusters up to the largest, and the largest with watches that replicas share.
fn loads() -> [Load; 6] {
    let small =
        Load { replicas: 3.0, ingresses: 1_000.0, endpoints: 5_000.0, changes_per_second: 10.0, ..LARGEST };
    [
        small,
        Load {
            replicas: 20.0,
            ingresses: 5_000.0,
            endpoints: 25_000.0,
            changes_per_second: 100.0,
            ..LARGEST
        },
        Load { replicas: 100.0, endpoints: 200_000.0, changes_per_second: 1_000.0, ..LARGEST },
        LARGEST,
        Load { replicas_per_watch: 10.0, ..LARGEST },
        Load { replicas_per_watch: 50.0, ..LARGEST },
    ]
}

fn compared(predicted: &Cost, point: &Point) -> String {
    let pair = |predicted: f64, measured: f64| {
        format!("{predicted:.1} / {measured:.1} ({:.2})", predicted / measured)
    };
    let Cost { mib, start_s, change_ms, route_ms, listed_mb, .. } = point.cost;
    format!(
        "{} Ingresses, {} endpoints: MiB {}; CPU s of a start {}; CPU ms of a change of endpoints {} and of an \
         Ingress {}; MB listed {}",
        point.ingresses,
        point.endpoints,
        pair(predicted.mib, mib),
        pair(predicted.start_s, start_s),
        pair(predicted.change_ms, change_ms),
        pair(predicted.route_ms, route_ms),
        pair(predicted.listed_mb, listed_mb),
    )
}

fn described(model: &Model, load: &Load) -> String {
    let needs = model.needs(load);
    format!(
        "{} replicas ({} to a watch), {} Ingresses, {} endpoints, {} changes/s: {:.0} MiB and {:.2} CPUs each, \
         start {:.1} CPU s, endpoints served within {:.0} ms, Ingresses within {:.0}; API server: {:.1} MB/s of events, {:.0} MB of lists; \
         a replica to its followers: {:.1} MB/s",
        load.replicas,
        load.replicas_per_watch,
        load.ingresses,
        load.endpoints,
        load.changes_per_second,
        needs.mib,
        needs.cpus,
        needs.start_s,
        needs.convergence_ms.0,
        needs.convergence_ms.1,
        needs.watch_mb_s,
        needs.lists_mb,
        needs.relay_mb_s,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forebay's binary in the folder above this program's, or the one that `SCALE_BINARY` names.
    fn binary() -> Result<PathBuf> {
        let program = std::env::current_exe()?;
        let beside = || program.ancestors().nth(2).unwrap_or(Path::new("")).join("forebay");
        Ok(std::env::var_os("SCALE_BINARY").map_or_else(beside, PathBuf::from))
    }

    /// With `SCALE_ROUTES=5000`, what docs/scale.md speaks of.
    #[test]
    #[ignore = "it takes a minute, and needs Forebay's binary"]
    fn all_routes_get_their_statuses_and_new_ones_are_served() -> Result<()> {
        let routes = std::env::var("SCALE_ROUTES").map_or(Ok(500), |number| number.parse())?;
        let measured = routes::measure(&binary()?, routes, Duration::from_millis(5), &Interrupt::install()?)?;
        println!("{}\n{measured}", routes::Measured::HEADER);
        Ok(())
    }

    /// With `SCALE_INGRESSES=100000`, and Forebay's binary in the folder above this program's: the sizes that
    /// docs/scale.md speaks of.
    #[test]
    #[ignore = "it takes minutes, and needs Forebay's binary"]
    fn the_model_predicts_the_memory_of_larger_clusters() -> Result<()> {
        let binary = binary()?;
        let ingresses = std::env::var("SCALE_INGRESSES").map_or(Ok(5_000), |number| number.parse())?;
        machine::raise_descriptor_limit();
        let measured = measure(&binary, ingresses, 2, &Interrupt::install()?)?;
        let model = model_of(&measured);
        for point in measured[PARTS..].iter().map(Measured::point) {
            let predicted = model.cost(point.ingresses, point.endpoints);
            println!("{}", compared(&predicted, &point));
            let ratio = predicted.mib / point.cost.mib;
            assert!((0.75..1.25).contains(&ratio), "{} MiB for {}", predicted.mib, point.cost.mib);
        }
        for load in loads() {
            println!("{}", described(&model, &load));
        }
        Ok(())
    }
}
