//! Lines and words of SecLang: continuations, comments, quotes. Each word knows the place of its text.
//!
//! Never in here: the meaning of a word.

/// A place in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The column in bytes, from 1.
    pub(crate) column: usize,
}

/// A fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    /// The fault, as a sentence.
    pub(crate) message: String,
}

impl Fault {
    /// A fault at a place.
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Fault {
        Fault { place, message: message.into() }
    }
}

/// One word of a directive: quotes and their escapes are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// The places at which physical lines and removed escapes begin, by offset in `text`.
    pieces: Vec<Piece>,
}

impl Word {
    /// The place of the byte at an offset of the text.
    pub(crate) fn place(&self, offset: usize) -> Place {
        place_in(&self.pieces, offset)
    }
}

/// One directive: its name and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The name of the directive.
    pub(crate) name: Word,
    /// The words behind the name.
    pub(crate) words: Vec<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    offset: usize,
    place: Place,
}

fn place_in(pieces: &[Piece], offset: usize) -> Place {
    let index = pieces.partition_point(|piece| piece.offset <= offset);
    let Some(piece) = index.checked_sub(1).and_then(|index| pieces.get(index)) else {
        return Place::default();
    };
    Place { line: piece.place.line, column: piece.place.column + offset - piece.offset }
}

/// Splits a text into directives. Faults do not end the walk: all of a text's faults are returned.
pub(crate) fn lines(text: &str) -> (Vec<Line>, Vec<Fault>) {
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    let mut logical = Word { text: String::new(), pieces: Vec::new() };
    for (index, physical) in text.split('\n').enumerate() {
        let physical = physical.strip_suffix('\r').unwrap_or(physical);
        if logical.text.is_empty() && physical.trim_start().starts_with('#') {
            continue;
        }
        logical
            .pieces
            .push(Piece { offset: logical.text.len(), place: Place { line: index + 1, column: 1 } });
        if let Some(part) = physical.strip_suffix('\\') {
            logical.text.push_str(part);
            continue;
        }
        logical.text.push_str(physical);
        finish(&logical, &mut lines, &mut faults);
        logical.text.clear();
        logical.pieces.clear();
    }
    finish(&logical, &mut lines, &mut faults);
    (lines, faults)
}

fn finish(logical: &Word, lines: &mut Vec<Line>, faults: &mut Vec<Fault>) {
    match words(logical) {
        Ok(mut words) if !words.is_empty() => {
            let name = words.remove(0);
            lines.push(Line { name, words });
        }
        Ok(_) => {}
        Err(fault) => faults.push(fault),
    }
}

/// Splits a logical line into words. A quote opens a word only at its beginning; `\` before that quote within
/// the word is an escape and is removed, any other `\` is kept.
fn words(logical: &Word) -> Result<Vec<Word>, Fault> {
    let text = &logical.text;
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let Some(first) = text[at..].chars().next() else { return Ok(words) };
        if first == '"' || first == '\'' {
            let word = quoted(logical, at + 1, first)?;
            at = word.end;
            words.push(word.word);
        } else {
            let length = text[at..].find(char::is_whitespace).unwrap_or(text.len() - at);
            let mut word = Word { text: String::new(), pieces: Vec::new() };
            append(&mut word, logical, at, at + length);
            words.push(word);
            at += length;
        }
    }
}

struct Quoted {
    word: Word,
    end: usize,
}

fn quoted(logical: &Word, start: usize, quote: char) -> Result<Quoted, Fault> {
    let bytes = logical.text.as_bytes();
    let mut word = Word { text: String::new(), pieces: Vec::new() };
    let (mut from, mut at) = (start, start);
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\\' && bytes.get(at + 1) == Some(&(quote as u8)) {
            append(&mut word, logical, from, at);
            from = at + 1;
            at += 2;
        } else if byte == quote as u8 {
            append(&mut word, logical, from, at);
            return Ok(Quoted { word, end: at + 1 });
        } else {
            at += 1;
        }
    }
    Err(Fault::new(logical.place(start.saturating_sub(1)), "a quote is not closed"))
}

/// Appends a range of the logical line to a word, with the places of the range's physical lines.
fn append(word: &mut Word, logical: &Word, start: usize, end: usize) {
    let base = word.text.len();
    word.pieces.push(Piece { offset: base, place: logical.place(start) });
    for piece in logical.pieces.iter().filter(|piece| piece.offset > start && piece.offset < end) {
        word.pieces.push(Piece { offset: base + piece.offset - start, place: piece.place });
    }
    word.text.push_str(&logical.text[start..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &Line) -> Vec<&str> {
        line.words.iter().map(|word| word.text.as_str()).collect()
    }

    #[test]
    fn continuations_quotes_and_comments_are_as_in_modsecurity() {
        let text = "# a comment\n\nSecRule ARGS:a \"@rx \\\"x\\d\" \\\n   \"id:1,\\\n    deny\"\n  SecMarker 'END \\'x\\''\n";
        let (lines, faults) = lines(text);
        assert_eq!(faults, []);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].name.text, "SecRule");
        assert_eq!(texts(&lines[0]), ["ARGS:a", "@rx \"x\\d", "id:1,    deny"]);
        assert_eq!(texts(&lines[1]), ["END 'x'"]);
    }

    #[test]
    fn a_word_knows_the_place_of_each_of_its_bytes() {
        let (lines, _) = lines("SecRule ARGS \"@rx \\\"x\" \"id:1,\\\n  deny\"");
        let [_, operator, actions] = &lines[0].words[..] else { panic!("three words: {lines:?}") };
        assert_eq!(operator.place(0), Place { line: 1, column: 15 });
        assert_eq!(operator.place(5), Place { line: 1, column: 21 });
        assert_eq!(actions.place(0), Place { line: 1, column: 25 });
        assert_eq!(actions.place(7), Place { line: 2, column: 3 });
    }

    #[test]
    fn an_open_quote_is_a_fault_at_the_quote() {
        let (lines, faults) = lines("SecAction \"id:1\nSecMarker A");
        assert_eq!(lines.len(), 1);
        assert_eq!(faults, [Fault::new(Place { line: 1, column: 11 }, "a quote is not closed")]);
    }
}
