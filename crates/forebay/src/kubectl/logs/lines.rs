//! Lines of the logs of several Pods, in the order of their times.

use anyhow::Context;
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::stream::{BoxStream, Stream, StreamExt, unfold};
use jiff::Timestamp;

/// A line of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// `namespace/name` of its Pod.
    pub(super) pod: String,
    /// When the kubelet has read it; none where that cannot be read.
    pub(super) time: Option<Timestamp>,
    /// Without its end.
    pub(super) text: Vec<u8>,
}

/// The lines of one log.
pub(super) type Lines = BoxStream<'static, anyhow::Result<Line>>;

/// The lines of a log that begin with their times, as the API server writes them. After an error there are no
/// more.
pub(super) fn of(pod: String, log: impl AsyncBufRead + Send + 'static) -> Lines {
    let state = Some((pod, Box::pin(log)));
    unfold(state, async |state| {
        let (pod, mut log) = state?;
        let mut text = Vec::new();
        match log.read_until(b'\n', &mut text).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(line(&pod, text)), Some((pod, log)))),
            Err(error) => {
                let error = Err(error).with_context(|| format!("the log of Pod {pod} is broken off"));
                Some((error, None))
            }
        }
    })
    .boxed()
}

fn line(pod: &str, mut text: Vec<u8>) -> Line {
    text.pop_if(|end| *end == b'\n');
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let time = str::from_utf8(&text[..end]).ok().and_then(|time| time.parse().ok());
    if time.is_some() {
        text.drain(..text.len().min(end + 1));
    }
    Line { pod: pod.to_owned(), time, text }
}

/// All lines, the oldest first. Each log is in order by itself.
pub(super) fn in_order(logs: Vec<Lines>) -> impl Stream<Item = anyhow::Result<Line>> {
    let state: Vec<_> = logs.into_iter().map(|log| (None, log)).collect();
    unfold(state, async |mut logs: Vec<(Option<anyhow::Result<Line>>, Lines)>| {
        for (next, log) in &mut logs {
            if next.is_none() {
                *next = log.next().await;
            }
        }
        logs.retain(|(next, _)| next.is_some());
        // Errors come first: they have no time.
        let time =
            |next: &Option<anyhow::Result<Line>>| next.as_ref().and_then(|next| next.as_ref().ok()?.time);
        let (next, _) = logs.iter_mut().min_by_key(|(next, _)| time(next))?;
        let oldest = next.take()?;
        Some((oldest, logs))
    })
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;

    use super::*;

    async fn merged(logs: &[(&str, &'static [u8])]) -> Vec<String> {
        let logs = logs.iter().map(|(pod, log)| of((*pod).to_owned(), Cursor::new(*log))).collect();
        let told = |line: anyhow::Result<Line>| {
            let line = line.unwrap();
            format!("{} {}", line.pod, String::from_utf8_lossy(&line.text))
        };
        in_order(logs).map(told).collect().await
    }

    #[tokio::test]
    async fn lines_of_several_logs_come_in_the_order_of_their_times() {
        let one = b"2026-11-23T05:00:00.1Z first\n2026-11-23T05:00:00.25Z third\n2026-11-23T05:00:02Z \n";
        let two = b"2026-11-23T05:00:00.11Z second\n2026-11-23T05:00:01.000000001Z fourth \xff";
        let expected = ["a first", "b second", "a third", "b fourth \u{fffd}", "a "];
        assert_eq!(merged(&[("a", one), ("b", two), ("c", b"")]).await, expected);
    }

    #[tokio::test]
    async fn a_line_without_a_time_is_kept_as_it_is() {
        let log = b"unable to retrieve container logs\n2026-11-23T05:00:00Z x\n";
        assert_eq!(merged(&[("a", log)]).await, ["a unable to retrieve container logs", "a x"]);
    }

    #[tokio::test]
    async fn a_log_that_breaks_off_says_so() {
        use futures::stream::TryStreamExt;
        let broken = futures::stream::iter([
            Ok(&b"2026-11-23T05:00:00Z x\n"[..]),
            Err(std::io::ErrorKind::BrokenPipe.into()),
        ]);
        let lines: Vec<_> = of("a".to_owned(), broken.into_async_read()).collect().await;
        assert_eq!(lines.len(), 2);
        let said = lines[1].as_ref().err().map(ToString::to_string);
        assert_eq!(said.as_deref(), Some("the log of Pod a is broken off"));
    }
}
