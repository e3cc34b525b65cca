//! The file that a path stands for.

use std::borrow::Cow;
use std::sync::Arc;

use ::files::{Found, ListedEntry, Miss, Page, Store, path};
use model::Files;
use observe::Reason;
use wire::path::{escape, of_target, query_of_target};

use super::{listing, on_thread};
use crate::admit::Admitted;
use crate::request::reply::Answer;
use crate::request::stop::Stop;

/// The answer to a request.
pub(super) enum Answered {
    Page(Named),
    /// The content of an answer that there is nothing.
    NotFound(Named),
    /// A folder, as HTML.
    Listing(String),
}

/// A file, and the name that says what it is.
pub(super) struct Named {
    pub(super) page: Arc<Page>,
    pub(super) name: Vec<u8>,
}

/// Looks up the file or the folder for the path of the request.
pub(super) async fn look_up(
    admitted: &Admitted<'_>,
    store: &Arc<Store>,
    files: &Files,
) -> Result<Answered, Stop> {
    let asked = asked_path(admitted)?;
    let below = strip(&asked, &files.strip);
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let is_top = below.is_empty();
    // The folder itself without a slash is as any other folder without one.
    let wants_folder = asked.ends_with(b"/");
    if !path::may_be_served(below) {
        return none_there(admitted, store, files, below, Miss::NotFound).await;
    }
    let name = joined(&files.folder, below.strip_suffix(b"/").unwrap_or(below));
    let miss = if wants_folder {
        match find_index(admitted, store, files, &name).await? {
            Some(page) => return Ok(Answered::Page(page)),
            None => match find(admitted, store, &name).await {
                Found::Folder if files.lists_folders => {
                    return list(admitted, store, name, is_top).await;
                }
                Found::Folder => Miss::Forbidden,
                Found::Page(_) => Miss::NotFound,
                Found::Miss(miss) => miss,
            },
        }
    } else {
        match find(admitted, store, &name).await {
            Found::Page(page) => return Ok(Answered::Page(Named { page, name })),
            Found::Folder => return Err(to_folder(admitted).into()),
            Found::Miss(miss) => miss,
        }
    };
    none_there(admitted, store, files, below, miss).await
}

/// The path that names the file: the request's, or what was made of it.
fn asked_path<'p>(admitted: &'p Admitted<'_>) -> Result<Cow<'p, [u8]>, Stop> {
    match admitted.rewritten_target() {
        Some(target) => wire::path::normalize(of_target(target)).map_err(|_| Stop::from(Reason::BadTarget)),
        None => Ok(Cow::Borrowed(admitted.current_path())),
    }
}

/// The name of the file that a request asks for first, for who wants to know.
pub(crate) fn file_asked(admitted: &Admitted<'_>, files: &Files) -> String {
    let asked = asked_path(admitted).unwrap_or_default();
    let below = strip(&asked, &files.strip);
    let mut name = joined(&files.folder, below.strip_prefix(b"/").unwrap_or(below));
    if asked.ends_with(b"/") {
        name.extend(files.index.first().map(String::as_bytes).unwrap_or_default());
    }
    String::from_utf8_lossy(&name).into_owned()
}

async fn find_index(
    admitted: &Admitted<'_>,
    store: &Arc<Store>,
    files: &Files,
    folder: &[u8],
) -> Result<Option<Named>, Stop> {
    for index in &files.index {
        let name = joined_bytes(folder, index.as_bytes());
        match find(admitted, store, &name).await {
            Found::Page(page) => return Ok(Some(Named { page, name })),
            Found::Miss(Miss::Forbidden) => return Err(Answer::with_status(403).into()),
            Found::Folder | Found::Miss(_) => {}
        }
    }
    Ok(None)
}

