//! Servers beside the proxy, each on a thread of its own.

use std::future::Future;
use std::io;
use std::net::TcpListener as StdListener;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::machine;

/// Pause before more connections are accepted when there are no descriptors left: others are closed meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a listener on a thread of this name, which ends with the process.
pub(crate) fn spawn<F>(
    name: &'static str,
    listener: StdListener,
    serve: impl FnOnce(TcpListener) -> F + Send + 'static,
) -> io::Result<()>
where
    F: Future<Output = ()>,
{
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener)?
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        machine::give_way();
        runtime.block_on(serve(listener));
    })?;
    Ok(())
}

/// The next connection.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
