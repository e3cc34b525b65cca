//! Why a health check has failed, as a number that fits into a counter cell.

use std::fmt;

/// Why a health check has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckFault {
    /// The connection was refused, or could not be made for another reason.
    Unreachable,
    /// There was no answer in time.
    Timeout,
    /// The TLS handshake failed, or the certificate is not accepted.
    Handshake,
    /// The connection broke, or the answer was malformed.
    Broken,
    /// The gRPC service does not report `SERVING`.
    NotServing,
    /// The call of the gRPC health service ended with this code.
    GrpcStatus(u8),
    /// The status of the response is not among those that pass.
    Status(u16),
}

/// The smallest number of a gRPC code, which are below the statuses of HTTP.
const GRPC: u64 = 10;
const STATUS: u64 = 100;

impl CheckFault {
    /// The number that stands for it, never zero.
    pub(super) fn code(self) -> u64 {
        match self {
            Self::Unreachable => 1,
            Self::Timeout => 2,
            Self::Handshake => 3,
            Self::Broken => 4,
            Self::NotServing => 5,
            Self::GrpcStatus(code) => GRPC + u64::from(code.min(80)),
            Self::Status(status) => u64::from(status).max(STATUS),
        }
    }

    /// The fault that a number stands for; none for zero.
    pub(super) fn of_code(code: u64) -> Option<Self> {
        Some(match code {
            0 => return None,
            1 => Self::Unreachable,
            2 => Self::Timeout,
            3 => Self::Handshake,
            5 => Self::NotServing,
            GRPC..STATUS => Self::GrpcStatus((code - GRPC) as u8),
            STATUS.. => Self::Status(u16::try_from(code).unwrap_or(u16::MAX)),
            _ => Self::Broken,
        })
    }
}

impl fmt::Display for CheckFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("no connection"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::Handshake => f.write_str("TLS handshake failed"),
            Self::Broken => f.write_str("connection broken or answer malformed"),
            Self::NotServing => f.write_str("gRPC service not serving"),
            Self::GrpcStatus(code) => write!(f, "gRPC status {code}"),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_number_of_its_own() {
        let faults = [
            CheckFault::Unreachable,
            CheckFault::Timeout,
            CheckFault::Handshake,
            CheckFault::Broken,
            CheckFault::NotServing,
            CheckFault::GrpcStatus(0),
            CheckFault::GrpcStatus(14),
            CheckFault::Status(100),
            CheckFault::Status(503),
        ];
        for fault in faults {
            assert_eq!(CheckFault::of_code(fault.code()), Some(fault));
        }
        assert_eq!(CheckFault::of_code(0), None);
    }
}
