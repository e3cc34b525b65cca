//! Rendered objects, and what has to hold among them whatever the values are.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// In the order of the text.
pub(super) struct Objects(Vec<Value>);

impl Objects {
    pub(super) fn parse(text: &str) -> Result<Objects> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
        Ok(Objects(documents.into_iter().filter(|document| !document.is_null()).collect()))
    }

    /// The object; a panic where there is none, since only tests ask.
    #[cfg(test)]
    pub(super) fn get(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name).unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    #[cfg(test)]
    pub(super) fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of_kind(kind).find(|object| object["metadata"]["name"] == name)
    }

    pub(super) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    pub(super) fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for object in &self.0 {
            let name = name(object)?;
            ensure!(names.insert(name.clone()), "{name} is there twice");
        }
        for workload in self.workloads() {
            let name = name(workload)?;
            check_workload(workload).context(name)?;
        }
        for service in self.of_kind("Service") {
            self.check_service(service)
                .with_context(|| format!("Service {}", service["metadata"]["name"]))?;
        }
        Ok(())
    }

    fn workloads(&self) -> impl Iterator<Item = &Value> {
        self.of_kind("Deployment").chain(self.of_kind("DaemonSet"))
    }

    /// A Service selects Pods of the chart, and those have its ports.
    fn check_service(&self, service: &Value) -> Result<()> {
        let selector = &service["spec"]["selector"];
        let selected: Vec<_> =
            self.workloads().filter(|workload| selects(selector, &workload["spec"]["template"])).collect();
        ensure!(!selected.is_empty(), "selects nothing");
        let ports = service["spec"]["ports"].as_array().context("no ports")?;
        for target in ports.iter().filter_map(|port| port["targetPort"].as_str()) {
            let has_it = |workload: &&Value| port_names(workload).contains(target);
            ensure!(selected.iter().all(has_it), "no port is named {target}");
        }
        Ok(())
    }
}

/// Kind, namespace and name: what an object is told from others by.
fn name(object: &Value) -> Result<String> {
    let text = |value: &Value| value.as_str().map(String::from);
    let (Some(_), Some(kind), Some(name)) =
        (text(&object["apiVersion"]), text(&object["kind"]), text(&object["metadata"]["name"]))
    else {
        bail!("not an object: {object}");
    };
    let namespace = text(&object["metadata"]["namespace"]).unwrap_or_default();
    Ok(format!("{kind} {namespace}/{name}"))
}

/// A workload selects its own Pods; whatever a container mounts is there; ports have one name each.
fn check_workload(workload: &Value) -> Result<()> {
    let template = &workload["spec"]["template"];
    ensure!(selects(&workload["spec"]["selector"]["matchLabels"], template), "does not select its Pods");
    let volumes: BTreeSet<_> =
        items(&template["spec"]["volumes"]).filter_map(|it| it["name"].as_str()).collect();
    for container in items(&template["spec"]["containers"]) {
        let mut numbers = BTreeMap::new();
        for port in items(&container["ports"]) {
            let text = port["name"].as_str().context("a port without a name")?;
            ensure!(text.len() <= 15, "{text} is too long for a port's name");
            let number = (&port["containerPort"], &port["protocol"]);
            ensure!(number.0.is_u64(), "{text} is not a number: {}", number.0);
            ensure!(numbers.insert(text, number).is_none(), "two ports are named {text}");
        }
        for mount in items(&container["volumeMounts"]) {
            let name = mount["name"].as_str().context("a mount without a name")?;
            ensure!(volumes.contains(name), "no volume is named {name}");
        }
    }
    Ok(())
}

fn selects(selector: &Value, template: &Value) -> bool {
    let labels = &template["metadata"]["labels"];
    selector
        .as_object()
        .is_some_and(|map| !map.is_empty() && map.iter().all(|(key, value)| &labels[key] == value))
}

fn port_names(workload: &Value) -> BTreeSet<&str> {
    let containers = items(&workload["spec"]["template"]["spec"]["containers"]);
    containers
        .flat_map(|container| items(&container["ports"]))
        .filter_map(|port| port["name"].as_str())
        .collect()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}
