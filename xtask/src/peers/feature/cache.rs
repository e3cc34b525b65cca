//! Responses that are kept.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{Case, Directives, Feature, Manifests, Scene};

/// Of all caches, in mebibytes, where all that is asked for fits.
const MEMORY_MIB: u32 = 1024;
/// Where the disk is what counts.
const DISK_MEMORY_MIB: u32 = 256;

/// One object that stays fresh.
pub(crate) fn cache(path: &'static str, rate_per_second: f64) -> Case {
    Case { feature: keeping(MEMORY_MIB), path, rate_per_second, check: check_kept, ..Case::default() }
}

/// A cache that holds so much, and objects by name.
pub(crate) fn zipf(memory_mib: u32) -> Case {
    Case { feature: keeping(memory_mib), path: "/bytes/{}", ..Case::default() }
}

/// A cache with a folder on disk that holds so much, and objects by name. The port of clients is said, since it is another one after a restart.
pub(crate) fn with_disk(folder: &Path, disk_gib: u32) -> Case {
    let mut feature = keeping(DISK_MEMORY_MIB);
    let folder = format!("--cache-folder={}", folder.display());
    feature.manifests.arguments.extend([folder, format!("--cache-disk={disk_gib}g")]);
    feature.manifests.settings.push(("use-forwarded-headers", "true".into()));
    let headers = vec![("X-Forwarded-Port", "80".to_owned())];
    Case { feature, path: "/bytes/{}", headers, ..Case::default() }
}

/// Everything that the backend says is kept for an hour. nginx has its files open, and the kernel has them in memory.
fn keeping(memory_mib: u32) -> Feature {
    let http = format!(
        "  proxy_cache_path kept levels=1:2 keys_zone=kept:64m max_size={memory_mib}m \
         inactive=1h use_temp_path=off;\n  open_file_cache max=10000 inactive=1h; open_file_cache_valid 1h;\n"
    );
    let location = "      proxy_buffering on; proxy_cache kept; proxy_cache_valid 200 1h; proxy_cache_lock on;\n\
                          proxy_cache_lock_timeout 10s; sendfile on;\n";
    // Its own bounds are for files that are not large, and for what says when it was changed.
    let apache = "CacheQuickHandler on\nCacheEnable disk /\nCacheDefaultExpire 3600\n\
                  CacheIgnoreNoLastMod on\nCacheMaxFileSize 10000000\nCacheLock on\nEnableSendfile on\n";
    Feature {
        apache: apache.to_owned(),
        directives: Directives { http, location: location.to_owned(), ..Directives::default() },
        manifests: Manifests {
            annotations: vec![
                ("forebay.io/cache", "true".into()),
                ("forebay.io/cache-default-ttl", "1h".into()),
            ],
            arguments: vec![format!("--cache-memory={memory_mib}m")],
            ..Manifests::default()
        },
        ..Feature::default()
    }
}

fn check_kept(scene: &Scene) -> Result<()> {
    for _ in 0..3 {
        scene.get("/bytes/100/kept", &[])?;
    }
    let before = scene.backends[0].requests()?;
    scene.get("/bytes/100/kept", &[])?;
    let asked = scene.backends[0].requests()? - before - 1;
    ensure!(asked == 0, "what was asked for before reaches the backend");
    Ok(())
}
