//! Vectors of ModSecurity's own unit tests, as far as they are public
//! (`test/test-cases/secrules-language-tests` of ModSecurity 3, Apache-2.0), and invariants for any text.

use std::borrow::Cow;

use proptest::prelude::*;

use super::{TRANSFORMATIONS, Transformation, UnicodeMap, apply, named};

fn transformed(name: &str, text: &[u8]) -> Vec<u8> {
    apply(named(name).expect("a name of the table"), Cow::Borrowed(text), None).into_owned()
}

fn check(name: &str, vectors: &[(&[u8], &[u8])]) {
    for (text, expected) in vectors {
        let result = transformed(name, text);
        assert_eq!(
            &result,
            expected,
            "{name} of {:?}: {:?}",
            text.escape_ascii().to_string(),
            result.escape_ascii().to_string()
        );
    }
}

#[test]
fn base64_is_decoded_up_to_a_foreign_character() {
    check(
        "base64Decode",
        &[
            (b"", b""),
            (b"VGVzdENhc2U=", b"TestCase"),
            (b"VGVzdENhc2U", b"TestCase"),
            (b"VGVzdABDYXNl", b"Test\0Case"),
            (b"PFRFU1Q+", b"<TEST>"),
            (b"PHNjcmlwd", b"<scrip"),
            (b"PFR FU1Q+", b"<T"),
            (b"P.HNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", b""),
            (b"PFRFU1Q-", b"<TEST"),
        ],
    );
    check(
        "base64DecodeExt",
        &[
            (b"P.HNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", b"<script>alert(1)</script>"),
            (b"PHNjcmlwdD.5hbGVydCgxKTwvc2NyaXB0Pg==", b"<script>alert(1)</script>"),
            (b"PFR FU1Q+", b"<TEST>"),
        ],
    );
    check(
        "base64Encode",
        &[(b"", b""), (b"TestCase", b"VGVzdENhc2U="), (b"Test\0Case", b"VGVzdABDYXNl"), (b"f", b"Zg==")],
    );
}

#[test]
fn a_command_line_loses_what_shells_ignore() {
    check(
        "cmdLine",
        &[
            (b"", b""),
            (b"test", b"test"),
            (b"C^OMMAND /C DIR", b"command/c dir"),
            (b"C^oMMaNd /C DiR", b"command/c dir"),
            (b"cmd,/c DiR", b"cmd/c dir"),
            (b"\"command\" /c DiR", b"command/c dir"),
            (b"a  ;b (c", b"a b(c"),
        ],
    );
}

#[test]
fn white_space_and_nul_bytes() {
    check(
        "compressWhitespace",
        &[
            (b"a b", b"a b"),
            (b" \t a\r\n\x0b\x0cb ", b" a b "),
            (b"a\tb", b"a b"),
            (b"Test\0Case", b"Test\0Case"),
        ],
    );
    check("removeWhitespace", &[(b"TestCase", b"TestCase"), (b" a\t\n\x0b\x0c\rb \xc2\xa0c\xa0", b"abc")]);
    check("trim", &[(b"", b""), (b" \t\n", b""), (b" a b \r\n", b"a b"), (b"a", b"a")]);
    check("trimLeft", &[(b" \t a ", b"a "), (b"  ", b"")]);
    check("trimRight", &[(b" a \n", b" a"), (b"  ", b"")]);
    check("removeNulls", &[(b"\0Test\0\0Case\0", b"TestCase"), (b"a", b"a"), (b"\0", b"")]);
    check("replaceNulls", &[(b"\0Test\0\0Case", b" Test  Case")]);
    check("length", &[(b"", b"0"), (b"0123456789", b"10")]);
    check("lowercase", &[(b"TestCase\xc9", b"testcase\xc9")]);
    check("uppercase", &[(b"TestCase\xe9", b"TESTCASE\xe9")]);
}