/// Answers for what is not there: with the page of an application, or one that says so.
async fn none_there(
    admitted: &Admitted<'_>,
    store: &Arc<Store>,
    files: &Files,
    below: &[u8],
    miss: Miss,
) -> Result<Answered, Stop> {
    match miss {
        Miss::NoRoot => return Err(Reason::FilesGone.into()),
        Miss::NoDescriptor => return Err(Reason::DescriptorsExhausted.into()),
        Miss::Unreadable => return Err(Reason::FileUnreadable.into()),
        Miss::NotFound | Miss::Forbidden => {}
    }
    // A name that is refused is no page of an application.
    let is_page = path::may_be_served(below) && !has_extension(below);
    if let Some(fallback) = files.fallback.as_ref().filter(|_| is_page) {
        let name = joined(&files.folder, fallback.as_bytes());
        if let Found::Page(page) = find(admitted, store, &name).await {
            return Ok(Answered::Page(Named { page, name }));
        }
    }
    if miss == Miss::Forbidden {
        return Err(Answer::with_status(403).into());
    }
    if let Some(not_found) = &files.not_found {
        let name = joined(&files.folder, not_found.as_bytes());
        if !replaces_not_found(admitted)
            && let Found::Page(page) = find(admitted, store, &name).await
        {
            return Ok(Answered::NotFound(Named { page, name }));
        }
    }
    Err(Answer::not_found().into())
}

/// Whether a backend of errors answers in place of a 404.
fn replaces_not_found(admitted: &Admitted<'_>) -> bool {
    admitted.error_pages().is_some_and(|pages| pages.replaces(404))
}

async fn find(admitted: &Admitted<'_>, store: &Arc<Store>, name: &[u8]) -> Found {
    let now = admitted.worker.clock.now().since_begin();
    if let Some(found) = store.recall(name, now) {
        return found;
    }
    let name = name.to_vec();
    on_thread(store, move |store| store.look(&name, now)).await
}

/// The redirect to a folder whose slash is missing. It names the path that the client has asked for,
/// whatever was made of it.
fn to_folder(admitted: &Admitted<'_>) -> Answer {
    let target = admitted.sent_target();
    let mut location = Vec::new();
    escape(admitted.client_path(), &mut location);
    location.push(b'/');
    if let Some(query) = query_of_target(target) {
        location.push(b'?');
        wire::path::escape_unprintable(query, &mut location);
    }
    Answer::redirect(301, admitted.redirect_origin() + &String::from_utf8_lossy(&location))
}

async fn list(
    admitted: &Admitted<'_>,
    store: &Arc<Store>,
    name: Vec<u8>,
    is_top: bool,
) -> Result<Answered, Stop> {
    let listed: Result<Vec<ListedEntry>, Miss> =
        on_thread(store, move |store| store.list(&name, is_top)).await;
    match listed {
        Ok(entries) => Ok(Answered::Listing(listing::page(admitted.client_path(), &entries, is_top))),
        Err(Miss::Forbidden) => Err(Answer::with_status(403).into()),
        Err(Miss::NotFound) => Err(Answer::not_found().into()),
        Err(Miss::NoRoot) => Err(Reason::FilesGone.into()),
        Err(Miss::NoDescriptor) => Err(Reason::DescriptorsExhausted.into()),
        Err(Miss::Unreadable) => Err(Reason::FileUnreadable.into()),
    }
}

/// The rest of a path after a beginning that is left out. Expressions take paths of any letter case.
fn strip<'p>(path: &'p [u8], beginning: &str) -> &'p [u8] {
    match path.split_at_checked(beginning.len()) {
        Some((begin, below)) if begin.eq_ignore_ascii_case(beginning.as_bytes()) => below,
        _ => path,
    }
}

fn joined(folder: &str, name: &[u8]) -> Vec<u8> {
    joined_bytes(folder.as_bytes(), name)
}

fn joined_bytes(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(folder.len() + 1 + name.len());
    joined.extend_from_slice(folder);
    if !folder.is_empty() && !name.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}

/// Whether the last element of a path has a dot, as files of an application have and its pages have not.
fn has_extension(path: &[u8]) -> bool {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().contains(&b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_left_out() {
        assert_eq!(strip(b"/app/x", "/app"), b"/x");
        assert_eq!(strip(b"/APP/x", "/app"), b"/x");
        assert_eq!((strip(b"/x", ""), strip(b"/a", "/abc")), (&b"/x"[..], &b"/a"[..]));
    }

    #[test]
    fn names_are_joined_by_one_slash() {
        assert_eq!(joined("", b"a"), b"a");
        assert_eq!(joined("site", b""), b"site");
        assert_eq!(joined("site", b"a/b"), b"site/a/b");
    }

    #[test]
    fn pages_have_no_extension() {
        assert!(has_extension(b"a/b.js") && has_extension(b".x"));
        assert!(!has_extension(b"a.b/c") && !has_extension(b"a.b/") && !has_extension(b""));
    }
}
