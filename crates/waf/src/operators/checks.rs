//! Checks of encodings and checksums.
//!
//! Never in here: the expressions that find candidates; rules give them.

use std::ops::Range;

use super::pattern::Pattern;

/// A check of numbers that people have: an expression finds them, and a checksum confirms them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// A payment card (`@verifyCC`).
    Card,
    /// A tax number of Brazil (`@verifyCPF`).
    Cpf,
    /// A social security number of the United States (`@verifySSN`).
    Ssn,
    /// A social security number of Austria (`@verifySVNR`).
    Svnr,
}

/// True if a `%` is not followed by two hexadecimal digits.
pub(crate) fn invalid_url_encoding(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).any(|at| {
        let digit = |index: usize| text.get(index).is_some_and(u8::is_ascii_hexdigit);
        !digit(at + 1) || !digit(at + 2)
    })
}

/// The first range that the expression finds and the checksum confirms. Work of steps back is added.
pub(super) fn find(kind: Checksum, pattern: &Pattern, text: &[u8], work: &mut usize) -> Option<Range<usize>> {
    pattern.matches(text, work).find(|range| text.get(range.clone()).is_some_and(|text| confirms(kind, text)))
}

fn confirms(kind: Checksum, text: &[u8]) -> bool {
    let digits: Vec<u32> =
        text.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| u32::from(byte - b'0')).collect();
    match kind {
        Checksum::Card => card(&digits),
        Checksum::Cpf => cpf(&digits),
        Checksum::Ssn => ssn(&digits),
        Checksum::Svnr => svnr(&digits),
    }
}

/// The sum of Luhn: every second digit from the right is doubled, and the digits' sum is a multiple of ten.
fn card(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, &digit)| match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    digits.len() > 1 && sum.is_multiple_of(10)
}

/// Two check digits, each the remainder of a weighted sum by eleven.
fn cpf(digits: &[u32]) -> bool {
    let check = |length: usize| {
        let sum: u32 = digits
            .iter()
            .take(length)
            .zip((2..=length as u32 + 1).rev())
            .map(|(digit, weight)| digit * weight)
            .sum();
        match sum * 10 % 11 {
            10 => 0,
            rest => rest,
        }
    };
    let same = digits.windows(2).all(|pair| pair[0] == pair[1]);
    digits.len() == 11 && !same && digits[9] == check(9) && digits[10] == check(10)
}

/// Ranges that are not given out: areas 000, 666 and from 740, group 00, serial 0000.
fn ssn(digits: &[u32]) -> bool {
    if digits.len() != 9 {
        return false;
    }
    let value = |range: Range<usize>| digits[range].iter().fold(0, |value, digit| value * 10 + digit);
    let area = value(0..3);
    let group = value(3..5);
    let serial = value(5..9);
    area != 0 && area != 666 && area < 740 && group != 0 && serial != 0
}

/// The fourth digit is the weighted sum of the others by eleven.
fn svnr(digits: &[u32]) -> bool {
    const WEIGHTS: [u32; 10] = [3, 7, 9, 0, 5, 8, 4, 2, 1, 6];
    if digits.len() != 10 {
        return false;
    }
    let sum: u32 = digits.iter().zip(WEIGHTS).map(|(digit, weight)| digit * weight).sum();
    sum % 11 == digits[3]
}
