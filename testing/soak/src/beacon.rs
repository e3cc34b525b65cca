//! Looks at the beacon, over several connections, and notes how far the proxy has come (`effect`).
//!
//! Must not be in here: what follows from it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::objects::{BEACON, BEACON_LOCATION, proxy};
use crate::shared::Shared;

/// Connections by which the beacon is looked at: the kernel gives each to a worker by chance, and each worker
/// takes a configuration over by itself. The lowest number counts.
const LOOKS: usize = 8;
/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks at the beacon until the soak ends.
pub(crate) async fn watch(shared: Arc<Shared>) {
    while shared.goes_on().await {
        let life = shared.windows.life();
        let mut lowest = Some(u64::MAX);
        for _ in 0..LOOKS {
            let looked = timeout(PATIENCE, look()).await.ok().and_then(Result::ok).flatten();
            lowest = lowest.zip(looked).map(|(one, other)| one.min(other));
        }
        if let Some(number) = lowest
            && shared.windows.life() == life
        {
            shared.effect.see(life, number);
        }
        sleep(INTERVAL).await;
    }
}

/// The number that the beacon has now. None where it is no redirect.
async fn look() -> io::Result<Option<u64>> {
    let mut stream = TcpStream::connect(proxy(lab::Network::HTTP)).await?;
    let head = format!("GET / HTTP/1.1\r\nHost: {BEACON}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(number_of(&String::from_utf8_lossy(&answer)))
}

fn number_of(answer: &str) -> Option<u64> {
    let (_, rest) = answer.split_once(BEACON_LOCATION)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_in_the_redirect() {
        let head = "HTTP/1.1 301 Moved Permanently\r\nLocation: http://soak.test/120\r\n\r\n";
        assert_eq!(number_of(head), Some(120));
        assert_eq!(number_of("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }
}
