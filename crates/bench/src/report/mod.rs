//! A report: plain data in, one HTML page out, with its plots as SVG within it.
//!
//! The page is read without a network, without scripts, in light and in dark, on a screen and on paper.
//! Must not be in here: HTTP, measurements, findings; what a figure means is known to whoever makes the [`Page`].

mod axis;
mod html;
mod number;
mod plot;

pub use axis::{Axis, Scale};
pub use number::Unit;

/// A page. All texts are plain; what HTML would take for markup is escaped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// What it is about, in a line.
    pub title: String,
    /// A sentence or two below the title.
    pub lead: String,
    /// The few numbers that are read first.
    pub figures: Vec<Figure>,
    /// What else has to be known to read the page: names and values.
    pub facts: Vec<(String, String)>,
    /// The rest, in the order in which it is read.
    pub blocks: Vec<Block>,
}

/// A number that is read first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// What it counts.
    pub name: String,
    /// The number, with its unit.
    pub value: String,
    /// What it is compared with, or how it was got; may be empty.
    pub note: String,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Numbers in rows.
    Table(Table),
    /// Numbers as lines.
    Plot(Plot),
    /// What is concluded.
    Notes(Notes),
}

/// Numbers in rows. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// A sentence below it; may be empty.
    pub note: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, as long as `columns` is.
    pub rows: Vec<Vec<String>>,
}

/// Lines over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its heading.
    pub title: String,
    /// A sentence below it; may be empty.
    pub note: String,
    /// The axis at the bottom.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// What is drawn; of more than [`Plot::SERIES_MAX`] series, only so many.
    pub series: Vec<Series>,
}

/// One of a plot's lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Its pieces: points in the order of x; nothing is drawn from one piece to the next. A point that is not finite is left out.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

/// Conclusions under one heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Their heading.
    pub title: String,
    /// What is said where there are none.
    pub none: String,
    /// The conclusions, the weightiest first.
    pub notes: Vec<Note>,
}

/// One conclusion.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// How it is coloured.
    pub tone: Tone,
    /// A word that says the same as the colour.
    pub mark: String,
    /// The conclusion, in a sentence.
    pub text: String,
    /// What it rests on: names and values.
    pub evidence: Vec<(String, String)>,
    /// What to do, as a command or a file's text; may be empty.
    pub remedy: String,
}

/// How much a conclusion matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing is wrong.
    Good,
    /// Something to know.
    Plain,
    /// Something to look at.
    Warning,
    /// Something is wrong.
    Failure,
}

impl Page {
    /// The page as a file: HTML that is well-formed XML too.
    pub fn html(&self) -> String {
        html::page(self)
    }
}

impl Plot {
    /// As many series as have a colour of their own.
    pub const SERIES_MAX: usize = plot::COLOURS.len();
}

impl Series {
    /// A line in one piece.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), pieces: vec![points] }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.pieces.iter().flatten().copied().filter(|(x, y)| x.is_finite() && y.is_finite())
    }
}
