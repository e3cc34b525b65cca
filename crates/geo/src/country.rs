//! Countries by their codes.

use std::fmt;

use serde::{Serialize, Serializer};

/// The code of a country by ISO 3166-1, in upper case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country([u8; 2]);

/// A text is not the code of a country.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCountry {
    /// The text has no letters.
    #[error("a country is missing: codes of ISO 3166-1 are separated by commas, such as \"DE,AT\"")]
    Empty,
    /// No country has the code.
    #[error("{0:?} is not the code of a country by ISO 3166-1, such as DE")]
    Unknown(String),
    /// No country has the code, and another one may be meant.
    #[error("{text:?} is not the code of a country by ISO 3166-1; did you mean {code} ({name})?")]
    Similar {
        /// The text that is not a code.
        text: String,
        /// The code that may be meant.
        code: &'static str,
        /// The name of that country.
        name: &'static str,
    },
}

/// Texts that people write for a code, each with the code.
const USUAL: &[(&str, &str)] =
    &[("EL", "GR"), ("EN", "GB"), ("ENGLAND", "GB"), ("HOLLAND", "NL"), ("UK", "GB"), ("USA", "US")];

/// Likeness of a name from which on it may be meant.
const LIKENESS_MIN: f64 = 0.85;

impl Country {
    /// Number of codes that two letters can make.
    pub const CODES: usize = 26 * 26;

    /// The country with a code in upper or lower case.
    ///
    /// # Errors
    ///
    /// No country has the code.
    pub fn parse(text: &str) -> Result<Self, InvalidCountry> {
        let upper = text.to_ascii_uppercase();
        match Self::of_code(&upper) {
            Some(country) if country.name().is_some() => Ok(country),
            _ => Err(invalid(text, &upper)),
        }
    }

    /// Two letters in upper case, whether or not a country has them as its code: a database may be newer than
    /// this table.
    pub fn of_code(code: &str) -> Option<Self> {
        let code: [u8; 2] = code.as_bytes().try_into().ok()?;
        code.iter().all(u8::is_ascii_uppercase).then_some(Self(code))
    }

    /// The country with a position among all codes.
    pub fn at(index: usize) -> Option<Self> {
        let letter = |number: usize| u8::try_from(number).ok().map(|number| b'A' + number);
        (index < Self::CODES).then_some(Self([letter(index / 26)?, letter(index % 26)?]))
    }

    /// The position of the code among all that two letters can make.
    pub fn index(self) -> usize {
        let [first, second] = self.0.map(|letter| usize::from(letter - b'A'));
        first * 26 + second
    }

