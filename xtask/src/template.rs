//! Data and templates in this package's folder: YAML, and configurations as Jinja templates.
//!
//! Must not be in here: what is in them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The content of a YAML file, by its path in this package's folder.
pub(crate) fn data<T: DeserializeOwned>(path: &str) -> Result<T> {
    serde_saphyr::from_str(&read(path)?).with_context(|| path.to_owned())
}

/// A file that is a template, with the values of `context` in it.
pub(crate) fn render_file(path: &str, context: impl Serialize) -> Result<String> {
    render(&read(path)?, context).with_context(|| path.to_owned())
}

/// A template with the values of `context` in it. Lines that hold nothing but a tag are left out; a value
/// that is not there is an error.
pub(crate) fn render(template: &str, context: impl Serialize) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?,
    );
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.add_filter("base64", |text: String| STANDARD.encode(text));
    environment.add_filter("ip", |address: String| Ok(parse(&address)?.ip().to_string()));
    environment.add_filter("port", |address: String| Ok(parse(&address)?.port()));
    Ok(environment.render_str(template, Serde(context))?)
}

/// The values of two objects, of which the first one's win.
pub(crate) fn merged(mut first: Value, second: impl Serialize) -> Result<Value> {
    let all = first.as_object_mut().context("an object")?;
    let Value::Object(further) = serde_json::to_value(second)? else { bail!("not an object") };
    for (name, value) in further {
        all.entry(name).or_insert(value);
    }
    Ok(first)
}

fn parse(address: &str) -> Result<SocketAddr, minijinja::Error> {
    address.parse().map_err(|_| {
        minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, format!("{address} is no address"))
    })
}

fn read(path: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}
