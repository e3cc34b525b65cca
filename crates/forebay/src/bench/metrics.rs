//! Fetches a page of metrics, as Prometheus would.
//!
//! Must not be in here: what the metrics mean.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::target::Target;

/// Time for connecting to each address, and then for each part of the page.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest page in bytes.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// Fetches the text at `url`, which must begin with `http://`. An error is one line.
pub(crate) fn fetch(url: &str) -> anyhow::Result<String> {
    let target = Target::parse(url)?;
    ensure!(!target.is_tls, "{url}: metrics are read over http:// only");
    let addresses = target.addresses(&[])?.all;
    let connect = |address| TcpStream::connect_timeout(address, PATIENCE);
    let failed = || format!("cannot read {url}");
    let attempts = addresses.iter().map(connect);
    let mut stream = attempts.reduce(Result::or).context("no address")?.with_context(failed)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // The request is HTTP/1.0, so that the response has no chunks and ends with the connection.
    let Target { path, authority, .. } = target;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).with_context(failed)?;
    let mut answer = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer).with_context(failed)?;
    page(&String::from_utf8_lossy(&answer)).with_context(failed)
}

/// The body of a response.
fn page(answer: &str) -> anyhow::Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer in HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("the answer is {status:?}");
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_page_is_fetched() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\na 1\n").unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap()
        });
        assert_eq!(fetch(&format!("http://{address}/metrics?x=1")).unwrap(), "a 1\n");
        assert!(server.join().unwrap().starts_with("GET /metrics?x=1 HTTP/1.0\r\n"));
    }

    #[test]
    fn what_is_no_page_is_told() {
        assert!(
            page("HTTP/1.0 404 Not Found\r\n\r\nno").is_err_and(|error| error.to_string().contains("404"))
        );
        assert!(page("nonsense").is_err());
        assert!(fetch("https://127.0.0.1/metrics").is_err());
    }
}
