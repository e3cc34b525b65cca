//! Files that are served without an endpoint. Never in here: where the root folder is, and how files are
//! read.

use serde::Serialize;

use crate::ResponsePolicy;

/// The files that a route serves. All names are relative to the root folder that the proxy is started with,
/// or to the folder below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Files {
    /// The folder below the root, without slashes at its ends; empty for the root itself.
    pub folder: String,
    /// Prefix that is removed from a request's path, without a slash at its end, as with nginx's `alias`. A
    /// rewritten path is used as it is.
    pub strip: String,
    /// Files that stand for their folder; the first that there is counts.
    pub index: Vec<String>,
    /// The file to serve in place of a missing one, unless the last element of the path has an extension: the
    /// page of a single-page application.
    pub fallback: Option<String>,
    /// The content of answers that there is no such file.
    pub not_found: Option<String>,
    /// Folders without an index file are listed.
    pub lists_folders: bool,
    /// `Cache-Control` of files.
    pub cache_control: Option<String>,
    /// Policy for the head of responses; none for no changes.
    pub response: Option<Box<ResponsePolicy>>,
}
