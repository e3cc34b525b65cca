//! The tables: which columns they have, their rows, in which order, and which columns there is room for.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::answers::{Latency, Traffic};
use super::text::{Signs, left, right, width};
use super::unit::{count, number, quantile};

/// Space between columns.
const GAP: usize = 2;

/// Least columns of the name of a row, where it has as many.
const NAME_MIN: usize = 10;

/// Most columns of a text beside the name.
const TEXT_MAX: usize = 32;

/// The objects that a table has rows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Routes,
    Hosts,
    Clusters,
}

/// A column. The first one of a table is the name of the row.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Columns of greater rank are left out first.
    rank: u8,
}

/// A value of a row.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Text(String),
    Number { text: String, value: f64 },
}

/// A row, with a value for each column.
pub(super) type Row = Vec<Cell>;

/// The columns that there is room for, with their widths.
pub(super) struct Layout {
    columns: Vec<(usize, usize)>,
}

impl Table {
    pub(super) const ALL: [Self; 3] = [Self::Routes, Self::Hosts, Self::Clusters];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Hosts => "hosts",
            Self::Clusters => "clusters",
        }
    }

    pub(super) const fn next(self) -> Self {
        match self {
            Self::Routes => Self::Hosts,
            Self::Hosts => Self::Clusters,
            Self::Clusters => Self::Routes,
        }
    }

    pub(super) const fn columns(self) -> &'static [Column] {
        const fn column(title: &'static str, rank: u8) -> Column {
            Column { title, rank }
        }
        const ROUTES: &[Column] = &[
            column("ROUTE", 0),
            column("REQ/S", 1),
            column("5XX/S", 2),
            column("P99", 3),
            column("P50", 4),
            column("4XX/S", 5),
            column("SERVICE", 6),
            column("OBJECT", 7),
        ];
        const HOSTS: &[Column] = &[
            column("HOST", 0),
            column("REQ/S", 1),
            column("5XX/S", 2),
            column("4XX/S", 3),
            column("WORST P99", 4),
            column("ROUTES", 5),
        ];
        const CLUSTERS: &[Column] = &[
            column("CLUSTER", 0),
            column("REQ/S", 1),
            column("5XX/S", 2),
            column("P99", 3),
            column("P50", 4),
            column("QUEUED", 5),
        ];
        match self {
            Self::Routes => ROUTES,
            Self::Hosts => HOSTS,
            Self::Clusters => CLUSTERS,
        }
    }

    /// The rows that hold all words of a filter, in the order of a column: numbers from the greatest, texts
    /// from A.
    pub(super) fn rows(self, traffic: &Traffic, filter: &str, sorted_by: usize, signs: Signs) -> Vec<Row> {
        let mut rows = match self {
            Self::Routes => routes(traffic, signs),
            Self::Hosts => hosts(traffic, signs),
            Self::Clusters => clusters(traffic, signs),
        };
        let words: Vec<_> = filter.split_whitespace().map(str::to_lowercase).collect();
        rows.retain(|row| holds_all(row, &words));
        rows.sort_by(|one, other| {
            one[sorted_by].compare(&other[sorted_by]).then_with(|| one[0].compare(&other[0]))
        });
        rows
    }
}

fn holds_all(row: &Row, words: &[String]) -> bool {
    words.iter().all(|word| {
        row.iter().any(|cell| matches!(cell, Cell::Text(text) if text.to_lowercase().contains(word.as_str())))
    })
}

impl Cell {
    fn number(value: f64) -> Self {
        Self::Number { text: number(value), value }
    }

    fn quantile(of: Option<super::answers::Quantile>, signs: Signs) -> Self {
        Self::Number { text: quantile(of, signs), value: of.map_or(-1.0, |of| of.estimate_seconds) }
    }

    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number { text, .. } => text,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number { value: one, .. }, Self::Number { value: other, .. }) => other.total_cmp(one),
            _ => self.text().cmp(other.text()),
        }
    }
}

fn routes(traffic: &Traffic, signs: Signs) -> Vec<Row> {
    let row = |route: &super::answers::RouteTraffic| {
        let Latency { p50, p99 } = route.latency;
        vec![
            Cell::Text(signs.clean(&format!("{}{}", host_name(&route.host), route.path))),
            Cell::number(route.requests_per_second),
            Cell::number(route.server_errors_per_second),
            Cell::quantile(p99, signs),
            Cell::quantile(p50, signs),
            Cell::number(route.client_errors_per_second),
            Cell::Text(signs.clean(&route.service)),
            Cell::Text(signs.clean(&format!("{}/{}", route.namespace, route.object))),
        ]
    };
    traffic.routes.iter().map(row).collect()
}

