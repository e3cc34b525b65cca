//! to be
