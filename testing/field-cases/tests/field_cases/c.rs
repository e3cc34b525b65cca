//! Case C: no misfortune, but what an ingress controller can do at best: requests, TLS connections and bytes
//! by the number of CPUs.

use anyhow::{Context, Result, ensure};

use crate::measure::{number, sweep};
use crate::page::{Section, is_wished};

const WHAT: &str = "`forebay bench sweep`: Forebay on so many CPUs, 128 connections with keep-alive, 1 KB; TLS 1.2 with RSA-2048 and \
ECDHE-RSA-AES256-GCM-SHA384; bodies of 1 MB for the throughput. With * the load generator and the backend had no CPU of their own.";
/// Its tables, in the order of the headings.
const TABLES: [&str; 4] = ["http", "https", "tls", "throughput"];
const HEADINGS: &[&str] = &["CPUs", "HTTP requests/s", "HTTPS requests/s", "TLS connections/s", "Gbit/s"];

pub(crate) fn run() -> Result<Section> {
    let brief = ["--cpus", "1", "--duration", "500ms"];
    let folder = tempfile::tempdir()?;
    let tables = sweep(if is_wished() { &[] } else { &brief }, folder.path())?;
    let mut section = Section::new(WHAT, HEADINGS);
    let points = tables["http"].as_array().context("no table")?.len();
    for point in 0..points {
        let of = TABLES.map(|table| &tables[table][point]);
        for one in of {
            ensure!(number(one, "rate")? > 0.0 && one["errors"] == serde_json::json!({}), "{one:#}");
        }
        let shared = if of[0]["shared"] == true { "*" } else { "" };
        let rate = |index: usize| number(of[index], "rate");
        section.row([
            format!("{}{shared}", number(of[0], "cpus")?),
            format!("{:.0}", rate(0)?),
            format!("{:.0}", rate(1)?),
            format!("{:.0}", rate(2)?),
            format!("{:.2}", rate(3)?),
        ]);
    }
    ensure!(points > 0, "no CPU was measured");
    Ok(section)
}