    /// The code, two letters in upper case.
    pub fn code(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The usual name in English; none if no country has the code.
    pub fn name(self) -> Option<&'static str> {
        let at = NAMES.binary_search_by_key(&self.code(), |(code, _)| code).ok()?;
        Some(NAMES[at].1)
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Country {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

fn invalid(text: &str, upper: &str) -> InvalidCountry {
    if text.is_empty() {
        return InvalidCountry::Empty;
    }
    let usual = USUAL.iter().find(|(known, _)| *known == upper).map(|(_, code)| *code);
    let likeness = |name: &str| strsim::jaro_winkler(&name.to_ascii_uppercase(), upper);
    let named = || {
        let best = NAMES.iter().max_by(|a, b| likeness(a.1).total_cmp(&likeness(b.1)))?;
        (upper.len() > 2 && likeness(best.1) >= LIKENESS_MIN).then_some(best.0)
    };
    let found = usual.or_else(named).and_then(|code| NAMES.iter().find(|(known, _)| *known == code));
    match found {
        Some((code, name)) => InvalidCountry::Similar { text: text.to_owned(), code, name },
        None => InvalidCountry::Unknown(text.to_owned()),
    }
}

/// Codes and usual names in English: those of ISO 3166-1, and `XK`, which databases have for Kosovo.
pub const NAMES: &[(&str, &str)] = &[
    ("AD", "Andorra"),
    ("AE", "United Arab Emirates"),
    ("AF", "Afghanistan"),
    ("AG", "Antigua and Barbuda"),
    ("AI", "Anguilla"),
    ("AL", "Albania"),
    ("AM", "Armenia"),
    ("AO", "Angola"),
    ("AQ", "Antarctica"),
    ("AR", "Argentina"),
    ("AS", "American Samoa"),
    ("AT", "Austria"),
    ("AU", "Australia"),
    ("AW", "Aruba"),
    ("AX", "Åland Islands"),
    ("AZ", "Azerbaijan"),
    ("BA", "Bosnia and Herzegovina"),
    ("BB", "Barbados"),
    ("BD", "Bangladesh"),
    ("BE", "Belgium"),
    ("BF", "Burkina Faso"),
    ("BG", "Bulgaria"),
    ("BH", "Bahrain"),
    ("BI", "Burundi"),
    ("BJ", "Benin"),
    ("BL", "Saint Barthélemy"),
    ("BM", "Bermuda"),
    ("BN", "Brunei"),
    ("BO", "Bolivia"),
    ("BQ", "Bonaire, Sint Eustatius and Saba"),
    ("BR", "Brazil"),
    ("BS", "Bahamas"),
    ("BT", "Bhutan"),
    ("BV", "Bouvet Island"),
    ("BW", "Botswana"),
    ("BY", "Belarus"),
    ("BZ", "Belize"),
    ("CA", "Canada"),
    ("CC", "Cocos (Keeling) Islands"),
    ("CD", "DR Congo"),
    ("CF", "Central African Republic"),
    ("CG", "Congo"),
    ("CH", "Switzerland"),
    ("CI", "Côte d'Ivoire"),
    ("CK", "Cook Islands"),
    ("CL", "Chile"),
    ("CM", "Cameroon"),
    ("CN", "China"),
    ("CO", "Colombia"),
    ("CR", "Costa Rica"),
    ("CU", "Cuba"),
    ("CV", "Cabo Verde"),
    ("CW", "Curaçao"),
    ("CX", "Christmas Island"),
    ("CY", "Cyprus"),
    ("CZ", "Czechia"),
    ("DE", "Germany"),
    ("DJ", "Djibouti"),
    ("DK", "Denmark"),
    ("DM", "Dominica"),
    ("DO", "Dominican Republic"),
    ("DZ", "Algeria"),
    ("EC", "Ecuador"),
    ("EE", "Estonia"),
    ("EG", "Egypt"),
    ("EH", "Western Sahara"),
    ("ER", "Eritrea"),
    ("ES", "Spain"),
    ("ET", "Ethiopia"),
    ("FI", "Finland"),
    ("FJ", "Fiji"),
    ("FK", "Falkland Islands"),
    ("FM", "Micronesia"),
    ("FO", "Faroe Islands"),
    ("FR", "France"),
    ("GA", "Gabon"),
    ("GB", "United Kingdom"),
    ("GD", "Grenada"),
    ("GE", "Georgia"),
    ("GF", "French Guiana"),
    ("GG", "Guernsey"),
    ("GH", "Ghana"),
    ("GI", "Gibraltar"),
    ("GL", "Greenland"),
    ("GM", "Gambia"),
    ("GN", "Guinea"),
    ("GP", "Guadeloupe"),
    ("GQ", "Equatorial Guinea"),
    ("GR", "Greece"),
    ("GS", "South Georgia and the South Sandwich Islands"),
    ("GT", "Guatemala"),
    ("GU", "Guam"),
    ("GW", "Guinea-Bissau"),
    ("GY", "Guyana"),
    ("HK", "Hong Kong"),
    ("HM", "Heard and McDonald Islands"),
    ("HN", "Honduras"),
    ("HR", "Croatia"),
    ("HT", "Haiti"),
    ("HU", "Hungary"),
    ("ID", "Indonesia"),
    ("IE", "Ireland"),
    ("IL", "Israel"),
    ("IM", "Isle of Man"),
    ("IN", "India"),
    ("IO", "British Indian Ocean Territory"),
    ("IQ", "Iraq"),
    ("IR", "Iran"),
    ("IS", "Iceland"),
    ("IT", "Italy"),
    ("JE", "Jersey"),
    ("JM", "Jamaica"),
    ("JO", "Jordan"),
    ("JP", "Japan"),
    ("KE", "Kenya"),
    ("KG", "Kyrgyzstan"),
    ("KH", "Cambodia"),
    ("KI", "Kiribati"),
    ("KM", "Comoros"),
    ("KN", "Saint Kitts and Nevis"),
    ("KP", "North Korea"),
    ("KR", "South Korea"),
    ("KW", "Kuwait"),
    ("KY", "Cayman Islands"),
    ("KZ", "Kazakhstan"),
    ("LA", "Laos"),
    ("LB", "Lebanon"),
    ("LC", "Saint Lucia"),
    ("LI", "Liechtenstein"),
    ("LK", "Sri Lanka"),
    ("LR", "Liberia"),
    ("LS", "Lesotho"),
    ("LT", "Lithuania"),
    ("LU", "Luxembourg"),
    ("LV", "Latvia"),
    ("LY", "Libya"),
    ("MA", "Morocco"),
    ("MC", "Monaco"),
    ("MD", "Moldova"),
    ("ME", "Montenegro"),
    ("MF", "Saint Martin"),
    ("MG", "Madagascar"),
    ("MH", "Marshall Islands"),
    ("MK", "North Macedonia"),
    ("ML", "Mali"),
    ("MM", "Myanmar"),
    ("MN", "Mongolia"),
    ("MO", "Macao"),
    ("MP", "Northern Mariana Islands"),
    ("MQ", "Martinique"),
    ("MR", "Mauritania"),
    ("MS", "Montserrat"),
    ("MT", "Malta"),
    ("MU", "Mauritius"),
    ("MV", "Maldives"),
    ("MW", "Malawi"),
    ("MX", "Mexico"),
    ("MY", "Malaysia"),
    ("MZ", "Mozambique"),
    ("NA", "Namibia"),
    ("NC", "New Caledonia"),
    ("NE", "Niger"),
    ("NF", "Norfolk Island"),
    ("NG", "Nigeria"),
    ("NI", "Nicaragua"),
    ("NL", "Netherlands"),
    ("NO", "Norway"),
    ("NP", "Nepal"),
    ("NR", "Nauru"),
    ("NU", "Niue"),
    ("NZ", "New Zealand"),
    ("OM", "Oman"),
    ("PA", "Panama"),
    ("PE", "Peru"),
    ("PF", "French Polynesia"),
    ("PG", "Papua New Guinea"),
    ("PH", "Philippines"),
    ("PK", "Pakistan"),
    ("PL", "Poland"),
    ("PM", "Saint Pierre and Miquelon"),
    ("PN", "Pitcairn"),
    ("PR", "Puerto Rico"),
    ("PS", "Palestine"),
    ("PT", "Portugal"),
    ("PW", "Palau"),
    ("PY", "Paraguay"),
    ("QA", "Qatar"),
    ("RE", "Réunion"),
    ("RO", "Romania"),
    ("RS", "Serbia"),
    ("RU", "Russia"),
    ("RW", "Rwanda"),
    ("SA", "Saudi Arabia"),
    ("SB", "Solomon Islands"),
    ("SC", "Seychelles"),
    ("SD", "Sudan"),
    ("SE", "Sweden"),
    ("SG", "Singapore"),
    ("SH", "Saint Helena, Ascension and Tristan da Cunha"),
    ("SI", "Slovenia"),
    ("SJ", "Svalbard and Jan Mayen"),
    ("SK", "Slovakia"),
    ("SL", "Sierra Leone"),
    ("SM", "San Marino"),
    ("SN", "Senegal"),
    ("SO", "Somalia"),
    ("SR", "Suriname"),
    ("SS", "South Sudan"),
    ("ST", "Sao Tome and Principe"),
    ("SV", "El Salvador"),
    ("SX", "Sint Maarten"),
    ("SY", "Syria"),
    ("SZ", "Eswatini"),
    ("TC", "Turks and Caicos Islands"),
    ("TD", "Chad"),
    ("TF", "French Southern Territories"),
    ("TG", "Togo"),
    ("TH", "Thailand"),
    ("TJ", "Tajikistan"),
    ("TK", "Tokelau"),
    ("TL", "Timor-Leste"),
    ("TM", "Turkmenistan"),
    ("TN", "Tunisia"),
    ("TO", "Tonga"),
    ("TR", "Türkiye"),
    ("TT", "Trinidad and Tobago"),
    ("TV", "Tuvalu"),
    ("TW", "Taiwan"),
    ("TZ", "Tanzania"),
    ("UA", "Ukraine"),
    ("UG", "Uganda"),
    ("UM", "U.S. Outlying Islands"),
    ("US", "United States"),
    ("UY", "Uruguay"),
    ("UZ", "Uzbekistan"),
    ("VA", "Vatican City"),
    ("VC", "Saint Vincent and the Grenadines"),
    ("VE", "Venezuela"),
    ("VG", "British Virgin Islands"),
    ("VI", "U.S. Virgin Islands"),
    ("VN", "Vietnam"),
    ("VU", "Vanuatu"),
    ("WF", "Wallis and Futuna"),
    ("WS", "Samoa"),
    ("XK", "Kosovo"),
    ("YE", "Yemen"),
    ("YT", "Mayotte"),
    ("ZA", "South Africa"),
    ("ZM", "Zambia"),
    ("ZW", "Zimbabwe"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_for_the_search() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (code, name) in NAMES {
            let country = Country::parse(&code.to_ascii_lowercase()).unwrap();
            assert_eq!((country.code(), country.name()), (*code, Some(*name)));
            assert_eq!(Country::at(country.index()), Some(country));
        }
        assert_eq!(Country::at(Country::CODES), None);
    }

    #[test]
    fn a_text_that_is_no_code_is_refused_with_the_code_that_may_be_meant() {
        let told = |text: &str| Country::parse(text).unwrap_err().to_string();
        assert!(told("uk").ends_with("did you mean GB (United Kingdom)?"), "{}", told("uk"));
        assert!(told("Germny").ends_with("did you mean DE (Germany)?"), "{}", told("Germny"));
        assert!(told("ZZ").ends_with("such as DE"), "{}", told("ZZ"));
        assert!(told("").starts_with("a country is missing"));
        assert!(told("D").ends_with("such as DE") && told("€").ends_with("such as DE"));
    }
}
