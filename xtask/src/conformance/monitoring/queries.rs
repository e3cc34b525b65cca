//! The queries of dashboards and rules, with Grafana's variables filled in.
//!
//! Must not be in here: Prometheus' answers.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::super::stage::Stage;
use super::prometheus::Prometheus;
use crate::template::data;

/// Ours, in `deploy/monitoring/dashboards`.
pub(super) const DASHBOARDS: [&str; 2] = ["forebay", "forebay-routes"];

/// Grafana's variables for times, and their values: a minute, so that the last requests are seen.
const TIMES: [(&str, &str); 2] = [("$__rate_interval", "1m"), ("$__interval", "1m")];

/// A query as Prometheus is asked it.
#[derive(Debug)]
pub(super) struct Query {
    /// Dashboard, panel, and number of the query in the panel.
    pub(super) name: String,
    pub(super) expression: String,
}

/// The queries of a dashboard.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dashboard {
    /// Grafana's queries for the values of variables.
    pub(super) variables: BTreeMap<String, String>,
    /// The queries of each panel, by the panel's title.
    pub(super) panels: BTreeMap<String, Vec<String>>,
}

/// A rule of Prometheus.
#[derive(Debug, Deserialize)]
pub(super) struct Rule {
    pub(super) alert: Option<String>,
    pub(super) record: Option<String>,
    pub(super) expr: String,
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

/// Our rules, in `deploy/monitoring/rules`.
pub(super) fn rules() -> Result<Vec<Rule>> {
    let rules: Rules = data("../deploy/monitoring/rules/forebay.yaml")?;
    Ok(rules.groups.into_iter().flat_map(|group| group.rules).collect())
}

/// The queries of all dashboards: once with all values of each variable, as they are shown at first, and once
/// with the first value. `ask` makes traffic, so that variables have values.
pub(super) fn all(
    prometheus: &Prometheus,
    stage: &Stage,
    ask: impl Fn() -> Result<()>,
) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for (name, dashboard) in dashboards()? {
        let all = dashboard.variables.keys().map(|variable| (variable.clone(), ".*".to_owned())).collect();
        let mut one = BTreeMap::new();
        for (variable, query) in &dashboard.variables {
            let (query, label) = label_query(&filled(query, &all)).context(variable.clone())?;
            let values = stage.interrupt.poll(super::LIMIT, || {
                ask()?;
                let values = prometheus.label_values(&query, &label)?;
                Ok(Some(values).filter(|values| !values.is_empty()))
            })?;
            let values = values.with_context(|| format!("{name}: the variable {variable} has no values"))?;
            one.insert(variable.clone(), values[0].clone());
        }
        queries.extend(dashboard.queries(&name, &all));
        queries.extend(dashboard.queries(&format!("{name}, one of each"), &one));
    }
    Ok(queries)
}

/// Ours and ingress-nginx's, by name.
pub(super) fn dashboards() -> Result<BTreeMap<String, Dashboard>> {
    let mut dashboards: BTreeMap<String, Dashboard> = data("../testing/monitoring/ingress-nginx.yaml")?;
    for name in DASHBOARDS {
        let file = format!("../deploy/monitoring/dashboards/{name}.json");
        dashboards.insert(name.to_owned(), Dashboard::of_grafana(&data(&file)?).context(file)?);
    }
    Ok(dashboards)
}

impl Dashboard {
    /// Reads a file of Grafana.
    fn of_grafana(json: &Value) -> Result<Dashboard> {
        let mut dashboard = Dashboard::default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let variables = json["templating"]["list"].as_array().context("no variables")?;
        for variable in variables.iter().filter(|variable| variable["type"] == "query") {
            let (name, query) = (text(&variable["name"]), text(&variable["query"]["query"]));
            dashboard.variables.insert(name.context("no name")?, query.context("no query")?);
        }
        let annotations = json["annotations"]["list"].as_array().into_iter().flatten();
        for annotation in annotations {
            let title = format!("{} (annotation)", text(&annotation["name"]).context("no name")?);
            dashboard.panels.insert(title, vec![text(&annotation["expr"]).context("no expression")?]);
        }
        for panel in
            json["panels"].as_array().context("no panels")?.iter().filter(|panel| panel["type"] != "row")
        {
            let title = text(&panel["title"]).context("a panel without a title")?;
            let targets = panel["targets"].as_array().with_context(|| format!("{title}: no targets"))?;
            let queries: Option<Vec<_>> = targets.iter().map(|target| text(&target["expr"])).collect();
            let queries = queries.with_context(|| format!("{title}: a target without an expression"))?;
            ensure!(!queries.is_empty(), "{title} asks for nothing");
            ensure!(
                dashboard.panels.insert(title.clone(), queries).is_none(),
                "two panels are called {title}"
            );
        }
        Ok(dashboard)
    }

    fn queries(&self, name: &str, values: &BTreeMap<String, String>) -> Vec<Query> {
        let mut queries = Vec::new();
        for (title, panel) in &self.panels {
            for (index, expression) in panel.iter().enumerate() {
                let name = format!("{name} / {title} / {}", index + 1);
                queries.push(Query { name, expression: filled(expression, values) });
            }
        }
        queries
    }
}

/// Puts values where Grafana does.
fn filled(query: &str, values: &BTreeMap<String, String>) -> String {
    let mut text = query.to_owned();
    for (name, value) in TIMES {
        text = text.replace(name, value);
    }
    // The longest name first: `$controller` is the beginning of another.
    let mut names: Vec<_> = values.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(&format!("${name}"), &values[name]);
    }
    text
}

/// The query for the values of a label, and the label.
fn label_query(text: &str) -> Result<(String, String)> {
    let inner = text.trim().strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
    let (metric, label) =
        inner.and_then(|inner| inner.rsplit_once(',')).context("not label_values(METRIC, LABEL)")?;
    let label = label.trim().to_owned();
    Ok((format!("count by ({label}) ({metric})"), label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_by_their_whole_names() {
        let values = [("controller", "a"), ("controller_class", "b")];
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(
            filled("x{c=~\"$controller_class\",d=~\"$controller\"}[$__rate_interval]", &values),
            "x{c=~\"b\",d=~\"a\"}[1m]"
        );
    }

    #[test]
    fn labels_are_counted() {
        let (query, label) = label_query("label_values(up{a=\"1,2\"}, instance) ").unwrap();
        assert_eq!((&*query, &*label), ("count by (instance) (up{a=\"1,2\"})", "instance"));
        assert!(label_query("up").is_err());
    }
}
