//! A limit on the rate of each of many clients.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};

use super::{Case, Directives, Feature, Manifests, Scene};

const CLIENTS: u32 = 100_000;
const FIRST_CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER_CLIENT: &str = "192.0.2.1";
/// More than a client may make at once: 1, and a burst of 5.
const ASKED: usize = 12;

/// No client comes often enough to be refused. Each has come once before the measurement.
pub(crate) fn limit_rps() -> Case {
    let feature = Feature {
        directives: Directives {
            http: "  set_real_ip_from 0.0.0.0/0; real_ip_header X-Forwarded-For; real_ip_recursive on;\n  \
                   limit_req_zone $binary_remote_addr zone=clients:32m rate=1r/s; limit_req_status 503;\n"
                .into(),
            location: "      limit_req zone=clients burst=5 nodelay;\n".into(),
            ..Directives::default()
        },
        manifests: Manifests {
            settings: vec![("use-forwarded-headers", "true".into())],
            annotations: vec![("limit-rps", "1".into())],
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case {
        feature,
        headers: vec![("X-Forwarded-For", "{}".into())],
        variants: |_| Ok(clients()),
        warm_up: Some(CLIENTS.into()),
        check,
        ..Case::default()
    }
}

fn clients() -> Vec<String> {
    (0..CLIENTS).map(|number| Ipv4Addr::from(FIRST_CLIENT.to_bits() + number).to_string()).collect()
}

fn check(scene: &Scene) -> Result<()> {
    let asked = (0..ASKED).map(|_| Ok(scene.get("/0", &[("X-Forwarded-For", OTHER_CLIENT)])?.status));
    let statuses = asked.collect::<Result<Vec<_>>>()?;
    ensure!(
        statuses[0] == 200 && statuses.contains(&503),
        "{ASKED} requests of one client were answered with {statuses:?}"
    );
    Ok(())
}
