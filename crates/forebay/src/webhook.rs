//! The server of the admission webhook: receives reviews over HTTPS, and answers them by
//! `control::admission`.
//!
//! Any client that can reach it may send requests. Therefore the work for a client is limited in time and
//! memory, and answers reveal nothing of Secrets.

mod certificate;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context, ensure};
use control::admission::{Judgement, REVIEW_BYTES_MAX, Request as Question};
use control::{Review, Reviews};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use observe::{Judged, Registry};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::machine::any_address;
use crate::server::{self, ConnectionSlot, Connections, PATIENCE};
use crate::{cli, trouble};
use certificate::Keeper;

/// Most bytes of reviews in memory at a time; further requests wait before they are read.
const REVIEWS_BYTES_MAX: usize = 4 * REVIEW_BYTES_MAX;

/// Starts the server's thread, which ends with the process, if the options ask for a webhook. Returns the
/// queue of reviews for the control plane; none without a webhook.
pub(crate) fn start(
    flags: &cli::Webhook,
    registry: Arc<Registry>,
    connections_max: usize,
) -> anyhow::Result<Option<mpsc::Receiver<Review>>> {
    let address = match flags.validating_webhook.as_str() {
        "" => return Ok(None),
        text => listen_address(text).with_context(|| format!("--validating-webhook {text}"))?,
    };
    let [certificate, key] = [&flags.validating_webhook_certificate, &flags.validating_webhook_key];
    ensure!(
        !certificate.is_empty() && !key.is_empty(),
        "--validating-webhook needs --validating-webhook-certificate and --validating-webhook-key"
    );
    let keeper = Keeper::open(certificate.as_ref(), key.as_ref())?;
    let listener = StdListener::bind(address)
        .map_err(|error| trouble::cannot_listen(&address.to_string(), &error, "--validating-webhook"))?;
    let address = listener.local_addr()?;
    let (reviews, queue) = Reviews::channel();
    let bodies = Semaphore::new(permits(REVIEWS_BYTES_MAX) as usize);
    let webhook = Arc::new(Webhook { reviews, bodies, registry });
    server::spawn("webhook", listener, move |listener| serve(listener, keeper, webhook, connections_max))?;
    tracing::info!(webhook = %address, "judging Ingresses");
    Ok(Some(queue))
}

/// Parses Go's form of an address to listen on: without a host, it is every address.
fn listen_address(text: &str) -> anyhow::Result<SocketAddr> {
    let port = text.strip_prefix(':').map(|port| port.parse().map(any_address));
    let address = port.transpose().ok().flatten().or_else(|| text.parse().ok());
    address.context("is not of the form :PORT or ADDRESS:PORT")
}

async fn serve(listener: TcpListener, mut keeper: Keeper, webhook: Arc<Webhook>, connections_max: usize) {
    let converse = |stream, _, place| converse(stream, keeper.acceptor(), Arc::clone(&webhook), place);
    Connections::new(connections_max).serve(listener, converse).await;
}

/// Serves a connection until its end. An error means that the client has broken off, which does not matter:
/// the API server reports failures to its own clients.
async fn converse(stream: TcpStream, acceptor: TlsAcceptor, webhook: Arc<Webhook>, place: ConnectionSlot) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request| {
        let (webhook, place) = (Arc::clone(&webhook), place.clone());
        async move { Ok::<_, Infallible>(place.answering(webhook.answer(request)).await) }
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

struct Webhook {
    reviews: Reviews,
    /// Permits for the bodies in memory, in KiB.
    bodies: Semaphore,
    registry: Arc<Registry>,
}

/// The response if a request is not a review that can be judged.
type Refusal = (StatusCode, String);

impl Webhook {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = timeout(PATIENCE, self.review(request)).await;
        let late = || (StatusCode::SERVICE_UNAVAILABLE, "there was no answer in time".to_owned());
        match answer.unwrap_or_else(|_| Err(late())) {
            Ok(review) => response(StatusCode::OK, "application/json", review),
            Err((status, why)) => {
                tracing::debug!(%status, why, "no review");
                response(status, "text/plain; charset=utf-8", format!("{why}\n").into_bytes())
            }
        }
    }

    async fn review(&self, request: Request<Incoming>) -> Result<Vec<u8>, Refusal> {
        let length_max = length_max(&request)?;
        // This cannot fail, since the semaphore is never closed.
        let _room = self.bodies.acquire_many(permits(length_max)).await;
        let body = Limited::new(request.into_body(), length_max).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                too_large()
            } else {
                (StatusCode::BAD_REQUEST, format!("the body broke off: {error}"))
            }
        })?;
        let begun = Instant::now();
        let body = body.to_bytes();
        let question =
            Question::parse(&body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        let (question, surroundings) = self
            .reviews
            .surroundings(question)
            .await
            .map_err(|busy| (StatusCode::SERVICE_UNAVAILABLE, busy.to_string()))?;
        let found = begun.elapsed();
        let Judgement { answer, translating } = question.judge(&surroundings, SystemTime::now());
        let roundtrip = begun.elapsed();
        self.registry.judged(Judged {
            roundtrip,
            judging: roundtrip.saturating_sub(found),
            translation: translating,
            ingresses: surroundings.ingresses() + 1,
            review_bytes: body.len(),
        });
        Ok(answer)
    }
}

/// The longest body that a request may have; a refusal if it is not a request for a review.
fn length_max(request: &Request<Incoming>) -> Result<usize, Refusal> {
    if request.method() != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "reviews are sent by POST".to_owned()));
    }
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "reviews are application/json".to_owned()));
    }
    let announced = request.body().size_hint();
    match usize::try_from(announced.lower()) {
        Ok(length) if length <= REVIEW_BYTES_MAX && announced.exact().is_some() => Ok(length),
        Ok(length) if length <= REVIEW_BYTES_MAX => Ok(REVIEW_BYTES_MAX),
        _ => Err(too_large()),
    }
}

fn too_large() -> Refusal {
    (StatusCode::PAYLOAD_TOO_LARGE, format!("a review has {REVIEW_BYTES_MAX} bytes at most"))
}

/// The number of KiB, rounded up.
fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

fn response(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
