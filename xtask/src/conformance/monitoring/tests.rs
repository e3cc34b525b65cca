use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn alerts() -> Vec<String> {
    let rules = queries::rules().unwrap();
    rules.into_iter().filter_map(|rule| rule.alert).collect()
}

#[test]
fn every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() {
    let text = fs::read_to_string(root().join("deploy/monitoring/rules/forebay.test.yaml")).unwrap();
    for alert in alerts() {
        assert!(
            text.contains(&format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}")),
            "{alert} never fires"
        );
        assert!(text.contains(&format!("alertname: {alert}}}")), "{alert} always fires");
    }
}

#[test]
fn every_alert_is_documented_and_nothing_else_is() {
    let page = fs::read_to_string(root().join("docs/monitoring.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Forebay")?.split_once('`'));
    let documented: BTreeSet<_> = rows.map(|(name, _)| format!("Forebay{name}")).collect();
    assert_eq!(documented, alerts().into_iter().collect());
}

#[test]
fn every_alert_says_what_to_do() {
    let text = fs::read_to_string(root().join("deploy/monitoring/rules/forebay.yaml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&text).unwrap();
    let rules =
        rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    for rule in rules.filter(|rule| rule["alert"].is_string()) {
        assert!(
            ["critical", "warning", "info"].contains(&rule["labels"]["severity"].as_str().unwrap()),
            "{rule:#}"
        );
        for name in ["summary", "description"] {
            assert!(rule["annotations"][name].as_str().is_some_and(|text| text.len() > 20), "{rule:#}");
        }
    }
}

#[test]
fn every_alert_leads_to_a_heading_of_the_runbook() {
    let text = fs::read_to_string(root().join("deploy/monitoring/rules/forebay.yaml")).unwrap();
    let urls: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).collect();
    assert_eq!(urls.len(), alerts().len());
    for url in urls {
        let (page, heading) = url.split_once('#').unwrap();
        let page = fs::read_to_string(root().join(page)).unwrap();
        let mut headings = page.lines().filter(|line| line.starts_with('#')).map(anchor);
        assert!(headings.any(|known| known == heading), "{url}");
    }
}

/// The name under which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    title.chars().filter(|one| one.is_alphanumeric() || *one == '-').collect()
}

#[test]
fn dashboards_are_what_grafana_can_show() {
    for name in queries::DASHBOARDS {
        let text =
            fs::read_to_string(root().join(format!("deploy/monitoring/dashboards/{name}.json"))).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["uid"], &json["schemaVersion"]), (&name.into(), &39.into()));
        let panels = json["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len());
        let place = |panel: &Value, name: &str| panel["gridPos"][name].as_u64().unwrap();
        for (index, panel) in panels.iter().enumerate() {
            assert!(place(panel, "x") + place(panel, "w") <= 24, "{panel:#}");
            for other in &panels[..index] {
                let overlaps = |from: &str, size: &str| {
                    place(panel, from) < place(other, from) + place(other, size)
                        && place(other, from) < place(panel, from) + place(panel, size)
                };
                assert!(
                    !(overlaps("x", "w") && overlaps("y", "h")),
                    "{} lies on {}",
                    panel["title"],
                    other["title"]
                );
            }
            if panel["type"] != "row" {
                assert!(
                    panel["description"].is_string() && panel["fieldConfig"]["defaults"]["unit"].is_string(),
                    "{panel:#}"
                );
            }
        }
    }
    assert_eq!(queries::dashboards().unwrap().len(), 4);
}

#[test]
fn an_exception_that_is_none_any_more_is_an_error() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert!(compare("lints", &set(&["a"]), &set(&["a"])).is_ok());
    assert!(compare("lints", &set(&["a", "b"]), &set(&["a"])).is_err());
    assert!(compare("lints", &set(&["a"]), &set(&["a", "b"])).is_err());
}
