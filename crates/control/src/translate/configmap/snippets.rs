//! The snippets of the `ConfigMap`. They need no permission; a directive that is not understood closes all
//! routes.

use std::sync::Arc;

use super::Global;
use crate::options::Unenforced;
use crate::translate::ingress::annotations::named;
use crate::translate::ingress::snippets;
use crate::translate::snippet::{self, Faults, Remark};

/// A key, and the reason why its snippet cannot be used.
pub(super) type Faulty = (&'static str, String);

/// The faults and remarks of the snippets.
#[derive(Default)]
pub(super) struct Said {
    pub(super) faults: Vec<Faulty>,
    /// The ignored lines.
    pub(super) remarks: Vec<(&'static str, Remark)>,
}

impl Said {
    fn take<T>(&mut self, key: &'static str, read: Option<Result<(T, Vec<Remark>), Faults>>) -> Option<T> {
        match read? {
            Ok((of, remarks)) => {
                self.remarks.extend(remarks.into_iter().map(|remark| (key, remark)));
                Some(of)
            }
            Err(faults) => {
                self.faults.push((key, faults.to_string()));
                None
            }
        }
    }
}

/// Reads the snippets, tables of variables first, because the others may use them. `text` returns the value
/// of a key.
pub(super) fn read<'t>(
    text: impl Fn(&str) -> Option<&'t str>,
    unenforced: Unenforced,
    global: &mut Global,
) -> Said {
    let passes_unenforced = unenforced == Unenforced::Serve;
    let mut said = Said::default();
    let mut found = snippets::Global::default();
    let text = |key: &str| text(key).filter(|text| !text.trim().is_empty());
    let names =
        said.take("http-snippet", text("http-snippet").map(|it| snippet::http(it, passes_unenforced)));
    found.names = names.unwrap_or_default();
    found.names.passes_unenforced = passes_unenforced;
    ["location-snippet", "server-snippet"]
        .into_iter()
        .filter_map(text)
        .for_each(|it| found.names.add_set_by(it));
    let host = text("server-snippet").map(|it| snippet::server(it, &found.names));
    let host = said.take("server-snippet", host);
    if let Some(host) = &host {
        found.names.add_error_blocks(host);
    }
    let location = text("location-snippet").map(|it| snippet::location(it, &found.names));
    found.location = said.take("location-snippet", location).unwrap_or_default();
    if let Some(host) = &host {
        let defaults = &mut global.defaults;
        snippets::take_own(defaults, host.replacements.as_ref(), &host.errors, &host.limits);
    }
    let of_location = &found.location;
    let own = of_location.replacements.as_ref();
    snippets::take_own(&mut global.defaults, own, &of_location.errors, &of_location.limits);
    let of_host = host.iter().flat_map(|host| &host.asks).map(|ask| ("server-snippet", ask));
    for (key, ask) in of_host.chain(found.location.asks.iter().map(|ask| ("location-snippet", ask))) {
        match snippets::obey(&mut global.defaults, ask, named) {
            Ok(None) => {}
            Ok(Some(why)) => said.remarks.push((key, ask.remark(&why))),
            Err(why) => said.faults.push((key, ask.fault(&why).to_string())),
        }
    }
    found.host = host.map(Arc::new);
    let auth = text("global-auth-snippet").map(|it| snippet::auth(it, &found.names));
    global.defaults.auth.global.script = said.take("global-auth-snippet", auth).map(Arc::new);
    global.defaults.snippets.global = Arc::new(found);
    said
}
