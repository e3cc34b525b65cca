//! The terminal while the program uses it: drawing, keys, and its restoration.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Context;
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures::StreamExt;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};
use tokio::signal::unix::{SignalKind, signal};

use super::lines::draw;
use super::link::{Overview, Reader, Source};
use super::view::{Key, Then, Trouble, View};

/// How often it is said anew how long there was no answer.
const SILENCE_EVERY: Duration = Duration::from_secs(1);

/// A terminal that is ours until this is dropped, or until there is a panic.
struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    fn open() -> anyhow::Result<Self> {
        let opened = ratatui::try_init().inspect_err(|_| give_back());
        Ok(Self { terminal: opened.context("cannot take over the terminal; --once prints and ends")? })
    }

    /// Draws. The number of rows of the table that are seen.
    fn draw(&mut self, view: &View) -> anyhow::Result<usize> {
        let mut page = 0;
        self.terminal.draw(|frame| page = show(view, frame)).context("cannot draw")?;
        Ok(page)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The message of a panic is written to the restored terminal. Restoring it once more would move the
        // cursor above the message.
        if !std::thread::panicking() {
            give_back();
        }
    }
}

/// Errors are ignored; a terminal that is gone needs no restoring.
fn give_back() {
    let _ = ratatui::try_restore();
}

/// Draws the view on all of a frame.
pub(super) fn show(view: &View, frame: &mut Frame<'_>) -> usize {
    let area = frame.area();
    let drawn = draw(view, usize::from(area.width), usize::from(area.height));
    frame.render_widget(Paragraph::new(drawn.lines), area);
    drawn.page
}

/// Shows overviews until the user quits.
pub(super) async fn run<S: Source>(reader: Reader<S>, mut view: View, every: Duration) -> anyhow::Result<()> {
    let mut ends = pin!(signalled()?);
    let mut screen = Screen::open()?;
    let mut events = EventStream::new();
    let mut answered = Instant::now();
    let mut reading = Box::pin(read_after(reader, every));
    let mut silence = tokio::time::interval(SILENCE_EVERY);
    loop {
        let page = screen.draw(&view)?;
        tokio::select! {
            biased;
            () = &mut ends => return Ok(()),
            event = events.next() => match event {
                Some(event) => {
                    if does(&mut view, &event.context("cannot read the keys")?, page) == Then::End {
                        return Ok(());
                    }
                }
                None => return Ok(()),
            },
            (reader, told) = &mut reading => {
                match told {
                    Ok(told) => {
                        answered = Instant::now();
                        view.whose = view.signs.clean(&told.whose);
                        view.takes(told.state, told.traffic);
                    }
                    Err(error) => {
                        let text = crate::in_one_line(&error);
                        view.trouble = Some(Trouble { text, silence: answered.elapsed() });
                    }
                }
                reading = Box::pin(read_after(reader, every));
            }
            _ = silence.tick(), if view.trouble.is_some() => {
                if let Some(trouble) = &mut view.trouble {
                    trouble.silence = answered.elapsed();
                }
            }
        }
    }
}

async fn read_after<S: Source>(
    mut reader: Reader<S>,
    every: Duration,
) -> (Reader<S>, anyhow::Result<Overview>) {
    tokio::time::sleep(every).await;
    let told = reader.read().await;
    (reader, told)
}

/// Waits for a signal that ends the program. Ctrl-C is a key while the terminal is ours.
fn signalled() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}

/// Does what an event asks for. One of a new size asks for nothing but to be drawn.
fn does(view: &mut View, event: &Event, page: usize) -> Then {
    match event {
        Event::Key(event) if event.kind != KeyEventKind::Release => match event {
            KeyEvent { code: KeyCode::Char('c'), modifiers, .. }
                if modifiers.contains(KeyModifiers::CONTROL) =>
            {
                Then::End
            }
            _ => key(event).map_or(Then::GoOn, |key| view.press(key, page)),
        },
        _ => Then::GoOn,
    }
}

fn key(event: &KeyEvent) -> Option<Key> {
    if event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    Some(match event.code {
        KeyCode::Char(one) => Key::Char(one),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use testkit::Terminal;

    use super::*;

    /// Set for the process that panics.
    const VARIABLE: &str = "FOREBAY_TEST_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_seen() {
        if std::env::var_os(VARIABLE).is_some() {
            let _screen = Screen::open().expect("a terminal");
            panic!("this is on purpose");
        }
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([
            "--exact",
            "top::screen::tests::a_panic_gives_the_terminal_back_and_is_seen",
            "--nocapture",
        ]);
        let mut terminal = Terminal::start(command.env(VARIABLE, "1").env("RUST_BACKTRACE", "0"), 100, 24);
        assert!(!terminal.wait().success());
        terminal.await_given_back();
        terminal.await_screen("why it ended", |screen| screen.contains("this is on purpose"));
    }
}
