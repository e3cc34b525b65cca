//! Appends short texts, numbers, times and addresses without `core::fmt` and, where they are short, without
//! `memcpy`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The decimal digits of each number below 1000, first digit first, followed by their count.
const SHORT_NUMBERS: [[u8; 4]; 1000] = short_numbers();

const fn short_numbers() -> [[u8; 4]; 1000] {
    let mut numbers = [[0; 4]; 1000];
    let mut value = 0;
    while value < numbers.len() {
        let [hundreds, tens, ones] = digits(value as u32);
        numbers[value] = match value {
            0..10 => [ones, 0, 0, 1],
            10..100 => [tens, ones, 0, 2],
            _ => [hundreds, tens, ones, 3],
        };
        value += 1;
    }
    numbers
}

/// The last three decimal digits.
const fn digits(value: u32) -> [u8; 3] {
    [b'0' + (value / 100 % 10) as u8, b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]
}

/// Appends a text that is likely to have at most three bytes, as between the variables of a format.
#[inline]
pub(super) fn push_short(out: &mut Vec<u8>, text: &[u8]) {
    match *text {
        [one] => out.push(one),
        [one, two] => out.extend_from_slice(&[one, two]),
        [one, two, three] => out.extend_from_slice(&[one, two, three]),
        _ => out.extend_from_slice(text),
    }
}

#[inline]
pub(super) fn push_number(out: &mut Vec<u8>, value: impl Into<u64>) {
    let value = value.into();
    let Some(digits) = usize::try_from(value).ok().and_then(|value| SHORT_NUMBERS.get(value)) else {
        return out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    };
    // Four bytes are one store, and truncating costs less than a copy of variable length.
    let end = out.len() + usize::from(digits[3]);
    out.extend_from_slice(digits);
    out.truncate(end);
}

/// Appends seconds with three decimals.
pub(super) fn push_seconds(out: &mut Vec<u8>, time: Duration) {
    push_number(out, time.as_secs());
    let [tenths, hundredths, thousandths] = digits(time.subsec_millis());
    out.extend_from_slice(&[b'.', tenths, hundredths, thousandths]);
}

pub(super) fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            let [first, rest @ ..] = ip.octets();
            push_number(out, first);
            for octet in rest {
                out.push(b'.');
                push_number(out, octet);
            }
        }
        IpAddr::V6(ip) => write!(out, "{ip}").expect("a Vec takes everything"),
    }
}

/// Appends an address with its port; one of IPv6 in brackets.
pub(super) fn push_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(_) => push_ip(out, address.ip()),
        IpAddr::V6(ip) => write!(out, "[{ip}]").expect("a Vec takes everything"),
    }
    out.push(b':');
    push_number(out, address.port());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before ".to_vec();
        push(&mut out);
        String::from_utf8(out).unwrap().strip_prefix("before ").unwrap().to_owned()
    }

    #[test]
    fn numbers_have_their_digits_and_no_more() {
        for value in (0..=1100).chain([9_999, 10_000, u64::from(u32::MAX), u64::MAX]) {
            assert_eq!(pushed(|out| push_number(out, value)), value.to_string());
        }
    }

    #[test]
    fn seconds_have_three_decimals_and_are_not_rounded() {
        for (micros, text) in [(0, "0.000"), (999, "0.000"), (7_000, "0.007"), (1_042_999, "1.042")] {
            assert_eq!(pushed(|out| push_seconds(out, Duration::from_micros(micros))), text);
        }
        assert_eq!(pushed(|out| push_seconds(out, Duration::MAX)), format!("{}.999", u64::MAX));
    }

    #[test]
    fn addresses_read_as_the_standard_library_writes_them() {
        for address in ["0.10.200.255:0", "192.0.2.7:65535", "[2001:db8::1]:443", "[::ffff:192.0.2.7]:80"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(pushed(|out| push_address(out, address)), address.to_string());
            assert_eq!(pushed(|out| push_ip(out, address.ip())), address.ip().to_string());
        }
    }

    #[test]
    fn short_texts_are_whole() {
        for text in ["", "a", "ab", "abc", "abcd", "abcdefghijklmnopqrstuvwxyz"] {
            assert_eq!(pushed(|out| push_short(out, text.as_bytes())), text);
        }
    }
}
