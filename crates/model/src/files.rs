//! Files that are served without an endpoint. Never in here: where the root folder is, and how it is read.

use crate::ResponsePolicy;

/// Which files answer requests. All names are relative to the root folder that the proxy is started with, or to the folder below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The folder below the root, without slashes at its ends; empty for the root itself.
    pub folder: String,
    /// What is left out at the beginning of a request's path, without a slash at its end, as with nginx's `alias`. Nothing is left out of a
    /// path that was rewritten.
    pub strip: String,
    /// Files that stand for their folder; the first that there is counts.
    pub index: Vec<String>,
    /// A file in place of one that there is not, unless the last element of the path has an extension: the page of a single-page application.
    pub fallback: Option<String>,
    /// The content of answers that there is no such file.
    pub not_found: Option<String>,
    /// Folders without an index file are listed.
    pub lists_folders: bool,
    /// `Cache-Control` of files.
    pub cache_control: Option<String>,
    /// What is done with responses; none for nothing.
    pub response: Option<Box<ResponsePolicy>>,
}
