//! The parts of a request and its response, as rules see them.
//!
//! Never in here: what rules set.

use super::texts::{TextId, Texts};
use crate::body::{Flag, Place, Processor, Sink};
use crate::variables::Variable;

/// One name with its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: TextId,
    pub(super) value: TextId,
}

/// The collections that a transaction fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bag {
    ArgsGet,
    ArgsPost,
    RequestHeaders,
    RequestCookies,
    Files,
    FilesSizes,
    MultipartFilename,
    MultipartName,
    PartHeaders,
    XmlText,
    XmlAttributes,
    XmlNodes,
    ResponseHeaders,
    Env,
}

const BAGS: usize = Bag::Env as usize + 1;
const SINGLES: usize = crate::variables::VARIABLES.len();

/// The bag of a collection, and whether its names are the values.
pub(super) fn bags(variable: Variable) -> &'static [Bag] {
    match variable {
        Variable::Args | Variable::ArgsNames => &[Bag::ArgsGet, Bag::ArgsPost],
        Variable::ArgsGet | Variable::ArgsGetNames => &[Bag::ArgsGet],
        Variable::ArgsPost | Variable::ArgsPostNames => &[Bag::ArgsPost],
        Variable::RequestHeaders | Variable::RequestHeadersNames => &[Bag::RequestHeaders],
        Variable::RequestCookies | Variable::RequestCookiesNames => &[Bag::RequestCookies],
        Variable::ResponseHeaders | Variable::ResponseHeadersNames => &[Bag::ResponseHeaders],
        Variable::Files | Variable::FilesNames => &[Bag::Files],
        Variable::FilesSizes => &[Bag::FilesSizes],
        Variable::MultipartFilename => &[Bag::MultipartFilename],
        Variable::MultipartName => &[Bag::MultipartName],
        Variable::MultipartPartHeaders => &[Bag::PartHeaders],
        Variable::XmlText => &[Bag::XmlText],
        Variable::XmlAttributes => &[Bag::XmlAttributes],
        Variable::XmlNodes => &[Bag::XmlNodes],
        Variable::Env => &[Bag::Env],
        _ => &[],
    }
}

/// True if the values of a variable are the names of its bag.
pub(super) fn has_names(variable: Variable) -> bool {
    matches!(
        variable,
        Variable::ArgsNames
            | Variable::ArgsGetNames
            | Variable::ArgsPostNames
            | Variable::RequestHeadersNames
            | Variable::RequestCookiesNames
            | Variable::ResponseHeadersNames
            | Variable::FilesNames
    )
}

/// The values of one exchange.
pub(super) struct Store {
    pub(super) texts: Texts,
    bags: [Vec<Field>; BAGS],
    singles: [Option<TextId>; SINGLES],
    flags: u16,
    /// The parser of the body.
    pub(super) processor: Option<Processor>,
    /// True if rules want `REQUEST_BODY` of any body.
    pub(super) force_request_body: bool,
    /// Bytes of the request's body that came.
    pub(super) request_body_bytes: usize,
    /// Bytes of the response's body that came.
    pub(super) response_body_bytes: usize,
    /// The message of the body's parser.
    pub(super) body_error: Option<String>,
    /// True if the query or a form has an invalid escape.
    pub(super) invalid_encoding: bool,
    /// True if a body was longer than its limit.
    pub(super) request_too_long: bool,
    /// True if a response's body was longer than its limit.
    pub(super) response_too_long: bool,
    /// True if values came since the last phase.
    pub(super) changed: bool,
}

impl Store {
    pub(super) fn new(seed: u64) -> Store {
        Store {
            texts: Texts::new(seed),
            bags: std::array::from_fn(|_| Vec::new()),
            singles: [None; SINGLES],
            flags: 0,
            processor: None,
            force_request_body: false,
            request_body_bytes: 0,
            response_body_bytes: 0,
            body_error: None,
            invalid_encoding: false,
            request_too_long: false,
            response_too_long: false,
            changed: true,
        }
    }

