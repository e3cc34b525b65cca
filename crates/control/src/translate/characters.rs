//! The characters that ingress-nginx accepts in values.

/// The characters of a name, besides letters and digits.
pub(super) const NAME: &str = "-._~/:";

/// Whether a text consists of letters, digits and the given characters.
pub(super) fn consists_of(text: &str, others: &[&str]) -> bool {
    let is_other = |character| others.iter().any(|others| others.contains(character));
    text.chars().all(|character| character.is_ascii_alphanumeric() || is_other(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_characters_add_up() {
        assert!(consists_of("/a-b_1", &[NAME]) && !consists_of("/$1", &[NAME]));
        assert!(consists_of("/$1", &[NAME, "$"]) && !consists_of("/a b", &[NAME]));
        assert!(!consists_of("/\u{e9}", &[NAME]));
    }
}
