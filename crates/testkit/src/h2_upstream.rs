//! An HTTP/2 upstream, in clear or over TLS, whose requests the test takes one by one and answers as it
//! likes.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, Connection, SendResponse};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::h2_stream::{BodyReceiver, BodySender, fields, header_map};
use crate::runtime::{at_once, driver, wait};
use crate::tls::TlsServer;
use crate::tls_info::TlsInfo;

/// A listener. It and its connections end with this value.
#[derive(Debug)]
pub struct H2Upstream {
    port: u16,
    requests: tokio::sync::Mutex<mpsc::UnboundedReceiver<H2Peer>>,
    connections: Arc<AtomicUsize>,
    leaving: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

/// A request with the handle to answer it.
#[derive(Debug)]
pub struct H2Peer {
    /// Method, URI and headers.
    pub request: Request<()>,
    /// The request's body.
    pub body: BodyReceiver,
    /// No content follows, not even an empty frame of it.
    pub ended_with_its_head: bool,
    /// The number of its connection, from 0.
    pub connection: usize,
    /// The result of the handshake, over TLS.
    pub tls: Option<TlsInfo>,
    answer: SendResponse<Bytes>,
}

/// State that the tasks of an upstream share.
#[derive(Clone)]
struct Shared {
    settings: Builder,
    tls: Option<TlsServer>,
    requests: mpsc::UnboundedSender<H2Peer>,
    connections: Arc<AtomicUsize>,
    leaving: watch::Receiver<u64>,
}

impl H2Upstream {
    /// Speaks in clear.
    pub fn clear() -> Self {
        Self::with(Builder::new(), None)
    }

    /// Speaks over TLS.
    pub fn tls(tls: &TlsServer) -> Self {
        Self::with(Builder::new(), Some(tls))
    }

    /// Speaks with settings of one's own.
    pub fn with(settings: Builder, tls: Option<&TlsServer>) -> Self {
        let listener =
            wait("a listener", TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let (sender, requests) = mpsc::unbounded_channel();
        let (leaving, leaves) = watch::channel(0);
        let connections = Arc::new(AtomicUsize::new(0));
        let shared = Shared {
            settings,
            tls: tls.map(|tls| tls.clone().alpn(&["h2"])),
            requests: sender,
            connections: Arc::clone(&connections),
            leaving: leaves,
        };
        let accepting = driver().spawn(shared.accept(listener));
        Self { port, requests: requests.into(), connections, leaving, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.endpoint(1)
    }

    /// Where its endpoint `127.0.0.number` is.
    pub fn endpoint(&self, number: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, number], self.port))
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Takes the next request, waiting for it.
    pub fn accept_request(&self) -> H2Peer {
        let next = async { self.requests.lock().await.recv().await };
        wait("a request", next).expect("the upstream lives")
    }

    /// Whether there is no request that was not taken.
    pub fn is_left_alone(&self) -> bool {
        self.requests.try_lock().is_ok_and(|mut requests| requests.try_recv().is_err())
    }

    /// Sends GOAWAY to all connected peers, which leave when their requests are answered.
    pub fn leave(&self) {
        self.leaving.send_modify(|times| *times += 1);
    }
}

impl Drop for H2Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl H2Peer {
    /// A header of the request.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> = fields(self.request.headers())
            .into_iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| value)
            .collect();
        if values.is_empty() { None } else { Some(values.join(", ")) }
    }

    /// Sends an interim response.
    pub fn interim(&mut self, status: u16, headers: &[(&str, &str)]) {
        self.answer.send_informational(head(status, headers)).expect("the stream is open");
    }

    /// Sends the head of the response; `is_end` if the head is all of it.
    pub fn respond(&mut self, status: u16, headers: &[(&str, &str)], is_end: bool) -> BodySender {
        self.try_respond(status, headers, is_end).expect("the stream is open")
    }

    /// Answers a peer that may have reset the stream.
    pub fn try_respond(
        &mut self,
        status: u16,
        headers: &[(&str, &str)],
        is_end: bool,
    ) -> Result<BodySender, h2::Error> {
        self.answer.send_response(head(status, headers), is_end).map(BodySender::new)
    }

    /// Sends a whole response.
    pub fn answer(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) {
        let mut sender = self.respond(status, headers, body.is_empty());
        if !body.is_empty() {
            sender.send(body.to_vec(), true);
        }
    }

    /// Sends a whole response in one write. The body has to fit into the window.
    pub fn answer_at_once(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) {
        at_once(|| self.answer(status, headers, body));
    }

    /// Resets the stream.
    pub fn reset(&mut self, reason: Reason) {
        self.answer.send_reset(reason);
    }

    /// Waits for the other end to break off, before a response was begun.
    pub fn await_reset(&mut self) -> Result<Reason, h2::Error> {
        wait("a reset", poll_fn(|cx| self.answer.poll_reset(cx)))
    }
}

impl Shared {
    async fn accept(self, listener: TcpListener) {
        // Dropped with this task, and its tasks with it.
        let mut serving = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let number = self.connections.fetch_add(1, Ordering::SeqCst);
            let mut shared = self.clone();
            // An earlier order to leave is only for the connections that were open then.
            shared.leaving.mark_unchanged();
            serving.spawn(shared.serve(stream, number));
            while serving.try_join_next().is_some() {}
        }
    }

    async fn serve(self, stream: TcpStream, number: usize) {
        stream.set_nodelay(true).expect("a socket option");
        let Some(tls) = &self.tls else { return self.drive(stream, number, None).await };
        // Some tests are about failing handshakes; they check the error at the other end.
        let Ok(stream) = TlsAcceptor::from(Arc::clone(&tls.config)).accept(stream).await else { return };
        let info = TlsInfo::of_server(stream.get_ref().1);
        if info.alpn.as_deref() == Some("h2") {
            self.drive(stream, number, Some(info)).await;
        }
    }

    async fn drive<S: AsyncRead + AsyncWrite + Unpin>(
        mut self,
        stream: S,
        number: usize,
        tls: Option<TlsInfo>,
    ) {
        let Ok(mut connection) = self.settings.handshake(stream).await else { return };
        while let Some(Ok((request, answer))) = self.next(&mut connection).await {
            let (parts, body) = request.into_parts();
            let request = Request::from_parts(parts, ());
            let body = BodyReceiver::new(body);
            let ended_with_its_head = body.is_at_end();
            let peer =
                H2Peer { request, body, ended_with_its_head, connection: number, tls: tls.clone(), answer };
            if self.requests.send(peer).is_err() {
                return;
            }
        }
        // Closing now would reset unread data, and destroy the GOAWAY with it. The task ends with the
        // upstream.
        std::future::pending::<()>().await;
    }

    async fn next<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        connection: &mut Connection<S, Bytes>,
    ) -> Option<Result<(Request<h2::RecvStream>, SendResponse<Bytes>), h2::Error>> {
        loop {
            tokio::select! {
                accepted = connection.accept() => return accepted,
                told = self.leaving.changed() => match told {
                    Ok(()) => connection.graceful_shutdown(),
                    Err(_) => return None,
                },
            }
        }
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status.try_into().expect("a status");
    *response.headers_mut() = header_map(headers);
    response
}
