//! Golden text of the screen at several sizes, and the effects of keys.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::screen::show;
use super::text::Signs;
use super::view::{Key, Then, Trouble, View};
use super::{lines, plain};

fn latency(p50: f64, p99: f64) -> Value {
    let of = |seconds: f64| json!({"aboveSeconds": seconds / 2.0, "atMostSeconds": seconds * 2.0, "estimateSeconds": seconds});
    json!({"p50": of(p50), "p99": of(p99)})
}

fn state(requests: f64) -> Value {
    json!({
        "version": "0.1.0", "name": "forebay-controller-5bf6469f65-k8l7k", "atSeconds": 1_000_000.0,
        "uptimeSeconds": 273_600.0, "windowSeconds": 1.0,
        "configuration": {"generation": 3, "acknowledged": 3},
        "requests": {"perSecond": requests, "byClass": {"clientError": 2.5, "serverError": 0.4}, "latency": latency(0.0012, 0.034)},
        "connections": {"active": 312},
        "upstream": {"open": 40, "idle": 25, "reuseRatio": 0.9993, "ejected": 1, "portsInUseMax": 40, "portsAvailable": 28232},
        "process": {"workers": 2, "cpuUsed": 0.41, "cpuQuota": 2.0, "cpus": 8, "residentBytes": 31_457_280},
        "shortages": [{"of": "cpu_throttled", "level": 0}],
        "findings": {"worst": [{"id": "ports", "verdict": "warning", "message": "few local ports are left"}]},
        "problems": {"error": 1, "warning": 2},
        "certificates": {"expired": 0, "endingSoon": 1, "firstEndSeconds": 1_360_000},
        "failing": [
            {"host": "shop.example.com", "path": "/cart", "serverErrorsPerSecond": 0.4, "errorRatio": 0.033,
             "causes": [{"reason": "connect-refused", "perSecond": 0.4}]},
        ],
    })
}

fn route(host: &str, path: &str, requests: f64, p99: f64) -> Value {
    json!({
        "host": host, "path": path, "namespace": "shop", "object": "web", "service": "web",
        "requestsPerSecond": requests, "clientErrorsPerSecond": 0.5, "serverErrorsPerSecond": 0.0, "latency": latency(0.001, p99),
    })
}

fn traffic() -> Value {
    json!({
        "windowSeconds": 5.0,
        "routes": [
            route("shop.example.com", "/cart", 12.0, 0.25),
            route("shop.example.com", "/", 1234.5, 0.02),
            route("_", "/health", 1.0, 0.001),
            route(&"long".repeat(63), "/", 3.0, 0.5),
            route("\u{1b}[2J\u{202e}evil.test", "/\u{7}\u{200b}", 2.0, 0.5),
        ],
        "clusters": [
            {"name": "shop-web-80", "requestsPerSecond": 1249.5, "serverErrorsPerSecond": 0.0, "latency": latency(0.001, 0.02), "queued": 7},
        ],
    })
}

fn takes(view: &mut View, state: Value, traffic: Value) {
    view.takes(serde_json::from_value(state).unwrap(), serde_json::from_value(traffic).unwrap());
}

fn view(signs: Signs) -> View {
    let mut view = View::new("http://127.0.0.1:10254", signs, false);
    for requests in [0.0, 10.0, 400.0, 900.0, 1234.5] {
        takes(&mut view, state(requests), traffic());
    }
    view
}

