//! Every bound of this crate.

/// Variables of a text, and pieces of text between them. The longest log formats have some sixty; each
/// variable can be as long as a request's head.
pub const TEMPLATE_PARTS_MAX: usize = 512;
