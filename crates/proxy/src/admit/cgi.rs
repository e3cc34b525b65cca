//! The parameters that an application of `FastCGI` gets beside a request's headers (RFC 3875 section 4.1,
//! with nginx's names).

use model::FastCgi;
use observe::access::expand;
use wire::fcgi::write_pair;
use wire::path::{normalize, of_target, query_of_target};

use crate::admit::Admitted;
use crate::route::values::{self, HasValues, RequestValues, ScriptTarget};

/// The parameters of a request. `head` is the one that was written for the endpoint: its path and query are
/// those that are told, the client's own being in `REQUEST_URI`.
pub(crate) fn params(admitted: &Admitted<'_>, fast_cgi: Option<&FastCgi>, head: &[u8]) -> Vec<u8> {
    let standard;
    let fast_cgi = if let Some(fast_cgi) = fast_cgi {
        fast_cgi
    } else {
        standard = FastCgi::default();
        &standard
    };
    let target = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    let path = of_target(target);
    let path = normalize(path).unwrap_or(path.into());
    let query = query_of_target(target);
    let script_target = Some(ScriptTarget { path: &path, query, index: fast_cgi.index() });
    values::with_values(admitted.scope(), admitted.script.as_deref(), |values| {
        let values = RequestValues { script_target, ..*values };
        let (mut params, mut value) = (Vec::new(), Vec::new());
        for (name, template) in fast_cgi.params() {
            value.clear();
            expand(template, &values, &mut value);
            if !value.is_empty() || !FastCgi::is_left_out_empty(name) {
                write_pair(name.as_bytes(), &value, &mut params);
            }
        }
        params
    })
}
