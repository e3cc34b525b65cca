//! The features of the Gateway API that our `GatewayClass`es report, and the release that they belong to.

/// Major and minor number of the newest known release.
pub(super) const RELEASE: (u32, u32) = (1, 7);

/// The specification's names of features, in the order that it requires.
const FEATURES: [&str; 54] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "GRPCRouteRequestHeaderModifier",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
    "GatewayPort8080",
    "GatewayRouteHostnameIntersectionPrecedence",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteExternalAuth",
    "HTTPRouteExternalAuthForwardBody",
    "HTTPRouteExternalAuthGRPC",
    "HTTPRouteExternalAuthHTTP",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetryCodes",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

/// The features that version 1.7 has beyond the versions before.
const NEW_FEATURES: [&str; 4] = [
    "GRPCRouteRequestHeaderModifier",
    "GatewayRouteHostnameIntersectionPrecedence",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteRetryCodes",
];

/// The features that it no longer has.
const PAST_FEATURES: [&str; 2] = ["HTTPRouteRetry", "HTTPRouteRetryBackendTimeout"];

/// The features for CRDs of a release, by its minor number, since each release has its own names. Releases
/// that are not known have those of the newest known one.
pub(super) fn supported(minor: Option<u32>) -> Vec<&'static str> {
    if minor.is_none_or(|minor| minor >= RELEASE.1) {
        return FEATURES.to_vec();
    }
    let kept = FEATURES.into_iter().filter(|name| !NEW_FEATURES.contains(name));
    let mut names: Vec<_> = kept.chain(PAST_FEATURES).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_sorted() {
        for minor in [None, Some(0), Some(6), Some(7), Some(8)] {
            assert!(supported(minor).is_sorted(), "{minor:?}");
        }
    }

    #[test]
    fn older_crds_have_the_names_of_their_release() {
        assert_eq!(supported(None), FEATURES);
        assert_eq!(supported(Some(8)), FEATURES);
        let of_six = supported(Some(6));
        assert_eq!(of_six.len(), FEATURES.len() - NEW_FEATURES.len() + PAST_FEATURES.len());
        for (name, is_new) in [("HTTPRouteRetryCodes", true), ("HTTPRouteRetry", false), ("TLSRoute", false)]
        {
            assert_eq!(of_six.contains(&name), !is_new, "{name}");
        }
    }
}
