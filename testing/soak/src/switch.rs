//! Services that can be switched off and on, as those that go away and come back.
//!
//! Must not be in here: what they serve.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A switch that is on at first.
#[derive(Clone, Debug)]
pub(crate) struct Switch(Arc<watch::Sender<bool>>);

impl Default for Switch {
    fn default() -> Self {
        Self(Arc::new(watch::channel(true).0))
    }
}

/// The fate of open connections when the service is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// They end at once.
    Abrupt,
    /// They are left to their tasks, which have the switch.
    Orderly,
}

impl Switch {
    /// Switches the service on or off.
    pub(crate) fn set(&self, is_on: bool) {
        self.0.send_replace(is_on);
    }

    /// Waits until the switch is on, or off.
    pub(crate) async fn until(&self, is_on: bool) {
        // The sender lives as long as this value.
        let _ = self.0.subscribe().wait_for(|now| *now == is_on).await;
    }

    /// Listens at an address while the switch is on; `serve` is called for each connection. Connects are
    /// refused while it is off.
    pub(crate) async fn listen<S, F>(self, address: SocketAddr, parting: Parting, serve: S)
    where
        S: Fn(TcpStream) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            self.until(true).await;
            let Ok(listener) = TcpListener::bind(address).await else {
                // The kernel still has the old socket.
                tokio::task::yield_now().await;
                continue;
            };
            loop {
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = self.until(false) => break,
                };
                let Ok((stream, _)) = stream else { continue };
                let _ = stream.set_nodelay(true);
                let (serving, switch) = (serve(stream), self.clone());
                tokio::spawn(async move {
                    if parting == Parting::Orderly {
                        return serving.await;
                    }
                    tokio::select! {
                        () = serving => {}
                        () = switch.until(false) => {}
                    }
                });
            }
        }
    }
}
