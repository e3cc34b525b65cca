//! The features of the Gateway API that our `GatewayClass`es report, and the release that they belong to.

/// Major and minor number of the newest known release.
pub(super) const RELEASE: (u32, u32) = (1, 6);

/// The specification's names of features, in the order that it requires.
const FEATURES: [&str; 52] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
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
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
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

/// The features that version 1.7 of the specification has beyond these.
const NEXT_FEATURES: [&str; 3] =
    ["GRPCRouteRequestHeaderModifier", "HTTPRouteBackendURLRewrite", "HTTPRouteRetryCodes"];

/// The features that it no longer has.
const PAST_FEATURES: [&str; 2] = ["HTTPRouteRetry", "HTTPRouteRetryBackendTimeout"];

/// The features for CRDs of a release, which may be newer than the newest known one.
pub(super) fn supported(is_newer: bool) -> Vec<&'static str> {
    if !is_newer {
        return FEATURES.to_vec();
    }
    let kept = FEATURES.into_iter().filter(|name| !PAST_FEATURES.contains(name));
    let mut names: Vec<_> = kept.chain(NEXT_FEATURES).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_sorted() {
        assert!(FEATURES.is_sorted() && supported(true).is_sorted());
        assert_eq!(supported(false), FEATURES);
        assert_eq!(supported(true).len(), FEATURES.len() + NEXT_FEATURES.len() - PAST_FEATURES.len());
    }
}