fn screen(view: &View, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| _ = show(view, frame)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn what_is_seen_follows_from_the_room_there_is() {
    let view = view(Signs::Unicode);
    for (columns, rows) in [(20, 24), (40, 12), (80, 24), (160, 30), (80, 5), (20, 5)] {
        insta::assert_snapshot!(format!("{columns}x{rows}"), screen(&view, columns, rows));
    }
    insta::assert_snapshot!("plain", plain(&view, 160));
}

#[test]
fn without_unicode_all_is_drawn_in_ascii() {
    let mut view = view(Signs::Ascii);
    for table in ['1', '2', '3'] {
        view.press(Key::Char(table), 9);
        let drawn = screen(&view, 100, 24);
        assert!(drawn.is_ascii(), "{drawn}");
    }
    insta::assert_snapshot!("ascii", screen(&view, 80, 24));
}

#[test]
fn no_size_is_too_small_and_no_line_too_long() {
    let mut view = view(Signs::Unicode);
    view.trouble =
        Some(Trouble { text: "cannot ask\u{1b}]0;x\u{7} it".to_owned(), silence: Duration::from_secs(9) });
    for with in ["", "?", "?/", "long"] {
        with.chars().for_each(|key| _ = view.press(Key::Char(key), 3));
        for columns in 0..90 {
            for rows in 0..26 {
                let drawn = lines::draw(&view, columns, rows);
                assert!(drawn.lines.len() <= rows, "{columns}x{rows}");
                let is_narrow = |line: &ratatui::text::Line<'_>| line.width() <= columns;
                assert!(drawn.lines.iter().all(is_narrow), "{columns}x{rows}: {:#?}", drawn.lines);
                let told = drawn.lines.iter().map(ToString::to_string).collect::<String>();
                assert!(!told.contains(|one: char| one.is_control() || one == '\u{202e}'), "{told}");
            }
        }
    }
}

#[test]
fn keys_choose_tables_order_and_rows() {
    let mut view = view(Signs::Ascii);
    let first = |view: &View| format!("{:?}", view.rows()[0][0]);
    assert!(first(&view).contains("shop.example.com/"), "{}", first(&view));
    let ordered = |view: &mut View, presses| {
        (0..presses).for_each(|_| _ = view.press(Key::Char('s'), 9));
        first(view)
    };
    assert!(ordered(&mut view, 2).contains("evil"), "the slowest comes first");
    assert!(ordered(&mut view, 5).contains("*/health"), "and then by name");
    view.press(Key::Tab, 9);
    assert!(first(&view).contains("shop.example.com\""), "hosts keep their own order: {}", first(&view));
    view.press(Key::Tab, 9);
    assert!(first(&view).contains("shop-web-80"));
    view.press(Key::Char('1'), 9);
    "/CART shop".chars().for_each(|key| _ = view.press(Key::Char(key), 9));
    assert_eq!(view.press(Key::Char('q'), 9), Then::GoOn, "it is part of the word");
    assert!(view.rows().is_empty());
    view.press(Key::Backspace, 9);
    view.press(Key::Enter, 9);
    assert_eq!(view.rows().len(), 1, "all words have to be there");
    view.press(Key::Escape, 9);
    assert_eq!(view.rows().len(), 5);
    for (key, first) in [
        (Key::End, 3),
        (Key::Up, 2),
        (Key::PageUp, 0),
        (Key::Up, 0),
        (Key::PageDown, 2),
        (Key::Down, 3),
        (Key::Down, 3),
    ] {
        view.press(key, 2);
        assert_eq!(view.first, first, "{key:?}");
    }
    assert_eq!(view.press(Key::Char('q'), 9), Then::End);
}

#[test]
fn help_and_trouble_are_told() {
    let mut view = view(Signs::Unicode);
    view.press(Key::Char('?'), 9);
    assert!(screen(&view, 80, 30).contains("sort by the next column"));
    view.press(Key::Char('?'), 9);
    view.trouble = Some(Trouble { text: "it is away".to_owned(), silence: Duration::from_secs(75) });
    assert!(screen(&view, 80, 24).contains("no answer for 1m 15s: it is away"));
    takes(&mut view, state(1.0), traffic());
    assert!(!screen(&view, 80, 24).contains("no answer"));
}

#[test]
fn of_another_version_what_is_missing_is_not_known() {
    let mut view = View::new("there", Signs::Ascii, false);
    let least = json!({"version": "9", "name": "x", "atSeconds": 1.0, "uptimeSeconds": 1.0, "more": [1]});
    takes(&mut view, least, json!({"windowSeconds": null}));
    let drawn = screen(&view, 80, 24);
    assert!(
        drawn.contains("requests -") && drawn.contains("the first measurement takes a second"),
        "{drawn}"
    );
    assert!(
        serde_json::from_value::<super::answers::State>(json!({"status": "ok"})).is_err(),
        "that is no Forebay"
    );
}
