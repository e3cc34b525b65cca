//! Fill level and results of the cache, as the admin server returns them and the command prints them.

use std::collections::BTreeMap;
use std::fmt::Write;

use observe::{CacheResult, CacheTotals};
use proxy::CacheFigures;
use serde::{Deserialize, Serialize};

/// Ingresses in the table for people, those with the most requests; JSON has more.
const ROWS_MAX: usize = 20;
/// Most Ingresses that are listed.
const INGRESSES_MAX: usize = 1000;

/// The figures of the cache.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheStatus {
    memory: Memory,
    /// None where there is no disk tier.
    disk: Option<Disk>,
    /// Of all Ingresses.
    requests: Requests,
    /// Ingresses, those with the most requests first.
    ingresses: Vec<OfIngress>,
    /// Ingresses that are left out.
    ingresses_left_out: usize,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    bytes: u64,
    /// Of responses that still come.
    coming_bytes: u64,
    limit_bytes: u64,
    objects: u64,
    evictions: u64,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Disk {
    bytes: u64,
    limit_bytes: u64,
    objects: u64,
    hits: u64,
    writes: u64,
    dropped: u64,
    evictions: u64,
    write_errors: u64,
    read_errors: u64,
    full: bool,
    loading: bool,
}

/// Requests by the cache's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Requests {
    hit: u64,
    miss: u64,
    expired: u64,
    stale: u64,
    revalidated: u64,
    collapsed: u64,
    bypass: u64,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
struct OfIngress {
    namespace: String,
    ingress: String,
    #[serde(flatten)]
    requests: Requests,
}

impl Requests {
    fn add(&mut self, counts: &[u64; CacheResult::ALL.len()]) {
        for (result, count) in CacheResult::ALL.iter().zip(counts) {
            *match result {
                CacheResult::Hit => &mut self.hit,
                CacheResult::Miss => &mut self.miss,
                CacheResult::Expired => &mut self.expired,
                CacheResult::Stale => &mut self.stale,
                CacheResult::Revalidated => &mut self.revalidated,
                CacheResult::Collapsed => &mut self.collapsed,
                CacheResult::Bypass => &mut self.bypass,
            } += count;
        }
    }

    fn all(&self) -> u64 {
        self.without_body_of_an_endpoint() + self.miss + self.expired + self.bypass
    }

    /// Requests for which no endpoint sent a body.
    fn without_body_of_an_endpoint(&self) -> u64 {
        self.hit + self.stale + self.revalidated + self.collapsed
    }

    /// The hit rate among requests to routes with a cache.
    fn hit_percent(&self) -> Option<f64> {
        let concerned = self.all() - self.bypass;
        (concerned > 0).then(|| 100.0 * self.without_body_of_an_endpoint() as f64 / concerned as f64)
    }

    fn row(&self, name: &str) -> String {
        let percent = self.hit_percent().map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"));
        let Self { hit, miss, expired, stale, revalidated, collapsed, bypass } = self;
        format!(
            "{name:<40} {percent:>8} {hit:>10} {miss:>10} {expired:>9} {stale:>9} {revalidated:>11} {collapsed:>9} {bypass:>9}\n"
        )
    }
}

impl CacheStatus {
    pub(crate) fn new(figures: &CacheFigures, totals: Vec<CacheTotals>) -> Self {
        let mut by_ingress = BTreeMap::<_, Requests>::new();
        let mut requests = Requests::default();
        for CacheTotals { namespace, ingress, counts, .. } in totals {
            requests.add(&counts);
            by_ingress.entry((namespace, ingress)).or_default().add(&counts);
        }
        let of = |((namespace, ingress), requests)| OfIngress { namespace, ingress, requests };
        let mut ingresses: Vec<_> = by_ingress.into_iter().map(of).collect();
        ingresses.sort_by_key(|of| std::cmp::Reverse(of.requests.all()));
        let ingresses_left_out = ingresses.len().saturating_sub(INGRESSES_MAX);
        ingresses.truncate(INGRESSES_MAX);
        let CacheFigures { objects, bytes, coming_bytes, bytes_max: limit_bytes, evictions, disk } = *figures;
        Self {
            memory: Memory { bytes, coming_bytes, limit_bytes, objects, evictions },
            disk: disk.as_ref().map(Disk::of),
            requests,
            ingresses,
            ingresses_left_out,
        }
    }

    /// The figures as text for people.
    pub(crate) fn text(&self) -> String {
        let Memory { bytes, coming_bytes, limit_bytes, objects, evictions } = &self.memory;
        let mut text = format!(
            "memory  {}, {objects} URLs, {evictions} evictions",
            share(bytes + coming_bytes, *limit_bytes)
        );
        if *coming_bytes > 0 {
            let _ = write!(text, ", {} of it coming", readable(*coming_bytes));
        }
        text.push('\n');
        match &self.disk {
            None => text.push_str("disk    none\n"),
            Some(disk) => text.push_str(&disk.text()),
        }
        let _ = write!(
            text,
            "\n{:<40} {:>8} {:>10} {:>10} {:>9} {:>9} {:>11} {:>9} {:>9}\n",
            "INGRESS", "HITS", "HIT", "MISS", "EXPIRED", "STALE", "REVALIDATED", "COLLAPSED", "BYPASS"
        );
        for of in self.ingresses.iter().take(ROWS_MAX) {
            text.push_str(&of.requests.row(&format!("{}/{}", of.namespace, of.ingress)));
        }
        let left = self.ingresses.len().saturating_sub(ROWS_MAX) + self.ingresses_left_out;
        if left > 0 {
            let _ = writeln!(text, "and {left} more");
        }
        text.push_str(&self.requests.row("all"));
        text
    }
}

