//! A list of networks whose clients are let in.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};

use super::{Case, Directives, Feature, Manifests, Scene};

const NETWORKS: u8 = 250;
const ALLOWED: Ipv4Addr = Ipv4Addr::LOCALHOST;
const NOT_ALLOWED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The client's own network is in the middle of the list.
pub(crate) fn networks_1000() -> Case {
    let networks = |first: u8| (0..NETWORKS).map(move |third| format!("{first}.{third}.7.0/24"));
    let mut all: Vec<_> = [10, 11, 12, 13].into_iter().flat_map(networks).collect();
    let middle = all.len() / 2;
    all[middle] = format!("{ALLOWED}/32");
    let allow: Vec<_> = all.iter().map(|network| format!("      allow {network};\n")).collect();
    let feature = Feature {
        directives: Directives { location: allow.concat() + "      deny all;\n", ..Directives::default() },
        manifests: Manifests {
            annotations: vec![("whitelist-source-range", all.join(","))],
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case { feature, check, ..Case::default() }
}

fn check(scene: &Scene) -> Result<()> {
    let status = scene.status_from(NOT_ALLOWED)?;
    ensure!(status == 403, "a client of no network in the list is answered with {status}");
    Ok(())
}
