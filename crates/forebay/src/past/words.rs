//! Names of kinds of events, and the words around findings of the past, in both languages.
//!
//! Must not be in here: layout.

use record::kind;

use crate::language::Language;

/// The words around findings, each with what stands between it and what follows.
pub(super) struct Words {
    pub(super) evidence: &'static str,
    pub(super) cause: &'static str,
    pub(super) remedy: &'static str,
    pub(super) before: &'static str,
    pub(super) noticed: &'static str,
    pub(super) nothing_changed: &'static str,
    pub(super) see: &'static str,
}

impl Words {
    const ENGLISH: Words = Words {
        evidence: "evidence: ",
        cause: "cause:    ",
        remedy: "remedy:   ",
        before: "before:   ",
        noticed: "noticed:  ",
        nothing_changed: "no change is recorded in the five minutes before",
        see: "see:      ",
    };
    const CHINESE: Words = Words {
        evidence: "数据：    ",
        cause: "原因：    ",
        remedy: "处理：    ",
        before: "此前：    ",
        noticed: "另外：    ",
        nothing_changed: "此前五分钟内没有记录到任何变更",
        see: "详见：    ",
    };

    pub(super) const fn of(language: Language) -> Words {
        match language {
            Language::En => Words::ENGLISH,
            Language::Zh => Words::CHINESE,
        }
    }
}

/// The name of a kind of events; as it is where it is not known.
pub(super) fn kind_name(kind: &str, language: Language) -> &str {
    if language == Language::En {
        return kind;
    }
    match kind {
        kind::CONFIGURATION => "配置",
        kind::CERTIFICATE => "证书",
        kind::KUBERNETES => "Kubernetes 事件",
        kind::EJECTION => "端点剔除",
        kind::SHED => "拒绝请求",
        kind::START => "启动",
        kind::KILLED => "被终止",
        kind::STOP => "停止",
        kind::PANIC => "崩溃",
        kind::BAND_LEFT => "超出常见范围",
        other => other,
    }
}
