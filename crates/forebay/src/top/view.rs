//! The view's state: the last overview, and the user's selections. Keys change it; `lines` draws it.

use std::collections::VecDeque;
use std::time::Duration;

use super::answers::{State, Traffic};
use super::table::{Row, Table};
use super::text::Signs;

/// Measurements that are kept for the small charts.
const HISTORY_MAX: usize = 600;

/// Longest text of a filter, in characters.
const FILTER_CHARS_MAX: usize = 253;

/// The state of the view.
pub(super) struct View {
    pub(super) signs: Signs,
    pub(super) has_colour: bool,
    /// The name of the source: an address, or a Pod.
    pub(super) whose: String,
    pub(super) state: Option<State>,
    pub(super) traffic: Traffic,
    pub(super) history: VecDeque<Point>,
    pub(super) trouble: Option<Trouble>,
    pub(super) table: Table,
    /// For each table, the column that it is sorted by.
    sorted_by: [usize; Table::ALL.len()],
    pub(super) filter: String,
    /// The user writes the filter.
    pub(super) is_typing: bool,
    /// The first row that is shown.
    pub(super) first: usize,
    pub(super) has_help: bool,
}

/// The values of a measurement that the charts show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) requests: Option<f64>,
    pub(super) p99_seconds: Option<f64>,
}

/// Why there is nothing new.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) text: String,
    /// How long ago the last answer was.
    pub(super) silence: Duration,
}

/// The actions of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// The program's state after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    End,
}

impl View {
    pub(super) fn new(whose: &str, signs: Signs, has_colour: bool) -> Self {
        Self {
            signs,
            has_colour,
            whose: signs.clean(whose),
            state: None,
            traffic: Traffic::default(),
            history: VecDeque::new(),
            trouble: None,
            table: Table::Routes,
            sorted_by: [1; Table::ALL.len()],
            filter: String::new(),
            is_typing: false,
            first: 0,
            has_help: false,
        }
    }

    /// Takes over a new overview.
    pub(super) fn takes(&mut self, state: State, traffic: Traffic) {
        let p99 = state.requests.latency.p99.map(|of| of.estimate_seconds);
        self.history.push_back(Point { requests: state.requests.per_second, p99_seconds: p99 });
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
        (self.state, self.traffic, self.trouble) = (Some(state), traffic, None);
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        self.table.rows(&self.traffic, &self.filter, self.sorted_by(), self.signs)
    }

    pub(super) fn sorted_by(&self) -> usize {
        self.sorted_by[self.table as usize]
    }

    /// Performs the action of a key. `page` is the number of visible rows.
    pub(super) fn press(&mut self, key: Key, page: usize) -> Then {
        if self.is_typing {
            self.types(key);
            return Then::GoOn;
        }
        let last = self.rows().len().saturating_sub(page.max(1));
        match key {
            Key::Char('q') => return Then::End,
            Key::Escape if self.has_help => self.has_help = false,
            Key::Escape => self.filter.clear(),
            Key::Char('?' | 'h') => self.has_help = !self.has_help,
            Key::Char('/') => (self.is_typing, self.has_help) = (true, false),
            Key::Char('s') => {
                let sorted_by = &mut self.sorted_by[self.table as usize];
                *sorted_by = (*sorted_by + 1) % self.table.columns().len();
            }
            Key::Char('1') => self.turn_to(Table::Routes),
            Key::Char('2') => self.turn_to(Table::Hosts),
            Key::Char('3') => self.turn_to(Table::Clusters),
            Key::Tab => self.turn_to(self.table.next()),
            Key::Up | Key::Char('k') => self.first = self.first.min(last).saturating_sub(1),
            Key::Down | Key::Char('j') => self.first = (self.first + 1).min(last),
            Key::PageUp => self.first = self.first.min(last).saturating_sub(page),
            Key::PageDown | Key::Char(' ') => self.first = (self.first + page).min(last),
            Key::Home | Key::Char('g') => self.first = 0,
            Key::End | Key::Char('G') => self.first = last,
            Key::Char(_) | Key::Enter | Key::Backspace => {}
        }
        Then::GoOn
    }

    fn turn_to(&mut self, table: Table) {
        (self.table, self.first, self.has_help) = (table, 0, false);
    }

    fn types(&mut self, key: Key) {
        self.first = 0;
        match key {
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Char(one) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(one),
            _ => {}
        }
    }
}
