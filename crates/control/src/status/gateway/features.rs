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

/// The features of the specification's next release, as far as they are known.
const NEXT_FEATURES: [&str; 4] = [
    "GRPCRouteRequestHeaderModifier",
    "HTTPRouteBackendRequestRedirect",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteDirectResponse",
];

/// The features for CRDs of a release, which may be newer than the newest known one.
pub(super) fn supported(is_newer: bool) -> Vec<&'static str> {
    let next = NEXT_FEATURES.into_iter().filter(|_| is_newer);
    let mut names: Vec<_> = FEATURES.into_iter().chain(next).collect();
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
        assert_eq!(supported(true).len(), FEATURES.len() + NEXT_FEATURES.len());
    }
}
