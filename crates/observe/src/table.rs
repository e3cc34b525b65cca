//! Enums as tables: each variant has a name that users see, and a meaning.

macro_rules! table {
    ($(#[$meta:meta])* $enum:ident { $($name:literal => $variant:ident, $doc:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $enum {
            $(#[doc = $doc] $variant,)*
        }

        impl $enum {
            /// All variants, in the order of their discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in metrics and logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The meaning, for the documentation.
            pub fn doc(self) -> &'static str {
                match self {
                    $(Self::$variant => $doc.trim_ascii(),)*
                }
            }
        }
    };
}
