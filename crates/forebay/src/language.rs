//! The language in which a command speaks to people.
//!
//! Must not be in here: texts.

use clap::ValueEnum;

/// The languages of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// English, the default.
    En,
    /// Chinese in simplified characters.
    Zh,
}

impl Language {
    /// The user's language, or else that of the environment.
    pub(crate) fn chosen(asked_for: Option<Language>) -> Language {
        asked_for.unwrap_or_else(|| Language::from_environment(|name| std::env::var(name).ok()))
    }

    /// The language of the messages' locale (setlocale(3)): the first variable that is set to something
    /// decides.
    fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Language {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set).unwrap_or_default();
        if locale.to_ascii_lowercase().starts_with("zh") { Language::Zh } else { Language::En }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_of_messages_decides() {
        let of = |set: &[(&str, &str)]| {
            Language::from_environment(|name| {
                let (_, value) = set.iter().find(|(known, _)| *known == name)?;
                Some((*value).to_owned())
            })
        };
        assert_eq!(of(&[]), Language::En);
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8")]), Language::Zh);
        assert_eq!(of(&[("LANG", "C.UTF-8")]), Language::En);
        assert_eq!(of(&[("LC_CTYPE", "zh_CN.UTF-8")]), Language::En);
        assert_eq!(of(&[("LC_MESSAGES", "zh_TW"), ("LANG", "en_US.UTF-8")]), Language::Zh);
        assert_eq!(of(&[("LC_ALL", "C"), ("LC_MESSAGES", "zh"), ("LANG", "zh_CN.UTF-8")]), Language::En);
        assert_eq!(of(&[("LC_ALL", ""), ("LANG", "zh_CN.UTF-8")]), Language::Zh, "empty is not set");
    }

    #[test]
    fn what_was_asked_for_decides_over_the_environment() {
        for language in [Language::En, Language::Zh] {
            assert_eq!(Language::chosen(Some(language)), language);
        }
    }
}
