//! The settings of a rule set, which directives change.
//!
//! Never in here: rules.

use std::sync::Arc;

use crate::limits::ARGUMENTS_MAX;
use crate::operators::Pattern;
use crate::transform::UnicodeMap;

/// The value of `SecRuleEngine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Rules run and stop exchanges.
    On,
    /// Rules run, and matches are only reported.
    DetectionOnly,
    /// No rule runs.
    Off,
}

impl Mode {
    /// The name of the mode, as `SecRuleEngine` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "On",
            Self::DetectionOnly => "DetectionOnly",
            Self::Off => "Off",
        }
    }
}

/// The treatment of a body that is longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAction {
    /// The exchange is refused with 413.
    Reject,
    /// Rules see the part within the limit.
    ProcessPartial,
}

/// The value of `SecAuditEngine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditMode {
    /// Each transaction is logged.
    On,
    /// No transaction is logged.
    Off,
    /// A transaction is logged if a rule asks for it, or if its status is relevant.
    RelevantOnly,
}

/// The settings of the audit log.
#[derive(Clone)]
pub struct Audit {
    /// The value of `SecAuditEngine`.
    pub mode: AuditMode,
    /// `SecAuditLog`: the file.
    pub log: String,
    /// The value of `SecAuditLogParts`.
    pub parts: String,
    pub(crate) relevant_status: Option<Arc<Pattern>>,
    /// True for `SecAuditLogFormat JSON`.
    pub json: bool,
    /// The value of `SecAuditLogType`.
    pub kind: String,
    /// The value of `SecAuditLogStorageDir`.
    pub folder: String,
}

/// The settings of a rule set.
#[derive(Clone)]
pub struct Settings {
    /// The value of `SecRuleEngine`.
    pub mode: Mode,
    /// The value of `SecRequestBodyAccess`.
    pub request_body: bool,
    /// `SecRequestBodyLimit`, in bytes.
    pub request_body_bytes_max: usize,
    /// `SecRequestBodyNoFilesLimit`, in bytes.
    pub request_body_no_files_bytes_max: usize,
    /// The value of `SecRequestBodyLimitAction`.
    pub request_body_limit_action: LimitAction,
    /// The value of `SecRequestBodyJsonDepthLimit`.
    pub json_depth_max: usize,
    /// The value of `SecResponseBodyAccess`.
    pub response_body: bool,
    /// `SecResponseBodyLimit`, in bytes.
    pub response_body_bytes_max: usize,
    /// The value of `SecResponseBodyLimitAction`.
    pub response_body_limit_action: LimitAction,
    /// `SecResponseBodyMimeType`, in lower case; `null` stands for a response without a type.
    pub response_body_types: Vec<String>,
    /// The value of `SecArgumentsLimit`.
    pub arguments_max: usize,
    /// The value of `SecArgumentSeparator`.
    pub argument_separator: u8,
    /// The value of `SecUploadFileLimit`.
    pub files_max: usize,
    /// True for `SecCookieFormat 1`: separators as in version 1 of cookies.
    pub cookies_version_1: bool,
    /// `SecCollectionTimeout`, in seconds.
    pub collection_timeout: u64,
    pub(crate) unicode_map: Option<Arc<UnicodeMap>>,
    /// The settings of the audit log.
    pub audit: Audit,
    /// `SecComponentSignature`, each in its turn.
    pub signatures: Vec<String>,
    /// The value of `SecWebAppId`.
    pub web_app_id: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: Mode::Off,
            request_body: false,
            request_body_bytes_max: 128 << 20,
            request_body_no_files_bytes_max: 1 << 20,
            request_body_limit_action: LimitAction::Reject,
            json_depth_max: 10_000,
            response_body: false,
            response_body_bytes_max: 512 << 10,
            response_body_limit_action: LimitAction::Reject,
            response_body_types: ["text/plain", "text/html", "text/xml"].map(str::to_owned).to_vec(),
            arguments_max: ARGUMENTS_MAX,
            argument_separator: b'&',
            files_max: 100,
            cookies_version_1: false,
            collection_timeout: 3_600,
            unicode_map: None,
            audit: Audit {
                mode: AuditMode::Off,
                log: String::new(),
                parts: "ABCFHZ".to_owned(),
                relevant_status: None,
                json: false,
                kind: "Serial".to_owned(),
                folder: String::new(),
            },
            signatures: Vec::new(),
            web_app_id: "default".to_owned(),
        }
    }
}