/// The sums of a host's routes. Quantiles cannot be summed: the worst one is shown.
fn hosts(traffic: &Traffic, signs: Signs) -> Vec<Row> {
    let mut hosts: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for route in &traffic.routes {
        hosts.entry(host_name(&route.host)).or_default().push(route);
    }
    let row = |(name, routes): (&str, Vec<&super::answers::RouteTraffic>)| {
        let sum = |of: fn(&super::answers::RouteTraffic) -> f64| {
            Cell::number(routes.iter().map(|route| of(route)).sum())
        };
        let worst = routes.iter().filter_map(|route| route.latency.p99);
        let worst = worst.max_by(|one, other| one.estimate_seconds.total_cmp(&other.estimate_seconds));
        vec![
            Cell::Text(signs.clean(name)),
            sum(|route| route.requests_per_second),
            sum(|route| route.server_errors_per_second),
            sum(|route| route.client_errors_per_second),
            Cell::quantile(worst, signs),
            Cell::number(routes.len() as f64),
        ]
    };
    hosts.into_iter().map(row).collect()
}

fn clusters(traffic: &Traffic, signs: Signs) -> Vec<Row> {
    let row = |cluster: &super::answers::ClusterTraffic| {
        vec![
            Cell::Text(signs.clean(&cluster.name)),
            Cell::number(cluster.requests_per_second),
            Cell::number(cluster.server_errors_per_second),
            Cell::quantile(cluster.latency.p99, signs),
            Cell::quantile(cluster.latency.p50, signs),
            Cell::Number { text: count(cluster.queued), value: cluster.queued as f64 },
        ]
    };
    traffic.clusters.iter().map(row).collect()
}

/// The name of a host as people write it. Metrics have `_` for any.
fn host_name(label: &str) -> &str {
    if label == "_" { "*" } else { label }
}

impl Layout {
    /// Chooses columns for a width. The one that the table is sorted by comes right after the name, so that
    /// the order can be understood.
    pub(super) fn new(table: Table, rows: &[Row], sorted_by: usize, whole: usize, signs: Signs) -> Self {
        let columns = table.columns();
        let widest = |at: usize| {
            let of_cells = rows.iter().map(|row| width(row[at].text())).max().unwrap_or(0);
            of_cells.max(width(&title(columns, at, sorted_by, signs)))
        };
        let natural = widest(0);
        let least = natural.min(NAME_MIN.max(whole / 3));
        let mut by_rank: Vec<_> = (1..columns.len()).collect();
        by_rank.sort_by_key(|&at| (at != sorted_by, columns[at].rank));
        let (mut used, mut chosen) = (least, Vec::new());
        for at in by_rank {
            let is_text = rows.first().is_some_and(|row| matches!(row[at], Cell::Text(_)));
            let needed = if is_text { widest(at).min(TEXT_MAX) } else { widest(at) };
            if used + GAP + needed > whole {
                break;
            }
            used += GAP + needed;
            chosen.push((at, needed));
        }
        chosen.sort_unstable();
        chosen.insert(0, (0, natural.min(least + whole.saturating_sub(used)).min(whole)));
        Self { columns: chosen }
    }

    /// The titles of the columns.
    pub(super) fn head(&self, table: Table, rows: &[Row], sorted_by: usize, signs: Signs) -> String {
        let columns = table.columns();
        self.join(|at, width| {
            let title = signs.cut(&title(columns, at, sorted_by, signs), width);
            let is_text = at == 0 || rows.first().is_some_and(|row| matches!(row[at], Cell::Text(_)));
            if is_text { left(&title, width) } else { right(&title, width) }
        })
    }

    /// A row as text.
    pub(super) fn row(&self, row: &Row, signs: Signs) -> String {
        self.join(|at, width| match &row[at] {
            Cell::Text(text) => left(&signs.cut(text, width), width),
            Cell::Number { text, .. } => right(text, width),
        })
    }

    fn join(&self, text: impl Fn(usize, usize) -> String) -> String {
        let texts: Vec<_> = self.columns.iter().map(|&(at, width)| text(at, width)).collect();
        texts.join(&" ".repeat(GAP))
    }
}

fn title(columns: &[Column], at: usize, sorted_by: usize, signs: Signs) -> String {
    format!("{}{}", columns[at].title, if at == sorted_by { signs.sorted() } else { "" })
}
