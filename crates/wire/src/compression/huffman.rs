//! The Huffman code of RFC 7541 appendix B.
//!
//! The code is canonical: of two symbols, the one with the shorter code has the smaller one, and codes of one
//! length are numbered in the order of their symbols. The lengths therefore determine all codes, and the
//! compiler computes both tables from them.

use super::BrokenBlock;

/// Length in bits of the code of each byte; the last one is that of EOS.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const EOS: u16 = 256;
const LENGTH_MAX: usize = 30;

/// The codes of one length: consecutive numbers.
#[derive(Clone, Copy)]
struct Group {
    /// The smallest code.
    first: u32,
    count: u32,
    /// Index of the smallest code's symbol in `Canonical::symbols`.
    at: u32,
}

/// The symbols in the order of their codes, and the codes of each length.
struct Canonical {
    groups: [Group; LENGTH_MAX + 1],
    symbols: [u16; 257],
}

impl Canonical {
    const fn new() -> Self {
        let mut groups = [Group { first: 0, count: 0, at: 0 }; LENGTH_MAX + 1];
        let mut symbols = [0; 257];
        let mut code = 0;
        let mut at = 0;
        let mut length = 1;
        while length <= LENGTH_MAX {
            code *= 2;
            groups[length] = Group { first: code, count: 0, at };
            let mut symbol = 0;
            while symbol < LENGTHS.len() {
                if LENGTHS[symbol] as usize == length {
                    symbols[at as usize] = symbol as u16;
                    groups[length].count += 1;
                    code += 1;
                    at += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        Self { groups, symbols }
    }
}

static CANONICAL: Canonical = CANONICAL_CODE;
const CANONICAL_CODE: Canonical = Canonical::new();

// === Decoding ===

/// Bits that one step of decoding looks at. Twelve are two symbols in most cases, and the table has 16 KB.
const STEP_BITS: u32 = 12;
/// Steps for which the bits of one word suffice: 57 at least are valid, because a word begins at a whole
/// byte.
const STEPS: u32 = 4;

/// A step's result: one or two symbols, the first of them in the lowest byte; in the third byte the number of
/// bits of their codes; in the fourth the number of bits of the symbols themselves, 8 or 16. The upper two
/// bytes of all steps with one word can be added without a carry between them. Zero stands for a code of more
/// bits than a step has.
type Step = u32;

const fn first_symbols() -> [Step; 1 << STEP_BITS] {
    let mut steps = [0; 1 << STEP_BITS];
    let mut length = 1;
    while length <= STEP_BITS as usize {
        let group = CANONICAL_CODE.groups[length];
        let free_bits = STEP_BITS - length as u32;
        let mut nth = 0;
        while nth < group.count {
            let symbol = CANONICAL_CODE.symbols[(group.at + nth) as usize] as u32;
            let first = (group.first + nth) << free_bits;
            let mut rest = 0;
            while rest < 1 << free_bits {
                steps[(first + rest) as usize] = symbol | (length as u32) << 16 | 8 << 24;
                rest += 1;
            }
            nth += 1;
        }
        length += 1;
    }
    steps
}

const fn both_symbols() -> [Step; 1 << STEP_BITS] {
    let singles = first_symbols();
    let mut steps = singles;
    let mut at = 0;
    while at < steps.len() {
        let one = singles[at];
        let one_bits = code_bits(one);
        let two = singles[(at << one_bits) & (steps.len() - 1)];
        // A second symbol counts only if none of its bits was shifted in from beyond the step.
        if one != 0 && two != 0 && one_bits + code_bits(two) <= STEP_BITS {
            steps[at] = one & 0xff | (two & 0xff) << 8 | (one_bits + code_bits(two)) << 16 | 16 << 24;
        }
        at += 1;
    }
    steps
}

const fn code_bits(step: Step) -> u32 {
    step >> 16 & 0xff
}

static DECODING: [Step; 1 << STEP_BITS] = both_symbols();

/// Appends the text of a Huffman-coded string to `out`.
pub(crate) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), BrokenBlock> {
    let bits = 8 * coded.len();
    let mut at = 0;
    loop {
        let mut word = word_at(coded, at);
        let mut text = 0_u64;
        let mut lengths = 0;
        let mut step = 0;
        for _ in 0..STEPS {
            // A long code stays where it is: the steps after it find it again, and do nothing.
            step = DECODING[(word >> (u64::BITS - STEP_BITS)) as usize];
            text |= u64::from(step & 0xffff).wrapping_shl(lengths >> 8);
            word = word.wrapping_shl(step >> 16);
            lengths += step >> 16;
        }
        let end = out.len() + (lengths >> 11) as usize;
        out.extend_from_slice(&text.to_le_bytes());
        out.truncate(end);
        at += (lengths & 0xff) as usize;
        let is_near_end = at + 8 > bits;
        if is_near_end && word >> (u64::BITS - 8) == 0xff {
            // The string ends with fewer than eight bits, all of them ones (RFC 7541 section 5.2). Beyond the
            // end, a code with some of its bits there has been read.
            return if at <= bits { Ok(()) } else { Err(BrokenBlock) };
        }
        if step == 0 {
            if is_near_end {
                return Err(BrokenBlock);
            }
            at += long_symbol(word_at(coded, at), out)?;
        }
    }
}

/// At least 57 bits from an offset in bits on, the first one in the highest bit. Ones follow after the last
/// byte: they are the beginning of EOS, and no step takes them for a symbol.
#[inline]
fn word_at(coded: &[u8], at: usize) -> u64 {
    let word = match coded.get(at / 8..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_be_bytes(*word),
        None => last_word(coded, coded.len().saturating_sub(at / 8)),
    };
    word.wrapping_shl(at as u32 & 7)
}

/// The last `len` bytes, fewer than eight, and ones.
#[inline]
fn last_word(coded: &[u8], len: usize) -> u64 {
    let free_bits = 8 * (8 - len) as u32;
    let ones = u64::MAX.checked_shr(u64::BITS - free_bits).unwrap_or(0);
    let word = match coded.last_chunk() {
        Some(last) => u64::from_be_bytes(*last),
        None => coded.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    word.checked_shl(free_bits).unwrap_or(0) | ones
}

/// Decodes one symbol whose code is longer than a step, and returns the code's length in bits.
#[cold]
fn long_symbol(word: u64, out: &mut Vec<u8>) -> Result<usize, BrokenBlock> {
    for length in STEP_BITS as usize + 1..=LENGTH_MAX {
        let group = CANONICAL.groups[length];
        let code = (word >> (u64::BITS - length as u32)) as u32;
        let nth = code.wrapping_sub(group.first);
        if nth < group.count {
            let symbol = CANONICAL.symbols[(group.at + nth) as usize];
            if symbol == EOS {
                return Err(BrokenBlock);
            }
            out.push(symbol as u8);
            return Ok(length);
        }
    }
    Err(BrokenBlock)
}

// === Encoding ===

/// For each byte its code, shifted by eight bits, and the code's length in the lowest byte.
static ENCODING: [u64; 256] = {
    let mut codes = [0; 256];
    let mut length = 1;
    while length <= LENGTH_MAX {
        let group = CANONICAL_CODE.groups[length];
        let mut nth = 0;
        while nth < group.count {
            let symbol = CANONICAL_CODE.symbols[(group.at + nth) as usize];
            if symbol != EOS {
                codes[symbol as usize] = ((group.first + nth) as u64) << 8 | length as u64;
            }
            nth += 1;
        }
        length += 1;
    }
    codes
};

/// Appends bytes in the Huffman code, padded with ones.
pub(crate) fn encode(bytes: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    // The lowest `bits` bits of the word have not been written: fewer than 32 before each code, 61 after it.
    let (mut word, mut bits) = (0_u64, 0);
    for byte in bytes {
        let code = ENCODING[usize::from(byte)];
        let length = code as u32 & 0xff;
        word = word << length | code >> 8;
        bits += length;
        if bits >= 32 {
            bits -= 32;
            out.extend_from_slice(&((word >> bits) as u32).to_be_bytes());
        }
    }
    let padded = word << 32 | 0xffff_ffff;
    let end = out.len() + bits.div_ceil(8) as usize;
    out.extend_from_slice(&((padded >> bits) as u32).to_be_bytes());
    out.truncate(end);
}

/// Decodes a string as RFC 7541 section 5.2 describes it, one bit after another.
#[cfg(test)]
pub(crate) fn decode_bit_by_bit(coded: &[u8]) -> Result<Vec<u8>, BrokenBlock> {
    let mut out = Vec::new();
    let (mut code, mut length) = (0, 0);
    for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |at| u32::from(byte >> at & 1))) {
        code = code << 1 | bit;
        length += 1;
        let found = (0..LENGTHS.len()).find(|symbol| {
            let group = CANONICAL.groups[length];
            let nth =
                CANONICAL.symbols.iter().position(|other| usize::from(*other) == *symbol).unwrap_or(0) as u32;
            usize::from(LENGTHS[*symbol]) == length && group.first + nth - group.at == code
        });
        if let Some(symbol) = found {
            out.push(u8::try_from(symbol).map_err(|_| BrokenBlock)?);
            (code, length) = (0, 0);
        }
    }
    if length < 8 && code == (1 << length) - 1 { Ok(out) } else { Err(BrokenBlock) }
}
