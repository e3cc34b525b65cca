//! Splicing of large bodies from socket to socket, inside the kernel.

use std::io;
use std::time::Duration;

use reactor::{Interest, TcpStream};
use wire::h1::{BodyDecoder, InvalidBody};

use super::sink::Sink;
use super::{Framing, Meter, Outgoing, RelayError};
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::pace::Direction;
use crate::io::pipe::Pipes;
use crate::io::socket::Socket;
use crate::limits::SPLICE_BYTES_MIN;

/// How much of a body can be relayed without being parsed.
pub(super) fn spliceable(from: &Socket, decoder: &BodyDecoder, outgoing: &Outgoing<'_>) -> Option<u64> {
    let Sink::Http1 { socket: to, framing: Framing::Raw } = outgoing.sink else { return None };
    match decoder {
        BodyDecoder::Length(rest) if *rest >= SPLICE_BYTES_MIN && from.is_clear() && to.is_clear() => {
            Some(*rest)
        }
        _ => None,
    }
}

/// Two sockets, each with its timeout.
pub(super) struct SplicePair<'a> {
    pub(super) from: (&'a Socket, Duration),
    pub(super) to: (&'a Socket, Duration),
}

/// Moves `length` bytes from socket to socket inside the kernel.
pub(super) async fn splice(
    pair: &SplicePair<'_>,
    mut length: u64,
    meter: &Meter<'_>,
    deadline: &Deadline,
    pipes: &Pipes,
) -> Result<(), RelayError> {
    let ((from, read_timeout), (to, write_timeout)) = (pair.from, pair.to);
    let pipe = pipes.take().map_err(|_| RelayError::Read)?;
    let bytes = |moved: &io::Result<usize>| *moved.as_ref().unwrap_or(&0);
    while length > 0 {
        let fill = |stream: &TcpStream| pipe.fill(stream, length);
        let filled = deadline
            .within_paced(
                Direction::Read,
                read_timeout,
                |cx| from.poll_io(cx, Interest::READABLE, fill),
                bytes,
            )
            .await
            .map_err(|Elapsed| RelayError::ReadTimeout)?;
        let mut held = match filled {
            Ok(0) => return Err(RelayError::Invalid(InvalidBody::Truncated)),
            Ok(held) => held,
            Err(_) => return Err(RelayError::Read),
        };
        length -= held as u64;
        while held > 0 {
            let drain = |stream: &TcpStream| pipe.drain(stream, held);
            let drained = deadline
                .within_paced(
                    Direction::Write,
                    write_timeout,
                    |cx| to.poll_io(cx, Interest::WRITABLE, drain),
                    bytes,
                )
                .await
                .map_err(|Elapsed| RelayError::WriteTimeout)?;
            let drained = drained.map_err(|_: io::Error| RelayError::Write)?;
            meter.count(drained)?;
            held -= drained;
        }
    }
    pipes.put(pipe);
    Ok(())
}
