//! HTTP/3 of one client.
//!
//! Must not be in here: which requests.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3_quinn::OpenStreams;
use http::Version;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, TransportConfig, VarInt};

use crate::exchange::{Answer, Broken, Failure, Request, Target};

/// Silence after which a connection is given up: a killed server says nothing.
const IDLE: Duration = Duration::from_secs(30);

/// A connection over HTTP/3.
pub(crate) struct Http3 {
    requests: SendRequest<OpenStreams, Bytes>,
    connection: quinn::Connection,
    /// The socket, which lives as long as this.
    _endpoint: Endpoint,
}

impl Http3 {
    pub(crate) async fn connect(target: &Target, host: &str) -> io::Result<Http3> {
        let crypto = QuicClientConfig::try_from(target.tls_for(b"h3")).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(VarInt::from_u32(IDLE.as_millis() as u32).into()));
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
        let connecting = endpoint.connect_with(config, target.https, host).map_err(io::Error::other)?;
        let connection = connecting.await.map_err(io::Error::other)?;
        let begun = h3::client::new(h3_quinn::Connection::new(connection.clone())).await;
        let (mut driver, requests) = begun.map_err(io::Error::other)?;
        tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        Ok(Http3 { requests, connection, _endpoint: endpoint })
    }

    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        let uri = format!("https://{}{}", request.host, request.target);
        let head = request.head(&uri, Version::HTTP_3, false);
        // A server that leaves says so by GOAWAY, after which no stream can be opened.
        let stream = self
            .requests
            .send_request(head)
            .await
            .map_err(|error| Failure { is_unsent: true, broken: Broken::Silent(error.to_string()) })?;
        let (mut sender, mut receiver) = stream.split();
        let sending = async {
            // A server may answer before it has read everything, and then takes no more.
            if request.body.is_empty() || sender.send_data(request.body.clone()).await.is_ok() {
                let _ = sender.finish().await;
            }
        };
        tokio::join!(sending, read(&mut receiver, request)).1
    }
}

impl Drop for Http3 {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0x100), b"");
    }
}

async fn read<S>(stream: &mut RequestStream<S, Bytes>, request: &Request) -> Result<Answer, Failure>
where
    S: h3::quic::RecvStream,
{
    let head = stream.recv_response().await.map_err(|error| {
        let text = error.to_string();
        // H3_REQUEST_REJECTED: the server has not processed it (RFC 9114, section 4.1.1).
        let is_unsent = text.contains("H3_REQUEST_REJECTED") || text.contains("0x10b");
        Failure { is_unsent, broken: Broken::Silent(text) }
    })?;
    let (parts, ()) = head.into_parts();
    let mut body = Vec::new();
    loop {
        let piece = stream.recv_data().await;
        let Some(mut piece) = piece.map_err(|error| Failure::cut(&error.to_string(), body.len()))? else {
            break;
        };
        while piece.has_remaining() {
            let part = piece.chunk().len();
            body.extend_from_slice(piece.chunk());
            piece.advance(part);
        }
        request.linger().await;
    }
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
}
