//! Flags of ingress-nginx that have no meaning here, and unknown flags. Installers pass them, so that they
//! are accepted with a warning and ignored.

use std::ffi::OsString;

/// A flag that is accepted and ignored.
pub(crate) struct Ignored {
    pub(crate) name: &'static str,
    /// Whether the next argument is its value, if there is no `=`.
    takes_value: bool,
    /// The reason why the flag is not needed, or the missing feature.
    pub(crate) why: &'static str,
}

const NO_RELOAD: &str = "there are no reloads to pace";
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
    "disable-full-test" false "the webhook checks an Ingress with those of the same host only";
    "dynamic-configuration-retries" true "a configuration is handed over in memory and cannot fail to arrive";
    "enable-ssl-chain-completion" false "chains are shown as Secrets hold them; nothing is fetched";
    "exclude-socket-metrics" true OWN_METRICS;
    "health-check-timeout" true "the health check does not leave the process";
    "internal-logger-address" true NO_INTERNAL_PORT;
    "max-buckets" true OWN_METRICS;
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

/// A flag that was passed over, and why.
pub(crate) struct PassedOver {
    pub(crate) flag: String,
    pub(crate) why: String,
}

impl From<&Ignored> for PassedOver {
    fn from(ignored: &Ignored) -> Self {
        Self { flag: format!("--{}", ignored.name), why: ignored.why.to_owned() }
    }
}

/// Separates the flags of `serve` that are not among the `known` from the other arguments: a flag of another
/// version of ingress-nginx must not keep the proxy from starting.
pub(crate) fn split_off_unknown(
    arguments: Vec<OsString>,
    known: &[&str],
) -> (Vec<OsString>, Vec<PassedOver>) {
    if arguments.get(1).is_none_or(|command| command != "serve") {
        return (arguments, Vec::new());
    }
    let (mut kept, mut unknown) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let body = argument.to_str().and_then(|text| text.strip_prefix("--")).unwrap_or_default();
        let (name, has_value) = body.split_once('=').map_or((body, false), |(name, _)| (name, true));
        if name.is_empty() || known.contains(&name) {
            kept.push(argument);
            continue;
        }
        unknown
            .push(PassedOver { flag: format!("--{name}"), why: format!("unknown{}", similar(name, known)) });
        let value_follows = arguments.peek().is_some_and(|next| !next.to_string_lossy().starts_with('-'));
        if !has_value && value_follows {
            arguments.next();
        }
    }
    (kept, unknown)
}

fn similar(name: &str, known: &[&str]) -> String {
    let likeness = |known: &&str| strsim::jaro_winkler(name, known);
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let best = best.filter(|best| likeness(best) >= SIMILARITY_MIN);
    best.map(|best| format!("; did you mean --{best}?")).unwrap_or_default()
}

/// Least similarity of a suggestion.
const SIMILARITY_MIN: f64 = 0.9;

/// The ignored flag that an argument is, and whether the argument contains its value.
fn find(argument: &str) -> Option<(&'static Ignored, bool)> {
    let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    let (name, has_value) = body.split_once('=').map_or((body, false), |(name, _)| (name, true));
    IGNORED.iter().find(|flag| flag.name == name).map(|flag| (flag, has_value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

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
    fn unknown_flags_of_serve_are_passed_over() {
        let split = |arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from).collect();
            let (kept, unknown) = split_off_unknown(arguments, &["http-port", "manifests"]);
            let unknown: Vec<_> = unknown.iter().map(|one| format!("{} {}", one.flag, one.why)).collect();
            (kept, unknown)
        };
        let (kept, unknown) = split(&[
            "forebay",
            "serve",
            "--nonsense=1",
            "--http-prot",
            "1",
            "--manifests",
            "m",
            "--other",
            "--http-port=2",
        ]);
        assert_eq!(kept, ["forebay", "serve", "--manifests", "m", "--http-port=2"]);
        assert_eq!(
            unknown,
            ["--nonsense unknown", "--http-prot unknown; did you mean --http-port?", "--other unknown"]
        );
        let (kept, unknown) = split(&["forebay", "check", "--nonsense"]);
        assert_eq!((kept.len(), unknown.len()), (3, 0), "left for the parser");
    }

    /// All that ingress-nginx documents, and `--profiler-address`: none of them keeps the proxy from
    /// starting, or does nothing in silence.
    #[test]
    fn every_flag_of_ingress_nginx_is_known() {
        let known = Cli::known_flags();
        for name in OF_INGRESS_NGINX.split_whitespace() {
            let is_ignored = IGNORED.iter().any(|flag| flag.name == name);
            assert!(is_ignored || known.iter().any(|known| known == name), "{name}");
        }
        assert_eq!(OF_INGRESS_NGINX.split_whitespace().count(), 73);
    }

    const OF_INGRESS_NGINX: &str = "
        annotations-prefix apiserver-host bucket-factor certificate-authority configmap controller-class deep-inspect
        default-backend-service default-server-port default-ssl-certificate disable-catch-all disable-full-test
        disable-leader-election disable-svc-external-name disable-sync-events dynamic-configuration-retries election-id
        election-ttl enable-annotation-validation enable-metrics enable-ssl-chain-completion enable-ssl-passthrough
        enable-topology-aware-routing exclude-socket-metrics health-check-path health-check-timeout healthz-host healthz-port
        http-port https-port ingress-class ingress-class-by-name internal-logger-address kubeconfig length-buckets max-buckets
        maxmind-edition-ids maxmind-license-key maxmind-mirror maxmind-retries-count maxmind-retries-timeout metrics-per-host
        metrics-per-undefined-host monitor-max-batch-size post-shutdown-grace-period profiler-address profiler-port profiling
        publish-service publish-status-address report-node-internal-ip-address report-status-classes shutdown-grace-period
        size-buckets ssl-passthrough-proxy-port status-port status-update-interval stream-port sync-period sync-rate-limit
        tcp-services-configmap time-buckets udp-services-configmap update-status update-status-on-shutdown v
        validating-webhook validating-webhook-certificate validating-webhook-key version watch-ingress-without-class
        watch-namespace watch-namespace-selector";

    #[test]
    fn the_table_is_sorted_and_has_no_flag_twice() {
        assert!(IGNORED.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
