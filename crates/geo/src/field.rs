//! The values that texts can have of a database: ingress-nginx's variables `$geoip2_*`.

use maxminddb::PathElement::{self, Index, Key};
use serde::{Serialize, Serializer};

use crate::edition::Kind;

/// A place in the records of databases: one entry for each variable.
macro_rules! fields {
    ($($name:literal => $variant:ident, $kinds:expr, $path:expr, $default:expr, $doc:literal;)*) => {
        /// A value of a database.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Field {
            $(#[doc = $doc] $variant,)*
        }

        /// The names of the variables and what they stand for, for the documentation.
        pub const FIELDS: &[(&str, &str)] = &[$(($name, $doc),)*];

        impl Field {
            /// The field of a variable, by its name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name of the variable.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The kinds of databases that have the value, the preferred one first.
            pub(crate) fn kinds(self) -> &'static [Kind] {
                match self {
                    $(Self::$variant => $kinds,)*
                }
            }

            /// The place of the value in a record.
            pub(crate) fn path(self) -> &'static [PathElement<'static>] {
                match self {
                    $(Self::$variant => $path,)*
                }
            }

            /// The value where a database has none for the address.
            pub(crate) fn default(self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => $default,)*
                }
            }
        }
    };
}

const OF_COUNTRY: &[Kind] = &[Kind::Country, Kind::City];
const OF_CITY: &[Kind] = &[Kind::City];
const OF_CITY_FIRST: &[Kind] = &[Kind::City, Kind::Country];
const OF_SYSTEM: &[Kind] = &[Kind::Asn, Kind::Isp];

