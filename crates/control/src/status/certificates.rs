//! The leadership of processes that write no statuses: one of them obtains certificates all the same.
//!
//! The election begins with the first host that needs a certificate, so that a process without one touches no
//! Lease.
//!
//! Never in here: the election itself, and how certificates are obtained.

use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;

use super::elector::Elector;
use super::writer::Programmed;
use crate::translate::Translation;

/// Leads, alone or elected, once certificates are wanted.
pub(super) struct CertificateDuty {
    /// None where this process leads without an election.
    pub(super) elector: Option<Elector>,
    pub(super) programmed: Programmed,
    pub(super) leading: watch::Sender<bool>,
}

impl CertificateDuty {
    /// Takes part for ever.
    pub(super) async fn run(&mut self) {
        let wants = |served: &Option<Arc<Translation>>| {
            served.as_ref().is_some_and(|served| !served.acme.hosts.is_empty())
        };
        // The channel closes when the process ends.
        if self.programmed.wait_for(wants).await.is_err() {
            return pending().await;
        }
        let leading = &self.leading;
        let Some(elector) = &mut self.elector else {
            leading.send_replace(true);
            return pending().await;
        };
        let mut leads = elector.leading();
        let tell = async {
            loop {
                leading.send_replace(*leads.borrow_and_update());
                if leads.changed().await.is_err() {
                    break;
                }
            }
            pending::<()>().await;
        };
        tokio::select! {
            () = elector.run() => {}
            () = tell => {}
        }
    }

    /// Gives the leadership up.
    pub(super) async fn end(&mut self) {
        self.leading.send_replace(false);
        if let Some(elector) = &mut self.elector {
            elector.release().await;
        }
    }
}