    /// The fields of a bag.
    pub(super) fn bag(&self, bag: Bag) -> &[Field] {
        &self.bags[bag as usize]
    }

    /// Adds a field.
    pub(super) fn add(&mut self, bag: Bag, name: &[u8], value: &[u8]) {
        let field = Field { name: self.texts.add(name), value: self.texts.add(value) };
        self.bags[bag as usize].push(field);
    }

    /// Removes the fields with a name.
    pub(super) fn remove(&mut self, bag: Bag, name: &[u8]) {
        let texts = &self.texts;
        self.bags[bag as usize].retain(|field| texts.get(field.name) != name);
    }

    /// The first value with a name, which is compared without regard to case.
    pub(super) fn find(&self, bag: Bag, name: &[u8]) -> Option<TextId> {
        let found = |field: &&Field| self.texts.get(field.name).eq_ignore_ascii_case(name);
        self.bag(bag).iter().find(found).map(|field| field.value)
    }

    /// Sets a variable that has one value.
    pub(super) fn set(&mut self, variable: Variable, value: &[u8]) {
        let id = self.texts.add(value);
        self.set_text(variable, id);
    }

    /// Sets a variable that has one value.
    pub(super) fn set_text(&mut self, variable: Variable, id: TextId) {
        self.singles[variable as usize] = Some(id);
    }

    /// Forgets a variable: it is computed again.
    pub(super) fn forget(&mut self, variable: Variable) {
        self.singles[variable as usize] = None;
    }

    /// The value of a variable that was set.
    pub(super) fn single(&self, variable: Variable) -> Option<TextId> {
        self.singles[variable as usize]
    }

    /// The bytes of a variable that was set.
    pub(super) fn bytes(&self, variable: Variable) -> &[u8] {
        self.single(variable).map_or(&[], |id| self.texts.get(id))
    }

    /// True if a flag of a multipart body is set.
    pub(super) fn has_flag(&self, flag: Flag) -> bool {
        self.flags & (1 << flag as u16) != 0
    }

    /// True if one of the flags of strict parsing is set, or the body could not be parsed.
    pub(super) fn is_not_strict(&self) -> bool {
        const STRICT: [Flag; 9] = [
            Flag::BoundaryQuoted,
            Flag::BoundaryWhitespace,
            Flag::DataBefore,
            Flag::DataAfter,
            Flag::HeaderFolding,
            Flag::LfLine,
            Flag::MissingSemicolon,
            Flag::InvalidQuoting,
            Flag::InvalidPart,
        ];
        let more = [Flag::InvalidHeaderFolding, Flag::FileLimitExceeded];
        let error = self.processor == Some(Processor::Multipart) && self.body_error.is_some();
        error || STRICT.iter().chain(&more).any(|&flag| self.has_flag(flag))
    }

    /// Bytes of all names and values of arguments.
    pub(super) fn arguments_bytes(&self) -> usize {
        let fields = self.bag(Bag::ArgsGet).iter().chain(self.bag(Bag::ArgsPost));
        fields.map(|field| self.texts.get(field.name).len() + self.texts.get(field.value).len()).sum()
    }
}

impl Sink for Store {
    fn item(&mut self, place: Place, name: &[u8], value: &[u8]) {
        let bag = match place {
            Place::Argument => Bag::ArgsPost,
            Place::File => Bag::Files,
            Place::FileSize => Bag::FilesSizes,
            Place::MultipartFilename => Bag::MultipartFilename,
            Place::MultipartName => Bag::MultipartName,
            Place::PartHeader => Bag::PartHeaders,
            Place::XmlText => Bag::XmlText,
            Place::XmlAttribute => Bag::XmlAttributes,
            Place::XmlNode => Bag::XmlNodes,
        };
        self.texts.see(name.len() + value.len());
        self.add(bag, name, value);
    }

    fn flag(&mut self, flag: Flag) {
        self.flags |= 1 << flag as u16;
    }

    fn error(&mut self, message: &str) {
        if self.body_error.is_none() {
            self.body_error = Some(message.to_owned());
        }
    }
}
