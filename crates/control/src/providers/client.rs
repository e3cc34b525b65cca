//! A client of HTTP/1.1 for questions to providers: each has a connection of its own, a time and a size.
//! Redirects are not followed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, CONNECTION, HOST, USER_AGENT};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::{Place, Reach, Url};
use crate::certificate::authorities_of_system;

/// Longest time for a question, from the look-up of the name to the last byte.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(10);

/// Longest time for a connection to one address.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Longest answer, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// The client of all providers.
#[derive(Default)]
pub(crate) struct Client {
    reach: Mutex<Reach>,
    /// With the machine's authorities; none before it is needed.
    tls: Mutex<Option<Arc<ClientConfig>>>,
}

/// An answer of a provider.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(super) fn set_reach(&self, reach: Reach) {
        *self.reach.lock().unwrap_or_else(PoisonError::into_inner) = reach;
    }

    /// Asks for a document.
    ///
    /// # Errors
    ///
    /// A text without anything of the answer's content.
    pub(crate) async fn get(&self, place: &Place) -> Result<Answer, String> {
        self.send(place, Request::get(place.url.target.as_str()).body(Bytes::new())).await
    }

    /// Sends a request to the host of a place. Its target is that of the request.
    ///
    /// # Errors
    ///
    /// The same as those of [`get`](Self::get).
    pub(crate) async fn send(
        &self,
        place: &Place,
        request: Result<Request<Bytes>, http::Error>,
    ) -> Result<Answer, String> {
        self.send_within(TIME_MAX, place, request).await
    }

    /// Sends a request that may take this time.
    ///
    /// # Errors
    ///
    /// The same as those of [`get`](Self::get).
    pub(crate) async fn send_within(
        &self,
        time: Duration,
        place: &Place,
        request: Result<Request<Bytes>, http::Error>,
    ) -> Result<Answer, String> {
        let request = request.map_err(|error| error.to_string())?;
        let asked = tokio::time::timeout(time, self.ask(place, request)).await;
        asked.unwrap_or_else(|_| Err(format!("no answer within {} seconds", time.as_secs())))
    }

    async fn ask(&self, place: &Place, mut request: Request<Bytes>) -> Result<Answer, String> {
        let url = &place.url;
        let headers = request.headers_mut();
        let host = url.authority().parse().map_err(|_| "the host is no value of a header".to_owned())?;
        headers.insert(HOST, host);
        headers.insert(CONNECTION, http::HeaderValue::from_static("close"));
        headers.insert(USER_AGENT, http::HeaderValue::from_static("forebay"));
        headers.entry(ACCEPT).or_insert(http::HeaderValue::from_static("application/json"));
        let request = request.map(Full::new);
        let stream = self.connect(url).await?;
        if !url.is_encrypted {
            return exchange(stream, request).await;
        }
        let name = ServerName::try_from(url.host.clone()).map_err(|_| "the host is no name".to_owned())?;
        let connector = TlsConnector::from(self.tls(place.authority.as_deref())?);
        let stream = connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))?;
        exchange(stream, request).await
    }

    async fn connect(&self, url: &Url) -> Result<TcpStream, String> {
        let found = tokio::net::lookup_host((url.host.as_str(), url.port)).await;
        let found: Vec<SocketAddr> =
            found.map_err(|error| format!("DNS: {error}"))?.take(ADDRESSES_MAX).collect();
        let mut last = "the name has no address".to_owned();
        for address in found {
            let refusal = {
                let reach = self.reach.lock().unwrap_or_else(PoisonError::into_inner);
                reach.refusal(url, address.ip())
            };
            if let Some(why) = refusal {
                last = format!("address {} cannot be used: {why}", address.ip());
                continue;
            }
            match tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = format!("{address}: {error}"),
                Err(_) => {
                    last = format!("{address}: no connection within {} seconds", CONNECT_TIME_MAX.as_secs());
                }
            }
        }
        Err(last)
    }

    /// The configuration of TLS: with these authorities, or with the machine's.
    fn tls(&self, authority: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
        if let Some(pem) = authority {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| format!("the authority: {error}"))?;
                roots.add(certificate).map_err(|error| format!("the authority: {error}"))?;
            }
            return configure(roots);
        }
        let mut known = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(Arc::clone(known));
        }
        let mut roots = RootCertStore::empty();
        let of_system = authorities_of_system();
        roots.add_parsable_certificates(
            of_system.certificates.iter().map(|der| CertificateDer::from(der.as_slice())),
        );
        if roots.is_empty() {
            return Err("this machine has no certificates of authorities".to_owned());
        }
        let made = configure(roots)?;
        *known = Some(Arc::clone(&made));
        Ok(made)
    }
}

fn configure(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("the answer cannot be read: {error}"))?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    };
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        biased;
        answer = &mut answered => answer,
        // The connection may end with the answer's last byte.
        _ = connection => answered.await,
    }
}
