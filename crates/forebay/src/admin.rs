//! The admin server: `/healthz`, `/metrics`, `/configuration`. On a thread of its own, so that a scrape delays no request.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use observe::Registry;
use proxy::Observer;
use tokio::net::TcpListener;

use crate::{configuration, machine};

/// What the admin server tells about.
pub(crate) struct Admin {
    pub(crate) registry: Arc<Registry>,
    pub(crate) observer: Observer,
    /// Set when the process is about to stop.
    pub(crate) stopping: AtomicBool,
    pub(crate) metrics: bool,
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Starts the server's thread. It ends with the process.
pub(crate) fn spawn(listener: StdListener, admin: Arc<Admin>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || runtime.block_on(accept(listener, admin));
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        if let Err(error) = run() {
            tracing::error!(%error, "the admin server has ended");
        }
    })?;
    Ok(())
}

async fn accept(listener: StdListener, admin: Arc<Admin>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: clients' connections come and go meanwhile.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = admin.answer(&request);
                async { Ok::<_, Infallible>(response) }
            });
            // A client that breaks off a scrape is none of our concern.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Binds the server's address.
pub(crate) fn bind(address: SocketAddr) -> io::Result<StdListener> {
    StdListener::bind(address)
}

impl Admin {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/healthz" => self.health(),
            "/metrics" if self.metrics => self.metrics(),
            "/configuration" => self.configuration(),
            _ => {
                response(StatusCode::NOT_FOUND, TEXT, "try /healthz, /metrics or /configuration\n".to_owned())
            }
        }
    }

    fn health(&self) -> Response<Full<Bytes>> {
        if self.stopping.load(Ordering::Relaxed) {
            return response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "stopping\n".to_owned());
        }
        if self.observer.acknowledged() == 0 {
            return response(
                StatusCode::SERVICE_UNAVAILABLE,
                TEXT,
                "not every worker has begun\n".to_owned(),
            );
        }
        response(StatusCode::OK, TEXT, "ok\n".to_owned())
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut text = String::new();
        self.registry.encode(&machine::process(), &mut text);
        response(StatusCode::OK, observe::CONTENT_TYPE, text)
    }

    fn configuration(&self) -> Response<Full<Bytes>> {
        let described = configuration::describe(&self.observer.snapshot(), self.observer.acknowledged());
        response(StatusCode::OK, "application/json", format!("{described:#}\n"))
    }
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}
