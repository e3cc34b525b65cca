//! Draws plots as SVG.
//!
//! Colours are written as attributes with their light variant. The page's style sheet replaces them: a style
//! rule takes precedence over an attribute. Must not be in here: the meaning of what is plotted.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::FontTransform;

use super::axis::Fitted;
use super::escape::{escape, printable};
use super::{Plot, Series};

/// Colours of the series, in light and in dark mode. They differ in lightness too, for readers with a colour
/// vision deficiency.
pub(super) const COLOURS: [(RGBColor, &str); 6] = [
    (RGBColor(0x1d, 0x5f, 0xc4), "#6cb2ff"),
    (RGBColor(0xd9, 0x5f, 0x0e), "#ffa657"),
    (RGBColor(0x0f, 0x76, 0x6e), "#4fd1c5"),
    (RGBColor(0x7a, 0x3d, 0xb8), "#cda7ff"),
    (RGBColor(0x8a, 0x6d, 0x00), "#e3c341"),
    (RGBColor(0xb4, 0x23, 0x63), "#ff8fbd"),
];

/// Colour of texts.
pub(super) const INK: RGBColor = RGBColor(0x5b, 0x67, 0x78);
/// Colour of grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xe4, 0xe8, 0xee);
/// Colour of the axes.
pub(super) const LINE: RGBColor = RGBColor(0xa9, 0xb3, 0xc1);

/// Twice the visible size, since the drawing library uses whole pixels.
const SIZE: (u32, u32) = (1600, 600);
const FONT: &str = "system-ui, sans-serif";
const FONT_SIZE: i32 = 32;
/// Most points of a line on which each point gets a mark.
const MARKED_MAX: usize = 24;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// The plot as an `svg` element.
pub(super) fn svg(plot: &Plot) -> String {
    let series = &plot.series[..plot.series.len().min(COLOURS.len())];
    let points = || series.iter().flat_map(Series::points);
    let last = points().map(|(x, _)| x).fold(0.0, f64::max);
    let x = plot.x.fit(points().map(|(x, _)| x)).tight(last);
    let y = plot.y.fit(points().map(|(_, y)| y));
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let drawn = draw(&area, &x, &y, &plot.x.label, series);
    drop(area);
    drawn.expect("writing into a string does not fail");
    named(&text, &format!("{}: {} over {}", plot.title, plot.y.label, plot.x.label))
}

/// A colour in the form in which the drawing has it.
pub(super) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

fn draw<'a>(
    area: &Area<'a>,
    x: &Fitted,
    y: &Fitted,
    label: &str,
    series: &[Series],
) -> Result<(), Failure<'a>> {
    let widest = y.ticks.iter().map(|value| y.format_ext(value).chars().count() as u32).max().unwrap_or(0);
    let mut chart = ChartBuilder::on(area)
        .margin_top(20)
        .margin_right(60)
        .x_label_area_size(100)
        .y_label_area_size(44 + 17 * widest)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let words = || (FONT, FONT_SIZE).into_font().transform(FontTransform::None).color(&INK);
    chart
        .configure_mesh()
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(TRANSPARENT)
        .axis_style(LINE.stroke_width(2))
        .set_all_tick_mark_size(7)
        .label_style(words())
        .axis_desc_style(words())
        .x_desc(printable(label))
        .draw()?;
    for (series, (colour, _)) in series.iter().zip(COLOURS) {
        let is_marked = series.points().count() <= MARKED_MAX;
        for piece in pieces(series) {
            if is_marked || piece.len() == 1 {
                let marks = piece.iter().map(|point| Circle::new(*point, 7, colour.filled()));
                chart.draw_series(marks.collect::<Vec<_>>())?;
            }
            chart.draw_series(LineSeries::new(piece, colour.stroke_width(4)))?;
        }
    }
    area.present()
}

/// The pieces of a series that have points.
fn pieces(series: &Series) -> impl Iterator<Item = Vec<(f64, f64)>> {
    let finite = |piece: &Vec<(f64, f64)>| -> Vec<_> {
        piece.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).copied().collect()
    };
    series.pieces.iter().map(finite).filter(|piece| !piece.is_empty())
}

/// The drawing with a name for screen readers, and a width that adapts to the page.
fn named(svg: &str, name: &str) -> String {
    let (_, content) = svg.split_once('>').unwrap_or_default();
    let name = escape(name);
    let (width, height) = SIZE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{name}\">{content}"
    )
}
