//! The table of directives.
//!
//! Never in here: what a directive does.

/// The kind of a directive: what is done with its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rule,
    Action,
    Marker,
    DefaultAction,
    UpdateTargetById,
    UpdateTargetByTag,
    UpdateTargetByMsg,
    UpdateActionById,
    RemoveById,
    RemoveByTag,
    RemoveByMsg,
    Include,
    Setting(Setting),
    /// Accepted without effect.
    Accepted,
    /// Refused, with the reason.
    Refused(&'static str),
}

/// A directive that changes one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    RuleEngine,
    RequestBodyAccess,
    RequestBodyLimit,
    RequestBodyNoFilesLimit,
    RequestBodyLimitAction,
    JsonDepthLimit,
    ResponseBodyAccess,
    ResponseBodyLimit,
    ResponseBodyLimitAction,
    ResponseBodyMimeType,
    ResponseBodyMimeTypesClear,
    ArgumentsLimit,
    ArgumentSeparator,
    UploadFileLimit,
    CookieFormat,
    CollectionTimeout,
    UnicodeMapFile,
    AuditEngine,
    AuditLog,
    AuditLogParts,
    AuditLogRelevantStatus,
    AuditLogFormat,
    AuditLogType,
    AuditLogStorageDir,
    ComponentSignature,
    WebAppId,
}

/// An entry of the table of directives.
pub struct Entry {
    /// The name; names are compared without regard to case.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub doc: &'static str,
    pub(crate) kind: Kind,
}

const fn entry(name: &'static str, kind: Kind, doc: &'static str) -> Entry {
    Entry { name, doc, kind }
}

const fn setting(name: &'static str, kind: Setting, doc: &'static str) -> Entry {
    Entry { name, doc, kind: Kind::Setting(kind) }
}

const fn accepted(name: &'static str, doc: &'static str) -> Entry {
    Entry { name, doc, kind: Kind::Accepted }
}

