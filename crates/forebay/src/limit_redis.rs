//! The Redis that counts for limits, as the flags name it.

use std::fs;
use std::io;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use proxy::{LimitRedis, PasswordSource};

use crate::cli;

/// Reads the options of the Redis for shared counters, if there is one. Errors do not repeat its URL, since
/// it may hold a password.
pub(crate) fn of(options: &cli::Reading) -> anyhow::Result<Option<LimitRedis>> {
    let Some(url) = &options.limit_redis else { return Ok(None) };
    let authorities = options.limit_redis_ca.as_ref();
    let authorities = authorities
        .map(|path| fs::read(path).with_context(|| format!("--limit-redis-ca {}", path.display())))
        .transpose()?;
    let password = options.limit_redis_password.clone().map(|path| -> PasswordSource {
        Arc::new(move || {
            let text = fs::read_to_string(&path);
            let text = text.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
            Ok(text.trim_end_matches(['\r', '\n']).to_owned())
        })
    });
    if let Some(read) = &password {
        read().context("--limit-redis-password")?;
    }
    let redis = LimitRedis::new(url, authorities, password);
    redis.map(Some).map_err(|why| anyhow!(why).context("--limit-redis"))
}
