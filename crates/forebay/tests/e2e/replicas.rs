//! Several replicas that know each other, on addresses of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tempfile::TempDir;
use testkit::manifest::{service, stopping_endpoints};
use testkit::{Forebay, Setup};

pub(crate) const SECRET: &str = "a secret that all replicas have, and nobody else";

/// Replicas on the addresses 127.0.0.1, 127.0.0.2 and so on.
pub(crate) struct Replicas {
    pub(crate) all: Vec<Forebay>,
    _folder: TempDir,
}

impl Replicas {
    /// So many replicas, each of a setup that is made for its number and a folder of its own.
    pub(crate) fn start(count: u8, setup: impl Fn(&Path) -> Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, SECRET).expect("a file");
        let start = |number| {
            let own = folder.path().join(format!("replica-{number}"));
            std::fs::create_dir(&own).expect("a folder");
            let arguments = [
                format!("--replicas-secret={}", secret.display()),
                format!("--replica-address={}", address(number)),
                // As from a Pod: what comes from another address is no replica's.
                format!("--upstream-source-address={}", address(number)),
                "--replicas-service=default/forebay".to_owned(),
            ];
            setup(&own).manifest("forebay.yaml", service("forebay", &[])).arguments(arguments).start()
        };
        let replicas = Self { all: (0..count).map(start).collect(), _folder: folder };
        replicas.introduce();
        replicas
    }

    /// Ends the last replica, and tells the others.
    pub(crate) fn end_last(&mut self) {
        self.all.pop();
        self.introduce();
    }

    /// Tells all replicas who the replicas are.
    fn introduce(&self) {
        let at = |(number, one): (usize, &Forebay)| {
            SocketAddr::from((address(u8::try_from(number).expect("few replicas")), one.address().port()))
        };
        let addresses: Vec<_> = self.all.iter().enumerate().map(at).collect();
        self.all.iter().for_each(|one| introduce(one, &addresses));
    }
}

/// Tells one replica who the replicas are.
pub(crate) fn introduce(one: &Forebay, addresses: &[SocketAddr]) {
    introduce_with(one, addresses, &[]);
}

/// The same with replicas that stop, and that get no requests any more.
pub(crate) fn introduce_with(one: &Forebay, addresses: &[SocketAddr], stopping: &[SocketAddr]) {
    let wanted: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let stopping = if stopping.is_empty() { String::new() } else { stopping_endpoints("forebay", stopping) };
    one.replace("forebay.yaml", &(service("forebay", addresses) + &stopping));
    one.await_that("the replicas to be known", || {
        let configuration = one.configuration();
        let clusters = configuration["clusters"].as_array().expect("a list");
        let own = clusters.iter().find(|one| one["name"] == "default-forebay-80");
        let addresses = own.and_then(|own| own["endpoints"].as_array());
        let addresses = addresses.map(|all| all.iter().map(|one| &one["address"]).collect::<Vec<_>>());
        addresses.is_some_and(|all| all.into_iter().eq(&wanted))
            && configuration["generation"] == configuration["acknowledged"]
    });
}

/// The address of a replica, from which it also connects to endpoints.
pub(crate) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + number)
}
