//! Error output of an application beside its response.

/// The most bytes of one response's error output that are stored.
const STDERR_BYTES_MAX: usize = 2 << 10;

/// The beginning of an application's stream of errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stderr {
    text: Vec<u8>,
    is_cut: bool,
}

impl Stderr {
    /// Stores more of the stream, as far as it has room.
    pub fn push(&mut self, text: &[u8]) {
        let room = STDERR_BYTES_MAX - self.text.len();
        self.is_cut |= text.len() > room;
        self.text.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// Takes the stored text for a log: without the line break at its end, and with an ellipsis if it was
    /// cut. None if it is empty.
    pub fn take(&mut self) -> Option<String> {
        let Self { text, is_cut } = std::mem::take(self);
        let mut text = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
        if is_cut {
            text.push('…');
        }
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_kept() {
        let mut stderr = Stderr::default();
        assert_eq!(stderr.take(), None);
        stderr.push(b"PHP message: ");
        stderr.push(b"a\xff\n");
        assert_eq!(stderr.take().as_deref(), Some("PHP message: a\u{fffd}"));
        assert_eq!(stderr.take(), None);
        for _ in 0..3 {
            stderr.push(&[b'x'; STDERR_BYTES_MAX - 1]);
        }
        let text = stderr.take().unwrap();
        assert_eq!((text.len(), text.ends_with("x…")), (STDERR_BYTES_MAX + 3, true));
    }
}
