//! Relaying a body to its end.

use wire::h1::BodyDecoder;

use super::splice::{SplicePair, splice};
use super::{BodyEvent, Incoming, Meter, Outgoing, RelayError, Sink, Source};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::pipe::Pipes;

/// State of a body whose beginning was held while it was sent.
pub(crate) enum Passed {
    /// The body has been relayed, and all of it is held.
    Whole,
    /// The body has been relayed, and not all of it is held.
    All,
    /// The rest is left to [`relay`].
    Beginning,
}

/// Relays the beginning of a body, and holds up to `bytes_max` of it in `kept`. Before it sends bytes that
/// are not held, it calls `note_streaming`. Held bytes have left the source, so that this may be dropped at
/// any time.
pub(crate) async fn relay_and_keep(
    incoming: &mut Incoming<'_>,
    outgoing: &Outgoing<'_>,
    meter: &Meter<'_>,
    deadline: &Deadline,
    kept: &mut Buffer,
    bytes_max: usize,
    note_streaming: impl FnOnce(),
) -> Result<Passed, RelayError> {
    loop {
        match incoming.next(None, deadline).await? {
            BodyEvent::Content { skip, len } => {
                meter.count(len)?;
                let (is_last, start) = (incoming.is_last(), kept.len());
                if start + len > bytes_max {
                    note_streaming();
                    let taken = Taken { incoming, len: skip + len };
                    outgoing.write(taken.incoming.content(skip, len), is_last, deadline).await?;
                    taken.consume();
                    return Ok(if is_last { Passed::All } else { Passed::Beginning });
                }
                kept.extend(incoming.content(skip, len));
                incoming.source.consume(skip + len);
                outgoing.write(&kept.data()[start..], is_last, deadline).await?;
                if is_last {
                    return Ok(Passed::Whole);
                }
            }
            BodyEvent::End { skip, trailers } => {
                let lines = incoming.content(trailers, skip - trailers).to_vec();
                let has_trailers = lines.contains(&b':');
                if has_trailers {
                    note_streaming();
                }
                incoming.source.consume(skip);
                outgoing.finish(&lines, deadline).await?;
                return Ok(if has_trailers { Passed::All } else { Passed::Whole });
            }
            // Only a body for a plain socket is relayed without being parsed.
            BodyEvent::Large { .. } => {
                note_streaming();
                return Ok(Passed::Beginning);
            }
        }
    }
}

/// A part of a body that the decoder has passed and that is being written. It leaves the client's buffer even
/// if the write is given up, so that the rest can still be read.
struct Taken<'s, 'a> {
    incoming: &'s mut Incoming<'a>,
    len: usize,
}

impl Taken<'_, '_> {
    /// Removes the part: it has been written.
    fn consume(mut self) {
        self.incoming.source.consume(std::mem::take(&mut self.len));
    }
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        if let (Source::Http1 { buffer, .. }, 1..) = (&mut self.incoming.source, self.len) {
            buffer.consume(self.len);
        }
    }
}

/// Relays the rest of a body, to its end. If it is dropped before, the rest of what goes to a stream can
/// still be read.
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
                let taken = Taken { incoming: &mut incoming, len: skip + len };
                match (&mut taken.incoming.source, outgoing.sink) {
                    (Source::Stream(frames), Sink::Stream(sender)) if len > 0 => {
                        let mut frame = frames.frame.clone();
                        outgoing.send(sender, &mut frame, is_last, deadline).await?;
                    }
                    (Source::Stored(stored), Sink::Stream(sender)) if len > 0 => {
                        let mut piece = stored.front.clone();
                        outgoing.send(sender, &mut piece, is_last, deadline).await?;
                    }
                    _ => outgoing.write(taken.incoming.content(skip, len), is_last, deadline).await?,
                }
                taken.consume();
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
                    Source::Stream(_)
                    | Source::Bytes(_)
                    | Source::Coded(_)
                    | Source::Begun(_)
                    | Source::Processed(_)
                    | Source::Stored(_) => continue,
                };
                let pair = SplicePair { from: (socket, incoming.timeout), to: (to, outgoing.timeout) };
                splice(&pair, length, &meter, deadline, pipes).await?;
                **decoder = BodyDecoder::Length(0);
                return Ok(());
            }
            BodyEvent::End { skip, trailers } => {
                let taken = Taken { incoming: &mut incoming, len: skip };
                outgoing.finish(taken.incoming.content(trailers, skip - trailers), deadline).await?;
                taken.consume();
                return Ok(());
            }
        }
    }
}
