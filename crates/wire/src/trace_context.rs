//! The span that a request belongs to, in the form for the next hop (W3C Trace Context, `traceparent`).

/// Bytes of a `traceparent` of version 00.
pub const LEN: usize = 55;

/// The trace was sampled (section 3.2.2.5.1).
pub const SAMPLED: u8 = 1;

/// The trace's id is random (Trace Context Level 2); the flag is forwarded unchanged.
const RANDOM: u8 = 2;

/// A span and its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace; not all zero.
    pub trace_id: [u8; 16],
    /// Id of the span; not all zero.
    pub span_id: [u8; 8],
    /// [`SAMPLED`], and other flags, which are forwarded.
    pub flags: u8,
}

impl TraceContext {
    /// Parses the value of `traceparent`; none if it is malformed, in which case a new trace begins (section
    /// 3.2.2). In a later version, the parts of version 00 count (section 3.2.4).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_at_checked(LEN)?;
        let [version] = hex(&head[..2])?;
        let is_whole = rest.is_empty() || (version != 0 && rest[0] == b'-');
        if !is_whole || version == 0xff || [head[2], head[35], head[52]] != *b"---" {
            return None;
        }
        let (trace_id, span_id) = (hex(&head[3..35])?, hex(&head[36..52])?);
        let [flags] = hex(&head[53..])?;
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, flags: flags & (SAMPLED | RANDOM) })
    }

    /// The value of `traceparent`.
    pub fn write(&self) -> [u8; LEN] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&self.trace_id, &mut text[3..35]);
        write_hex(&self.span_id, &mut text[36..52]);
        write_hex(&[self.flags], &mut text[53..]);
        text
    }

    /// Whether the trace is sampled, so that its spans are recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags of a child of this span.
    pub fn flags_of_child(&self, is_sampled: bool) -> u8 {
        (self.flags & RANDOM) | u8::from(is_sampled)
    }
}

/// Parses lower-case digits: "vendors MUST ignore the traceparent when" it has others.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn write_hex(bytes: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_alike(trace_id: [u8; 16], span_id: [u8; 8], flags in 0..4_u8) {
            prop_assume!(trace_id != [0; 16] && span_id != [0; 8]);
            let context = TraceContext { trace_id, span_id, flags };
            prop_assert_eq!(TraceContext::parse(&context.write()), Some(context));
        }

        #[test]
        fn no_bytes_are_too_odd(value in proptest::collection::vec(any::<u8>(), 0..70)) {
            let _ = TraceContext::parse(&value);
        }
    }

    const VALUE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_read_is_written_alike() {
        let context = TraceContext::parse(VALUE.as_bytes()).unwrap();
        assert_eq!(context.trace_id[..3], [0x0a, 0xf7, 0x65]);
        assert_eq!(context.span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
        assert!(context.is_sampled());
        assert_eq!(context.write(), VALUE.as_bytes());
    }

    #[test]
    fn unknown_flags_end_here_and_that_of_random_ids_passes() {
        let flags = |text: &str| TraceContext::parse(VALUE.replace("-01", text).as_bytes()).unwrap();
        assert_eq!((flags("-ff").flags, flags("-fe").is_sampled()), (3, false));
        assert_eq!((flags("-02").flags_of_child(true), flags("-01").flags_of_child(false)), (3, 0));
    }

    #[test]
    fn a_later_version_may_say_more() {
        for text in ["01-$-01", "cc-$-01-what the future will be like", "fe-$-01-"] {
            let text = text.replace('$', &VALUE[3..52]);
            assert_eq!(
                TraceContext::parse(text.as_bytes()).map(|found| found.write()),
                Some(VALUE.as_bytes().try_into().unwrap())
            );
        }
    }

    #[test]
    fn what_is_malformed_is_none() {
        let zeros = |range: std::ops::Range<usize>| {
            let mut text = VALUE.to_owned();
            text.replace_range(range.clone(), &"0".repeat(range.len()));
            text
        };
        let bad = [
            String::new(),
            VALUE[..54].to_owned(),
            format!("{VALUE}-"),
            format!("{VALUE}0"),
            format!("01{}x", &VALUE[2..]),
            VALUE.replacen("00-", "ff-", 1),
            VALUE.replacen('-', "_", 1),
            VALUE.to_uppercase(),
            VALUE.replace("b7", "g7"),
            zeros(3..35),
            zeros(36..52),
        ];
        for text in bad {
            assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text}");
        }
    }
}
