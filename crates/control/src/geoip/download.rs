//! Downloads of archives over HTTP, with the system's certificate authorities and its proxy for HTTPS.

use std::time::Duration;

use bytes::Bytes;
use geo::Edition;
use http::header::{IF_MODIFIED_SINCE, LAST_MODIFIED, LOCATION, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

use super::archive;
use super::sources::{Download, Origin};

/// Longest archive in bytes.
const ARCHIVE_BYTES_MAX: usize = 512 << 20;

/// Longest digest file in bytes.
const DIGEST_BYTES_MAX: usize = 4096;

/// Redirects that are followed: as many as Go's client of ingress-nginx follows.
const REDIRECTS_MAX: usize = 10;

/// Time for one attempt to download an archive.
const ATTEMPT_MAX: Duration = Duration::from_mins(5);

/// Factor by which the pause grows after each attempt, as in ingress-nginx.
const PAUSE_GROWTH: f64 = 1.5;

/// The outcome of a download.
pub(super) enum Fetched {
    /// The archive is still the one of the last download.
    Unchanged,
    Archive {
        bytes: Vec<u8>,
        /// The value of `Last-Modified`.
        modified: Option<String>,
    },
}

/// Why an archive could not be downloaded.
struct Failure {
    message: String,
    /// Another attempt may succeed.
    is_transient: bool,
}

impl Failure {
    fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_transient: false }
    }

    fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_transient: true }
    }
}

/// Downloads the archive of an edition, with as many attempts as the settings allow. `modified` is the value
/// of `Last-Modified` of the last download.
pub(super) async fn fetch(
    download: &Download,
    edition: Edition,
    modified: Option<&str>,
) -> Result<Fetched, String> {
    let attempts = if download.pause.is_zero() { 1 } else { download.attempts.max(1) };
    let mut pause = download.pause;
    let mut attempt = 1;
    loop {
        let fetched = tokio::time::timeout(ATTEMPT_MAX, fetch_once(&download.origin, edition, modified));
        let result = fetched.await.unwrap_or_else(|_| Err(Failure::transient("it took too long")));
        match result {
            Ok(fetched) => return Ok(fetched),
            Err(failure) if failure.is_transient && attempt < attempts => {
                tracing::info!(%edition, attempt, why = failure.message, "a download has failed");
                tokio::time::sleep(pause).await;
                pause = pause.mul_f64(PAUSE_GROWTH);
                attempt += 1;
            }
            Err(failure) => {
                let url = download.origin.public_url(edition);
                return Err(format!("download of {url}: {}", failure.message));
            }
        }
    }
}

async fn fetch_once(origin: &Origin, edition: Edition, modified: Option<&str>) -> Result<Fetched, Failure> {
    let url = origin.url(edition);
    let response = get(&url, modified).await?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if modified.is_some() => return Ok(Fetched::Unchanged),
        status => return Err(refused(status)),
    }
    let modified = response.headers().get(LAST_MODIFIED);
    let modified = modified.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let bytes = read(response, ARCHIVE_BYTES_MAX).await?;
    let digest = get(&format!("{url}.sha256"), None).await?;
    match (digest.status(), origin) {
        (StatusCode::OK, _) => {
            let text = read(digest, DIGEST_BYTES_MAX).await?;
            archive::check(&bytes, &String::from_utf8_lossy(&text)).map_err(Failure::lasting)?;
        }
        // A mirror need not have digests.
        (StatusCode::NOT_FOUND | StatusCode::FORBIDDEN, Origin::Mirror(_)) => {}
        (status, _) => return Err(Failure { message: format!("its .sha256: {status}"), ..refused(status) }),
    }
    Ok(Fetched::Archive { bytes: bytes.to_vec(), modified })
}

fn refused(status: StatusCode) -> Failure {
    let hint = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => " (is the license key right?)",
        StatusCode::TOO_MANY_REQUESTS => " (the license has a limit of downloads per day)",
        _ => "",
    };
    Failure { message: format!("{status}{hint}"), is_transient: status.is_server_error() }
}

async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes, Failure> {
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| Failure::transient(error.to_string()))
}

/// Sends a GET, and follows redirects, but not from HTTPS to HTTP.
async fn get(url: &str, modified: Option<&str>) -> Result<Response<Incoming>, Failure> {
    let mut url: Uri = url.parse().map_err(|_| Failure::lasting("the URL cannot be read"))?;
    for _ in 0..=REDIRECTS_MAX {
        let mut request = Request::get(url.clone()).header(USER_AGENT, "forebay");
        if let Some(modified) = modified {
            request = request.header(IF_MODIFIED_SINCE, modified);
        }
        let request = request.body(Empty::new()).map_err(|error| Failure::lasting(error.to_string()))?;
        let response = send(request).await?;
        if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let next: Uri = location
            .and_then(|location| location.parse().ok())
            .ok_or_else(|| Failure::lasting("it redirects without a usable Location"))?;
        let next = absolute(&url, next)?;
        if url.scheme() == Some(&Scheme::HTTPS) && next.scheme() != Some(&Scheme::HTTPS) {
            return Err(Failure::lasting("it redirects from HTTPS to HTTP"));
        }
        url = next;
    }
    Err(Failure::lasting(format!("it redirects more than {REDIRECTS_MAX} times")))
}

/// The target of a redirect, whose host may be left out.
fn absolute(from: &Uri, to: Uri) -> Result<Uri, Failure> {
    if to.authority().is_some() {
        return Ok(to);
    }
    let mut parts = to.into_parts();
    parts.scheme = from.scheme().cloned();
    parts.authority = from.authority().cloned();
    Uri::from_parts(parts).map_err(|_| Failure::lasting("it redirects without a usable Location"))
}

async fn send(request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, Failure> {
    let builder = Client::builder(TokioExecutor::new());
    let proxy = Matcher::from_env().intercept(request.uri());
    let sent = if let Some(proxy) = proxy.filter(|_| request.uri().scheme() == Some(&Scheme::HTTPS)) {
        let mut tunnel = Tunnel::new(proxy.uri().clone(), HttpConnector::new());
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        builder.build(over_tls(tunnel)?).request(request).await
    } else {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        builder.build(over_tls(connector)?).request(request).await
    };
    sent.map_err(|error| Failure::transient(chain(&error)))
}

fn over_tls<C>(connector: C) -> Result<HttpsConnector<C>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::lasting(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
    Ok(builder.enable_http1().wrap_connector(connector))
}

/// An error with its causes, none of which names the URL.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
