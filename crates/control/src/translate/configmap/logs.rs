//! Readers of the keys about access logs.

use model::Settings;
use model::log::{Escape, Format, Output, StreamFormat};

use crate::translate::value::{self, Applied, set};

pub(super) fn no_stream_access_log(settings: &mut Settings, text: &str) -> Applied {
    settings.stream.access_log &= !value::boolean(text)?;
    Ok(None)
}

pub(super) fn no_access_log(settings: &mut Settings, text: &str) -> Applied {
    settings.access_log.enabled &= !value::boolean(text)?;
    Ok(None)
}

/// The path of a log. In ingress-nginx's image, nginx's default paths are links to its standard output.
pub(super) fn output(text: &str) -> value::Parsed<Output> {
    match text.trim() {
        "/dev/stdout" | "/var/log/nginx/access.log" => Ok(Output::Stdout),
        "/dev/stderr" => Ok(Output::Stderr),
        path if path.starts_with('/') => Ok(Output::File(path.to_owned())),
        _ => Err(format!("{text:?} is no absolute path of a file")),
    }
}

pub(super) fn stream_log_format(settings: &mut Settings, text: &str) -> Applied {
    let format = StreamFormat::parse(text).map_err(|error| error.to_string());
    set(&mut settings.stream.log_format, format)
}

/// Sets the format. The escaping is another key, which is applied after all keys have been read.
pub(super) fn log_format(settings: &mut Settings, text: &str) -> Applied {
    let format = Format::parse(text, Escape::Default).map_err(|error| error.to_string())?;
    settings.access_log.format = format;
    Ok(None)
}
