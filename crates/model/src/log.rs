//! The format of an access-log line, read from nginx's notation (`log-format-upstream`).

use std::fmt;

use crate::template::{InvalidTemplate, Template};

/// Of what a line consists, and how values are escaped. A value that is missing is written as `-`.
#[derive(Clone, PartialEq, Eq)]
pub struct Format {
    /// Text and variables.
    pub template: Template,
    /// What is done with unusual characters in a variable's value.
    pub escape: Escape,
}

/// What is done with unusual characters in a value (nginx: `log_format ... escape=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escape {
    /// `"`, `\` and bytes outside 32..=126 become `\xXX`.
    #[default]
    Default,
    /// As inside a JSON string; a missing value is empty instead of `-`.
    Json,
    /// Nothing.
    None,
}

impl Format {
    /// Reads nginx's notation: text with `$name` or `${name}`.
    ///
    /// # Errors
    ///
    /// When a `$` is not followed by the name of a variable.
    pub fn parse(text: &str, escape: Escape) -> Result<Self, InvalidTemplate> {
        Ok(Self { template: Template::parse(text)?, escape })
    }
}

/// The parts of the template stand for it.
impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template, escape } = self;
        f.debug_struct("Format").field("parts", &template.parts()).field("escape", escape).finish()
    }
}

/// ingress-nginx's `upstreaminfo`.
impl Default for Format {
    fn default() -> Self {
        Self::parse(DEFAULT_FORMAT, Escape::Default).expect("names only variables of the table above")
    }
}

/// ingress-nginx's default of `log-format-upstream`.
pub const DEFAULT_FORMAT: &str = concat!(
    r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "#,
    r#""$http_user_agent" $request_length $request_time [$proxy_upstream_name] "#,
    r"[$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time ",
    r"$upstream_status $req_id"
);
