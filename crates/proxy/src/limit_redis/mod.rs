//! Redis, where requests are counted that all replicas count together: who it is, how it is asked, and the thread that does so.
//!
//! ```text
//! connection  one connection: what is said on it, and what may go wrong
//! thread      exchanges counts several times a second, and connects again
//! ```
//!
//! Never in here: requests, and what a count means, which is `clients::quota`'s.

mod connection;
#[cfg(test)]
mod tests;
mod thread;

use std::fmt;
use std::io;
use std::sync::Arc;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsCertificates};

pub(crate) use thread::{RedisParts, RedisThread};

/// How CLIENT LIST names us.
const CLIENT_NAME: &str = "forebay";

/// Where a password comes from, which is read each time that Redis is connected to.
pub type PasswordSource = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// A Redis, or Valkey, and how one gets in.
#[derive(Clone)]
pub struct LimitRedis {
    info: ConnectionInfo,
    /// Certificates of those who may vouch for it, as PEM; those of the system without.
    authorities: Option<Vec<u8>>,
    password: Option<PasswordSource>,
}

impl LimitRedis {
    /// One at a URL: `redis://HOST:6379/0`, or `rediss://` for TLS, with user and password before the host, or the password from elsewhere.
    ///
    /// # Errors
    /// What is wrong with the URL, in words that do not repeat it: it may hold a password.
    pub fn new(
        url: &str,
        authorities: Option<Vec<u8>>,
        password: Option<PasswordSource>,
    ) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|error| error.to_string())?;
        let is_tls = match info.addr() {
            ConnectionAddr::Tcp(..) => false,
            ConnectionAddr::TcpTls { insecure: false, .. } => true,
            ConnectionAddr::TcpTls { .. } => return Err("a certificate is always checked".to_owned()),
            _ => return Err("it begins with neither redis:// nor rediss://".to_owned()),
        };
        if info.redis_settings().db() < 0 {
            return Err("there is no database below 0".to_owned());
        }
        if authorities.is_some() && !is_tls {
            return Err("there are no certificates without rediss://".to_owned());
        }
        if password.is_some() && info.redis_settings().password().is_some() {
            return Err("it has a password, and so has the file".to_owned());
        }
        let redis = Self { info, authorities, password };
        // Certificates that are none are told at the start.
        redis.client_with(None).map_err(|error| error.to_string())?;
        Ok(redis)
    }

    /// What connects to it.
    fn client(&self) -> Result<Client, connection::Fault> {
        let password = self.password.as_ref().map(|read| read()).transpose();
        let password = password.map_err(|error| connection::Fault::unreadable(&error))?;
        Ok(self.client_with(password.as_deref())?)
    }

    fn client_with(&self, password: Option<&str>) -> RedisResult<Client> {
        let mut settings =
            self.info.redis_settings().clone().set_lib_name(CLIENT_NAME, env!("CARGO_PKG_VERSION"));
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        let info = self.info.clone().set_redis_settings(settings);
        match info.addr() {
            ConnectionAddr::TcpTls { .. } => {
                let root_cert = self.authorities.clone();
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(info),
        }
    }
}

/// Its address: neither user nor password.
impl fmt::Display for LimitRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info.addr())
    }
}

impl fmt::Debug for LimitRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitRedis({self})")
    }
}
