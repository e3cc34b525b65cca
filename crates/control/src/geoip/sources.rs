use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use geo::{EDITIONS, Edition};
use http::Uri;

/// Where databases come from, by the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Sources {
    /// Folder with a file for each edition.
    pub folder: PathBuf,
    /// The editions to use; none for those that ingress-nginx uses without the flag, or for all that a Secret
    /// has.
    pub editions: Option<Vec<Edition>>,
    /// Downloads of the editions; none to use the files as they are.
    pub download: Option<Download>,
}

/// Downloads of databases.
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// Where they are downloaded from.
    pub origin: Origin,
    /// Attempts before a download has failed.
    pub attempts: u32,
    /// Time until the second attempt; zero for a single attempt.
    pub pause: Duration,
    /// Time between two downloads; zero to download once.
    pub interval: Duration,
}

/// Where databases are downloaded from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A URL below which each edition is a file `EDITION.tar.gz`.
    Mirror(Uri),
    /// `MaxMind`'s own service, which wants a key.
    MaxMind(LicenseKey),
}

/// A key of `MaxMind`'s service. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct LicenseKey(pub String);

impl fmt::Debug for LicenseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LicenseKey(...)")
    }
}

/// The editions that ingress-nginx uses without `--maxmind-edition-ids`.
const USUAL: [&str; 2] = ["GeoLite2-City", "GeoLite2-ASN"];

impl Default for Sources {
    fn default() -> Self {
        Self { folder: "/etc/ingress-controller/geoip".into(), editions: None, download: None }
    }
}

impl Sources {
    /// The editions that the command line asks for.
    pub(super) fn editions(&self) -> Vec<Edition> {
        let usual = || EDITIONS.iter().filter(|edition| USUAL.contains(&edition.name)).copied().collect();
        self.editions.clone().unwrap_or_else(usual)
    }
}

impl Origin {
    /// The URL of the archive of an edition.
    pub(super) fn url(&self, edition: Edition) -> String {
        match self {
            Self::Mirror(url) => format!("{}/{edition}.tar.gz", url.to_string().trim_end_matches('/')),
            Self::MaxMind(LicenseKey(key)) => format!(
                "https://download.maxmind.com/app/geoip_download?license_key={key}&edition_id={edition}&suffix=tar.gz"
            ),
        }
    }

    /// The URL without the key, for messages.
    pub(super) fn public_url(&self, edition: Edition) -> String {
        match self {
            Self::Mirror(_) => self.url(edition),
            Self::MaxMind(_) => format!("{edition} at download.maxmind.com"),
        }
    }
}

/// Parses the URL of a mirror.
///
/// # Errors
///
/// The text is not a URL with the scheme `http` or `https`. The error is a message for the user.
pub fn parse_mirror(text: &str) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|error| format!("{text:?} is not a URL: {error}"))?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    if is_http && url.query().is_none() {
        Ok(url)
    } else {
        Err(format!("{text:?} is not a URL such as https://mirror.example.com/geoip"))
    }
}
