//! The variables that rules can name: one entry for each, with its shape and its documentation.
//!
//! Never in here: values; `engine` has those of a transaction.

mod path;
mod target;

pub(crate) use path::Path;
pub(crate) use target::{Exclusion, Selector, Target};

/// The way in which a variable has values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The variable has one value.
    Single,
    /// Names with values; `NAME:selector` chooses some of them.
    Collection,
    /// A collection that lives longer than a transaction, and that `initcol` or `setsid` attaches.
    Persistent,
}

/// An entry of the table of variables.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name that rules use; names are compared without regard to case.
    pub name: &'static str,
    /// The variable that the name stands for.
    pub variable: Variable,
    /// The way in which it has values.
    pub shape: Shape,
    /// Its meaning, in one line.
    pub doc: &'static str,
}

macro_rules! variables {
    ($($variant:ident $name:literal $shape:ident $doc:literal;)*) => {
        /// A variable of SecLang.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Variable {
            $(#[doc = $doc] $variant,)*
        }

        /// All variables that a rule can name, in the order of `Variable`.
        pub const VARIABLES: &[Entry] = &[
            $(Entry { name: $name, variable: Variable::$variant, shape: Shape::$shape, doc: $doc },)*
        ];
    };
}

variables! {
    Args "ARGS" Collection "arguments of the query and of the body";
    ArgsCombinedSize "ARGS_COMBINED_SIZE" Single "bytes of all names and values of arguments";
    ArgsGet "ARGS_GET" Collection "arguments of the query";
    ArgsGetNames "ARGS_GET_NAMES" Collection "names of the query's arguments";
    ArgsNames "ARGS_NAMES" Collection "names of all arguments";
    ArgsPost "ARGS_POST" Collection "arguments of the body";
    ArgsPostNames "ARGS_POST_NAMES" Collection "names of the body's arguments";
    AuthType "AUTH_TYPE" Single "scheme of the header Authorization";
    Duration "DURATION" Single "milliseconds since the transaction began";
    Env "ENV" Collection "what `setenv` has set in this transaction";
    Files "FILES" Collection "names of uploaded files, by the form's field";
    FilesCombinedSize "FILES_COMBINED_SIZE" Single "bytes of all uploaded files";
    FilesNames "FILES_NAMES" Collection "the form's fields that have files";
    FilesSizes "FILES_SIZES" Collection "sizes of uploaded files in bytes, by the form's field";
    FilesTmpNames "FILES_TMPNAMES" Collection "empty: no file is written";
    FilesTmpContent "FILES_TMP_CONTENT" Collection "empty: no file is kept";
    FullRequest "FULL_REQUEST" Single "request line, headers and body";
    FullRequestLength "FULL_REQUEST_LENGTH" Single "bytes of `FULL_REQUEST`";
    Geo "GEO" Collection "empty: there is no database of places";
    Global "GLOBAL" Persistent "a collection that all clients share";
    HighestSeverity "HIGHEST_SEVERITY" Single "lowest number of a severity that matched, 255 without a match";
    InboundDataError "INBOUND_DATA_ERROR" Single "1 if the request body is longer than its limit";
    Ip "IP" Persistent "a collection of the client, by a key that the rules choose";
    MatchedVar "MATCHED_VAR" Single "value that matched last";
    MatchedVarName "MATCHED_VAR_NAME" Single "name of the variable that matched last";
    MatchedVars "MATCHED_VARS" Collection "all values that the current chain has matched";
    MatchedVarsNames "MATCHED_VARS_NAMES" Collection "names of all variables that the current chain has matched";
    ModsecBuild "MODSEC_BUILD" Single "version of ModSecurity whose behaviour this is, as nine digits";
    MscPcreError "MSC_PCRE_ERROR" Single "0: a search without a result refuses the exchange";
    MscPcreLimitsExceeded "MSC_PCRE_LIMITS_EXCEEDED" Single "0: a search without a result refuses the exchange";
    MultipartBoundaryQuoted "MULTIPART_BOUNDARY_QUOTED" Single "1 if the boundary was in quotes";
    MultipartBoundaryWhitespace "MULTIPART_BOUNDARY_WHITESPACE" Single "1 if the boundary has white space";
    MultipartCrlfLfLines "MULTIPART_CRLF_LF_LINES" Single "1 if line ends are mixed";
    MultipartDataAfter "MULTIPART_DATA_AFTER" Single "1 if bytes follow the last boundary";
    MultipartDataBefore "MULTIPART_DATA_BEFORE" Single "1 if bytes precede the first boundary";
    MultipartFileLimitExceeded "MULTIPART_FILE_LIMIT_EXCEEDED" Single "1 if there are too many files";
    MultipartFilename "MULTIPART_FILENAME" Collection "filename of each part";
    MultipartHeaderFolding "MULTIPART_HEADER_FOLDING" Single "1 if a part's header has two lines";
    MultipartInvalidHeaderFolding "MULTIPART_INVALID_HEADER_FOLDING" Single "1 if a header is folded wrongly";
    MultipartInvalidPart "MULTIPART_INVALID_PART" Single "1 if a part is malformed";
    MultipartInvalidQuoting "MULTIPART_INVALID_QUOTING" Single "1 if a parameter is quoted wrongly";
    MultipartLfLine "MULTIPART_LF_LINE" Single "1 if a line ends without CR";
    MultipartMissingSemicolon "MULTIPART_MISSING_SEMICOLON" Single "1 if a separator is missing";
    MultipartSemicolonMissing "MULTIPART_SEMICOLON_MISSING" Single "1 if a separator is missing";
    MultipartName "MULTIPART_NAME" Collection "name of each part";
    MultipartPartHeaders "MULTIPART_PART_HEADERS" Collection "header lines of parts, by the form's field";
    MultipartStrictError "MULTIPART_STRICT_ERROR" Single "1 if one of the flags of strict parsing is set";
    MultipartUnmatchedBoundary "MULTIPART_UNMATCHED_BOUNDARY" Single "1 if a line resembles a boundary";
    OutboundDataError "OUTBOUND_DATA_ERROR" Single "1 if the response body is longer than its limit";
    PathInfo "PATH_INFO" Single "path of the request, as `REQUEST_FILENAME`";
    QueryString "QUERY_STRING" Single "query as it was sent";
    RemoteAddr "REMOTE_ADDR" Single "address of the client";
    RemoteHost "REMOTE_HOST" Single "address of the client: names are not looked up";
    RemotePort "REMOTE_PORT" Single "port of the client";
    RemoteUser "REMOTE_USER" Single "user of basic authentication";
    ReqbodyError "REQBODY_ERROR" Single "1 if the body could not be parsed";
    ReqbodyErrorMsg "REQBODY_ERROR_MSG" Single "why the body could not be parsed";
    ReqbodyProcessor "REQBODY_PROCESSOR" Single "parser of the body: URLENCODED, MULTIPART, JSON or XML";
    ReqbodyProcessorError "REQBODY_PROCESSOR_ERROR" Single "1 if the body could not be parsed";
    ReqbodyProcessorErrorMsg "REQBODY_PROCESSOR_ERROR_MSG" Single "why the body could not be parsed";
    RequestBasename "REQUEST_BASENAME" Single "last segment of the path";
    RequestBody "REQUEST_BODY" Single "body of a form, or of any request where a rule forces it";
    RequestBodyLength "REQUEST_BODY_LENGTH" Single "bytes of the request body";
    RequestCookies "REQUEST_COOKIES" Collection "cookies of the request";
    RequestCookiesNames "REQUEST_COOKIES_NAMES" Collection "names of the request's cookies";
    RequestFilename "REQUEST_FILENAME" Single "path without query";
    RequestHeaders "REQUEST_HEADERS" Collection "headers of the request";
    RequestHeadersNames "REQUEST_HEADERS_NAMES" Collection "names of the request's headers";
    RequestLine "REQUEST_LINE" Single "method, target and protocol";
    RequestMethod "REQUEST_METHOD" Single "method of the request";
    RequestProtocol "REQUEST_PROTOCOL" Single "protocol of the request, such as HTTP/1.1";
    RequestUri "REQUEST_URI" Single "path with query, without scheme and host";
    RequestUriRaw "REQUEST_URI_RAW" Single "target as it was sent";
    Resource "RESOURCE" Persistent "a collection of a resource, by a key that the rules choose";
    ResponseBody "RESPONSE_BODY" Single "body of the response, where rules may read it";
    ResponseContentLength "RESPONSE_CONTENT_LENGTH" Single "bytes of the response body";
    ResponseContentType "RESPONSE_CONTENT_TYPE" Single "Content-Type of the response";
    ResponseHeaders "RESPONSE_HEADERS" Collection "headers of the response";
    ResponseHeadersNames "RESPONSE_HEADERS_NAMES" Collection "names of the response's headers";
    ResponseProtocol "RESPONSE_PROTOCOL" Single "protocol of the response";
    ResponseStatus "RESPONSE_STATUS" Single "status of the response";
    Rule "RULE" Collection "id, rev, severity, logdata and msg of the current rule";
    ServerAddr "SERVER_ADDR" Single "address that the client connected to";
    ServerName "SERVER_NAME" Single "host of the request, without port";
    ServerPort "SERVER_PORT" Single "port that the client connected to";
    Session "SESSION" Persistent "a collection of a session, which `setsid` attaches";
    SessionId "SESSIONID" Single "key that `setsid` has set";
    StatusLine "STATUS_LINE" Single "protocol and status of the response";
    StreamInputBody "STREAM_INPUT_BODY" Single "body of the request as it was sent";
    StreamOutputBody "STREAM_OUTPUT_BODY" Single "body of the response as it was sent";
    Time "TIME" Single "time of day, as hh:mm:ss, in UTC";
    TimeDay "TIME_DAY" Single "day of the month, from 1";
    TimeEpoch "TIME_EPOCH" Single "seconds since 1970";
    TimeHour "TIME_HOUR" Single "hour, from 0 to 23";
    TimeMin "TIME_MIN" Single "minute, from 0 to 59";
    TimeMon "TIME_MON" Single "month, from 0 to 11";
    TimeSec "TIME_SEC" Single "second, from 0 to 59";
    TimeWday "TIME_WDAY" Single "day of the week, 0 is Sunday";
    TimeYear "TIME_YEAR" Single "year with four digits";
    Tx "TX" Collection "what rules have set in this transaction";
    UniqueId "UNIQUE_ID" Single "id of the transaction";
    UrlencodedError "URLENCODED_ERROR" Single "1 if the query or a form has an invalid escape";
    User "USER" Persistent "a collection of a user, which `setuid` attaches";
    UserId "USERID" Single "key that `setuid` has set";
    UseragentIp "USERAGENT_IP" Single "address of the client";
    WebappId "WEBAPPID" Single "value of `SecWebAppId`";
    WebserverErrorLog "WEBSERVER_ERROR_LOG" Collection "empty: the proxy's messages are not given to rules";
    XmlText "XML" Collection "`XML:/*`: texts of an XML body; `XML://@*`: values of its attributes";
    XmlNodes "XML_NODES" Collection "elements, attributes and texts of an XML body by path, as `XML:/a//b/@c`";
    XmlAttributes "XML_ATTRIBUTES" Collection "values of the attributes of an XML body, as `XML://@*`";
}

