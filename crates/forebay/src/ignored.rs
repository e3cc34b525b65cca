//! Flags of ingress-nginx that have no meaning here. Installers pass them, so that they are accepted with a warning and ignored.

use std::ffi::OsString;

/// A flag that is accepted and ignored.
pub(crate) struct Ignored {
    pub(crate) name: &'static str,
    /// Whether the next argument is its value, if there is no `=`.
    takes_value: bool,
    /// Why the flag is not needed, or what is missing.
    pub(crate) why: &'static str,
}

const NO_RELOAD: &str = "there are no reloads to pace";
const NO_GEOIP: &str = "there is no GeoIP yet";
const NO_INTERNAL_PORT: &str = "there is no inner server that needs a port";
const NO_PROFILER: &str = "there is no profiler port";
const OWN_METRICS: &str = "metrics are kept per worker at a fixed cost";

macro_rules! ignored {
    ($($name:literal $takes_value:literal $why:expr;)*) => {
        &[$(Ignored { name: $name, takes_value: $takes_value, why: $why },)*]
    };
}

/// The flags, from ingress-nginx's `docs/user-guide/cli-arguments.md`.
pub(crate) const IGNORED: &[Ignored] = ignored! {
    "bucket-factor" true OWN_METRICS;
    "default-server-port" true NO_INTERNAL_PORT;
    "disable-full-test" false "the webhook judges an Ingress amid those that share a host with it, and no others";
    "dynamic-configuration-retries" true "a configuration is handed over in memory and cannot fail to arrive";
    "enable-ssl-chain-completion" false "chains are shown as Secrets hold them; nothing is fetched";
    "exclude-socket-metrics" true OWN_METRICS;
    "health-check-path" true "the health check is at /healthz";
    "health-check-timeout" true "the health check does not leave the process";
    "internal-logger-address" true NO_INTERNAL_PORT;
    "max-buckets" true OWN_METRICS;
    "maxmind-edition-ids" true NO_GEOIP;
    "maxmind-license-key" true NO_GEOIP;
    "maxmind-mirror" true NO_GEOIP;
    "maxmind-retries-count" true NO_GEOIP;
    "maxmind-retries-timeout" true NO_GEOIP;
    "monitor-max-batch-size" true OWN_METRICS;
    "post-shutdown-grace-period" true "the process ends when the last request has";
    "profiler-address" true NO_PROFILER;
    "profiler-port" true NO_PROFILER;
    "profiling" false NO_PROFILER;
    "ssl-passthrough-proxy-port" true NO_INTERNAL_PORT;
    "status-port" true NO_INTERNAL_PORT;
    "stream-port" true NO_INTERNAL_PORT;
    "sync-period" true "objects are watched; there is nothing to read again";
    "sync-rate-limit" true NO_RELOAD;
    "v" true "verbosity is set by the environment variable FOREBAY_LOG";
};

/// Separates the ignored flags from the other arguments.
pub(crate) fn split_off(
    arguments: impl IntoIterator<Item = OsString>,
) -> (Vec<OsString>, Vec<&'static Ignored>) {
    let (mut kept, mut ignored) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let Some((flag, has_value)) = argument.to_str().and_then(find) else {
            kept.push(argument);
            continue;
        };
        ignored.push(flag);
        let value_follows = arguments.peek().is_some_and(|next| !next.to_string_lossy().starts_with('-'));
        if flag.takes_value && !has_value && value_follows {
            arguments.next();
        }
    }
    (kept, ignored)
}

/// The ignored flag that an argument is, and whether the argument contains its value.
fn find(argument: &str) -> Option<(&'static Ignored, bool)> {
    let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    let (name, has_value) = body.split_once('=').map_or((body, false), |(name, _)| (name, true));
    IGNORED.iter().find(|flag| flag.name == name).map(|flag| (flag, has_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(arguments: &[&str]) -> (Vec<OsString>, Vec<&'static str>) {
        let (kept, ignored) = split_off(arguments.iter().map(OsString::from));
        (kept, ignored.iter().map(|flag| flag.name).collect())
    }

    #[test]
    fn ignored_flags_take_their_values_along() {
        let (kept, ignored) = split(&[
            "serve",
            "--sync-period=1m",
            "--status-port",
            "1",
            "--manifests",
            "m",
            "-v=2",
            "--profiling",
        ]);
        assert_eq!(kept, ["serve", "--manifests", "m"]);
        assert_eq!(ignored, ["sync-period", "status-port", "v", "profiling"]);
    }

    #[test]
    fn unknown_flags_are_left_for_the_parser() {
        assert_eq!(split(&["serve", "--nonsense=1"]).0, ["serve", "--nonsense=1"]);
    }

    #[test]
    fn the_table_is_sorted_and_has_no_flag_twice() {
        assert!(IGNORED.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
