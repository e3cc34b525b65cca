//! A second implementation of RFC 9204, as simple as it can be: tables of text, nothing shared with the first
//! one but the Huffman code. It checks both directions with any order of instructions, blocks and answers.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::compression::huffman;
use crate::h3::qpack::static_table::ENTRIES;

const CAPACITY: usize = 400;

/// A table from which nothing is ever removed: `first` is the oldest entry that is not evicted.
#[derive(Debug, Default)]
struct ModelTable {
    all: Vec<[String; 2]>,
    first: usize,
    capacity: usize,
}

impl ModelTable {
    fn size(&self) -> usize {
        self.all[self.first..].iter().map(|[name, value]| name.len() + value.len() + 32).sum()
    }

    fn insert(&mut self, field: [String; 2]) {
        self.all.push(field);
        while self.size() > self.capacity {
            self.first += 1;
        }
    }

    /// The oldest entry that would be left after an insertion of this size.
    fn first_after(&self, size: usize) -> usize {
        (self.first..=self.all.len())
            .find(|first| {
                let left: usize = self.all[*first..].iter().map(|[a, b]| a.len() + b.len() + 32).sum();
                left + size <= self.capacity
            })
            .expect("an entry that has room")
    }

    fn get(&self, number: usize) -> [String; 2] {
        assert!(number >= self.first, "an entry that was evicted");
        self.all[number].clone()
    }
}

/// Reads bytes from front to back; the input is right.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn integer(&mut self, bits: u32) -> usize {
        let max = (1 << bits) - 1;
        let mut value = usize::from(self.0[0]) & max;
        self.0 = &self.0[1..];
        let mut shift = 0;
        let mut goes_on = value == max;
        while goes_on {
            value += usize::from(self.0[0] & 0x7f) << shift;
            goes_on = self.0[0] & 0x80 != 0;
            shift += 7;
            self.0 = &self.0[1..];
        }
        value
    }

    fn string(&mut self, bits: u32) -> String {
        let is_coded = self.0[0] & 1 << bits != 0;
        let len = self.integer(bits);
        let mut text = Vec::new();
        if is_coded {
            huffman::decode(&self.0[..len], &mut text).expect("a code that is right");
        } else {
            text.extend_from_slice(&self.0[..len]);
        }
        self.0 = &self.0[len..];
        String::from_utf8(text).expect("text")
    }
}

fn static_field(index: usize) -> [String; 2] {
    let entry = &ENTRIES[index];
    [&entry.line[..entry.name_len], entry.value()].map(|part| String::from_utf8_lossy(part).into_owned())
}

