//! Reports of configurations that every worker serves.
//!
//! Must not be in here: how a configuration gets to the workers.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use control::Translation;
use control::acme::Acme;
use model::ListenerId;
use proxy::{ClosedPorts, Observer};
use tokio::sync::watch;

/// A translation that has been handed to the workers.
#[derive(Clone)]
pub(super) struct Applied {
    pub(super) generation: u64,
    pub(super) observer: Observer,
    pub(super) translation: Arc<Translation>,
}

/// Reports each translation once every worker serves it, with the ports that cannot be listened at. `begin`
/// is called when the first one is served.
pub(super) async fn tell_programmed(
    mut applied: watch::Receiver<Option<Applied>>,
    programmed: watch::Sender<Option<Arc<Translation>>>,
    acme: &Acme,
    begin: impl FnOnce(),
) {
    let mut begin = Some(begin);
    let mut latest: Option<(Applied, watch::Receiver<ClosedPorts>)> = None;
    loop {
        tokio::select! {
            changed = applied.changed() => match changed {
                Ok(()) => {
                    let Some(next) = applied.borrow_and_update().clone() else { continue };
                    let reached = next.observer.reached(next.generation);
                    with_word(reached, |late| late.tell(next.generation)).await;
                    if let Some(begin) = begin.take() {
                        begin();
                    }
                    let ports = next.observer.closed_ports();
                    latest = Some((next, ports));
                }
                Err(_) => return,
            },
            () = ports_change(latest.as_mut().map(|(_, ports)| ports)) => {}
        }
        let Some((applied, ports)) = &mut latest else { continue };
        let closed = with_first_reasons(&ports.borrow_and_update());
        let mut translation = Arc::clone(&applied.translation);
        if !closed.is_empty() {
            Arc::make_mut(&mut translation).gateway.note_closed(&closed);
        }
        acme.note_served(&translation.acme);
        programmed.send_replace(Some(translation));
    }
}

/// Status of a configuration that some worker does not serve yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// For so long.
    Waiting(Duration),
    /// All do, after so long.
    Over(Duration),
}

/// The time in which all workers should serve a configuration that was handed out.
const PROGRAMMED_LATE: Duration = Duration::from_secs(5);

/// The time between two messages about a worker that does not serve it.
const PROGRAMMED_LATE_TOLD_INTERVAL: Duration = Duration::from_secs(60);

/// Waits until all workers have reached a configuration. Status, Events and what comes later wait with it, so
/// that there is a word of a worker that hangs.
async fn with_word(reached: impl Future<Output = ()>, mut tell: impl FnMut(Late)) {
    let (mut reached, begun) = (std::pin::pin!(reached), tokio::time::Instant::now());
    let mut patience = PROGRAMMED_LATE;
    while tokio::time::timeout(patience, &mut reached).await.is_err() {
        tell(Late::Waiting(begun.elapsed()));
        patience = PROGRAMMED_LATE_TOLD_INTERVAL;
    }
    if patience != PROGRAMMED_LATE {
        tell(Late::Over(begun.elapsed()));
    }
}

impl Late {
    fn tell(self, generation: u64) {
        match self {
            Self::Waiting(time) => tracing::error!(
                generation,
                seconds = time.as_secs(),
                "a worker does not take over the configuration: status and Events wait for it"
            ),
            Self::Over(time) => {
                tracing::warn!(
                    generation,
                    seconds = time.as_secs(),
                    "all workers serve the configuration now"
                );
            }
        }
    }
}

async fn ports_change(ports: Option<&mut watch::Receiver<ClosedPorts>>) {
    let Some(ports) = ports else { return pending().await };
    if ports.changed().await.is_err() {
        // The proxy is being stopped.
        pending::<()>().await;
    }
}

fn with_first_reasons(closed: &ClosedPorts) -> BTreeMap<ListenerId, String> {
    let first = |(id, reasons): (&ListenerId, &BTreeMap<usize, String>)| {
        reasons.values().next().map(|reason| (*id, reason.clone()))
    };
    closed.iter().filter_map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that hangs keeps what waits for it, and is heard of.
    #[tokio::test(start_paused = true)]
    async fn a_configuration_that_is_late_is_told_of() {
        let told_of = async |reached_after: Duration| {
            let mut told = Vec::new();
            with_word(tokio::time::sleep(reached_after), |late| told.push(late)).await;
            told
        };
        assert_eq!(told_of(Duration::from_secs(4)).await, []);
        let late = [5, 65].map(|seconds| Late::Waiting(Duration::from_secs(seconds)));
        let all = [&late[..], &[Late::Over(Duration::from_secs(70))]].concat();
        assert_eq!(told_of(Duration::from_secs(70)).await, all);
    }
}
