//! Replacements of texts in a content that passes in pieces: a text is found across their borders, and no
//! more is held back than may still be the beginning of one.
//!
//! Never in here: whose content is searched, and for what.

/// The bytes of the content that are looked at together.
const PIECE_BYTES: usize = 16 << 10;

/// A content on its way through the replacements.
pub(crate) struct Replacer {
    texts: Vec<Text>,
    /// The bytes with which any of the texts may begin.
    begins: Box<[bool; 256]>,
    /// Bytes of the longest text that is still looked for; 0 for none.
    longest: usize,
    once: bool,
    /// Bytes of the content: those from `at` on have not been passed on.
    held: Vec<u8>,
    at: usize,
    /// The end of the bytes that are passed on as they are.
    decided: usize,
    /// The text that follows them: which one, and the bytes of its replacement that have been passed on.
    found: Option<(usize, usize)>,
}

struct Text {
    from: Vec<u8>,
    to: Vec<u8>,
    /// It has been replaced, and is replaced once.
    is_spent: bool,
}

impl Replacer {
    /// Replaces each first text by the second, whatever the letter case. None of the first ones is empty.
    pub(crate) fn new(texts: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>, once: bool) -> Self {
        let texts = texts.into_iter().map(|(from, to)| Text { from, to, is_spent: false }).collect();
        let mut replacer = Self {
            texts,
            begins: Box::new([false; 256]),
            longest: 0,
            once,
            held: Vec::new(),
            at: 0,
            decided: 0,
            found: None,
        };
        replacer.note_texts();
        replacer
    }

    fn note_texts(&mut self) {
        self.begins.fill(false);
        self.longest = 0;
        for text in self.texts.iter().filter(|text| !text.is_spent) {
            self.longest = self.longest.max(text.from.len());
            if let Some(first) = text.from.first() {
                self.begins[usize::from(first.to_ascii_lowercase())] = true;
                self.begins[usize::from(first.to_ascii_uppercase())] = true;
            }
        }
    }

    /// Takes bytes of the content. Returns how many have been read and written, and whether all have been
    /// read and nothing is left to write.
    pub(crate) fn take(&mut self, input: &[u8], out: &mut [u8]) -> (usize, usize, bool) {
        let (mut read, mut written) = (0, 0);
        loop {
            if !self.pass_on(out, &mut written) {
                return (read, written, false);
            }
            if self.find(false) {
                continue;
            }
            if read == input.len() {
                return (read, written, true);
            }
            self.held.drain(..self.at);
            (self.at, self.decided) = (0, 0);
            let more = PIECE_BYTES.min(input.len() - read);
            self.held.extend_from_slice(&input[read..read + more]);
            read += more;
        }
    }

    /// Writes what has been held back, at the end of the content. Returns how many bytes have been written,
    /// and whether that is all.
    pub(crate) fn finish(&mut self, out: &mut [u8]) -> (usize, bool) {
        let mut written = 0;
        loop {
            if !self.pass_on(out, &mut written) {
                return (written, false);
            }
            if !self.find(true) {
                return (written, true);
            }
        }
    }

    /// Writes what has been decided on. False if there is no room for all of it.
    fn pass_on(&mut self, out: &mut [u8], written: &mut usize) -> bool {
        let len = copy(&self.held[self.at..self.decided], out, written);
        self.at += len;
        if self.at < self.decided {
            return false;
        }
        let Some((number, done)) = self.found else { return true };
        let text = &self.texts[number];
        let done = done + copy(&text.to[done..], out, written);
        if done < text.to.len() {
            self.found = Some((number, done));
            return false;
        }
        self.at += text.from.len();
        self.decided = self.at;
        self.found = None;
        if self.once {
            self.texts[number].is_spent = true;
            self.note_texts();
        }
        true
    }

    /// Decides on the bytes that are held, up to the next text. A text that may begin there is waited for,
    /// unless the content has ended. False if there is nothing to decide on.
    fn find(&mut self, is_end: bool) -> bool {
        let kept = if is_end { 0 } else { self.longest.saturating_sub(1) };
        let end = self.held.len().saturating_sub(kept);
        let mut at = self.at;
        while at < end {
            if self.begins[usize::from(self.held[at])]
                && let Some(number) = self.text_at(at)
            {
                (self.decided, self.found) = (at, Some((number, 0)));
                return true;
            }
            at += 1;
        }
        self.decided = self.decided.max(end);
        self.at < self.decided
    }

    fn text_at(&self, at: usize) -> Option<usize> {
        let rest = &self.held[at..];
        self.texts.iter().position(|text| {
            let begin = rest.get(..text.from.len());
            !text.is_spent && begin.is_some_and(|begin| begin.eq_ignore_ascii_case(&text.from))
        })
    }
}

/// Copies as many bytes as there is room for. Returns their number.
fn copy(from: &[u8], out: &mut [u8], written: &mut usize) -> usize {
    let len = from.len().min(out.len() - *written);
    out[*written..*written + len].copy_from_slice(&from[..len]);
    *written += len;
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content in pieces of this length, through a buffer of another one.
    fn replaced(replacer: &mut Replacer, content: &str, piece: usize, room: usize) -> String {
        let (mut out, mut all) = (vec![0; room], Vec::new());
        for mut piece in content.as_bytes().chunks(piece) {
            loop {
                let (read, written, is_done) = replacer.take(piece, &mut out);
                all.extend_from_slice(&out[..written]);
                piece = &piece[read..];
                if is_done {
                    break;
                }
            }
        }
        loop {
            let (written, is_done) = replacer.finish(&mut out);
            all.extend_from_slice(&out[..written]);
            if is_done {
                return String::from_utf8(all).unwrap();
            }
        }
    }

    fn texts(texts: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        texts.iter().map(|(from, to)| (from.as_bytes().to_vec(), to.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_result_is_the_same_for_all_pieces() {
        let content = "<HEAD>a<body>aab</body>aaab</head> <bo";
        let pairs = [("<head>", "<head><base href='/x/'>"), ("aab", ""), ("<body>", "B"), ("aa", "cc")];
        for (once, expected) in [
            (true, "<head><base href='/x/'>aB</body>ccab</head> <bo"),
            (false, "<head><base href='/x/'>aB</body>ccab</head> <bo"),
        ] {
            for piece in 1..content.len() {
                for room in [1, 3, 1000] {
                    let mut replacer = Replacer::new(texts(&pairs), once);
                    assert_eq!(replaced(&mut replacer, content, piece, room), expected, "{piece} {room}");
                }
            }
        }
    }

    #[test]
    fn each_text_is_replaced_once_or_always() {
        for (once, expected) in [(true, "1b a B 2"), (false, "1b 1 B 2")] {
            let mut replacer = Replacer::new(texts(&[("a", "1"), ("c", "2")]), once);
            assert_eq!(replaced(&mut replacer, "Ab a B c", 2, 2), expected);
        }
    }

    #[test]
    fn no_more_is_held_than_a_piece_and_a_text() {
        let mut replacer = Replacer::new(texts(&[("needle", &"x".repeat(100_000))]), false);
        let (mut out, content) = (vec![0; 64], "needle".repeat(20_000));
        let mut rest = content.as_bytes();
        for _ in 0..10_000 {
            let (read, _, _) = replacer.take(rest, &mut out);
            rest = &rest[read..];
            assert!(replacer.held.len() <= PIECE_BYTES + "needle".len());
        }
    }
}
