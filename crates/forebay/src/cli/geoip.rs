//! Flags about databases of addresses: those of ingress-nginx, and Forebay's own.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use control::geoip::{Download, LicenseKey, Origin, Sources, parse_mirror};
use geo::Edition;
use http::Uri;

/// Where databases of addresses come from, for `use-geoip2`.
#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named as the flags are")]
pub(crate) struct Geoip {
    /// Folder with the databases for use-geoip2, a file EDITION.mmdb each. Downloads are stored here if it
    /// can be written.
    #[arg(long, value_name = "DIR", default_value = "/etc/ingress-controller/geoip")]
    geoip_folder: PathBuf,
    /// Time between two downloads of databases; 0 downloads once, at the start.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration, default_value = "24h")]
    geoip_download_interval: Duration,
    /// Databases to use [default: GeoLite2-City,GeoLite2-ASN, or those of the ConfigMap's
    /// forebay-geoip-secret].
    #[arg(long, value_name = "EDITIONS", value_delimiter = ',')]
    maxmind_edition_ids: Vec<Edition>,
    /// Key to download the databases from MaxMind [default: none; files are used as they are].
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    maxmind_license_key: String,
    /// URL to download the databases from in place of MaxMind: EDITION.tar.gz below it, and
    /// EDITION.tar.gz.sha256 if that exists.
    #[arg(long, value_name = "URL", value_parser = parse_mirror)]
    maxmind_mirror: Option<Uri>,
    /// Attempts to download a database.
    #[arg(long, value_name = "N", default_value_t = 1)]
    maxmind_retries_count: u32,
    /// Time until the second attempt, which grows by half for each further one; 0 for a single attempt.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration, default_value = "0s")]
    maxmind_retries_timeout: Duration,
}

impl Geoip {
    /// The places that databases come from. As in ingress-nginx, a mirror takes precedence over a key.
    pub(crate) fn sources(self) -> Sources {
        let key = Some(self.maxmind_license_key).filter(|key| !key.is_empty());
        let origin = self.maxmind_mirror.map(Origin::Mirror);
        let origin = origin.or_else(|| key.map(|key| Origin::MaxMind(LicenseKey(key))));
        let download = origin.map(|origin| Download {
            origin,
            attempts: self.maxmind_retries_count,
            pause: self.maxmind_retries_timeout,
            interval: self.geoip_download_interval,
        });
        let editions = Some(self.maxmind_edition_ids).filter(|editions| !editions.is_empty());
        Sources { folder: self.geoip_folder, editions, download }
    }
}