#[test]
fn escapes_of_css() {
    check(
        "cssDecode",
        &[
            (b"Test\0Case", b"Test\0Case"),
            (
                b"test\\a\\b\\f\\n\\r\\t\\v\\?\\'\\\"\\\0\\12\\123\\1234\\12345\\123456\\ff01\\ff5e\\\n\\\0  string",
                b"test\n\x0b\x0fnrtv?'\"\0\x12\x23\x34\x45\x56\x21\x7e\0  string",
            ),
            (b"test\\", b"test"),
            (b"\\1A\\1 A\\1234567\\123456 7\\1x\\1 x", b"\x1a\x01A\x567\x567\x01x\x01x"),
            (b"\\0ff1c\\00ff1c\\1ff1c", b"<<\x1c"),
        ],
    );
}

#[test]
fn escapes_of_ansi_c() {
    check(
        "escapeSeqDecode",
        &[
            (b"Test\0Case", b"Test\0Case"),
            (
                b"\\a\\b\\f\\n\\r\\t\\v\\?\\'\\\"\\0\\12\\123\\x00\\xff",
                b"\x07\x08\x0c\n\r\t\x0b?'\"\0\nS\0\xff",
            ),
            (b"\\8\\9\\666\\0123\\\\", b"89\xb6\n3\\"),
            (b"<\\163\\143\\162\\151\\160\\164>", b"<script>"),
            (b"\\", b"\\"),
            (b"\\01", b"\x01"),
        ],
    );
}

#[test]
fn escapes_of_javascript() {
    check(
        "jsDecode",
        &[
            (b"Test\0Case", b"Test\0Case"),
            (
                b"\\a\\b\\f\\n\\r\\t\\v\\?\\'\\\"\\0\\12\\123\\x00\\xff\\u0021\\uff01",
                b"\x07\x08\x0c\n\r\t\x0b?'\"\0\nS\0\xff!!",
            ),
            (b"\\u\\u0\\u01\\u012", b"uu0u01u012"),
            (b"\\", b"\\"),
            (b"\\\\0", b"\\0"),
            (b"\\377\\200\\400", b"\xff\x80\x200"),
            (b"\\8\\9\\xag\\xga", b"89xagxga"),
        ],
    );
}

#[test]
fn hexadecimal_digits() {
    check(
        "hexDecode",
        &[
            (b"", b""),
            (b"5465737443617365", b"TestCase"),
            (b"54657374004361736", b"Test\0Cas"),
            (b"4A4b", b"JK"),
        ],
    );
    check("hexEncode", &[(b"", b""), (b"Test\0Case\xff", b"546573740043617365ff")]);
    check(
        "sqlHexDecode",
        &[
            (b"0x414243", b"ABC"),
            (b"a 0X41b 0x4 0x", b"a Ab 0x4 0x"),
            (b"0x41424", b"AB4"),
            (b"00x41", b"0A"),
        ],
    );
}

#[test]
fn character_references_of_html() {
    check(
        "htmlEntityDecode",
        &[
            (b"&#x0;&#X0;&#x20;&#X20;&#0;&#32;\0&#100;&quot;&amp;&lt;&gt;&nbsp;", b"\0\0  \0 \0d\"&<>\xa0"),
            (b"&#x0&#X0&#x20&#X20&#0&#32\0&#100&quot&amp&lt&gt&nbsp", b"\0\0  \0 \0d\"&<>\xa0"),
            (b"&#xg;&#Xg;&#xg0;&#g;&#a;\0&#a2;&#3;&foo;", b"&#xg;&#Xg;&#xg0;&#g;&#a;\0&#a2;\x03&foo;"),
            (b"&;&&amp;lt;&QUOT;", b"&;&&lt;\""),
            (b"a&", b"a&"),
            (b"&ltscript&gt", b"<script>"),
        ],
    );
}

