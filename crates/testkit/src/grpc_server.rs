//! A gRPC service whose calls are streams both ways: each message that comes is answered by a function of the
//! test.

use std::fmt;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::h2_stream::header_map;
use crate::runtime::{driver, wait};

/// A listener. It and its connections end with this value.
#[derive(Debug)]
pub struct GrpcServer {
    address: SocketAddr,
    shared: Shared,
    accepting: JoinHandle<()>,
}

/// The reaction to a message.
#[derive(Clone, Debug)]
pub enum GrpcReply {
    /// Another message goes back.
    Message(Vec<u8>),
    /// Bytes go back that may be no frame.
    Bytes(Vec<u8>),
    /// The call ends with this status.
    End(u32),
    /// The stream is reset.
    Reset,
    /// The connection is closed.
    Close,
}

type Answer = dyn Fn(&[u8]) -> Vec<GrpcReply> + Send + Sync;

#[derive(Clone)]
struct Shared {
    answer: Arc<Answer>,
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("begun", &self.begun)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl GrpcServer {
    /// Listens at a free port. `answer` is given each message.
    pub fn new(answer: impl Fn(&[u8]) -> Vec<GrpcReply> + Send + Sync + 'static) -> Self {
        let listener = wait("a listener", TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let shared = Shared {
            answer: Arc::new(answer),
            begun: Arc::default(),
            ended: Arc::default(),
            connections: Arc::default(),
        };
        let accepting = driver().spawn(shared.clone().accept(listener));
        Self { address, shared, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls so far.
    pub fn begun(&self) -> usize {
        self.shared.begun.load(Ordering::SeqCst)
    }

    /// Calls that have ended, whoever ended them.
    pub fn ended(&self) -> usize {
        self.shared.ended.load(Ordering::SeqCst)
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    async fn accept(self, listener: TcpListener) {
        // Dropped with this task, and its tasks with it.
        let mut serving = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            self.connections.fetch_add(1, Ordering::SeqCst);
            serving.spawn(self.clone().serve(stream));
            while serving.try_join_next().is_some() {}
        }
    }

    async fn serve(self, stream: TcpStream) {
        stream.set_nodelay(true).expect("a socket option");
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        let mut calls = JoinSet::new();
        loop {
            tokio::select! {
                accepted = connection.accept() => {
                    let Some(Ok((request, respond))) = accepted else { return };
                    self.begun.fetch_add(1, Ordering::SeqCst);
                    calls.spawn(self.clone().call(request, respond));
                }
                Some(done) = calls.join_next() => {
                    if done.is_ok_and(|closes| closes) {
                        return;
                    }
                }
            }
        }
    }

    /// Serves a call. True if the connection is to be closed.
    async fn call(self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> bool {
        let head = [("content-type", "application/grpc")];
        let mut response = Response::new(());
        *response.headers_mut() = header_map(&head);
        let Ok(mut sender) = respond.send_response(response, false) else { return false };
        let closes = self.converse(request.into_body(), &mut sender).await;
        self.ended.fetch_add(1, Ordering::SeqCst);
        closes
    }

    async fn converse(&self, mut body: RecvStream, sender: &mut SendStream<Bytes>) -> bool {
        let mut input = Vec::new();
        loop {
            let message = match input.split_first_chunk::<5>() {
                Some(([_, length @ ..], rest)) => {
                    let length = u32::from_be_bytes(*length) as usize;
                    (rest.len() >= length).then(|| rest[..length].to_vec())
                }
                None => None,
            };
            let Some(message) = message else {
                match body.data().await {
                    Some(Ok(data)) => {
                        input.extend_from_slice(&data);
                        // Fails only where the stream has ended meanwhile.
                        let _ = body.flow_control().release_capacity(data.len());
                    }
                    Some(Err(_)) => return false,
                    None => {
                        let _ = sender.send_trailers(header_map(&[("grpc-status", "0")]));
                        return false;
                    }
                }
                continue;
            };
            input.drain(..5 + message.len());
            for reply in (self.answer)(&message) {
                match reply {
                    GrpcReply::Message(message) => {
                        let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
                        let framed = [&[0][..], &length, &message].concat();
                        if send(sender, framed.into()).await.is_err() {
                            return false;
                        }
                    }
                    GrpcReply::Bytes(bytes) => {
                        if send(sender, bytes.into()).await.is_err() {
                            return false;
                        }
                    }
                    GrpcReply::End(status) => {
                        let _ = sender.send_trailers(header_map(&[("grpc-status", &status.to_string())]));
                        return false;
                    }
                    GrpcReply::Reset => {
                        sender.send_reset(Reason::INTERNAL_ERROR);
                        return false;
                    }
                    GrpcReply::Close => return true,
                }
            }
        }
    }
}

async fn send(sender: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), h2::Error> {
    while !data.is_empty() {
        sender.reserve_capacity(data.len());
        let capacity = poll_fn(|cx| sender.poll_capacity(cx)).await;
        let piece = data.split_to(capacity.unwrap_or(Ok(0))?.min(data.len()));
        if piece.is_empty() {
            return Err(Reason::CANCEL.into());
        }
        sender.send_data(piece, false)?;
    }
    Ok(())
}
