//! Directives that change one setting.
//!
//! Never in here: rules.

use std::sync::Arc;

use super::effects::{audit_mode, mode, on};
use super::values::number;
use crate::operators::{Pattern, Reading};
use crate::seclang::Files;
use crate::seclang::directives::Setting;
use crate::seclang::lexer::Line;
use crate::settings::{LimitAction, Settings};
use crate::transform::UnicodeMap;

/// Changes a setting. A fault is about the first word.
pub(super) fn apply(
    settings: &mut Settings,
    setting: Setting,
    line: &Line,
    files: &dyn Files,
    from: &str,
) -> Result<(), String> {
    let words: Vec<&str> = line.words.iter().map(|word| word.text.trim()).collect();
    let value = match (setting, words.first()) {
        (Setting::ResponseBodyMimeTypesClear, _) => "",
        (_, Some(value)) => value,
        (_, None) => return Err(format!("{} needs a value", line.name.text)),
    };
    match setting {
        Setting::RuleEngine => settings.mode = mode(value)?,
        Setting::RequestBodyAccess => settings.request_body = on(value)?,
        Setting::RequestBodyLimit => settings.request_body_bytes_max = number(value)?,
        Setting::RequestBodyNoFilesLimit => settings.request_body_no_files_bytes_max = number(value)?,
        Setting::RequestBodyLimitAction => settings.request_body_limit_action = limit_action(value)?,
        Setting::JsonDepthLimit => settings.json_depth_max = number(value)?,
        Setting::ResponseBodyAccess => settings.response_body = on(value)?,
        Setting::ResponseBodyLimit => settings.response_body_bytes_max = number(value)?,
        Setting::ResponseBodyLimitAction => settings.response_body_limit_action = limit_action(value)?,
        Setting::ResponseBodyMimeType => add_types(settings, &words),
        Setting::ResponseBodyMimeTypesClear => settings.response_body_types.clear(),
        Setting::ArgumentsLimit => settings.arguments_max = number(value)?,
        Setting::ArgumentSeparator => settings.argument_separator = one_byte(value)?,
        Setting::UploadFileLimit => settings.files_max = number(value)?,
        Setting::CookieFormat => settings.cookies_version_1 = number::<u8>(value)? == 1,
        Setting::CollectionTimeout => settings.collection_timeout = number(value)?,
        Setting::UnicodeMapFile => {
            settings.unicode_map = Some(Arc::new(unicode_map(&words, files, from)?));
        }
        Setting::ComponentSignature => settings.signatures.push(value.to_owned()),
        Setting::WebAppId => value.clone_into(&mut settings.web_app_id),
        _ => audit(settings, setting, value)?,
    }
    Ok(())
}

fn audit(settings: &mut Settings, setting: Setting, value: &str) -> Result<(), String> {
    let audit = &mut settings.audit;
    match setting {
        Setting::AuditEngine => audit.mode = audit_mode(value)?,
        Setting::AuditLog => value.clone_into(&mut audit.log),
        Setting::AuditLogParts => value.clone_into(&mut audit.parts),
        Setting::AuditLogRelevantStatus => {
            // The usual value has look-ahead, and three digits take few steps.
            let reading = Reading { steps_back: true, ..Reading::default() };
            let pattern = Pattern::new(value, reading).map_err(|fault| fault.message)?;
            audit.relevant_status = Some(Arc::new(pattern));
        }
        Setting::AuditLogFormat => audit.json = value.eq_ignore_ascii_case("JSON"),
        Setting::AuditLogType => value.clone_into(&mut audit.kind),
        Setting::AuditLogStorageDir => value.clone_into(&mut audit.folder),
        _ => {}
    }
    Ok(())
}

/// `null` is the name that ModSecurity has for a response without a type.
fn add_types(settings: &mut Settings, words: &[&str]) {
    settings.response_body_types =
        words.iter().flat_map(|word| word.split_whitespace()).map(str::to_ascii_lowercase).collect();
}

fn limit_action(text: &str) -> Result<LimitAction, String> {
    match text.to_ascii_lowercase().as_str() {
        "reject" => Ok(LimitAction::Reject),
        "processpartial" => Ok(LimitAction::ProcessPartial),
        _ => Err(format!("{text} is neither Reject nor ProcessPartial")),
    }
}

fn one_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(format!("{text} is not one byte")),
    }
}

/// A file that is not there is no fault for the code page of ASCII, which is known without it.
fn unicode_map(words: &[&str], files: &dyn Files, from: &str) -> Result<UnicodeMap, String> {
    let [file, code_page] = words else { return Err("a file and a code page are needed".to_owned()) };
    let code_page = number(code_page)?;
    match files.read(file, from) {
        Ok(content) => UnicodeMap::parse(&String::from_utf8_lossy(&content), code_page),
        Err(_) if code_page == 20127 => Ok(UnicodeMap::ascii()),
        Err(error) => Err(error),
    }
}
