//! A report: plain data in, one HTML page with SVG plots out.
//!
//! The page needs no network and no scripts, and can be read in light and dark mode, on a screen and on
//! paper. Must not be in here: HTTP, measurements, findings; the meaning of figures is known to the code that
//! makes the [`Page`].

mod axis;
mod escape;
mod html;
mod number;
mod plot;

pub use axis::{Axis, Scale};
pub use number::Unit;

/// A page. All texts are plain text; they are escaped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The subject, in a line.
    pub title: String,
    /// A sentence or two below the title.
    pub lead: String,
    /// The most important numbers.
    pub figures: Vec<Figure>,
    /// Further facts that are needed to read the page: names and values.
    pub facts: Vec<(String, String)>,
    /// The tables, plots and notes, in order.
    pub blocks: Vec<Block>,
}

/// An important number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The name of the number.
    pub name: String,
    /// The number, with its unit.
    pub value: String,
    /// A comparison, or how the figure was obtained; may be empty.
    pub note: String,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Numbers in rows.
    Table(Table),
    /// Numbers as lines.
    Plot(Plot),
    /// A list of conclusions.
    Notes(Notes),
}

/// Numbers in rows. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Heading of the plot.
    pub title: String,
    /// A sentence below it; may be empty.
    pub note: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// Lines over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Heading of the table.
    pub title: String,
    /// A sentence below it; may be empty.
    pub note: String,
    /// The axis at the bottom.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// The lines. Only the first [`Plot::SERIES_MAX`] are drawn.
    pub series: Vec<Series>,
}

/// A line of a plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The pieces of the line: points in the order of x. Pieces are not connected. A point that is not finite
    /// is left out.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

/// Conclusions under one heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Heading of the list.
    pub title: String,
    /// The text if there are no conclusions.
    pub none: String,
    /// The conclusions, the most important first.
    pub notes: Vec<Note>,
}

/// A conclusion with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Colour by severity.
    pub tone: Tone,
    /// A word with the same meaning as the colour.
    pub mark: String,
    /// The conclusion, as a sentence.
    pub text: String,
    /// The figures that it is based on: names and values.
    pub evidence: Vec<(String, String)>,
    /// The remedy, as a command or the text of a file; may be empty.
    pub remedy: String,
}

/// The importance of a conclusion.
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
    /// The page as the text of a file.
    pub fn html(&self) -> String {
        html::page(self)
    }
}

impl Plot {
    /// Most series of a plot: the number of colours.
    pub const SERIES_MAX: usize = plot::COLOURS.len();
}

impl Series {
    /// A line of one piece.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), pieces: vec![points] }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.pieces.iter().flatten().copied().filter(|(x, y)| x.is_finite() && y.is_finite())
    }
}
