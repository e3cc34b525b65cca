//! Why keys of the `ConfigMap` have no effect, where several have the same reason.

pub(super) const TUNING: &str = "it tunes nginx and has no counterpart";
pub(super) const DEAD: &str = "ingress-nginx reads it and does nothing with it";
pub(super) const WORKERS: &str =
    "there is one pinned worker for each CPU that the process may use; see --workers";
pub(super) const CURVES: &str = "X25519MLKEM768, X25519, P-256 and P-384 are offered";
pub(super) const NO_DH: &str = "key exchange is by elliptic curves only";
pub(super) const TYPED: &str = "values of annotations are parsed, never pasted into a configuration";
pub(super) const OTEL: &str = "no file is read: the otel-* and otlp-* keys say it all";
pub(super) const OWN_LOG: &str = "messages go to standard error; FOREBAY_LOG sets the level";
pub(super) const NO_STATUS: &str = "there is no /nginx_status; see the metrics of the admin port";
