//! Passing a body on, to its end.

use wire::h1::BodyDecoder;

use super::splice::{SplicePair, splice};
use super::{BodyEvent, Incoming, Meter, Outgoing, RelayError, Sink, Source};
use crate::deadline::Deadline;
use crate::pipe::Pipes;

/// Passes on the rest of a body, to its end.
pub(crate) async fn relay(
    mut incoming: Incoming<'_>,
    outgoing: Outgoing<'_>,
    meter: Meter<'_>,
    deadline: &Deadline,
    pipes: &Pipes,
) -> Result<(), RelayError> {
    loop {
        match incoming.next(Some(&outgoing), deadline).await? {
            BodyEvent::Content { skip, len } => {
                meter.count(len)?;
                let is_last = incoming.is_last();
                match (&mut incoming.source, outgoing.sink) {
                    (Source::Http2(frames), Sink::Http2(sender)) if len > 0 => {
                        let mut frame = frames.frame.clone();
                        outgoing.send(sender, &mut frame, is_last, deadline).await?;
                    }
                    (Source::Stored(stored), Sink::Http2(sender)) if len > 0 => {
                        let mut piece = stored.front.clone();
                        outgoing.send(sender, &mut piece, is_last, deadline).await?;
                    }
                    _ => outgoing.write(incoming.content(skip, len), is_last, deadline).await?,
                }
                incoming.source.consume(skip + len);
                if is_last {
                    return Ok(());
                }
            }
            BodyEvent::Large { length } => {
                let Sink::Http1 { socket: to, .. } = outgoing.sink else { continue };
                let (socket, decoder) = match &mut incoming.source {
                    Source::Http1 { socket, decoder, .. } => (socket, decoder),
                    Source::File(body) => {
                        body.send((to, outgoing.timeout), &meter, deadline).await?;
                        continue;
                    }
                    Source::Http2(_) | Source::Bytes(_) | Source::Coded(_) | Source::Stored(_) => continue,
                };
                let pair = SplicePair { from: (socket, incoming.timeout), to: (to, outgoing.timeout) };
                splice(&pair, length, &meter, deadline, pipes).await?;
                **decoder = BodyDecoder::Length(0);
                return Ok(());
            }
            BodyEvent::End { skip, trailers } => {
                outgoing.finish(incoming.content(trailers, skip - trailers), deadline).await?;
                incoming.source.consume(skip);
                return Ok(());
            }
        }
    }
}
