//! Fetches a page of metrics, as Prometheus would.
//!
//! Must not be in here: the meaning of the metrics.

use std::time::Duration;

use anyhow::{Context, ensure};
use http::{Method, StatusCode};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::target::Target;
use crate::ask::Conversation;

/// Time for connecting, and then for the page.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches the text at `url`, which must begin with `http://`. An error is one line.
pub(crate) fn fetch(url: &str) -> anyhow::Result<String> {
    let target = Target::parse(url)?;
    ensure!(!target.is_tls, "{url}: metrics are read over http:// only");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(page(&target)).with_context(|| format!("cannot read {url}"))
}

async fn page(target: &Target) -> anyhow::Result<String> {
    let addresses = target.addresses(&[])?.all;
    let stream = timeout(PATIENCE, TcpStream::connect(&*addresses)).await.context("nobody answers")??;
    let mut conversation = Conversation::over(stream, &target.authority).await?;
    let asked = timeout(PATIENCE, conversation.ask(Method::GET, &target.path));
    let answer = asked.await.context("no answer in time")??;
    ensure!(answer.status == StatusCode::OK, "the status of the answer is {}", answer.status);
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// The result of fetching a page from a server that answers like this, and the request that it got.
    fn fetched(answer: &'static str) -> (anyhow::Result<String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap()
        });
        (fetch(&format!("http://{address}/metrics?x=1")), server.join().unwrap())
    }

    #[test]
    fn a_page_is_fetched() {
        for answer in [
            "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\na 1\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na 1\n\r\n0\r\n\r\n",
        ] {
            let (page, request) = fetched(answer);
            assert_eq!(page.unwrap(), "a 1\n");
            assert!(request.starts_with("GET /metrics?x=1 HTTP/1.1\r\n"), "{request}");
        }
    }

    #[test]
    fn an_answer_without_a_page_is_an_error() {
        let (page, _) = fetched("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
        assert!(page.is_err_and(|error| format!("{error:#}").contains("404")));
        assert!(fetched("nonsense\r\n\r\n").0.is_err());
        assert!(fetch("https://127.0.0.1/metrics").is_err());
    }
}
