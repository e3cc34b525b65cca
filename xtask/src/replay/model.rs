//! The needs of a replica and the API server, by how many objects and changes there are.
//!
//! The constants come from three measurements: few objects, the same with more endpoints, and more objects.
//! Further measurements show how well the model predicts. Must not be in here: measuring.

/// A measurement of one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) ingresses: f64,
    pub(super) endpoints: f64,
    pub(super) cost: Cost,
}

/// The cost of a configuration of that size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Resident memory in MiB.
    pub(super) mib: f64,
    /// CPU of a start, in seconds.
    pub(super) start_s: f64,
    /// CPU of a change of endpoints that comes alone, in milliseconds.
    pub(super) change_ms: f64,
    /// CPU of a change of an Ingress that comes alone, in milliseconds.
    pub(super) route_ms: f64,
    /// Bytes that a list of all objects has, in MB.
    pub(super) listed_mb: f64,
    /// Bytes of an event about a slice.
    pub(super) event_bytes: f64,
}

/// A cost that grows in proportion to both numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plane {
    base: f64,
    per_ingress: f64,
    per_endpoint: f64,
}

/// The costs of a replica as planes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Model {
    mib: Plane,
    start_s: Plane,
    change_ms: Plane,
    route_ms: Plane,
    listed_mb: Plane,
    /// Of a slice: what it has without endpoints, and what each endpoint adds.
    event_bytes: (f64, f64),
    /// CPU of an event that comes with many others, in milliseconds, with its share of passes.
    event_ms: f64,
}

/// A cluster, and how much changes in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) replicas: f64,
    pub(super) ingresses: f64,
    pub(super) endpoints: f64,
    pub(super) changes_per_second: f64,
    /// Replicas for each watch: 1 where each watches by itself, more where one hands events on.
    pub(super) replicas_per_watch: f64,
}

/// The needs of a [`Load`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) mib: f64,
    pub(super) start_s: f64,
    /// CPUs of a replica that follow changes.
    pub(super) cpus: f64,
    /// Longest time from a change of endpoints to its being served, in milliseconds, and of an Ingress.
    pub(super) convergence_ms: (f64, f64),
    /// MB/s that the API server sends to all watchers.
    pub(super) watch_mb_s: f64,
    /// MB that it sends when all replicas start at once.
    pub(super) lists_mb: f64,
    /// MB/s that a replica sends to those that follow it.
    pub(super) relay_mb_s: f64,
}

/// Longest time for which changes are gathered (`Pace::CLUSTER`), in milliseconds.
const GATHERED_MS: f64 = 5.0;

/// Bytes of an event that a replica hands on, for each byte of the API server's: without managed fields and
/// what else no replica reads (`cargo xtask scale --relay`).
const HANDED_ON: f64 = 0.5;

impl Plane {
    /// Through three points: a first one, one with more endpoints, and one with more Ingresses. Nothing costs
    /// less where there is more of it: what says so is noise.
    fn through([first, denser, larger]: [&Point; 3], value: fn(&Cost) -> f64) -> Plane {
        let of = |point: &Point| value(&point.cost);
        let per_endpoint = ((of(denser) - of(first)) / (denser.endpoints - first.endpoints)).max(0.0);
        let of_endpoints = (larger.endpoints - first.endpoints) * per_endpoint;
        let more = of(larger) - of(first) - of_endpoints;
        let per_ingress = (more / (larger.ingresses - first.ingresses)).max(0.0);
        let base = of(first) - first.ingresses * per_ingress - first.endpoints * per_endpoint;
        Plane { base, per_ingress, per_endpoint }
    }

    fn at(&self, ingresses: f64, endpoints: f64) -> f64 {
        self.base + self.per_ingress * ingresses + self.per_endpoint * endpoints
    }
}

impl Model {
    pub(super) fn of(points: [&Point; 3], event_ms: f64) -> Model {
        let [first, denser, _] = points;
        let per_slice = |point: &Point| point.endpoints / point.ingresses;
        let bytes = |point: &Point| point.cost.event_bytes;
        let per_endpoint = (bytes(denser) - bytes(first)) / (per_slice(denser) - per_slice(first));
        Model {
            mib: Plane::through(points, |cost| cost.mib),
            start_s: Plane::through(points, |cost| cost.start_s),
            change_ms: Plane::through(points, |cost| cost.change_ms),
            route_ms: Plane::through(points, |cost| cost.route_ms),
            listed_mb: Plane::through(points, |cost| cost.listed_mb),
            event_bytes: (bytes(first) - per_endpoint * per_slice(first), per_endpoint),
            event_ms,
        }
    }