impl Variable {
    /// The entry of a variable.
    pub fn entry(self) -> &'static Entry {
        &VARIABLES[self as usize]
    }

    /// The name that rules use.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Finds a variable by the name that rules use.
    pub fn named(name: &str) -> Option<Variable> {
        VARIABLES.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)).map(|entry| entry.variable)
    }

    /// True if values may change while the rules of one phase run.
    pub(crate) fn changes_within_a_phase(self) -> bool {
        self.entry().shape == Shape::Persistent
            || matches!(
                self,
                Variable::Tx
                    | Variable::Env
                    | Variable::MatchedVar
                    | Variable::MatchedVarName
                    | Variable::MatchedVars
                    | Variable::MatchedVarsNames
                    | Variable::Rule
                    | Variable::HighestSeverity
                    | Variable::Duration
                    | Variable::ReqbodyProcessor
                    | Variable::SessionId
                    | Variable::UserId
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_at_its_place_and_has_one_name() {
        for (index, entry) in VARIABLES.iter().enumerate() {
            assert_eq!(entry.variable as usize, index, "{}", entry.name);
            assert_eq!(Variable::named(&entry.name.to_lowercase()), Some(entry.variable));
            assert!(!entry.doc.is_empty());
        }
        assert_eq!(Variable::named("ARGS_"), None);
    }
}
