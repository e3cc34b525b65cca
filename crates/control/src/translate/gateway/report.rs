//! What the status of the Gateway API's objects is to say, without times and without what others have written.
//!
//! Never in here: the API server.

use std::sync::Arc;

use model::ListenerId;

use crate::names::ObjectRef;
use crate::objects::gateway_api::{AddressType, ParentReference, RouteGroupKind};

/// The name by which `GatewayClass`es ask for this controller.
pub const CONTROLLER: &str = "forebay.io/gateway-controller";

/// What became of the objects of the Gateway API, as far as they are this controller's.
/// Parts that did not change since the last translation have the same pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayReport {
    /// Classes.
    pub classes: Vec<Arc<ClassReport>>,
    /// Gateways.
    pub gateways: Vec<Arc<GatewayStatus>>,
    /// Sets of listeners.
    pub listener_sets: Vec<Arc<ListenerSetStatus>>,
    /// Routes of all kinds.
    pub routes: Vec<Arc<RouteStatus>>,
    /// Policies.
    pub policies: Vec<Arc<PolicyStatus>>,
}

/// An object, and which state of it the report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Kind, namespace and name.
    pub object: ObjectRef,
    /// Tells it from a later one with the same name; none for objects in files.
    pub uid: Option<String>,
    /// Its generation, which each condition says as `observedGeneration`.
    pub generation: i64,
}

/// A condition. Whoever writes it adds the time and the observed generation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// Type, such as `Accepted`.
    pub kind: &'static str,
    /// Status: `True` or `False`.
    pub is_true: bool,
    /// Reason, such as `NotAllowedByListeners`.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
}

impl Condition {
    /// A condition that is as it should be.
    pub fn yes(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, is_true: true, reason, message: message.into() }
    }

    /// A condition that is not met.
    pub fn no(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, is_true: false, reason, message: message.into() }
    }
}

/// What became of a `GatewayClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassReport {
    /// The class.
    pub subject: Subject,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// What became of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayStatus {
    /// The Gateway.
    pub subject: Subject,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// The addresses that it was given; none for those that the publish flags say.
    pub addresses: Option<Vec<GatewayStatusAddress>>,
    /// Its listeners, without those of `ListenerSet`s.
    pub listeners: Vec<ListenerStatus>,
    /// How many `ListenerSet`s are attached.
    pub attached_listener_sets: u32,
}

/// An address of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewayStatusAddress {
    /// How it is written.
    pub kind: AddressType,
    /// The address.
    pub value: String,
}

/// What became of a `ListenerSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSetStatus {
    /// The set.
    pub subject: Subject,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Its listeners.
    pub listeners: Vec<ListenerStatus>,
}

/// What became of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerStatus {
    /// Name.
    pub name: Box<str>,
    /// The kinds of routes that may be attached.
    pub supported_kinds: Vec<RouteGroupKind>,
    /// How many routes are attached.
    pub attached_routes: u32,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Where it is served.
    pub places: Vec<ListenerId>,
}

/// What became of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// The route.
    pub subject: Subject,
    /// For each reference to a parent of this controller.
    pub parents: Vec<ParentStatus>,
}

/// What became of a route at a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentStatus {
    /// The reference, as the route has it.
    pub parent_ref: ParentReference,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// What became of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStatus {
    /// The policy.
    pub subject: Subject,
    /// For each Gateway for which it matters.
    pub ancestors: Vec<AncestorStatus>,
}

/// What became of a policy at a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AncestorStatus {
    /// The Gateway, with its namespace.
    pub ancestor_ref: ParentReference,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}