    /// The costs of a replica with so many objects.
    pub(super) fn cost(&self, ingresses: f64, endpoints: f64) -> Cost {
        let (of_slice, of_endpoint) = self.event_bytes;
        Cost {
            mib: self.mib.at(ingresses, endpoints),
            start_s: self.start_s.at(ingresses, endpoints),
            change_ms: self.change_ms.at(ingresses, endpoints),
            route_ms: self.route_ms.at(ingresses, endpoints),
            listed_mb: self.listed_mb.at(ingresses, endpoints),
            event_bytes: of_slice + of_endpoint * endpoints / ingresses,
        }
    }

    /// Changes that come while others are processed wait for them: a pass takes all that have come, and
    /// passes take half of a CPU at most. So a change costs what it does alone, or what it does among many
    /// others if that is less.
    pub(super) fn needs(&self, load: &Load) -> Needs {
        let cost = self.cost(load.ingresses, load.endpoints);
        let each_ms = cost.change_ms.min(self.event_ms + 500.0 / load.changes_per_second);
        let watchers = (load.replicas / load.replicas_per_watch).ceil();
        // A Service for each Ingress, and a slice for each Service. Only slices are handed on.
        let slices_mb = load.ingresses * cost.event_bytes / 1e6;
        Needs {
            mib: cost.mib,
            start_s: cost.start_s,
            cpus: load.changes_per_second * each_ms / 1000.0,
            convergence_ms: (GATHERED_MS + 2.0 * cost.change_ms, GATHERED_MS + 2.0 * cost.route_ms),
            watch_mb_s: watchers * load.changes_per_second * cost.event_bytes / 1e6,
            lists_mb: load.replicas * (cost.listed_mb - slices_mb).max(0.0) + watchers * slices_mb,
            relay_mb_s: (load.replicas_per_watch - 1.0)
                * load.changes_per_second
                * cost.event_bytes
                * HANDED_ON
                / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A replica whose costs are known.
    fn point(ingresses: f64, endpoints: f64) -> Point {
        let cost = Cost {
            mib: 20.0 + 0.002 * ingresses + 0.0003 * endpoints,
            start_s: 0.1 + 0.0001 * ingresses,
            change_ms: 1.0 + 0.0005 * ingresses,
            route_ms: 2.0 + 0.001 * ingresses,
            listed_mb: 0.003 * ingresses + 0.0004 * endpoints,
            event_bytes: 700.0 + 400.0 * endpoints / ingresses,
        };
        Point { ingresses, endpoints, cost }
    }

    fn model() -> Model {
        Model::of([&point(1e4, 2e4), &point(1e4, 1e5), &point(2e4, 4e4)], 0.02)
    }

    #[test]
    fn it_finds_what_the_measurements_were_made_of() {
        let (found, expected) = (model().cost(1e5, 1e6), point(1e5, 1e6).cost);
        let of = |cost: Cost| {
            [cost.mib, cost.start_s, cost.change_ms, cost.route_ms, cost.listed_mb, cost.event_bytes]
        };
        for (found, expected) in of(found).into_iter().zip(of(expected)) {
            assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn passes_take_at_most_half_of_a_cpu_and_watches_grow_with_replicas() {
        let load = Load {
            replicas: 1000.0,
            ingresses: 1e5,
            endpoints: 2e5,
            changes_per_second: 10.0,
            replicas_per_watch: 1.0,
        };
        let calm = model().needs(&load);
        assert!((calm.cpus - 10.0 * 50.02 / 1000.0).abs() < 0.01, "{calm:?}");
        let busy = model().needs(&Load { changes_per_second: 10_000.0, ..load });
        assert!((busy.cpus - 0.7).abs() < 0.01, "half a CPU for passes, and the events: {busy:?}");
        assert!((busy.watch_mb_s / calm.watch_mb_s - 1000.0).abs() < 1.0);
        let handed_on = model().needs(&Load { replicas_per_watch: 50.0, ..load });
        assert!((calm.watch_mb_s / handed_on.watch_mb_s - 50.0).abs() < 0.1);
        assert!((handed_on.relay_mb_s / (handed_on.watch_mb_s / 20.0) - 24.5).abs() < 0.1, "{handed_on:?}");
        assert!(calm.relay_mb_s.abs() < f64::EPSILON, "nobody follows");
        let others_mb = 1000.0 * (380.0 - 150.0);
        assert!((calm.lists_mb - others_mb - 1000.0 * 150.0).abs() < 1.0, "{calm:?}");
        assert!((handed_on.lists_mb - others_mb - 20.0 * 150.0).abs() < 1.0, "{handed_on:?}");
    }
}
