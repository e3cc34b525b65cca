//! The keys of tracing, which are decided together.

use std::sync::Arc;
use std::time::Duration;

use model::template::Template;
use model::{Sampler, SpanExport, TraceShare};

use super::Global;
use crate::translate::value::{self, Applied, Parsed, set};

/// The values of the keys.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) export: SpanExport,
    pub(super) sampling: Sampling,
    /// The share of [`Sampling::Share`].
    pub(super) share: TraceShare,
    pub(super) follows_parent: bool,
}

/// The samplers of OpenTelemetry, by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    /// The sampler `AlwaysOn` samples all traces.
    All,
    /// The sampler `AlwaysOff` samples no trace.
    None,
    /// The sampler `TraceIdRatioBased` samples a share of the traces.
    Share,
}

impl Default for Keys {
    fn default() -> Self {
        let share = TraceShare::of(0.01).expect("it is between 0 and 1");
        Self { export: SpanExport::default(), sampling: Sampling::All, share, follows_parent: true }
    }
}

impl Keys {
    /// Makes the settings of routes, and of the exporter.
    pub(super) fn finish(self, global: &mut Global) {
        let Self { export, sampling, share, follows_parent } = self;
        let share = match sampling {
            Sampling::All => TraceShare::ALL,
            Sampling::None => TraceShare::NONE,
            Sampling::Share => share,
        };
        let tracing = &mut global.defaults.tracing;
        Arc::make_mut(&mut tracing.usual).sampler = Sampler { share, follows_parent };
        tracing.has_collector = !export.host.is_empty();
        global.settings.tracing = tracing.everywhere.then(|| Arc::clone(&tracing.usual));
        global.settings.span_export = tracing.has_collector.then(|| Arc::new(export));
    }
}

pub(super) fn operation_name(global: &mut Global, text: &str) -> Applied {
    let name = Template::parse(text.trim()).map_err(|error| error.to_string())?;
    Arc::make_mut(&mut global.defaults.tracing.usual).operation = Some(name);
    Ok(None)
}

pub(super) fn trust(global: &mut Global, text: &str) -> Applied {
    set(&mut Arc::make_mut(&mut global.defaults.tracing.usual).trusts_client, value::boolean(text))
}

/// A name or an address, without a scheme.
pub(super) fn host(text: &str) -> Parsed<String> {
    value::characters(text, "-._:[]")
}

pub(super) fn port(text: &str) -> Parsed<u16> {
    let port = value::number(text).ok().filter(|&port| port > 0);
    port.ok_or_else(|| format!("{text:?} is no port from 1 to 65535"))
}

/// A number of spans, which must not be 0: without spans, nothing would be exported.
pub(super) fn spans(text: &str) -> Parsed<usize> {
    let number = value::number(text).ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("{text:?} is not a whole number above 0"))
}

pub(super) fn milliseconds(text: &str) -> Parsed<Duration> {
    value::number(text).map(Duration::from_millis)
}

pub(super) fn sampling(text: &str) -> Parsed<Sampling> {
    match text.trim() {
        "AlwaysOn" => Ok(Sampling::All),
        "AlwaysOff" => Ok(Sampling::None),
        "TraceIdRatioBased" => Ok(Sampling::Share),
        _ => Err(format!("{text:?} is none of AlwaysOn, AlwaysOff and TraceIdRatioBased")),
    }
}

pub(super) fn ratio(text: &str) -> Parsed<TraceShare> {
    let share = text.trim().parse().ok().and_then(TraceShare::of);
    share.ok_or_else(|| format!("{text:?} is no number from 0 to 1"))
}
