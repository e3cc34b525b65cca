//! What applications that speak `FastCGI` are told of a request.

use std::fmt;

use crate::template::Template;

/// The parameters of requests to applications that speak `FastCGI`, beside those that the request's headers become.
#[derive(Clone, PartialEq, Eq)]
pub struct FastCgi {
    /// The standard ones first.
    params: Vec<(String, Template)>,
    /// How many standard ones there are.
    standard: usize,
    index: String,
}

/// nginx's `fastcgi_params`, less the type and the length of the content, which follow from the request as it is sent.
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

/// The one that is left out where it is empty: an application asks whether it is there.
const LEFT_OUT_EMPTY: &str = "HTTPS";

impl FastCgi {
    /// The standard parameters, and `own` ones, which take the place of standard ones with their names. `index` is appended to
    /// `$fastcgi_script_name` where the path ends in a slash (nginx: `fastcgi_index`); empty for nothing.
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

    /// What `$fastcgi_script_name` has at its end where the path ends in a slash.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// Whether a parameter is left out where it is empty.
    pub fn is_left_out_empty(name: &str) -> bool {
        name == LEFT_OUT_EMPTY
    }
}

/// What differs from one to another.
impl fmt::Debug for FastCgi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = &self.params[self.standard..];
        f.debug_struct("FastCgi").field("own", &own).field("index", &self.index).finish()
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
