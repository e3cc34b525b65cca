//! TLS whose bytes are forwarded unchanged, or decrypted and perhaps encrypted again (Gateway API:
//! `TLSRoute`).

use std::rc::Rc;
use std::sync::Arc;

use model::TlsStream;
use observe::Reason;

use super::record::{Outcome, Tracked};
use super::tcp::{CloseMode, Ends, pass};
use super::{Service, cluster, connect};
use crate::io::deadline::Deadline;
use crate::io::socket::Socket;
use crate::request::conn::Conn;
use crate::worker::{Worker, WorkerConfig};

/// Connects the client with an endpoint and relays bytes until both have closed. Without an endpoint the
/// connection is closed. `config` is the configuration that `to` belongs to.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    config: &WorkerConfig,
    conn: &Conn,
    to: &Arc<TlsStream>,
    client: Socket,
    deadline: &Deadline,
) {
    let service = Service::of_tls(conn.listener, to, worker);
    let tracked = Tracked::begin(&service, worker);
    let mut outcome = Outcome { client: conn.peer.ip(), fault: None, received: 0, sent: 0 };
    let upstream = match begin(worker, config, to, client, deadline).await {
        Ok(mut ends) => {
            if pass(worker, &mut ends, &tracked, &mut outcome).await == CloseMode::Reset {
                ends.client.reset();
            }
            Some(ends.endpoint.address)
        }
        Err(reason) => {
            outcome.fault = Some(reason);
            None
        }
    };
    tracked.end(worker, &outcome, upstream);
}

async fn begin(
    worker: &Rc<Worker>,
    config: &WorkerConfig,
    to: &TlsStream,
    client: Socket,
    deadline: &Deadline,
) -> Result<Ends, Reason> {
    let cluster = cluster(&to.backends, &worker.random)?;
    let (endpoint, upstream) = connect(worker, config, cluster, deadline).await?;
    Ok(Ends { client, upstream, endpoint })
}
