//! Events that do not follow from the configuration: the steps of a canary, endpoints that fail their health
//! checks.

use tokio::sync::mpsc;

use crate::names::NsName;

/// An Event about an Ingress or a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object that the Event regards.
    pub about: About,
    /// The reason, in the form of Kubernetes: `CanaryStopped`.
    pub reason: &'static str,
    /// The sentence that `kubectl describe` shows.
    pub note: String,
    /// Somebody should look.
    pub is_warning: bool,
}

/// The object that a notice regards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// An Ingress that is served.
    Ingress(NsName),
    /// A Service whose endpoints are checked.
    Service(NsName),
}

/// Gets to know Events that were published: without their notes, which may quote values of objects.
pub trait Published: std::fmt::Debug + Send + Sync {
    /// An Event about an object was taken by the API server.
    fn published(&self, object: &str, reason: &str, is_warning: bool);
}

/// The notices that wait to be published. Those of the time before this replica led are dropped, because the
/// leader has published its own.
#[derive(Debug)]
pub(super) struct Notices(Option<mpsc::Receiver<Notice>>);

impl Notices {
    pub(super) fn new(notices: Option<mpsc::Receiver<Notice>>) -> Self {
        Self(notices)
    }

    /// Waits for the next one; for ever where there will be none.
    pub(super) async fn next(&mut self) -> Notice {
        if let Some(notices) = &mut self.0
            && let Some(notice) = notices.recv().await
        {
            return notice;
        }
        std::future::pending().await
    }

    /// The next one, if there is one already.
    pub(super) fn waiting(&mut self) -> Option<Notice> {
        self.0.as_mut()?.try_recv().ok()
    }

    /// Drops those that wait.
    pub(super) fn skip(&mut self) {
        while self.waiting().is_some() {}
    }
}
