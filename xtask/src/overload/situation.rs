//! The situations, as `xtask/overload/situations.yaml` has them.
//!
//! Must not be in here: how one is made.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;

use super::endpoint::Work;
use super::load::Clients;
use super::site::Peer;
use super::slow;
use crate::measured::Measured;
use crate::template;

/// Names and values.
type Pairs = BTreeMap<String, String>;

/// Something that happens to services and their proxies.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Situation {
    name: String,
    what: String,
    pub(super) peers: Vec<Peer>,
    /// The capacity of each endpoint.
    #[serde(default)]
    pub(super) work: Work,
    /// The CPU time of the first endpoint.
    pub(super) held: Option<Held>,
    /// Hosts and their annotations; none for the usual one.
    #[serde(default)]
    pub(super) hosts: BTreeMap<String, Pairs>,
    /// Of Forebay, and of Forebay without limits.
    #[serde(default)]
    pub(super) settings: Pairs,
    #[serde(default)]
    pub(super) settings_off: Pairs,
    #[serde(default)]
    pub(super) phases: Vec<Phase>,
    #[serde(default)]
    pub(super) streams: Vec<Requests>,
    #[serde(default = "one")]
    pub(super) seed: u64,
    #[serde(default)]
    pub(super) columns: Vec<Column>,
    #[serde(default)]
    pub(super) goals: Vec<Goal>,
    /// A situation of several Forebays at a time, which has no phases.
    pub(super) several: Option<Several>,
}

/// CPU time in each period.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Held {
    pub(super) time_ms: u64,
    pub(super) period_ms: u64,
}

/// A part of a situation's time.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Phase {
    pub(super) name: String,
    /// How long it lasts: a time, and a part of `--seconds`, within bounds.
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    of_main: f64,
    #[serde(default)]
    at_least: f64,
    at_most: Option<f64>,
    /// An order for the first endpoint at the phase's begin.
    pub(super) tell: Option<String>,
    /// So many slow clients connect at its begin; it lasts until they have.
    pub(super) slow_clients: Option<usize>,
    /// Whether to look for the first endpoint's return.
    #[serde(default)]
    pub(super) watch: bool,
}

/// Requests of a kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requests {
    /// In a second.
    pub(super) rate: f64,
    /// Phases in a row; none for all.
    #[serde(default)]
    pub(super) during: Vec<String>,
    pub(super) host: Option<String>,
    pub(super) clients: Option<Clients>,
}

/// A column of the table.
#[derive(Deserialize)]
pub(super) struct Column {
    pub(super) heading: String,
    #[serde(flatten)]
    pub(super) value: Value,
}

/// A goal of Forebay's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) all: Vec<Bound>,
}

/// A bound of a figure. A figure that is missing is not within it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Bound {
    #[serde(flatten)]
    pub(super) value: Value,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

/// A figure of some phases, or a ratio of two.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Value {
    pub(super) figure: Figure,
    /// Phases in a row.
    pub(super) during: Vec<String>,
    /// The number of the stream; `None` for all requests.
    pub(super) stream: Option<usize>,
    pub(super) over: Option<String>,
    pub(super) of: Option<Peer>,
    pub(super) divided_by: Option<f64>,
}

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    /// Requests that were answered well.
    GoodPerSecond,
    Refused,
    RefusedPercent,
    FailedPercent,
    P99Ms,
    /// The first endpoint's share of the requests that endpoints have had.
    SharePercent,
    /// Until the p99 is at most 1.3 of that of the phase `over`.
    SecondsUntilWell,
    /// Until the first endpoint has at least half of its part again.
    SecondsUntilBack,
    /// Resident at the end.
    MemoryMb,
    /// Open to the proxy at the end.
    Connections,
}

/// A situation with several Forebays.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Several {
    Abusive,
    SharedLimit,
}

static SITUATIONS: LazyLock<Vec<Situation>> =
    LazyLock::new(|| template::data("overload/situations.yaml").expect("a test reads the file"));

/// All of them, in the order of the report.
pub(super) fn situations() -> &'static [Situation] {
    &SITUATIONS
}

fn one() -> u64 {
    1
}

impl Measured for Situation {
    fn name(&self) -> &str {
        &self.name
    }

    fn what(&self) -> &str {
        &self.what
    }
}

impl Phase {
    /// How long it lasts where the main part of a situation lasts `main`.
    pub(super) fn lasts(&self, main: Duration) -> Duration {
        if let Some(count) = self.slow_clients {
            return slow::opening(slow::part_of(count, main));
        }
        let seconds = (self.seconds + self.of_main * main.as_secs_f64()).max(self.at_least);
        Duration::from_secs_f64(self.at_most.map_or(seconds, |most| seconds.min(most)))
    }
}

impl Value {
    pub(super) fn show(&self, value: Option<f64>) -> String {
        let is_ratio = self.over.is_some() || self.of.is_some() || self.divided_by.is_some();
        let digits = match self.figure {
            _ if is_ratio => 2,
            Figure::RefusedPercent | Figure::FailedPercent | Figure::SharePercent => 2,
            Figure::P99Ms | Figure::SecondsUntilBack => 1,
            _ => 0,
        };
        value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
    }
}

impl Bound {
    pub(super) fn holds(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| {
            self.at_most.is_none_or(|most| value <= most) && self.at_least.is_none_or(|least| value >= least)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn situations_have_names_of_their_own_and_name_phases_that_they_have() {
        let names: std::collections::BTreeSet<_> = situations().iter().map(Measured::name).collect();
        assert_eq!(names.len(), situations().len());
        for situation in situations() {
            let values = situation.columns.iter().map(|column| &column.value);
            let values: Vec<_> = values
                .chain(situation.goals.iter().flat_map(|goal| &goal.all).map(|bound| &bound.value))
                .collect();
            let named = values.iter().flat_map(|value| value.during.iter().chain(&value.over));
            let named = named.chain(situation.streams.iter().flat_map(|stream| &stream.during));
            for name in named {
                assert!(
                    situation.phases.iter().any(|phase| phase.name == *name),
                    "{}: {name}",
                    situation.name
                );
            }
            assert!(situation.several.is_some() || !values.is_empty(), "{}", situation.name);
        }
    }

    #[test]
    fn phases_are_parts_of_the_main_time_within_bounds() {
        let quiet = &situations()[1].phases[1];
        let lasts = [3, 9, 60].map(|seconds| quiet.lasts(Duration::from_secs(seconds)).as_secs_f64());
        assert!(
            (lasts[0] - 2.0).abs() < 0.01 && (lasts[1] - 3.0).abs() < 0.01 && (lasts[2] - 3.333).abs() < 0.01,
            "{lasts:?}"
        );
    }
}
