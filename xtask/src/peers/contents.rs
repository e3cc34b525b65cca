//! Contents as sites have them, for what compresses: HTML, JSON and JavaScript, the same at each run.
//!
//! Must not be in here: who sends them.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// The contents: name and bytes. A name is the path too.
pub(super) const ALL: [(&str, usize); 6] = [
    ("small.html", 10 << 10),
    ("large.html", 500 << 10),
    ("small.json", 10 << 10),
    ("large.json", 500 << 10),
    ("small.js", 10 << 10),
    ("large.js", 500 << 10),
];

/// Words of a shop's pages, in the order of their alphabet.
const WORDS: &str = include_str!("../../peers/words.txt");

/// Writes all of them into a folder.
pub(super) fn write(folder: &Path) -> Result<()> {
    for (name, len) in ALL {
        fs::write(folder.join(name), content(name, len))?;
    }
    Ok(())
}

/// Bytes of one of them on average.
pub(super) fn mean_bytes() -> f64 {
    ALL.iter().map(|(_, len)| *len as f64).sum::<f64>() / ALL.len() as f64
}

fn content(name: &str, len: usize) -> String {
    let mut dice = Dice(len as u64);
    let mut text = String::with_capacity(len + 1024);
    while text.len() < len {
        let piece = match name.rsplit('.').next() {
            Some("html") => html(&mut dice),
            Some("json") => json(&mut dice),
            _ => script(&mut dice),
        };
        text += &piece;
    }
    text.truncate(len);
    text
}

fn html(dice: &mut Dice) -> String {
    let (class, id, count) = (dice.word(), dice.below(100_000), 8 + dice.below(30) as usize);
    let words = dice.words(count);
    format!(
        "      <div class=\"{class} {class}--item\" id=\"{class}-{id}\">\n        <a href=\"/{class}/{id}?ref={}\">{words}</a>\n      </div>\n",
        dice.word()
    )
}

fn json(dice: &mut Dice) -> String {
    let name = dice.words(3);
    let (id, price, stock) = (dice.below(1_000_000), dice.below(100_000), dice.below(50));
    format!(
        "{{\"id\":{id},\"name\":\"{name}\",\"category\":\"{}\",\"price\":{}.{:02},\"stock\":{stock},\"tags\":[\"{}\",\"{}\"],\"active\":{}}},\n",
        dice.word(),
        price / 100,
        price % 100,
        dice.word(),
        dice.word(),
        stock > 5
    )
}

fn script(dice: &mut Dice) -> String {
    let [object, field, other, event] = [dice.word(), dice.word(), dice.word(), dice.word()];
    format!(
        "function {object}_{}({field}, {other}) {{\n  if (!{field} || {field}.{event} === undefined) {{ return null; }}\n  \
         const {event} = {field}.{other} * {};\n  return {{ {object}: {event}, {other}: {other}.concat(\"{}\") }};\n}}\n",
        dice.below(1000),
        dice.below(100),
        dice.words(4)
    )
}

/// Numbers that are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Words are as unlike in frequency as in a language.
    fn word(&mut self) -> &'static str {
        let count = WORDS.lines().count() as u64;
        let rank = self.below(count).min(self.below(count));
        WORDS.lines().nth(rank as usize).expect("it is below their number")
    }

    fn words(&mut self, count: usize) -> String {
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}
