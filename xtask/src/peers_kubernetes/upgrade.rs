//! An upgrade of Forebay itself by Helm, under load.
//!
//! Must not be in here: what the load sees otherwise.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cluster::Helm;
use serde_json::json;

use super::stage::{SPACE, Stage, object};
use super::traffic::{HOST, Total, deploy_pods, is_rolled_out, plan, replace_pods, undeploy, under_mix, web};
use crate::ask::Question;
use crate::child::free_address;
use crate::measured::Findings;

const RELEASE: &str = "upgraded";
const CONTROLLER: &str = "upgraded-controller";
const REPLICAS: usize = 2;
const UPGRADES: u32 = 3;
/// How long a load lasts in which an upgrade has to fit: each Pod goes on for its grace period, and then for
/// the rest of its connections.
const ROUND: Duration = Duration::from_secs(60);

pub(super) fn by_helm(stage: &mut Stage) -> Result<Findings> {
    let mut web = web()?;
    web["spec"]["ingressClassName"] = RELEASE.into();
    deploy_pods(stage, &web)?;
    let helm = Helm::install()?;
    run(stage, &helm, "install", 0)?;
    stage.await_that("the release", || is_rolled_out(&stage.client, CONTROLLER))?;
    // Stands for a load balancer, or a node's tables: connections go to the Pods that are ready.
    let balanced = SocketAddr::from((Ipv4Addr::LOCALHOST, free_address()?.port()));
    let to = json!({"data": {balanced.port().to_string(): format!("{SPACE}/{CONTROLLER}:80")}});
    stage.client.apply(&object("ConfigMap", "balancer", to))?;
    let services = format!("--tcp-services-configmap={SPACE}/balancer");
    let _balancer = stage.forebay_with(&stage.kubeconfig(), &[&services])?;
    let question = Question { host: HOST, path: "/1k", ..Question::default() };
    stage.await_that("an answer", || Ok(question.ask(balanced).is_ok_and(|answer| answer.status == 200)))?;
    let (mut total, mut longest) = (Total::default(), Duration::ZERO);
    let upgrades = stage.part_of(UPGRADES);
    for round in 1..=upgrades {
        eprintln!("upgrade {round}");
        let begun = Instant::now();
        let upgrade = || {
            replace_pods(stage, CONTROLLER, || run(stage, &helm, "upgrade", round)).map(|()| begun.elapsed())
        };
        let (outcomes, took) = under_mix(&plan(balanced, HOST, ROUND), upgrade)?;
        let took = took?;
        ensure!(took < ROUND, "the load ended before the upgrade");
        longest = longest.max(took);
        total.add(&outcomes);
    }
    helm.run(["uninstall", RELEASE, "--namespace", SPACE, &kubeconfig(stage)])?;
    undeploy(stage)?;
    let mut findings = Findings::default();
    findings.figure("upgrades", upgrades.to_string());
    findings.figure("longest s", format!("{:.1}", longest.as_secs_f64()));
    total.tell(&mut findings);
    findings.goal("0 failed", total.failed() == 0);
    Ok(findings)
}

fn run(stage: &Stage, helm: &Helm, verb: &str, round: u32) -> Result<()> {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/forebay");
    let settings = format!(
        "fullnameOverride={RELEASE},controller.ingressClassResource.name={RELEASE},\
         controller.ingressClassResource.controllerValue=forebay.test/{RELEASE},controller.ingressClass={RELEASE},\
         controller.service.type=ClusterIP,controller.replicaCount={REPLICAS}"
    );
    let settings = format!("{settings},controller.podAnnotations.round=n{round}");
    let place = ["--namespace", SPACE, &kubeconfig(stage), "--set", &settings];
    helm.run([verb, RELEASE, chart].into_iter().chain(place)).map(drop)
}

fn kubeconfig(stage: &Stage) -> String {
    format!("--kubeconfig={}", stage.kubeconfig().display())
}
