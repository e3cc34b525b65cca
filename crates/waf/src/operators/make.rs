//! The table of operators, and how each is made from its argument.
//!
//! Never in here: values.

use super::dynamic::Dynamic;
use super::{Checksum, Comparison, Operator, Order, Pattern, Reading, network, pcre, words};
use crate::prefilter::{ByteSet, Requirement};
use crate::seclang::Files;
use crate::tables::Names;
use crate::template::Template;

/// An entry of the table of operators.
pub struct Entry {
    /// The name behind `@`; names are compared without regard to case.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub doc: &'static str,
    make: Make,
}

impl Entry {
    /// Why rules with this operator are refused; `None` if they are not.
    pub fn refusal(&self) -> Option<&'static str> {
        match self.make {
            Make::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// Why rules with this operator never match, although others have it; `None` if they can.
    pub fn notice(&self) -> Option<&'static str> {
        match self.make {
            Make::Unanswered(reason) => Some(reason),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Make {
    Always,
    Never,
    Pattern,
    Words,
    WordsOfFile,
    Text(Comparison),
    Number(Order),
    ByteRange,
    UrlEncoding,
    Utf8,
    Networks,
    NetworksOfFile,
    Sqli,
    Xss,
    Checksum(Checksum),
    /// It asks somebody who is not asked, so that it never matches.
    Unanswered(&'static str),
    Refused(&'static str),
}

const fn entry(name: &'static str, make: Make, doc: &'static str) -> Entry {
    Entry { name, doc, make }
}

/// All operators that a rule can name.
pub const OPERATORS: &[Entry] = &[
    entry("beginsWith", Make::Text(Comparison::Begins), "the value begins with the argument"),
    entry("contains", Make::Text(Comparison::Contains), "the value has the argument in it"),
    entry("containsWord", Make::Text(Comparison::ContainsWord), "the value has the argument as a word"),
    entry("detectSQLi", Make::Sqli, "the value has an injection of SQL"),
    entry("detectXSS", Make::Xss, "the value has an injection of HTML"),
    entry("endsWith", Make::Text(Comparison::Ends), "the value ends with the argument"),
    entry("eq", Make::Number(Order::Equal), "the value is the number"),
    entry("fuzzyHash", Make::Refused("it needs a library of hashes"), "the value resembles one of a list"),
    entry("ge", Make::Number(Order::GreaterOrEqual), "the value is the number or greater"),
    entry(
        "geoLookup",
        Make::Unanswered("there is no database of places"),
        "the place of an address is known",
    ),
    entry(
        "gsbLookup",
        Make::Unanswered("there is no database of harmful addresses"),
        "the value is a harmful address",
    ),
    entry("gt", Make::Number(Order::Greater), "the value is greater than the number"),
    entry("inspectFile", Make::Refused("it would run a program for each file"), "a program approves a file"),
    entry("ipMatch", Make::Networks, "the value is an address of one of the networks"),
    entry("ipMatchF", Make::NetworksOfFile, "the value is an address of one of a file's networks"),
    entry("ipMatchFromFile", Make::NetworksOfFile, "the value is an address of one of a file's networks"),
    entry("le", Make::Number(Order::LessOrEqual), "the value is the number or less"),
    entry("lt", Make::Number(Order::Less), "the value is less than the number"),
    entry("noMatch", Make::Never, "never"),
    entry("pm", Make::Words, "the value has one of the words in it"),
    entry("pmf", Make::WordsOfFile, "the value has one of a file's words in it"),
    entry("pmFromFile", Make::WordsOfFile, "the value has one of a file's words in it"),
    entry("rbl", Make::Unanswered("names are not looked up"), "an address is in a list of DNS"),
    entry("rsub", Make::Refused("it would change bodies"), "the value is changed by an expression"),
    entry("rx", Make::Pattern, "the expression matches"),
    entry("rxGlobal", Make::Pattern, "the expression matches"),
    entry("streq", Make::Text(Comparison::Equal), "the value is the argument"),
    entry("strmatch", Make::Text(Comparison::Contains), "the value has the argument in it"),
    entry("unconditionalMatch", Make::Always, "always"),
    entry("validateByteRange", Make::ByteRange, "the value has a byte outside of the ranges"),
    entry("validateDTD", Make::Refused("schemas of XML are not read"), "XML does not fit its DTD"),
    entry("validateHash", Make::Refused("responses are not signed"), "a signature is wrong"),
    entry("validateSchema", Make::Refused("schemas of XML are not read"), "XML does not fit its schema"),
    entry("validateUrlEncoding", Make::UrlEncoding, "the value has an invalid URL escape"),
    entry("validateUtf8Encoding", Make::Utf8, "the value is not UTF-8"),
    entry("verifyCC", Make::Checksum(Checksum::Card), "the expression finds the number of a payment card"),
    entry("verifyCPF", Make::Checksum(Checksum::Cpf), "the expression finds a tax number of Brazil"),
    entry("verifySSN", Make::Checksum(Checksum::Ssn), "the expression finds a social security number (US)"),
    entry("verifySVNR", Make::Checksum(Checksum::Svnr), "the expression finds a social security number (AT)"),
    entry("within", Make::Text(Comparison::Within), "the argument has the value in it"),
];

/// The source of an operator.
pub(crate) struct Argument<'a> {
    /// The name behind `@`.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// True if `capture` needs the groups of an expression.
    pub(crate) groups: bool,
    /// True for `!@`: the rule matches where the operator does not.
    pub(crate) negated: bool,
    /// The files that the argument may name.
    pub(crate) files: &'a dyn Files,
    /// The source that has the rule.
    pub(crate) from: &'a str,
}

/// An operator with what a text has to have for a match.
pub(crate) struct Compiled {
    pub(crate) operator: Operator,
    /// The requirement on a text for a match.
    pub(crate) requirement: Requirement,
    /// Why it never matches.
    pub(crate) notice: Option<String>,
}

impl Compiled {
    fn plain(operator: Operator) -> Compiled {
        Compiled::new(operator, Requirement::default())
    }

    fn new(operator: Operator, requirement: Requirement) -> Compiled {
        Compiled { operator, requirement, notice: None }
    }
}

/// Makes an operator. A fault has the offset within the argument.
pub(crate) fn compile(argument: &Argument, names: &mut Names) -> Result<Compiled, pcre::Fault> {
    let fault = |message: String| pcre::Fault { offset: 0, message };
    let found = OPERATORS.iter().find(|entry| entry.name.eq_ignore_ascii_case(argument.name));
    let Some(entry) = found else {
        return Err(fault(format!("there is no operator @{}", argument.name)));
    };
    Ok(match entry.make {
        Make::Always => Compiled::plain(Operator::Always),
        Make::Never => Compiled::plain(Operator::Never),
        Make::Pattern => pattern(argument, names)?,
        Make::Words => of_words(&words::of_argument(argument.text).map_err(fault)?).map_err(fault)?,
        Make::WordsOfFile => of_words(&words_of_files(argument).map_err(fault)?).map_err(fault)?,
        Make::Text(comparison) => text(comparison, template(argument, names)?),
        Make::Number(order) => Compiled::plain(Operator::Number(order, template(argument, names)?)),
        Make::ByteRange => {
            let valid = byte_range(argument.text).map_err(fault)?;
            let requirement = Requirement::of_bytes((0..=255).collect::<ByteSet>().without(&valid));
            Compiled::new(Operator::ByteRange(valid), requirement)
        }
        Make::UrlEncoding => {
            Compiled::new(Operator::UrlEncoding, Requirement::of_bytes(ByteSet::constant(b"%")))
        }
        Make::Utf8 => Compiled::new(Operator::Utf8, Requirement::of_bytes(ByteSet::HIGH)),
        Make::Networks => Compiled::plain(Operator::Networks(network::list(argument.text).map_err(fault)?)),
        Make::NetworksOfFile => {
            let lines = words_of_files(argument).map_err(fault)?.join(&b' ');
            let list = network::list(&String::from_utf8_lossy(&lines)).map_err(fault)?;
            Compiled::plain(Operator::Networks(list))
        }
        Make::Sqli => {
            crate::inject::prepare();
            Compiled::plain(Operator::Sqli)
        }
        Make::Xss => {
            crate::inject::prepare();
            Compiled::new(Operator::Xss, Requirement::of_bytes(ByteSet::constant(b"<=")))
        }
        Make::Checksum(kind) => {
            let reading = Reading { steps_back: true, ..Reading::default() };
            let compiled = Pattern::with_requirement(argument.text, reading)?;
            Compiled::new(Operator::Checksum(kind, compiled.pattern), compiled.requirement)
        }
        Make::Unanswered(reason) => {
            let notice = Some(format!("@{} never matches: {reason}", entry.name));
            Compiled { notice, ..Compiled::plain(Operator::Never) }
        }
        Make::Refused(reason) => {
            return Err(fault(format!("the operator @{} is not available: {reason}", entry.name)));
        }
    })
}

fn template(argument: &Argument, names: &mut Names) -> Result<Template, pcre::Fault> {
    Template::parse(argument.text, names).map_err(|(offset, message)| pcre::Fault { offset, message })
}

fn pattern(argument: &Argument, names: &mut Names) -> Result<Compiled, pcre::Fault> {
    let whole = argument.negated;
    let reading = Reading { any_case: false, groups: argument.groups, whole, steps_back: true };
    let template = template(argument, names)?;
    if !template.is_constant() {
        return Ok(Compiled::plain(Operator::Dynamic(Box::new(Dynamic::new(template, reading)))));
    }
    let compiled = Pattern::with_requirement(argument.text, reading)?;
    Ok(Compiled::new(Operator::Pattern(compiled.pattern), compiled.requirement))
}

fn of_words(words: &[Vec<u8>]) -> Result<Compiled, String> {
    let requirement = Requirement::of_words(words.iter().map(Vec::as_slice));
    Ok(Compiled::new(Operator::Words(words::Words::new(words)?), requirement))
}

fn words_of_files(argument: &Argument) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    for name in argument.text.split_whitespace() {
        words.append(&mut words::of_file(&argument.files.read(name, argument.from)?));
    }
    if words.is_empty() { Err(format!("@{} names no file with an entry", argument.name)) } else { Ok(words) }
}

fn text(comparison: Comparison, argument: Template) -> Compiled {
    let requirement = match argument.constant() {
        Some(text) if text.len() > 1 && comparison != Comparison::Within => {
            Requirement::of_words(std::iter::once(text))
        }
        _ => Requirement::default(),
    };
    Compiled::new(Operator::Text(comparison, argument), requirement)
}

/// The bytes of `1-255,9,0x0a-0x0d`.
fn byte_range(text: &str) -> Result<ByteSet, String> {
    let mut set = ByteSet::default();
    let number = |text: &str| -> Result<u8, String> {
        let text = text.trim();
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed.map_err(|_| format!("{text} is not a byte from 0 to 255"))
    };
    for part in text.split(',') {
        match part.split_once('-') {
            Some((low, high)) => set.insert_range(number(low)?..=number(high)?),
            None => set.insert(number(part)?),
        }
    }
    Ok(set)
}