/// Appends an integer.
fn put_integer(bits: u32, flags: u8, mut value: usize, out: &mut Vec<u8>) {
    let max = (1 << bits) - 1;
    if value < max {
        return out.push(flags | value as u8);
    }
    out.push(flags | max as u8);
    value -= max;
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_string(bits: u32, flags: u8, text: &str, out: &mut Vec<u8>) {
    put_integer(bits, flags, text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

// === The model decodes ===

impl ModelTable {
    fn instruct(&mut self, bytes: &[u8]) {
        let mut bytes = Bytes(bytes);
        while let Some(first) = bytes.0.first().copied() {
            let newest = self.all.len();
            match first {
                0x80.. => {
                    let index = bytes.integer(6);
                    let is_static = first & 0x40 != 0;
                    let [name, _] =
                        if is_static { static_field(index) } else { self.get(newest - 1 - index) };
                    let value = bytes.string(7);
                    self.insert([name, value]);
                }
                0x40.. => {
                    let field = [bytes.string(5), bytes.string(7)];
                    self.insert(field);
                }
                0x20.. => self.capacity = bytes.integer(5),
                _ => {
                    let field = self.get(newest - 1 - bytes.integer(5));
                    self.insert(field);
                }
            }
        }
    }

    /// Decodes a block to lines. Every entry has to be there.
    fn decode(&self, block: &[u8], entries_max: usize) -> String {
        let mut bytes = Bytes(block);
        let wrapped = bytes.integer(8);
        let is_negative = bytes.0[0] & 0x80 != 0;
        let delta = bytes.integer(7);
        // The number that is closest below the largest possible one has this remainder.
        let required = (0..=self.all.len() + entries_max)
            .rev()
            .find(|required| wrapped > 0 && required % (2 * entries_max) + 1 == wrapped)
            .unwrap_or(0);
        assert!(required <= self.all.len(), "a block waits for the encoder stream");
        let base = if is_negative { required - delta - 1 } else { required + delta };
        let mut lines = String::new();
        while let Some(first) = bytes.0.first().copied() {
            let [name, value] = match first {
                0xc0.. => static_field(bytes.integer(6)),
                0x80.. => self.get(base - 1 - bytes.integer(6)),
                0x40.. => {
                    let index = bytes.integer(4);
                    let is_static = first & 0x10 != 0;
                    let [name, _] = if is_static { static_field(index) } else { self.get(base - 1 - index) };
                    [name, bytes.string(7)]
                }
                0x20.. => [bytes.string(3), bytes.string(7)],
                0x10.. => self.get(base + bytes.integer(4)),
                _ => {
                    let [name, _] = self.get(base + bytes.integer(3));
                    [name, bytes.string(7)]
                }
            };
            let _ = writeln!(lines, "{name}: {value}");
        }
        lines
    }
}

/// A step of a conversation in which our encoder writes.
#[derive(Clone, Debug)]
enum Writing {
    /// A block with these fields is sent.
    Block(Vec<(String, String)>),
    /// The encoder stream arrives as far as it was written, and is acknowledged.
    Deliver,
    /// The block that is this far behind the oldest is decoded, and is acknowledged.
    Decode(usize),
    /// The stream of one is cancelled.
    Cancel(usize),
}

fn field_strategy() -> impl Strategy<Value = (String, String)> {
    ("a|bc|x-long-name|server|content-type|:path|cookie", "|v|w|text/css|[a-c]{2}|x{60}|y{90}")
}

fn writing() -> impl Strategy<Value = Writing> {
    prop_oneof![
        4 => proptest::collection::vec(field_strategy(), 0..6).prop_map(Writing::Block),
        2 => Just(Writing::Deliver),
        3 => (0..4_usize).prop_map(Writing::Decode),
        1 => (0..4_usize).prop_map(Writing::Cancel),
    ]
}

// === The model encodes ===

/// A step of a conversation in which the model writes.
#[derive(Clone, Debug)]
enum Reading {
    Insert(String, String),
    InsertNamed(prop::sample::Index, String),
    Duplicate(prop::sample::Index),
    /// A block with references to these entries and literals beside them; where its base is.
    Block(Vec<(prop::sample::Index, bool)>, prop::sample::Index),
    /// A part of the encoder stream arrives.
    Deliver(prop::sample::Index),
}

fn reading() -> impl Strategy<Value = Reading> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        2 => ("[a-z]{1,20}", "[ -~&&[^ ]]{0,60}").prop_map(|(name, value)| Reading::Insert(name, value)),
        1 => (index(), "[a-z]{0,60}").prop_map(|(index, value)| Reading::InsertNamed(index, value)),
        1 => index().prop_map(Reading::Duplicate),
        3 => (proptest::collection::vec((index(), any::<bool>()), 1..6), index())
            .prop_map(|(fields, base)| Reading::Block(fields, base)),
        2 => index().prop_map(Reading::Deliver),
    ]
}

/// The model as an encoder, our decoder, and what is on the way between them.
struct Conversation {
    model: ModelTable,
    decoder: Decoder,
    stream: EncoderStream,
    undelivered: Vec<u8>,
    /// Blocks that wait for entries, by their streams: block, lines, oldest entry.
    waiting: BTreeMap<u64, (Vec<u8>, String, usize)>,
    next_stream: u64,
}

impl Conversation {
    fn new() -> Self {
        let model = ModelTable { capacity: CAPACITY, ..ModelTable::default() };
        let mut undelivered = Vec::new();
        put_integer(5, 0x20, CAPACITY, &mut undelivered);
        Self {
            model,
            decoder: Decoder::new(TABLE_BYTES_MAX),
            stream: EncoderStream::default(),
            undelivered,
            waiting: BTreeMap::new(),
            next_stream: 0,
        }
    }

    fn deliver(&mut self, len: usize) {
        let bytes: Vec<_> = self.undelivered.drain(..len).collect();
        self.stream.receive(&mut self.decoder, &mut &bytes[..], || Ok(())).expect("instructions are right");
        while let Some(stream) = self.decoder.unblocked() {
            let (block, lines, _) = self.waiting.remove(&stream).expect("a stream that waits");
            assert_eq!(decode_by(&mut self.decoder, stream, &block), Ok(lines));
        }
    }

    /// Inserts a field into the model, once no block needs what that evicts.
    fn insert(&mut self, field: [String; 2], instruction: &[u8]) {
        let first = self.model.first_after(field[0].len() + field[1].len() + 32);
        if self.waiting.values().any(|(.., oldest)| *oldest < first) {
            self.deliver(self.undelivered.len());
        }
        self.undelivered.extend_from_slice(instruction);
        self.model.insert(field);
    }

    fn act(&mut self, step: Reading) {
        let count = self.model.all.len();
        let live = count - self.model.first;
        let mut instruction = Vec::new();
        let out = &mut instruction;
        match step {
            Reading::Insert(name, value) => {
                put_string(5, 0x40, &name, out);
                put_string(7, 0, &value, out);
                self.insert([name, value], &instruction);
            }
            Reading::InsertNamed(index, value) => {
                let index = index.index(ENTRIES.len() + live);
                let (flags, index, name) = match index.checked_sub(live) {
                    Some(index) => (0xc0, index, static_field(index)),
                    None => (0x80, index, self.model.get(count - 1 - index)),
                };
                put_integer(6, flags, index, out);
                put_string(7, 0, &value, out);
                let [name, _] = name;
                self.insert([name, value], &instruction);
            }
            Reading::Duplicate(index) if live > 0 => {
                let age = index.index(live);
                put_integer(5, 0, age, out);
                let field = self.model.get(count - 1 - age);
                self.insert(field, &instruction);
            }
            Reading::Duplicate(_) => {}
            Reading::Block(fields, base) => self.block(&fields, base),
            Reading::Deliver(len) => {
                let len = len.index(self.undelivered.len() + 1);
                self.deliver(len);
            }
        }
    }

    fn block(&mut self, fields: &[(prop::sample::Index, bool)], base: prop::sample::Index) {
        let first = self.model.first;
        let count = self.model.all.len();
        let base = first + base.index(count - first + 1);
        let mut body = Vec::new();
        let mut lines = String::new();
        let mut used = Vec::new();
        for (index, is_whole) in fields {
            if count == first {
                put_string(3, 0x20, "name", &mut body);
                put_string(7, 0, "value", &mut body);
                lines.push_str("name: value\n");
                continue;
            }
            let number = first + index.index(count - first);
            used.push(number);
            let [name, value] = self.model.get(number);
            let (bits, flags, index) = match (number < base, *is_whole) {
                (true, true) => (6, 0x80, base - 1 - number),
                (true, false) => (4, 0x40, base - 1 - number),
                (false, true) => (4, 0x10, number - base),
                (false, false) => (3, 0x00, number - base),
            };
            put_integer(bits, flags, index, &mut body);
            let value = if *is_whole { value } else { "other".to_owned() };
            if !is_whole {
                put_string(7, 0, &value, &mut body);
            }
            let _ = writeln!(lines, "{name}: {value}");
        }
        let entries_max = TABLE_BYTES_MAX / 32;
        let required = used.iter().max().map_or(0, |number| number + 1);
        let mut block = Vec::new();
        put_integer(8, 0, if required == 0 { 0 } else { required % (2 * entries_max) + 1 }, &mut block);
        match base.checked_sub(required) {
            Some(delta) => put_integer(7, 0, delta, &mut block),
            None => put_integer(7, 0x80, required - base - 1, &mut block),
        }
        block.extend(body);
        self.send(block, lines, used.into_iter().min().unwrap_or(usize::MAX));
    }

    fn send(&mut self, block: Vec<u8>, lines: String, oldest: usize) {
        let stream = self.next_stream;
        self.next_stream += 4;
        if self.waiting.len() == BLOCKED_STREAMS_MAX {
            self.deliver(self.undelivered.len());
        }
        if self.decoder.blocks(stream, &block).expect("the block is right") {
            self.waiting.insert(stream, (block, lines, oldest));
        } else {
            assert_eq!(decode_by(&mut self.decoder, stream, &block), Ok(lines));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The blocks of our encoder never wait, and refer to nothing that was evicted, however late they are
    /// read.
    #[test]
    fn the_model_decodes_what_we_encode(steps in proptest::collection::vec(writing(), 1..120)) {
        let mut encoder = Encoder::default();
        encoder.set_peer_table_bytes(CAPACITY as u64);
        let mut model = ModelTable::default();
        let mut answers = DecoderStream::default();
        let mut waiting: Vec<(u64, Vec<u8>, String)> = Vec::new();
        let mut stream = 0;
        for step in steps {
            let mut answer = Vec::new();
            match step {
                Writing::Block(fields) => {
                    stream += 4;
                    let block = written_by(&mut encoder, stream, |section| {
                        for (name, value) in &fields {
                            section.field(name.as_bytes(), value.as_bytes());
                        }
                    });
                    let mut lines = String::new();
                    for (name, value) in &fields {
                        let _ = writeln!(lines, "{name}: {value}");
                    }
                    waiting.push((stream, block, lines));
                }
                Writing::Deliver => {
                    let before = model.all.len();
                    model.instruct(&std::mem::take(encoder.out()));
                    if model.all.len() > before {
                        put_integer(6, 0, model.all.len() - before, &mut answer);
                    }
                }
                Writing::Decode(behind) if behind < waiting.len() => {
                    let (stream, block, lines) = waiting.remove(behind);
                    prop_assert_eq!(model.decode(&block, CAPACITY / 32), lines);
                    if block[0] > 0 {
                        put_integer(7, 0x80, stream as usize, &mut answer);
                    }
                }
                Writing::Cancel(behind) if behind < waiting.len() => {
                    let (stream, ..) = waiting.remove(behind);
                    put_integer(6, 0x40, stream as usize, &mut answer);
                }
                Writing::Decode(_) | Writing::Cancel(_) => {}
            }
            prop_assert_eq!(answers.receive(&mut encoder, &mut &answer[..], || Ok(())), Ok(()));
            prop_assert!(encoder.table_bytes() <= CAPACITY);
        }
        for (_, block, lines) in waiting {
            prop_assert_eq!(model.decode(&block, CAPACITY / 32), lines);
        }
    }

    /// Our decoder reads what the model has written, and has a block wait until its entries are there.
    #[test]
    fn we_decode_what_the_model_encodes(steps in proptest::collection::vec(reading(), 1..120)) {
        let mut conversation = Conversation::new();
        for step in steps {
            conversation.act(step);
        }
        conversation.deliver(conversation.undelivered.len());
        prop_assert!(conversation.waiting.is_empty());
    }
}
