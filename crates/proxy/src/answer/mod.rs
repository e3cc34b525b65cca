//! Responses for clients, whoever made them: an endpoint, the cache, a file, or Forebay itself; their heads,
//! their delivery, and the record of a request that is over.
//!
//! [`present`] and [`edits`] make the head of a response, and [`deliver`] writes it and a body from any
//! source. [`recode`] selects the coding of the content and [`parts`] its ranges. [`folder`] serves files,
//! whose blocking calls run on other threads. [`own_answer`] sends what Forebay answers itself. [`record`]
//! adds to counters that only this worker writes, and formats a line into the worker's log buffer; another
//! thread writes it, and a slow disk drops lines and counts them.
//!
//! Never in here: which endpoint is asked.

pub(crate) mod answered;
pub(crate) mod attempted;
mod audit;
pub(crate) mod deliver;
pub(crate) mod edits;
pub(crate) mod folder;
pub(crate) mod own_answer;
pub(crate) mod parts;
pub(crate) mod passed;
pub(crate) mod present;
pub(crate) mod recode;
pub(crate) mod record;
pub(crate) mod replace;