/// All directives that a source may have.
pub const DIRECTIVES: &[Entry] = &[
    entry("Include", Kind::Include, "reads rules from files"),
    entry("SecAction", Kind::Action, "actions that are always taken"),
    setting("SecArgumentSeparator", Setting::ArgumentSeparator, "byte between two arguments of a form"),
    setting("SecArgumentsLimit", Setting::ArgumentsLimit, "number of arguments that are read"),
    setting("SecAuditEngine", Setting::AuditEngine, "which transactions the audit log has"),
    setting("SecAuditLog", Setting::AuditLog, "file of the audit log"),
    accepted("SecAuditLog2", "no effect: there is one audit log"),
    accepted("SecAuditLogDirMode", "no effect: the audit log is one file"),
    accepted("SecAuditLogFileMode", "no effect: the audit log is one file"),
    setting("SecAuditLogFormat", Setting::AuditLogFormat, "JSON or Native"),
    setting("SecAuditLogParts", Setting::AuditLogParts, "parts of an entry of the audit log"),
    accepted("SecAuditLogPrefix", "no effect: entries have no prefix"),
    setting(
        "SecAuditLogRelevantStatus",
        Setting::AuditLogRelevantStatus,
        "expression for statuses that the audit log has",
    ),
    setting("SecAuditLogStorageDir", Setting::AuditLogStorageDir, "folder of a concurrent audit log"),
    setting("SecAuditLogType", Setting::AuditLogType, "Serial, Concurrent or HTTPS"),
    accepted("SecCacheTransformations", "no effect: a transformation is made once"),
    accepted("SecChrootDir", "no effect"),
    setting("SecCollectionTimeout", Setting::CollectionTimeout, "seconds that an unused collection is kept"),
    setting("SecComponentSignature", Setting::ComponentSignature, "name of a rule set for the audit log"),
    accepted("SecConnEngine", "no effect: connections have limits of their own"),
    accepted("SecConnReadStateLimit", "no effect: connections have limits of their own"),
    accepted("SecConnWriteStateLimit", "no effect: connections have limits of their own"),
    accepted("SecContentInjection", "no effect: responses are not changed"),
    setting("SecCookieFormat", Setting::CookieFormat, "version of the cookies' syntax"),
    accepted("SecCookieV0Separator", "no effect"),
    accepted("SecDataDir", "no effect: collections are in memory"),
    accepted("SecDebugLog", "no effect: there is no debug log"),
    accepted("SecDebugLogLevel", "no effect: there is no debug log"),
    entry("SecDefaultAction", Kind::DefaultAction, "actions that the rules of a phase inherit"),
    accepted("SecDisableBackendCompression", "no effect"),
    accepted("SecGeoLookupDB", "no effect: @geoLookup never matches"),
    accepted("SecGeoLookupDb", "no effect: @geoLookup never matches"),
    accepted("SecGsbLookupDb", "no effect: @gsbLookup never matches"),
    accepted("SecGuardianLog", "no effect"),
    accepted("SecHashEngine", "no effect: responses are not signed"),
    accepted("SecHashKey", "no effect: responses are not signed"),
    accepted("SecHashMethodPm", "no effect: responses are not signed"),
    accepted("SecHashMethodRx", "no effect: responses are not signed"),
    accepted("SecHashParam", "no effect: responses are not signed"),
    accepted("SecHttpBlKey", "no effect: names are not looked up"),
    accepted("SecInterceptOnError", "no effect: operators do not fail"),
    entry("SecMarker", Kind::Marker, "a place that skipAfter names"),
    accepted("SecPcreMatchLimit", "no effect: steps back have a bound of their own"),
    accepted("SecPcreMatchLimitRecursion", "no effect: steps back have a bound of their own"),
    entry("SecRemoteRules", Kind::Refused("rules are not fetched"), "rules from an address"),
    accepted("SecRemoteRulesFailAction", "no effect: rules are not fetched"),
    setting("SecRequestBodyAccess", Setting::RequestBodyAccess, "whether rules see bodies of requests"),
    accepted("SecRequestBodyInMemoryLimit", "no effect: bodies are not written to files"),
    setting("SecRequestBodyJsonDepthLimit", Setting::JsonDepthLimit, "depth of JSON that is read"),
    setting("SecRequestBodyLimit", Setting::RequestBodyLimit, "bytes of a request body"),
    setting("SecRequestBodyLimitAction", Setting::RequestBodyLimitAction, "Reject or ProcessPartial"),
    setting(
        "SecRequestBodyNoFilesLimit",
        Setting::RequestBodyNoFilesLimit,
        "bytes of a request body without its files",
    ),
    setting("SecResponseBodyAccess", Setting::ResponseBodyAccess, "whether rules see bodies of responses"),
    setting("SecResponseBodyLimit", Setting::ResponseBodyLimit, "bytes of a response body"),
    setting("SecResponseBodyLimitAction", Setting::ResponseBodyLimitAction, "Reject or ProcessPartial"),
    setting("SecResponseBodyMimeType", Setting::ResponseBodyMimeType, "types of bodies that rules see"),
    setting(
        "SecResponseBodyMimeTypesClear",
        Setting::ResponseBodyMimeTypesClear,
        "forgets the types of bodies that rules see",
    ),
    entry("SecRule", Kind::Rule, "a rule: targets, operator, actions"),
    setting("SecRuleEngine", Setting::RuleEngine, "On, DetectionOnly or Off"),
    accepted("SecRuleInheritance", "no effect"),
    accepted("SecRulePerfTime", "no effect"),
    entry("SecRuleRemoveById", Kind::RemoveById, "removes rules by id or by a range of ids"),
    entry("SecRuleRemoveByMsg", Kind::RemoveByMsg, "removes rules by their message"),
    entry("SecRuleRemoveByTag", Kind::RemoveByTag, "removes rules by a tag"),
    entry("SecRuleScript", Kind::Refused("rules run no programs"), "a rule as a program"),
    entry("SecRuleUpdateActionById", Kind::UpdateActionById, "changes actions of a rule"),
    entry("SecRuleUpdateTargetById", Kind::UpdateTargetById, "changes targets of rules by id"),
    entry("SecRuleUpdateTargetByMsg", Kind::UpdateTargetByMsg, "changes targets of rules by their message"),
    entry("SecRuleUpdateTargetByTag", Kind::UpdateTargetByTag, "changes targets of rules by a tag"),
    accepted("SecSensorId", "no effect"),
    accepted("SecServerSignature", "no effect: the proxy's header Server is a setting of its own"),
    accepted("SecStatusEngine", "no effect: nothing is reported to others"),
    accepted("SecStreamInBodyInspection", "no effect"),
    accepted("SecStreamOutBodyInspection", "no effect"),
    accepted("SecTmpDir", "no effect: no file is written"),
    accepted("SecTmpSaveUploadedFiles", "no effect: no file is written"),
    setting("SecUnicodeMapFile", Setting::UnicodeMapFile, "file and code page for urlDecodeUni"),
    accepted("SecUnicodeCodePage", "no effect: SecUnicodeMapFile has the code page"),
    accepted("SecUploadDir", "no effect: no file is written"),
    setting("SecUploadFileLimit", Setting::UploadFileLimit, "number of files of a multipart body"),
    accepted("SecUploadFileMode", "no effect: no file is written"),
    accepted("SecUploadKeepFiles", "no effect: no file is written"),
    setting("SecWebAppId", Setting::WebAppId, "value of WEBAPPID"),
    accepted("SecXmlExternalEntity", "no effect: entities are never read"),
    accepted("SecParseXmlIntoArgs", "no effect: XML is in XML:/* only"),
];

/// Finds a directive by its name.
pub(crate) fn named(name: &str) -> Option<&'static Entry> {
    DIRECTIVES.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}