impl Disk {
    fn of(figures: &cache_disk::Figures) -> Self {
        let cache_disk::Figures {
            records: objects,
            bytes,
            bytes_max: limit_bytes,
            full,
            loading,
            written: writes,
            dropped,
            hits,
            refused: write_errors,
            evicted: evictions,
            corrupt: read_errors,
        } = *figures;
        Self {
            bytes,
            limit_bytes,
            objects,
            hits,
            writes,
            dropped,
            evictions,
            write_errors,
            read_errors,
            full,
            loading,
        }
    }

    fn text(&self) -> String {
        let Self { bytes, limit_bytes, objects, hits, writes, dropped, evictions, .. } = self;
        let mut text = format!(
            "disk    {}, {objects} URLs, {evictions} evictions, {hits} hits, {writes} writes, {dropped} dropped",
            share(*bytes, *limit_bytes)
        );
        for (count, what) in [(self.write_errors, "failed writes"), (self.read_errors, "damaged records")] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        for (is_so, what) in
            [(self.full, "the file system is full"), (self.loading, "the index is being read")]
        {
            if is_so {
                let _ = write!(text, "; {what}");
            }
        }
        text + "\n"
    }
}

/// The figures of a disk tier for metrics.
pub(crate) fn disk_figures(figures: &cache_disk::Figures) -> observe::DiskFigures {
    let disk = Disk::of(figures);
    observe::DiskFigures {
        bytes: disk.bytes,
        bytes_max: disk.limit_bytes,
        objects: disk.objects,
        hits: disk.hits,
        writes: disk.writes,
        dropped: disk.dropped,
        evictions: disk.evictions,
        write_errors: disk.write_errors,
        read_errors: disk.read_errors,
        full: disk.full,
        loading: disk.loading,
    }
}

fn share(bytes: u64, limit: u64) -> String {
    let percent = 100.0 * bytes as f64 / limit.max(1) as f64;
    format!("{} of {} ({percent:.1} %)", readable(bytes), readable(limit))
}

fn readable(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes < 10_240.0 {
        format!("{mebibytes:.1} MiB")
    } else {
        format!("{:.1} GiB", mebibytes / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(ingress: &str, service: &str, counts: [u64; 7]) -> CacheTotals {
        let text = str::to_owned;
        CacheTotals { namespace: text("shop"), ingress: text(ingress), service: text(service), counts }
    }

    #[test]
    fn services_of_an_ingress_are_one_line_and_the_busiest_is_first() {
        let figures = CacheFigures {
            objects: 3,
            bytes: 3 << 20,
            coming_bytes: 1 << 20,
            bytes_max: 8 << 20,
            evictions: 5,
            disk: Some(cache_disk::Figures {
                bytes: 1 << 20,
                bytes_max: 4 << 20,
                full: true,
                ..Default::default()
            }),
        };
        let of = [
            totals("idle", "a", [0, 1, 0, 0, 0, 0, 0]),
            totals("web", "a", [5, 1, 1, 1, 1, 1, 9]),
            totals("web", "b", [1, 0, 0, 0, 0, 0, 0]),
        ];
        let text = CacheStatus::new(&figures, of.into()).text();
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "memory 4.0 MiB of 8.0 MiB (50.0 %), 3 URLs, 5 evictions, 1.0 MiB of it coming",
                "disk 1.0 MiB of 4.0 MiB (25.0 %), 0 URLs, 0 evictions, 0 hits, 0 writes, 0 dropped; the file system is full",
                "",
                "INGRESS HITS HIT MISS EXPIRED STALE REVALIDATED COLLAPSED BYPASS",
                "shop/web 81.8 % 6 1 1 1 1 1 9",
                "shop/idle 0.0 % 0 1 0 0 0 0 0",
                "all 75.0 % 6 2 1 1 1 1 9",
            ]
        );
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let figures =
            CacheFigures { objects: 0, bytes: 0, coming_bytes: 0, bytes_max: 0, evictions: 0, disk: None };
        let of = (0..INGRESSES_MAX + 5).map(|number| totals(&number.to_string(), "a", [1, 0, 0, 0, 0, 0, 0]));
        let status = CacheStatus::new(&figures, of.collect());
        assert_eq!((status.ingresses.len(), status.ingresses_left_out), (INGRESSES_MAX, 5));
        assert_eq!(status.requests.hit, INGRESSES_MAX as u64 + 5);
        assert!(status.text().contains("\nand 985 more\n"), "{}", status.text());
    }
}
