//! `cargo xtask chart`: the Helm chart, rendered by Helm with its defaults and with every values file in
//! its folder `ci`; what is made from it (`deploy/static/deploy.yaml`, the table in its README) is
//! compared, or written.
//!
//! Must not be in here: a cluster. What an API server says of the objects, `testing/cluster` asks it.

mod objects;
mod schema;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use cluster::Helm;

use crate::child::root;
use objects::Objects;

/// Where the chart is, and what is made from it.
const CHART: &str = "deploy/helm/forebay";
const README: &str = "deploy/helm/forebay/README.md";
const STATIC: &str = "deploy/static/deploy.yaml";
/// The kind that the chart brings, which Helm installs before everything else.
const DEFINITION: &str = "deploy/helm/forebay/crds/forebaypolicies.yaml";
/// Release and namespace.
const NAME: &str = "forebay";

/// The text before the objects in `deploy/static/deploy.yaml`: a chart makes no namespace.
const STATIC_HEAD: &str = include_str!("../../static-head.yaml");
/// Labels that are true of what Helm installs only.
const HELM_LABELS: &[&str] = &["app.kubernetes.io/managed-by: Helm", "helm.sh/chart: "];

/// Options of `cargo xtask chart`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Writes what is made from the chart instead of comparing it.
    #[arg(long)]
    write: bool,
}

/// The chart, and who renders it.
struct Chart {
    root: PathBuf,
    helm: Helm,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let chart = Chart::open()?;
    let read = |file: &str| fs::read_to_string(chart.root.join(CHART).join(file)).context(file.to_owned());
    schema::check(&read("values.yaml")?, &read("values.schema.json")?)?;
    for values in chart.values_files()? {
        chart.check(&[&values]).with_context(|| values.display().to_string())?;
    }
    chart.check(&[]).context("the defaults")?;
    for (path, text) in chart.products()? {
        chart.settle(path, &text, arguments.write)?;
    }
    Ok(())
}

impl Chart {
    fn open() -> Result<Chart> {
        Ok(Chart { root: root().to_path_buf(), helm: Helm::install()? })
    }

    /// The files of values in `ci`, in the order of their names.
    fn values_files(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.root.join(CHART).join("ci"))?;
        let mut files: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        ensure!(!files.is_empty(), "no values files");
        files.sort();
        Ok(files)
    }

    /// Whether Helm's linter has nothing to say and the objects fit together.
    fn check(&self, values: &[&Path]) -> Result<()> {
        let chart = self.root.join(CHART);
        let mut arguments = vec!["lint".into(), "--strict".into(), chart.into_os_string()];
        arguments.extend(values.iter().map(|file| format!("--values={}", file.display()).into()));
        self.helm.run(arguments)?;
        Objects::parse(&self.render(values, &[], &[])?)?.check()
    }

    /// The objects, as text.
    fn render(&self, values: &[&Path], settings: &[&str], options: &[&str]) -> Result<String> {
        let chart = self.root.join(CHART).display().to_string();
        let mut arguments: Vec<_> = ["template", NAME, &chart, "--namespace", NAME].map(String::from).into();
        arguments.extend(values.iter().map(|file| format!("--values={}", file.display())));
        arguments.extend(settings.iter().map(|setting| format!("--set={setting}")));
        arguments.extend(options.iter().map(|option| (*option).to_owned()));
        self.helm.run(arguments)
    }

    /// The files that are made from the chart, by path.
    fn products(&self) -> Result<[(&'static str, String); 2]> {
        // The objects that `helm test` runs are not installed.
        let rendered = self.render(&[], &[], &["--skip-tests"])?;
        let lines = rendered.lines().filter(|line| {
            let line = line.trim_start();
            !HELM_LABELS.iter().any(|label| line.starts_with(label))
        });
        let definition = fs::read_to_string(self.root.join(DEFINITION)).context(DEFINITION)?;
        let head = format!("{STATIC_HEAD}---\n{definition}");
        let manifests = lines.fold(head, |text, line| text + line + "\n");
        let values = fs::read_to_string(self.root.join(CHART).join("values.yaml"))?;
        let readme = fs::read_to_string(self.root.join(README))?;
        Ok([(STATIC, manifests), (README, table::replace(&readme, &values)?)])
    }

    fn settle(&self, path: &str, text: &str, write: bool) -> Result<()> {
        let file = self.root.join(path);
        if write {
            fs::create_dir_all(file.parent().context("a folder")?)?;
            return fs::write(&file, text).with_context(|| path.to_owned());
        }
        let there = fs::read_to_string(&file).with_context(|| path.to_owned())?;
        ensure!(there == text, "{path} is not what the chart says: `cargo xtask chart --write`");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
