//! The answer of a route itself in place of a response with an error (nginx: `error_page`).
//!
//! Never in here: which responses are replaced, which is `admit::errors`'.

use model::{ErrorPageContent, ErrorPageStatus, Headers};

use crate::admit::Admitted;
use crate::request::reply::{Answer, NO_RESPONSE};
use crate::route::script::{self, Ended};
use crate::route::script_state::ScriptState;
use crate::route::values::{self, HasValues};

/// The answer that replaces a response with this status; none where the route has none of its own.
#[cold]
pub(crate) fn answer(admitted: &Admitted<'_>, status: u16) -> Option<Answer> {
    let page = admitted.error_pages()?.own_page(status)?;
    let block = match &page.content {
        ErrorPageContent::Redirect(code, to) => {
            let to = values::expand(admitted, to);
            return Some(Answer::redirect(*code, String::from_utf8_lossy(&to).into_owned()));
        }
        ErrorPageContent::Steps(block) => block,
    };
    let mut state = ScriptState::default();
    state.is_of_host = true;
    state.enter(None, Some(&block.headers));
    let answer = match script::run(admitted.scope(), &mut state, &block.steps) {
        Err(Ended::Answer(answer)) => answer,
        // No step answers, or one of them cannot be done.
        Ok(_) | Err(Ended::Refuse(_)) => Answer::with_status(status),
    };
    let status = match page.status {
        _ if answer.status == NO_RESPONSE => NO_RESPONSE,
        ErrorPageStatus::Kept => status,
        ErrorPageStatus::OfAnswer => answer.status,
        ErrorPageStatus::Fixed(status) => status,
    };
    Some(with_headers(admitted, &block.headers, answer.with_other_status(status)))
}

/// The answer with the headers of its block.
fn with_headers(admitted: &Admitted<'_>, headers: &Headers, answer: Answer) -> Answer {
    let status = answer.status;
    let added = headers.added.iter().filter(|header| header.is_for(status));
    let added = added.map(|header| (&header.name, Some(&header.value)));
    let is_for = |statuses: &[u16]| statuses.is_empty() || statuses.contains(&status);
    let set = headers.response.iter().filter(|edit| is_for(&edit.statuses));
    let set = set.map(|edit| (&edit.name, edit.value.as_ref()));
    set.chain(added).fold(answer, |answer, (name, value)| {
        let value = value.map(|value| values::expand_field_for(admitted, status, value));
        match value.filter(|value| !value.is_empty()) {
            Some(value) => answer.with_field(name, &value),
            None => answer,
        }
    })
}
