//! Files below one root folder: found by the kernel's own rule that nothing above it can be reached (openat2), read, listed, and small ones kept
//! in memory.
//!
//! [`path`] says which names may be asked for at all, [`Root`] opens what they stand for, [`Store`] remembers what was found.
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
