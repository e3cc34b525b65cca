//! Case B: behind the virtual IP of a Service 2,000 QPS become 120, because IPVS drops SYNs. From nodes'
//! files, since the kernel that runs this may have no IPVS.

use std::path::Path;

use anyhow::Result;

use crate::doctor::{Expected, Related, judge};
use crate::page::Section;

const WHAT: &str = "Files of three nodes with kube-proxy in IPVS mode, judged with `forebay doctor --root`. Forebay talks to Pods \
and not to the virtual IP.";
const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures");
const NONE: &[Related] = &[];

/// A node: its folder, its description, its expected problems, and its correct settings.
type Node = (&'static str, &'static str, &'static [Expected], &'static [&'static str]);

const NODES: &[Node] = &[
    (
        "b-3.10",
        "Linux 3.10, `conn_reuse_mode` 1",
        &[
            Expected {
                id: "ipvs-reuse",
                verdict: "failure",
                at_least: &[("inactive_connections", 32_000.0)],
            },
            // 120 connects a second, and hardly one of them at once.
            Expected { id: "syn-retry", verdict: "failure", at_least: &[("share_percent", 90.0)] },
        ],
        &["ipvs-drain-stuck"],
    ),
    (
        "b-4.19",
        "Linux 4.19, `conn_reuse_mode` 0",
        &[
            Expected { id: "ipvs-reuse", verdict: "warning", at_least: &[] },
            Expected { id: "ipvs-drain-stuck", verdict: "failure", at_least: &[("inactive", 9_967.0)] },
        ],
        &["syn-retry"],
    ),
    ("b-5.15", "Linux 5.15, `conn_reuse_mode` 1", &[], &["ipvs-reuse", "ipvs-drain-stuck", "syn-retry"]),
];

pub(crate) fn run() -> Result<Section> {
    let mut section =
        Section::of_others(WHAT, &["node", "`ipvs-reuse`", "`ipvs-drain-stuck`", "`syn-retry`"]);
    let folder = tempfile::tempdir()?;
    for (name, what, expected, fine) in NODES {
        let diagnosis = judge(&Path::new(CAPTURES).join(name), folder.path())?;
        diagnosis.check(expected, NONE)?;
        let verdict = |id| Ok(diagnosis.get(id)?["verdict"].as_str().unwrap_or_default().to_owned());
        for id in *fine {
            anyhow::ensure!(verdict(id)? == "ok", "{name}: {:#}", diagnosis.get(id)?);
        }
        let verdicts = ["ipvs-reuse", "ipvs-drain-stuck", "syn-retry"].map(verdict);
        let [reuse, drain, retry]: [Result<String>; 3] = verdicts;
        section.row([(*what).into(), reuse?, drain?, retry?]);
        diagnosis.tell(expected, what, &mut section)?;
    }
    Ok(section)
}
