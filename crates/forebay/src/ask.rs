//! Asks the admin server of a running Forebay.

use anyhow::{Context, bail};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

/// Longest answer in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Sends a request to the server at a URL, and reads its answer.
pub(crate) fn ask<A: DeserializeOwned>(url: &str, method: Method, target: &str) -> anyhow::Result<A> {
    let uri: Uri = url.parse().with_context(|| format!("--admin {url} is no URL"))?;
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!("--admin {url} is no URL that begins with http://");
    };
    let address = (authority.host().trim_matches(['[', ']']).to_owned(), authority.port_u16().unwrap_or(80));
    let request = Request::builder().method(method).uri(target).header("host", authority.as_str());
    let request = request.body(Empty::<Bytes>::new())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (status, body) = runtime
        .block_on(async {
            let stream = TcpStream::connect(address).await?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let talk = async {
                let response = sender.send_request(request).await?;
                let status = response.status();
                let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
                anyhow::Ok((status, body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes()))
            };
            tokio::select! {
                said = talk => said,
                ended = connection => {
                    ended?;
                    bail!("the connection was closed")
                }
            }
        })
        .with_context(|| format!("cannot ask {url}"))?;
    if status != StatusCode::OK {
        bail!("{url} says {status}: {}", String::from_utf8_lossy(&body).trim_end());
    }
    serde_json::from_slice(&body).with_context(|| format!("{url} is no admin server of this version"))
}
