//! States that replicas keep in the Lease, and Events that do not follow from a configuration.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// States for a test: words, of which each process knows some.
#[derive(Debug, Default)]
struct Words {
    known: Mutex<BTreeSet<String>>,
    version: AtomicU64,
}

impl Words {
    fn of(words: &[&str]) -> Arc<Self> {
        let all = Arc::new(Self::default());
        for word in words {
            all.learn(word);
        }
        all
    }

    fn learn(&self, word: &str) {
        if self.known.lock().unwrap().insert(word.to_owned()) {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn text(&self) -> String {
        let known = self.known.lock().unwrap();
        known.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

impl KeptState for Words {
    fn merge(&self, kept: Option<&str>) {
        let words = kept.unwrap_or_default().split(',').filter(|word| !word.is_empty());
        for word in words {
            self.learn(word);
        }
    }

    fn to_keep(&self) -> Option<String> {
        Some(self.text()).filter(|text| !text.is_empty())
    }

    fn to_add(&self, kept: Option<&str>) -> Option<String> {
        (kept != self.to_keep().as_deref()).then(|| self.text())
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }
}

fn beside(words: &Arc<Words>) -> Beside {
    Beside { kept: Some(Arc::clone(words) as _), ..Beside::default() }
}

fn annotation(lab: &Lab) -> Value {
    lab.api.get(LEASE).unwrap_or_default()["metadata"]["annotations"]["forebay.io/canaries"].clone()
}

#[tokio::test(start_paused = true)]
async fn states_are_the_same_for_all_replicas_and_outlive_them() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    let (of_a, of_b) = (Words::of(&["a"]), Words::of(&[]));
    let a = lab.spawn_beside("a", given("192.0.2.1"), beside(&of_a));
    until(SECOND, || annotation(&lab) == "a").await;
    let b = lab.spawn_beside("b", given("192.0.2.1"), beside(&of_b));
    until(SECOND, || of_b.text() == "a").await;
    assert_eq!(lab.holder(), "a");

    // The words of the leader are kept at once, and those of another one too.
    of_a.learn("more");
    until(2 * SECOND, || annotation(&lab) == "a,more").await;
    until(10 * SECOND, || of_b.text() == "a,more").await;
    of_b.learn("other");
    until(2 * SECOND, || annotation(&lab) == "a,more,other").await;
    assert_eq!(lab.holder(), "a", "the Lease is the leader's all the same");
    until(10 * SECOND, || of_a.text() == "a,more,other").await;

    a.stop().await;
    b.stop().await;
    let of_c = Words::of(&[]);
    let c = lab.spawn_beside("c", given("192.0.2.1"), beside(&of_c));
    until(SECOND, || lab.holder() == "c").await;
    assert_eq!((annotation(&lab), of_c.text().as_str()), (json!("a,more,other"), "a,more,other"));
    c.stop().await;
}

/// The Events that were published, as lines.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Published for Told {
    fn published(&self, object: &str, reason: &str, is_warning: bool) {
        self.0.lock().unwrap().push(format!("{object} {reason} {is_warning}"));
    }
}

#[tokio::test(start_paused = true)]
async fn notices_become_events_of_their_ingress() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    let (send, notices) = mpsc::channel(10);
    let notice = |name: &str, note: &str, is_warning| Notice {
        about: About::Ingress(NsName::new("apps", name)),
        reason: "CanaryStopped",
        note: note.to_owned(),
        is_warning,
    };
    // It is of the time before this process led.
    send.send(notice("web", "early", true)).await.unwrap();
    let told = Arc::<Told>::default();
    let published = Some(Arc::clone(&told) as _);
    let beside = Beside { notices: Some(notices), published, ..Beside::default() };
    let keeper = lab.spawn_beside("a", given("192.0.2.1"), beside);
    until(5 * SECOND, || lab.patches() == 1).await;
    for (name, note, is_warning) in
        [("web", "it fails", true), ("gone", "nobody", true), ("web", "well", false)]
    {
        send.send(notice(name, note, is_warning)).await.unwrap();
    }
    until(5 * SECOND, || lab.events().len() == 2).await;
    let row = |type_: &str, note: &str| [type_, "CanaryStopped", "web", note].map(str::to_owned);
    assert_eq!(lab.events(), [row("Normal", "well"), row("Warning", "it fails")]);
    until(SECOND, || told.0.lock().unwrap().len() == 2).await;
    let lines = told.0.lock().unwrap().join(", ");
    assert!(
        lines.contains("web CanaryStopped true, ") && lines.ends_with("web CanaryStopped false"),
        "{lines}"
    );
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn notices_about_endpoints_become_events_of_their_service() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    let (send, notices) = mpsc::channel(10);
    let beside = Beside { notices: Some(notices), ..Beside::default() };
    let keeper = lab.spawn_beside("a", given("192.0.2.1"), beside);
    until(5 * SECOND, || lab.patches() == 1).await;
    lab.programmed.send_replace(Some(Arc::new(Translation {
        ingresses: Arc::new(vec![lab.served("web")].into()),
        checked_services: [(NsName::new("apps", "shop"), "uid-shop".to_owned())].into(),
        ..Translation::default()
    })));
    for name in ["web", "shop"] {
        let notice = Notice {
            about: About::Service(NsName::new("apps", name)),
            reason: "EndpointUnhealthy",
            note: "port 80: 1 of 2 endpoints fail".to_owned(),
            is_warning: true,
        };
        send.send(notice).await.unwrap();
    }
    until(5 * SECOND, || !lab.events().is_empty()).await;
    let expected = ["Warning", "EndpointUnhealthy", "shop", "port 80: 1 of 2 endpoints fail"];
    assert_eq!(lab.events(), [expected.map(str::to_owned)], "a Service without checks has none");
    let regarding = &lab.api.list(EVENTS)[0]["regarding"];
    assert_eq!((&regarding["kind"], &regarding["uid"]), (&json!("Service"), &json!("uid-shop")));
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_statuses_one_leads_once_certificates_are_wanted() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    let options = StatusOptions { update: false, sync_events: false, ..given("192.0.2.1") };
    let keepers = ["a", "b"].map(|pod| lab.spawn(pod, options.clone()));
    let leaders = || keepers.iter().filter(|keeper| *keeper.leading().borrow()).count();
    sleep(100 * SECOND).await;
    assert_eq!((leaders(), lab.api.get(LEASE)), (0, None));
    let hosts = ["web.test".to_owned()].into();
    let acme = crate::acme::Wanted { hosts, ..crate::acme::Wanted::default() };
    lab.programmed.send_replace(Some(Arc::new(Translation { acme, ..Translation::default() })));
    until(100 * SECOND, || leaders() == 1).await;
    sleep(100 * SECOND).await;
    assert_eq!((leaders(), lab.patches()), (1, 0), "one leads, and no status is written");
    for keeper in keepers {
        keeper.stop().await;
    }
    assert_eq!(lab.holder(), "", "the Lease is given up");
}
