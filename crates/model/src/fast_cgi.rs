//! Parameters of requests to applications that speak `FastCGI`.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::template::Template;

/// The parameters of requests to applications that speak `FastCGI`, beside those made of the request's
/// headers.
#[derive(Clone, PartialEq, Eq)]
pub struct FastCgi {
    /// The standard ones first.
    params: Vec<(String, Template)>,
    /// How many standard ones there are.
    standard: usize,
    index: String,
}

/// nginx's `fastcgi_params`, without the type and length of the content, which follow from the request as
/// sent.
const STANDARD: &[(&str, &str)] = &[
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("HTTPS", "$https"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    // Applications look for the name of the server whose rules of rewriting they expect.
    ("SERVER_SOFTWARE", "forebay (as nginx)"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    ("REDIRECT_STATUS", "200"),
];

/// The parameter that is omitted where it is empty: applications test only whether it is present.
const LEFT_OUT_EMPTY: &str = "HTTPS";

impl FastCgi {
    /// The standard parameters, and `own` ones, which replace standard ones of the same name. `index` is
    /// appended to `$fastcgi_script_name` where the path ends in a slash (nginx: `fastcgi_index`); empty for
    /// no index.
    #[expect(clippy::missing_panics_doc, reason = "what is parsed is the table above")]
    pub fn new(index: String, own: Vec<(String, Template)>) -> Self {
        let standard = STANDARD.iter().filter(|(name, _)| own.iter().all(|(own, _)| own != name));
        let parse = |text| Template::parse(text).expect("names only variables that there are");
        let standard = standard.map(|(name, text)| ((*name).to_owned(), parse(text)));
        let mut params: Vec<_> = standard.collect();
        let standard = params.len();
        params.extend(own);
        Self { params, standard, index }
    }

    /// Names and values of the parameters.
    pub fn params(&self) -> &[(String, Template)] {
        &self.params
    }

    /// The index file's name, which is appended to `$fastcgi_script_name` where the path ends in a slash.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// Whether a parameter is omitted where it is empty.
    pub fn is_left_out_empty(name: &str) -> bool {
        name == LEFT_OUT_EMPTY
    }
}

/// Shows only the parameters that differ from the standard ones.
impl fmt::Debug for FastCgi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = &self.params[self.standard..];
        f.debug_struct("FastCgi").field("own", &own).field("index", &self.index).finish()
    }
}

/// The parameters that differ from the standard ones.
impl Serialize for FastCgi {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("FastCgi", 2)?;
        fields.serialize_field("own", &self.params[self.standard..])?;
        fields.serialize_field("index", &self.index)?;
        fields.end()
    }
}

impl Default for FastCgi {
    fn default() -> Self {
        Self::new(String::new(), Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_parameters_take_the_place_of_standard_ones() {
        let own = |name: &str, text: &str| (name.to_owned(), Template::parse(text).unwrap());
        let filename = own("SCRIPT_FILENAME", "/app$fastcgi_script_name");
        let params = FastCgi::new(String::new(), vec![own("SERVER_NAME", "a"), filename]);
        let named = |wanted: &str| params.params().iter().filter(|(name, _)| name == wanted).count();
        assert_eq!((named("SERVER_NAME"), named("SCRIPT_FILENAME"), named("SCRIPT_NAME")), (1, 1, 1));
        assert_eq!(params.params().len(), STANDARD.len() + 1);
    }
}
