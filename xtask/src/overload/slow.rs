//! Clients that take their time: with the head of a request, with its body, or with the response. What `slowhttptest` does, which is
//! no part of Debian's suites that are unpacked for peers.
//!
//! Must not be in here: what becomes of others.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::endpoint::BIG_PATH;
use crate::child::on_cpus;

/// Between two pieces of what is sent or read.
const PAUSE: Duration = Duration::from_secs(2);
/// Connections that are opened in a row before others get a turn.
const OPENED_AT_ONCE: usize = 100;
const OPENING_PAUSE: Duration = Duration::from_millis(20);

/// Slow clients at work, until they are told to end.
pub(super) struct SlowClients {
    end: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

/// What one of them is slow with.
#[derive(Clone, Copy)]
enum Kind {
    Head,
    Body,
    Read,
}

impl SlowClients {
    /// So many of them, a third of each kind. Each comes again once it has been closed.
    pub(super) fn start(proxy: SocketAddr, host: &'static str, count: usize, cpus: &[usize]) -> Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let work = move || -> usize {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return 0 };
            LocalSet::new().block_on(&runtime, all(proxy, host, count, &ended))
        };
        let thread = on_cpus(cpus, || thread::Builder::new().name("slow".into()).spawn(work))??;
        Ok(Self { end, thread })
    }

    /// Ends them; how many connections they had opened.
    pub(super) fn finish(self) -> Result<usize> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread of slow clients panicked"))
    }
}

async fn all(proxy: SocketAddr, host: &'static str, count: usize, end: &AtomicBool) -> usize {
    let opened = Rc::new(Cell::new(0));
    for number in 0..count {
        let kind = [Kind::Head, Kind::Body, Kind::Read][number % 3];
        let opened = Rc::clone(&opened);
        tokio::task::spawn_local(async move {
            loop {
                opened.set(opened.get() + 1);
                // Whatever ends it, it comes again.
                let _ = one(proxy, host, kind).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
        if number % OPENED_AT_ONCE == 0 {
            tokio::time::sleep(OPENING_PAUSE).await;
        }
    }
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(OPENING_PAUSE).await;
    }
    opened.get()
}

async fn one(proxy: SocketAddr, host: &str, kind: Kind) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(proxy).await?;
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    let path = if matches!(kind, Kind::Read) { BIG_PATH } else { "/" };
    match kind {
        Kind::Head => {
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n").as_bytes()).await?;
            drip(&mut stream, b"X-Slow: 1\r\n").await
        }
        Kind::Body => {
            let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 8192\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            drip(&mut stream, b"x").await
        }
        Kind::Read => {
            set_socket_recv_buffer_size(&stream, 1024)?;
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
            let mut some = [0; 64];
            while stream.read(&mut some).await? > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        }
    }
}

/// Sends a piece again and again, until the connection is closed.
async fn drip(stream: &mut TcpStream, piece: &[u8]) -> std::io::Result<()> {
    loop {
        // What the proxy says is its last word.
        let mut said = [0; 512];
        match tokio::time::timeout(PAUSE, stream.read(&mut said)).await {
            Ok(Ok(1..)) => {}
            Ok(ended) => return ended.map(drop),
            Err(_) => stream.write_all(piece).await?,
        }
    }
}
