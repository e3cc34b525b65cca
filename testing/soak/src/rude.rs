//! Clients that misbehave: their requests have no identifier, and nothing is expected for them. Others must
//! not notice.
//!
//! Must not be in here: attacks that find faults by themselves (`testing/adversary`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adversary::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::sleep;

use crate::objects::{CALM, https, proxy};
use crate::shared::Shared;

const CLIENTS: u64 = 4;

/// Starts all of them.
pub(crate) fn start(shared: &Arc<Shared>) {
    for number in 0..CLIENTS {
        tokio::spawn(misbehave(Arc::clone(shared), number));
    }
}

async fn misbehave(shared: Arc<Shared>, number: u64) {
    let mut random = Random::of_case(shared.seed, "rude", number);
    while shared.goes_on().await {
        // Errors are what such clients get.
        let _ = one_of_many(&mut random).await;
        shared.count("misbehaviours");
        sleep(Duration::from_millis(20 + random.below(200) as u64)).await;
    }
}

async fn one_of_many(random: &mut Random) -> io::Result<()> {
    let (http, get) = (proxy(lab::Network::HTTP), format!("GET /blob/1/500000 HTTP/1.1\r\nHost: {CALM}\r\n"));
    match random.below(12) {
        0 => slowly(http, &get, random).await,
        1 => {
            let len = 1 + random.below(2000);
            send(http, &random.bytes(len)).await.map(drop)
        }
        2 => {
            let head = format!("POST /sum HTTP/1.1\r\nHost: {CALM}\r\nContent-Length: 1000000\r\n\r\n");
            reset(&send(http, &[head.into_bytes(), random.bytes(10_000)].concat()).await?)
        }
        3 => {
            let mut stream = send(http, format!("{get}\r\n").as_bytes()).await?;
            stream.read_u8().await?;
            reset(&stream)
        }
        4 => {
            let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &random.bytes(400)].concat();
            send(https(), &hello).await.map(drop)
        }
        5 => finish(send(http, format!("{get}X: {}\r\n\r\n", "x".repeat(100_000)).as_bytes()).await?).await,
        6 => {
            let head = format!(
                "POST /sum HTTP/1.1\r\nHost: {CALM}\r\nContent-Length: 4\r\n\
                 Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            );
            finish(send(http, head.as_bytes()).await?).await
        }
        7 => {
            let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &random.bytes(300)[..]].concat();
            finish(send(http, &preface).await?).await
        }
        8 => rapid_resets(http).await,
        9 => {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).await?;
            for _ in 0..20 {
                let first = [&[0xc0, 0, 0, 0, 1, 8][..], &random.bytes(1194)].concat();
                socket.send_to(&first, https()).await?;
            }
            Ok(())
        }
        10 => send(http, format!("{get}\r\n").repeat(20).as_bytes()).await.map(drop),
        // Nothing at all.
        _ => {
            let stream = TcpStream::connect(https()).await?;
            sleep(Duration::from_secs(2)).await;
            reset(&stream)
        }
    }
}

async fn send(to: SocketAddr, bytes: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(bytes).await?;
    Ok(stream)
}

/// A head that comes byte by byte and never ends.
async fn slowly(to: SocketAddr, head: &str, random: &mut Random) -> io::Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    for byte in head.bytes().take(10 + random.below(30)) {
        stream.write_all(&[byte]).await?;
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn reset(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// Reads what comes until the server has had enough, for two seconds at most.
async fn finish(mut stream: TcpStream) -> io::Result<()> {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut all)).await;
    Ok(())
}

/// Requests over HTTP/2 that are reset as soon as they are sent.
async fn rapid_resets(to: SocketAddr) -> io::Result<()> {
    let handshake = h2::client::handshake(TcpStream::connect(to).await?).await;
    let (mut sender, connection) = handshake.map_err(io::Error::other)?;
    let driving = tokio::spawn(connection);
    for _ in 0..50 {
        let request =
            http::Request::get(format!("http://{CALM}/blob/1/100000")).body(()).map_err(io::Error::other)?;
        sender = sender.ready().await.map_err(io::Error::other)?;
        let (response, mut stream) = sender.send_request(request, true).map_err(io::Error::other)?;
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    driving.abort();
    Ok(())
}
