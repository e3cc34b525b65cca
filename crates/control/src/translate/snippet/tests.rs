//! Properties of the readers of snippets, for arbitrary snippets. The results of single directives are in the
//! golden cases, and their effects in the end-to-end tests.

use proptest::prelude::*;

use super::*;

/// Words with a meaning, in any order.
const WORDS: &[&str] = &[
    "set",
    "$a",
    "$b",
    "if",
    "(",
    "($a",
    "$a)",
    "=",
    "!=",
    "~",
    "~*",
    "!~",
    "return",
    "301",
    "200",
    "444",
    "rewrite",
    "^/(a)",
    "/$1?x",
    "permanent",
    "break",
    "more_set_headers",
    "\"X: $host\"",
    "-s",
    "'404 500'",
    "more_clear_headers",
    "add_header",
    "always",
    "proxy_set_header",
    "more_set_input_headers",
    "proxy_hide_header",
    "allow",
    "deny",
    "all",
    "10.0.0.0/8",
    "location",
    "^~",
    "/p",
    "map",
    "default",
    "default_type",
    "text/plain",
    "#",
    "\n",
    ";",
    ";",
    ";",
    "{",
    "}",
    "}",
    "$http_x",
    "${host}",
    "\"",
    "\\",
    "é",
];

fn snippet() -> impl Strategy<Value = String> {
    let words = proptest::collection::vec(proptest::sample::select(WORDS), 0..24);
    words.prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn nothing_panics_and_every_fault_has_a_line(text in snippet()) {
        let mut names = Names::default();
        names.add_set_by(&text);
        let lines = text.matches('\n').count() as u32 + 1;
        let faults = [
            location(&text, &names).err(),
            server(&text, &names).err(),
            http(&text, false).err(),
            auth(&text, &names).err(),
        ];
        for fault in faults.into_iter().flatten().flat_map(|faults| faults.0) {
            prop_assert!((1..=lines).contains(&fault.line), "{} of {lines} lines: {:?}", fault, text);
        }
    }

    /// Accepted snippets are sound: a response has a status, a header has a name and no line break.
    #[test]
    fn what_is_accepted_is_sound(text in snippet()) {
        let mut names = Names::default();
        names.add_set_by(&text);
        if let Ok((OfLocation { block, .. }, _)) = location(&text, &names) {
            let named = block.headers.response.iter().map(|edit| &edit.name);
            for name in named.chain(block.headers.added.iter().map(|header| &header.name)) {
                prop_assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'));
            }
        }
    }
}

#[test]
fn tables_take_values_from_tables_to_a_depth() {
    let text = |count: usize| -> String {
        let table = |at: usize| format!("map \"${{m{}}}x\" $m{at} {{ default $m{}; a b; }}", at - 1, at - 1);
        (1..=count).map(table).collect::<Vec<_>>().concat()
    };
    let http = |text: &str| http(text, false);
    let first = "map $host $m0 { default 1; }";
    assert!(http(&format!("{first}{}", text(2))).is_ok());
    assert!(
        http(&format!("{first}{}", text(3))).unwrap_err().to_string().contains("behind more than 3 others")
    );
    assert!(http("map $host $a { default $b; } map $host $b { default 1; }").is_err(), "only those before");
    assert!(http("map $host $a { ~^(.) $1; }").is_ok(), "what the groups of its own expression have found");
    assert!(http("map $host $a { a $1; }").is_err() && http("map $host $a { default $1; }").is_err());
    assert!(http("map $host $host { default 1; }").is_err() && http("map $host $a { x 1; X 2; }").is_err());
    let many = format!("map $host $a {{ default \"{}\"; }}", "$m0".repeat(9));
    assert!(http(&format!("{first}{many}")).is_err());
}

#[test]
fn expressions_are_counted() {
    let text = "if ($host ~ a) { set $x 1; }".repeat(101);
    let mut names = Names::default();
    names.add_set_by(&text);
    assert!(location(&text, &names).unwrap_err().to_string().contains("more than 100 regular expressions"));
}
