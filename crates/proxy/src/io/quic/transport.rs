//! The bounds of a connection, as QUIC's transport parameters and the settings of `quinn-proto`.

use std::sync::Arc;
use std::time::Duration;

use model::Settings;
use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};

use super::congestion::Congestion;
use super::shared::SharedQuic;
use crate::io::tls::QuicConfigs;
use crate::limits::{
    HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_STREAM_WINDOW_BYTES_MAX, QUIC_IDLE_TIMEOUT_MIN,
    QUIC_INCOMING_BYTES_MAX, QUIC_INCOMING_MAX, QUIC_SEND_WINDOW_MIN, QUIC_STREAMS_FIRST,
    QUIC_TOKEN_LIFETIME, QUIC_TOKENS_SENT, QUIC_UNI_STREAMS_MAX,
};

/// Time without a packet of the client after which a connection is gone.
pub(crate) fn idle_timeout(settings: &Settings) -> Duration {
    settings.client.keep_alive_timeout.max(QUIC_IDLE_TIMEOUT_MIN)
}

/// The configuration for new connections.
pub(crate) fn server_config(
    crypto: Arc<QuicConfigs>,
    shared: &SharedQuic,
    settings: &Settings,
) -> Arc<ServerConfig> {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(
            settings.client.http2_streams_max.min(QUIC_STREAMS_FIRST),
        ))
        .max_concurrent_uni_streams(VarInt::from_u32(QUIC_UNI_STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(HTTP2_STREAM_WINDOW_BYTES_MAX))
        .receive_window(VarInt::from_u32(HTTP2_CONNECTION_WINDOW_BYTES))
        .send_window(QUIC_SEND_WINDOW_MIN)
        .max_idle_timeout(IdleTimeout::try_from(idle_timeout(settings)).ok())
        .congestion_controller_factory(Arc::new(Congestion))
        .datagram_receive_buffer_size(None);
    let mut config = ServerConfig::new(crypto, Arc::clone(&shared.keys.token) as _);
    config
        .transport_config(Arc::new(transport))
        .max_incoming(QUIC_INCOMING_MAX)
        .incoming_buffer_size(QUIC_INCOMING_BYTES_MAX / 64)
        .incoming_buffer_size_total(QUIC_INCOMING_BYTES_MAX);
    config
        .validation_token
        .sent(QUIC_TOKENS_SENT)
        .lifetime(QUIC_TOKEN_LIFETIME)
        .log(Arc::clone(&shared.used_tokens) as _);
    Arc::new(config)
}
