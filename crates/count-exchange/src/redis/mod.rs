//! Redis as the common store of the replicas' counts: its configuration, its commands, and the thread that
//! exchanges counts with it.
//!
//! ```text
//! connection  one connection: its commands and failures
//! thread      exchanges counts several times a second, and reconnects
//! ```
//!
//! Never in here: the meaning of a count, which is `clients::quota`'s.

mod connection;
#[cfg(test)]
mod tests;
mod thread;

use std::fmt;
use std::io;
use std::sync::Arc;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsCertificates};

pub(crate) use thread::RedisThread;

/// Name of our connections in CLIENT LIST.
const CLIENT_NAME: &str = "forebay";

/// Source of the password, read for each connection.
pub type PasswordSource = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// Address and credentials of a Redis or Valkey.
#[derive(Clone)]
pub struct LimitRedis {
    info: ConnectionInfo,
    /// Certificates of the accepted authorities, as PEM; the system's if none.
    authorities: Option<Vec<u8>>,
    password: Option<PasswordSource>,
}

impl LimitRedis {
    /// Redis at a URL: `redis://HOST:6379/0`, or `rediss://` for TLS, with user and password before the
    /// host, or the password from `PasswordSource`.
    ///
    /// # Errors
    /// A description of the fault in the URL, which does not repeat the URL: it may hold a password.
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
        // Invalid certificates are reported at the start.
        redis.client_with(None).map_err(|error| error.to_string())?;
        Ok(redis)
    }

    /// A client that opens connections.
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

/// The address, without user and password.
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
