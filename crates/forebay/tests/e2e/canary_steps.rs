//! Canaries whose shares grow over a time, and are stopped when they are worse than their mainline.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use testkit::manifest::{self, service};
use testkit::{Canned, Connection, Forebay, Setup};

use crate::replicas::Replicas;
use crate::{GET, OK, setup};

const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";

/// A mainline, and a canary that fails while it is told to.
struct Pair {
    mainline: Canned,
    canary: Canned,
    is_ill: Arc<AtomicBool>,
}

impl Pair {
    fn new() -> Self {
        let is_ill = Arc::<AtomicBool>::default();
        let of_canary = Arc::clone(&is_ill);
        let canary = Canned::choosing(move |_| {
            let is_ill = of_canary.load(Ordering::SeqCst);
            if is_ill { ERROR.into() } else { OK.into() }
        });
        Self { mainline: Canned::saying("mainline"), canary, is_ill }
    }

    /// A Forebay in front of both, which keeps states in a file.
    fn setup(&self, steps: &str, folder: &Path) -> Setup {
        let ingress = manifest::Ingress::new("next")
            .path("web.test", "Prefix", "/", "next")
            .annotation("canary", "true")
            .annotation("canary-by-header", "X-Canary")
            .annotation("forebay.io/canary-steps", steps);
        let canary = ingress.document() + &service("next", &[self.canary.address()]);
        setup()
            .endpoint(self.mainline.address())
            .setting("keep-alive-requests", "1000000")
            .manifest("next.yaml", canary)
            .arguments([format!("--canary-state={}", folder.join("canaries.json").display())])
    }
}

/// The state of the canary, by `/status`.
fn status(forebay: &Forebay) -> Value {
    let status: Value = serde_json::from_str(forebay.admin("/status").text()).expect("JSON");
    status["canaries"][0].clone()
}

fn await_step(forebay: &Forebay, step: u64) {
    forebay.await_that(&format!("step {step}"), || status(forebay)["step"] == step);
}

/// Sends so many requests one after the other. Returns how many the canary got, and how many failed.
fn ask(pair: &Pair, client: &mut Connection, count: usize) -> (usize, usize) {
    let before = pair.canary.heads().len();
    let failed = (0..count).filter(|_| client.ask(GET).status != 200).count();
    (pair.canary.heads().len() - before, failed)
}

#[test]
fn a_canary_that_fails_in_its_second_step_gets_nothing_any_more() {
    let (pair, folder) = (Pair::new(), tempfile::tempdir().unwrap());
    let forebay = pair.setup("10%/500ms, 30%/1h, 100%", folder.path()).start();
    let mut client = forebay.client();
    assert_eq!(ask(&pair, &mut client, 20).1, 0);
    await_step(&forebay, 2);
    let line = forebay.await_log("step 2 of 3: the canary takes 30%");
    assert!(line.contains("default/next"), "{line}");
    let (taken, failed) = ask(&pair, &mut client, 1000);
    assert!((200..400).contains(&taken) && failed == 0, "{taken} of 1000, {failed} failed");

    pair.is_ill.store(true, Ordering::SeqCst);
    forebay.await_that("the canary to be stopped", || {
        ask(&pair, &mut client, 20);
        status(&forebay)["state"] != "running"
    });
    let line = forebay.await_log("stopped in step 2 of 3: ");
    assert!(line.contains("of its requests fail"), "{line}");
    assert_eq!(ask(&pair, &mut client, 300), (0, 0));
    // The header is for those who look for the fault.
    let forced = client.ask(&GET.replace("\r\n\r\n", "\r\nX-Canary: always\r\n\r\n"));
    assert_eq!(forced.status, 500);
    is_shown(&forebay);

    // Neither a change of other settings nor a restart begins it again; another run does.
    drop(forebay);
    pair.is_ill.store(false, Ordering::SeqCst);
    let forebay = pair.setup("10%/500ms, 30%/1h, 100%", folder.path()).start();
    assert_eq!(status(&forebay)["state"], "stopped");
    let mut client = forebay.client();
    assert_eq!(ask(&pair, &mut client, 300), (0, 0));
    drop(forebay);
    let forebay = pair.setup("100%", folder.path()).start();
    forebay.await_that("the other steps", || status(&forebay)["state"] == "complete");
    assert_eq!(ask(&pair, &mut forebay.client(), 100), (100, 0));
}

/// Metrics, the console and explanations show that the canary was stopped.
fn is_shown(forebay: &Forebay) {
    let labels = [("namespace", "default"), ("ingress", "next")];
    for (name, value) in
        [("forebay_canary_stopped", 1), ("forebay_canary_step", 2), ("forebay_canary_share_ratio", 0)]
    {
        assert_eq!(forebay.metrics().sum(name, &labels), value, "{name}");
    }
    let state: Value = serde_json::from_str(forebay.admin("/console/state").text()).expect("JSON");
    assert_eq!(state["canaries"][0]["state"], "stopped", "{state}");
    let explained = forebay.admin("/explain?url=http://web.test/").text().to_owned();
    assert!(explained.contains("stopped in step 2 of 3"), "{explained}");
}

/// No Lease is there, and the second replica gets no request: it has the stop from the first one.
#[test]
fn a_stop_is_told_to_the_other_replica() {
    let pair = Pair::new();
    let replicas = Replicas::start(2, |folder| pair.setup("30%/1h, 100%", folder));
    let [first, second] = &replicas.all[..] else { panic!("two") };
    pair.is_ill.store(true, Ordering::SeqCst);
    let mut client = first.client();
    first.await_that("the canary to be stopped", || {
        ask(&pair, &mut client, 20);
        status(first)["state"] == "stopped"
    });
    second.await_that("the other replica to stop it", || status(second)["state"] == "stopped");
    assert_eq!(status(second)["step"], status(first)["step"]);
    second.await_log("stopped in step 1 of 2: ");
    assert_eq!(ask(&pair, &mut second.client(), 100), (0, 0));
}

#[test]
fn a_canary_goes_on_at_its_step_after_a_restart() {
    let (pair, folder) = (Pair::new(), tempfile::tempdir().unwrap());
    let steps = "1%/500ms, 60%/1h, 100%";
    let forebay = pair.setup(steps, folder.path()).start();
    await_step(&forebay, 2);
    let began = status(&forebay)["beganSeconds"].as_f64().unwrap();
    let kept = || std::fs::read_to_string(folder.path().join("canaries.json")).unwrap();
    forebay.await_that("the run to be in the file", || kept().contains("default/next"));
    drop(forebay);
    let forebay = pair.setup(steps, folder.path()).start();
    let status = status(&forebay);
    assert_eq!(
        (status["step"].as_u64(), status["beganSeconds"].as_f64()),
        (Some(2), Some(began)),
        "{status}"
    );
    let (taken, _) = ask(&pair, &mut forebay.client(), 300);
    assert!((120..240).contains(&taken), "{taken} of 300");
}

#[test]
fn a_fault_of_both_does_not_stop_the_canary() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair { mainline: Canned::answering(ERROR), ..Pair::new() };
    pair.is_ill.store(true, Ordering::SeqCst);
    let forebay = pair.setup("50%/1h, 100%", folder.path()).start();
    let (taken, failed) = ask(&pair, &mut forebay.client(), 500);
    assert!(taken > 150 && failed == 500, "{taken} {failed}");
    assert_eq!(status(&forebay)["state"], "running", "{}", status(&forebay));
}
