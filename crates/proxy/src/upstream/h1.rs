//! HTTP/1.1 towards endpoints: reading response heads.

use std::time::Duration;

use observe::Reason;
use wire::Known;
use wire::h1::Response;

use super::timer::{HeadLimits, ResponseTimer};
use crate::io::buffer::Buffer;
use crate::io::deadline::Elapsed;
use crate::io::socket::Socket;
use crate::upstream::fault::Fault;

/// Reads a response head; it stays at the front of `buffer`, and is parsed into `response`.
pub(crate) async fn read_response_head(
    socket: &Socket,
    response: &mut Response,
    buffer: &mut Buffer,
    limits: HeadLimits,
    timer: &ResponseTimer<'_>,
) -> Result<(), Fault> {
    loop {
        if !buffer.is_empty() && parse(response, buffer, limits.bytes_max)? {
            return Ok(());
        }
        let read = timer.within(|cx| {
            if limits.is_eager { socket.poll_fill(cx, buffer) } else { socket.poll_fill_small(cx, buffer) }
        });
        match read.await {
            Err(Elapsed) => return Err(Fault::sent(Reason::UpstreamReadTimeout)),
            Ok(Ok(0) | Err(_)) => return Err(Fault::sent(Reason::UpstreamReset)),
            Ok(Ok(_)) => {}
        }
    }
}

/// Parses a response head at the front of `buffer`. False where not all of it has come.
pub(crate) fn parse(response: &mut Response, buffer: &Buffer, bytes_max: usize) -> Result<bool, Fault> {
    let is_whole = response.parse(buffer.data()).map_err(|_| Fault::sent(Reason::UpstreamBadResponse))?;
    let len = if is_whole { response.len } else { buffer.len() };
    if len > bytes_max {
        return Err(Fault::sent(Reason::UpstreamHeadTooLarge));
    }
    Ok(is_whole)
}

/// The time for which the endpoint keeps the connection (`Keep-Alive: timeout=N`), less a second: a request
/// in flight when the connection closes may not be repeatable.
pub(crate) fn keep_alive_hint(head: &[u8], response: &Response) -> Option<Duration> {
    let field = response.fields.find(Known::KeepAlive)?;
    let seconds = wire::field::list(field.value(head)).find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(8)?;
        name.eq_ignore_ascii_case(b"timeout=")
            .then(|| std::str::from_utf8(value).ok()?.parse::<u64>().ok())?
    })?;
    Some(Duration::from_secs(seconds.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use wire::h1::{Fields, parse_response};

    use super::*;

    #[test]
    fn the_keep_alive_hint_leaves_a_margin() {
        let hint = |value: &str| {
            let head = format!("HTTP/1.1 200 OK\r\nKeep-Alive: {value}\r\n\r\n");
            let response = parse_response(head.as_bytes(), Fields::default()).unwrap().unwrap();
            keep_alive_hint(head.as_bytes(), &response)
        };
        assert_eq!(hint("timeout=5"), Some(Duration::from_secs(4)));
        assert_eq!(hint("max=3, Timeout=20"), Some(Duration::from_secs(19)));
        assert_eq!(hint("max=3"), None);
        assert_eq!(hint("timeout=x"), None);
    }
}
