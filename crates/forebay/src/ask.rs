//! Asks the admin server of a running Forebay, or another server of which one answer is wanted.

use std::fmt;
use std::pin::{Pin, pin};

use anyhow::{Context, bail};
use http::uri::Authority;
use http::{HeaderName, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Longest answer in bytes: metrics of thousands of Ingresses.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A connection to an admin server, on which one question follows the other.
pub(crate) struct Conversation {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
    host: String,
}

/// An answer of an admin server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Where an admin server is.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    authority: Authority,
}

/// Sends a request without a body to the server at a URL, and reads its answer.
pub(crate) fn ask<A: DeserializeOwned>(url: &str, method: Method, target: &str) -> anyhow::Result<A> {
    ask_with(url, method, target, Bytes::new())
}

/// Sends a request without a body to the server at a URL, and returns the body of its answer.
pub(crate) fn content(url: &str, method: Method, target: &str) -> anyhow::Result<Bytes> {
    exchange(url, method, target, Bytes::new())?.content(url)
}

/// Sends a request to the server at a URL, and reads its answer.
pub(crate) fn ask_with<A: DeserializeOwned>(
    url: &str,
    method: Method,
    target: &str,
    body: Bytes,
) -> anyhow::Result<A> {
    exchange(url, method, target, body)?.read(url)
}

fn exchange(url: &str, method: Method, target: &str, body: Bytes) -> anyhow::Result<Answer> {
    let address = Address::of_url(url)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(async { address.connect().await?.send(method, target, None, body).await });
    asked.with_context(|| format!("cannot ask {url}"))
}

impl Address {
    /// Reads what `--admin` says: a URL.
    fn of_url(url: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("--admin {url} is no URL"))?;
        match (uri.scheme_str(), uri.authority()) {
            (Some("http"), Some(authority)) => Ok(Self { authority: authority.clone() }),
            _ => bail!("--admin {url} is no URL that begins with http://"),
        }
    }

    /// Parses the value of `--admin`: a URL, or the part behind `http://`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.contains("://") { Self::of_url(text) } else { Self::of_url(&format!("http://{text}")) }
    }

    /// Connects to the admin server.
    pub(crate) async fn connect(&self) -> anyhow::Result<Conversation> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.authority.port_u16().unwrap_or(80))).await?;
        Conversation::over(stream, self.authority.as_str()).await
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}", self.authority)
    }
}

impl Conversation {
    /// Begins a conversation over a stream that leads to an admin server. `host` is the server's name in
    /// requests.
    pub(crate) async fn over<S>(stream: S, host: &str) -> anyhow::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, connection: Box::pin(connection), host: host.to_owned() })
    }

    /// Sends a request without a body, and reads its answer, whatever its status.
    pub(crate) async fn ask(&mut self, method: Method, target: &str) -> anyhow::Result<Answer> {
        self.send(method, target, None, Bytes::new()).await
    }

    /// The same with a body and one more header.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        target: &str,
        header: Option<(HeaderName, &str)>,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder().method(method).uri(target).header("host", &self.host);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body))?;
        let talk = async {
            let response = self.sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
            anyhow::Ok(Answer { status, body })
        };
        let mut talk = pin!(talk);
        tokio::select! {
            biased;
            said = &mut talk => said,
            ended = &mut self.connection => {
                ended?;
                // The answer may have come just before the end.
                talk.await.context("the connection was closed")
            }
        }
    }
}

impl Answer {
    /// The body, unless the answer is an error. `whose` names the sender.
    pub(crate) fn content(&self, whose: &str) -> anyhow::Result<Bytes> {
        let Self { status, body } = self;
        if *status != StatusCode::OK {
            bail!("{whose} says {status}: {}", String::from_utf8_lossy(body).trim_end());
        }
        Ok(body.clone())
    }

    /// The parsed JSON of the body. `whose` names the sender.
    pub(crate) fn read<A: DeserializeOwned>(&self, whose: &str) -> anyhow::Result<A> {
        let body = self.content(whose)?;
        serde_json::from_slice(&body).with_context(|| format!("{whose} is no admin server of this version"))
    }
}
