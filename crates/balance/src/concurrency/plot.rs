//! Plots of simulations as SVG, for docs/overload.md.

use std::fmt::Write;

/// Two lines over time.
pub(super) struct Plot {
    pub(super) title: &'static str,
    /// Length of the time axis.
    pub(super) seconds: u32,
    pub(super) series: [Series; 2],
}

/// A line; its values are spread evenly over the time axis.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) values: Vec<f64>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 50.0;
const TOP: f64 = 40.0;
const COLOURS: [&str; 2] = ["#1a7f37", "#cf222e"];

impl Plot {
    pub(super) fn svg(&self) -> String {
        let values = || self.series.iter().flat_map(|series| &series.values);
        let top = nice(values().copied().fold(0.0, f64::max));
        let count = self.series[0].values.len() as f64;
        let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"16\" font-weight=\"bold\">{}</text>\n",
            right + 20.0,
            bottom + 30.0,
            self.title
        );
        for part in 0..=4 {
            let y = bottom - HEIGHT * f64::from(part) / 4.0;
            let value = top * f64::from(part) / 4.0;
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{value}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        for second in (0..=self.seconds).step_by(5) {
            let x = LEFT + WIDTH * f64::from(second) / f64::from(self.seconds);
            let y = bottom + 18.0;
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{second} s</text>");
        }
        for (at, (series, colour)) in self.series.iter().zip(COLOURS).enumerate() {
            let points: Vec<_> = series
                .values
                .iter()
                .enumerate()
                .map(|(at, value)| {
                    let (x, y) = (LEFT + WIDTH * (at as f64 + 0.5) / count, bottom - HEIGHT * value / top);
                    format!("{x:.0},{y:.0}")
                })
                .collect();
            let x = LEFT + 110.0 * at as f64;
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <text x=\"{x}\" y=\"32\" fill=\"{colour}\">{}</text>",
                points.join(" "),
                series.name
            );
        }
        svg + "</svg>\n"
    }
}

/// The smallest round number that is not below a value.
fn nice(value: f64) -> f64 {
    let unit = 10.0_f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 4.0, 10.0]
        .into_iter()
        .map(|times| times * unit)
        .find(|round| *round >= value)
        .unwrap_or(10.0 * unit)
}
