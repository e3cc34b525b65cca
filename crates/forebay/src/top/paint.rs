//! Colours and styles.

use ratatui::style::{Color, Modifier, Style};

/// The kind of a text, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// The label of a value beside it.
    Label,
    /// A figure, or a title.
    Strong,
    /// The selection, and the head of a table.
    Bar,
    Warn,
    Bad,
}

impl Tone {
    /// How that looks, with colours or without.
    pub(super) fn style(self, has_colour: bool) -> Style {
        let style = Style::new();
        let coloured = |style: Style, colour| if has_colour { style.fg(colour) } else { style };
        match self {
            Self::Plain => style,
            Self::Label => coloured(style, Color::Cyan),
            Self::Strong => style.add_modifier(Modifier::BOLD),
            Self::Bar => style.add_modifier(Modifier::REVERSED),
            Self::Warn => coloured(style.add_modifier(Modifier::BOLD), Color::Yellow),
            Self::Bad => coloured(style.add_modifier(Modifier::BOLD), Color::Red),
        }
    }

    /// The sign before a concern, which says the same without colour.
    pub(super) const fn sign(self) -> &'static str {
        match self {
            Self::Bad => "X",
            _ => "!",
        }
    }
}