fields! {
    "geoip2_country_code" => CountryCode, OF_COUNTRY, &[Key("country"), Key("iso_code")], None, "Code of the country by ISO 3166-1, such as `DE`.";
    "geoip2_country_name" => CountryName, OF_COUNTRY, &[Key("country"), Key("names"), Key("en")], None, "Name of the country in English.";
    "geoip2_country_geoname_id" => CountryGeonameId, OF_COUNTRY, &[Key("country"), Key("geoname_id")], None, "Number of the country in `GeoNames`.";
    "geoip2_continent_code" => ContinentCode, OF_COUNTRY, &[Key("continent"), Key("code")], None, "Code of the continent, such as `EU`.";
    "geoip2_continent_name" => ContinentName, OF_COUNTRY, &[Key("continent"), Key("names"), Key("en")], None, "Name of the continent in English.";
    "geoip2_continent_geoname_id" => ContinentGeonameId, OF_COUNTRY, &[Key("continent"), Key("geoname_id")], None, "Number of the continent in `GeoNames`.";
    "geoip2_city_country_code" => CityCountryCode, OF_CITY_FIRST, &[Key("country"), Key("iso_code")], None, "Code of the country, of the database of cities.";
    "geoip2_city_country_name" => CityCountryName, OF_CITY_FIRST, &[Key("country"), Key("names"), Key("en")], None, "Name of the country, of the database of cities.";
    "geoip2_city_country_geoname_id" => CityCountryGeonameId, OF_CITY_FIRST, &[Key("country"), Key("geoname_id")], None, "Number of the country in `GeoNames`, of the database of cities.";
    "geoip2_city_continent_code" => CityContinentCode, OF_CITY_FIRST, &[Key("continent"), Key("code")], None, "Code of the continent, of the database of cities.";
    "geoip2_city_continent_name" => CityContinentName, OF_CITY_FIRST, &[Key("continent"), Key("names"), Key("en")], None, "Name of the continent, of the database of cities.";
    "geoip2_city" => City, OF_CITY, &[Key("city"), Key("names"), Key("en")], None, "Name of the city in English.";
    "geoip2_city_geoname_id" => CityGeonameId, OF_CITY, &[Key("city"), Key("geoname_id")], None, "Number of the city in `GeoNames`.";
    "geoip2_postal_code" => PostalCode, OF_CITY, &[Key("postal"), Key("code")], None, "Postal code.";
    "geoip2_dma_code" => DmaCode, OF_CITY, &[Key("location"), Key("metro_code")], None, "Code of the media market, in the United States.";
    "geoip2_latitude" => Latitude, OF_CITY, &[Key("location"), Key("latitude")], None, "Latitude with five decimals.";
    "geoip2_longitude" => Longitude, OF_CITY, &[Key("location"), Key("longitude")], None, "Longitude with five decimals.";
    "geoip2_time_zone" => TimeZone, OF_CITY, &[Key("location"), Key("time_zone")], None, "Time zone, such as `Europe/Berlin`.";
    "geoip2_region_code" => RegionCode, OF_CITY, &[Key("subdivisions"), Index(0), Key("iso_code")], None, "Code of the region by ISO 3166-2, without the country.";
    "geoip2_region_name" => RegionName, OF_CITY, &[Key("subdivisions"), Index(0), Key("names"), Key("en")], None, "Name of the region in English.";
    "geoip2_region_geoname_id" => RegionGeonameId, OF_CITY, &[Key("subdivisions"), Index(0), Key("geoname_id")], None, "Number of the region in `GeoNames`.";
    "geoip2_subregion_code" => SubregionCode, OF_CITY, &[Key("subdivisions"), Index(1), Key("iso_code")], None, "Code of the part of the region.";
    "geoip2_subregion_name" => SubregionName, OF_CITY, &[Key("subdivisions"), Index(1), Key("names"), Key("en")], None, "Name of the part of the region in English.";
    "geoip2_subregion_geoname_id" => SubregionGeonameId, OF_CITY, &[Key("subdivisions"), Index(1), Key("geoname_id")], None, "Number of the part of the region in `GeoNames`.";
    "geoip2_asn" => Asn, OF_SYSTEM, &[Key("autonomous_system_number")], None, "Number of the autonomous system.";
    "geoip2_org" => Org, OF_SYSTEM, &[Key("autonomous_system_organization")], None, "Organisation of the autonomous system.";
    "geoip2_isp" => Isp, &[Kind::Isp], &[Key("isp")], None, "Name of the internet provider.";
    "geoip2_isp_org" => IspOrg, &[Kind::Isp], &[Key("organization")], None, "Organisation that uses the address.";
    "geoip2_is_anon" => IsAnon, &[Kind::Anonymous], &[Key("is_anonymous")], None, "`1` where the address belongs to any network for anonymity.";
    "geoip2_is_anonymous" => IsAnonymous, &[Kind::Anonymous], &[Key("is_anonymous")], Some("0"), "The same, and `0` where it does not.";
    "geoip2_is_anonymous_vpn" => IsAnonymousVpn, &[Kind::Anonymous], &[Key("is_anonymous_vpn")], Some("0"), "`1` for a VPN that hides its users, otherwise `0`.";
    "geoip2_is_hosting_provider" => IsHostingProvider, &[Kind::Anonymous], &[Key("is_hosting_provider")], Some("0"), "`1` for a hosting provider, otherwise `0`.";
    "geoip2_is_public_proxy" => IsPublicProxy, &[Kind::Anonymous], &[Key("is_public_proxy")], Some("0"), "`1` for a public proxy, otherwise `0`.";
    "geoip2_is_tor_exit_node" => IsTorExitNode, &[Kind::Anonymous], &[Key("is_tor_exit_node")], Some("0"), "`1` for an exit node of Tor, otherwise `0`.";
    "geoip2_connection_type" => ConnectionType, &[Kind::ConnectionType], &[Key("connection_type")], None, "Type of the connection, such as `Cable/DSL`.";
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_field() {
        for (name, _) in FIELDS {
            assert_eq!(Field::named(name).unwrap().name(), *name);
        }
        assert_eq!(Field::named("geoip2_planet"), None);
    }
}