#[test]
fn digests_are_bytes() {
    for (name, text, digest) in [
        ("md5", "", "d41d8cd98f00b204e9800998ecf8427e"),
        ("md5", "TestCase", "c9aba2c3e60126169e80e9a26ba273c1"),
        ("sha1", "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("sha1", "TestCase", "a70ce38389e318bd2be18a0111c6dc76bd2cd9ed"),
    ] {
        let encoded = transformed("hexEncode", &transformed(name, text.as_bytes()));
        assert_eq!(String::from_utf8_lossy(&encoded), digest, "{name} of {text}");
    }
}

#[test]
fn paths_are_normalized() {
    let vectors: &[(&[u8], &[u8])] = &[
        (b"", b""),
        (b"/foo/bar/baz", b"/foo/bar/baz"),
        (b"/foo/bar\0/baz", b"/foo/bar\0/baz"),
        (b"x", b"x"),
        (b".", b""),
        (b"./", b""),
        (b"./..", b".."),
        (b"./../", b"../"),
        (b"..", b".."),
        (b"../.", b".."),
        (b".././", b"../"),
        (b"../..", b"../.."),
        (b"../../", b"../../"),
        (b"/dir/foo//bar", b"/dir/foo/bar"),
        (b"dir/foo//bar/", b"dir/foo/bar/"),
        (b"dir/../foo", b"foo"),
        (b"dir/../../foo", b"../foo"),
        (b"dir/./.././../../foo/bar", b"../../foo/bar"),
        (b"dir/./.././../../foo/bar/.", b"../../foo/bar"),
        (b"dir/./.././../../foo/bar/./", b"../../foo/bar/"),
        (b"dir/./.././../../foo/bar/..", b"../../foo"),
        (b"dir/./.././../../foo/bar/../", b"../../foo/"),
        (b"dir//.//..//.//..//..//foo//bar//", b"../../foo/bar/"),
        (b"dir/subdir/subsubdir/subsubsubdir/../../..", b"dir"),
        (b"dir/./subdir/../subsubdir/../subsubsubdir/..", b"dir"),
        (b"/dir/./subdir/../subsubdir/../subsubsubdir/../", b"/dir/"),
        (b"/./.././../../../../../../../\0/../etc/./passwd", b"/etc/passwd"),
    ];
    check("normalizePath", vectors);
    for (text, expected) in vectors {
        let backslashes: Vec<u8> = text.iter().map(|&byte| if byte == b'/' { b'\\' } else { byte }).collect();
        assert_eq!(&transformed("normalisePathWin", &backslashes), expected);
    }
}

#[test]
fn parity_is_the_top_bit() {
    check("parityEven7bit", &[(b"abcdefghijk", b"\xe1\xe2\x63\xe4\x65\x66\xe7\xe8\x69\x6a\xeb")]);
    check("parityOdd7bit", &[(b"abcdef", b"\x61\x62\xe3\x64\xe5\xe6")]);
    check("parityZero7bit", &[(b"\xe1b\xff", b"ab\x7f")]);
}

#[test]
fn comments_are_replaced_or_removed() {
    check(
        "replaceComments",
        &[
            (b"", b""),
            (b"/* TestCase */", b" "),
            (b"Before/* TestCase */After", b"Before After"),
            (b"a/*b*//*c*/d", b"a  d"),
            (b"Before/* TestCase ", b"Before "),
            (b"Before TestCase */ After ", b"Before TestCase */ After "),
            (b"/*/", b" "),
        ],
    );
    check(
        "removeComments",
        &[
            (b"/* TestCase */", b""),
            (b"Before/* TestCase */After", b"BeforeAfter"),
            (b"a<!-- b -->c", b"ac"),
            (b"a/*b*//*c*/d", b"ad"),
            (b"a -- b", b"a "),
            (b"a # b", b"a "),
            (b"a/*b", b"a "),
        ],
    );
    check("removeCommentsChar", &[(b"a/*b*/c<!--d-->e--f#g", b"abcdefg"), (b"a-b", b"a-b")]);
}

#[test]
fn percent_encoding() {
    let both: &[(&[u8], &[u8])] = &[
        (b"", b""),
        (b"Test+Case%00%fF", b"Test Case\0\xff"),
        (b"%+", b"% "),
        (b"%%20", b"% "),
        (b"%0g%20", b"%0g "),
        (b"%0%20", b"%0 "),
        (b"%g%20", b"%g "),
        (b"%0%1%2%3%4%5%6%7%8%9%0%a%b%c%d%e%f", b"%0%1%2%3%4%5%6%7%8%9%0%a%b%c%d%e%f"),
        (b"%", b"%"),
        (b"%0", b"%0"),
        (b"%%", b"%%"),
    ];
    check("urlDecode", both);
    check("urlDecode", &[(b"%u0041", b"%u0041")]);
    check("urlDecodeUni", both);
    check(
        "urlDecodeUni",
        &[
            (b"%u0041%u0142%uff1c%uff5e%uff5f", b"A\x42<~\x5f"),
            (b"%u%u0020", b"%u "),
            (b"%u000%u0020", b"%u000 "),
            (b"%u000g%u0020", b"%u000g "),
            (b"%%u0020", b"% "),
        ],
    );
    check("urlEncode", &[(b"", b""), (b"Test Case*-_\0\xff", b"Test+Case*%2d%5f%00%ff")]);
}

#[test]
fn code_points_have_a_best_fit() {
    let map = UnicodeMap::ascii();
    let decoded = apply(
        Transformation::UrlDecodeUni,
        Cow::Borrowed(b"%u201dQuoted%u2019s%u2014%u00e9%uff1c%u1100"),
        Some(&map),
    );
    assert_eq!(decoded.escape_ascii().to_string(), r#"\"Quoted\'s-e<\x00"#);
    let parsed = UnicodeMap::parse("1250 (ANSI)\n00a1:21\n\n20127 (US-ASCII)\n00a2:63 00a1:22\n", 20127);
    let parsed = parsed.expect("a code page");
    assert_eq!([0xa1, 0xa2, 0xa3].map(|point| parsed.byte(point)), [Some(0x22), Some(0x63), None]);
    assert!(UnicodeMap::parse("1250\n00a1:21\n", 20127).is_err());
    assert!(UnicodeMap::parse("20127\n00a1-21\n", 20127).is_err());
}

#[test]
fn utf8_becomes_code_points() {
    check(
        "utf8toUnicode",
        &[
            (b"hello\0world", b"hello\0world"),
            ("ハローĤé🍺".as_bytes(), b"%u30cf%u30ed%u30fc%u0124%u00e9%u1f37a"),
            (b"a\xc3", b"a\xc3"),
            (b"a\xffb\xc3\xa9", b"a\xffb%u00e9"),
        ],
    );
}

#[test]
fn names_are_found_without_regard_to_case() {
    assert_eq!(named("URLDECODEUNI"), Some(Transformation::UrlDecodeUni));
    assert_eq!(named("normalisePath"), named("normalizepath"));
    assert_eq!(named("none"), None);
    assert!(TRANSFORMATIONS.iter().all(|entry| entry.doc.ends_with('.')));
}

proptest! {
    #[test]
    fn any_text_is_transformed_within_bounds(text in text()) {
        let map = UnicodeMap::ascii();
        for entry in TRANSFORMATIONS {
            let borrowed = apply(entry.transformation, Cow::Borrowed(&text), Some(&map));
            prop_assert!(borrowed.len() <= 3 * text.len() + 20, "{}", entry.name);
            if matches!(borrowed, Cow::Owned(_)) && entry.name != "length" {
                prop_assert!(*borrowed != *text || text.is_empty() || entry.name.starts_with("hex"), "{} copies in vain", entry.name);
            }
            let owned = apply(entry.transformation, Cow::Owned(text.clone()), Some(&map));
            prop_assert_eq!(borrowed, owned);
        }
    }
}

/// Texts that are likely to have what the transformations look for.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        &b"%"[..],
        b"%u",
        b"%41",
        b"%uff1c",
        b"\\",
        b"\\u",
        b"\\x4",
        b"&",
        b"&#",
        b"&#x",
        b"&lt",
        b";",
        b"/*",
        b"*/",
        b"--",
        b"<!--",
        b"-->",
        b"#",
        b"0x",
        b"41",
        b"..",
        b"/",
        b".",
        b" ",
        b"\t",
        b"\0",
        b"\xc2\xa0",
        b"\xff",
        b"+",
        b"A",
        b"fF",
        b"\n",
        b"^",
        b"\"",
        "é".as_bytes(),
        "🍺".as_bytes(),
    ]);
    prop::collection::vec(words, 0..24).prop_map(|words| words.concat())
}
