//! Files below one root folder: opened under the kernel's own guarantee that nothing above the root can be
//! reached (openat2), read, listed, and small ones cached in memory.
//!
//! [`path`] decides which names may be requested at all, [`Root`] opens them, [`Store`] caches the results.
//!
//! Never in here: HTTP, and whose request it is.

mod file;
pub mod limits;
pub mod path;
mod root;
mod store;

pub use file::{File, Kept};
pub use root::{Identity, ListedEntry, Miss, Node, Opened, Root, RootError};
pub use store::{Coding, Found, Page, Store};
