//! The contents of the status of the Gateway API's objects, without times and without the conditions of other
//! controllers.
//!
//! Never in here: the API server.

use std::sync::Arc;

use model::ListenerId;

use crate::names::ObjectRef;
use crate::objects::gateway_api::{AddressType, ParentReference, RouteGroupKind};

/// The name by which `GatewayClass`es select this controller.
pub const CONTROLLER: &str = "forebay.io/gateway-controller";

/// The results for the objects of the Gateway API that belong to this controller. Parts that did not change
/// since the last translation have the same pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayReport {
    /// The results of the classes.
    pub classes: Vec<Arc<ClassReport>>,
    /// The results of the Gateways.
    pub gateways: Vec<Arc<GatewayStatus>>,
    /// The results of the `ListenerSet`s.
    pub listener_sets: Vec<Arc<ListenerSetStatus>>,
    /// The results of routes of all kinds.
    pub routes: Vec<Arc<RouteStatus>>,
    /// The results of the policies.
    pub policies: Vec<Arc<PolicyStatus>>,
}

/// An object, and its version that the report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Kind, namespace and name of the object.
    pub object: ObjectRef,
    /// Distinguishes the object from a later one with the same name; none for objects in files.
    pub uid: Option<String>,
    /// The generation of the object, which each condition contains as `observedGeneration`.
    pub generation: i64,
}

/// A condition. The status writer adds the time and the observed generation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// Type, such as `Accepted`.
    pub kind: &'static str,
    /// Status: `True` or `False`.
    pub is_true: bool,
    /// Reason, such as `NotAllowedByListeners`.
    pub reason: &'static str,
    /// Message for users.
    pub message: String,
}

impl Condition {
    /// A condition with the status `True`.
    pub fn yes(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, is_true: true, reason, message: message.into() }
    }

    /// A condition with the status `False`.
    pub fn no(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, is_true: false, reason, message: message.into() }
    }
}

/// The result of a `GatewayClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassReport {
    /// The class that the result is about.
    pub subject: Subject,
    /// The conditions of the class.
    pub conditions: Vec<Condition>,
}

/// The result of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayStatus {
    /// The Gateway that the result is about.
    pub subject: Subject,
    /// The conditions of the Gateway.
    pub conditions: Vec<Condition>,
    /// The addresses assigned to the Gateway; none for those of the publish flags.
    pub addresses: Option<Vec<GatewayStatusAddress>>,
    /// The results of its listeners, without those of `ListenerSet`s.
    pub listeners: Vec<ListenerStatus>,
    /// The number of attached `ListenerSet`s.
    pub attached_listener_sets: u32,
}

/// An address of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewayStatusAddress {
    /// The form of the address.
    pub kind: AddressType,
    /// The address as text.
    pub value: String,
}

/// The result of a `ListenerSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSetStatus {
    /// The set that the result is about.
    pub subject: Subject,
    /// The conditions of the set.
    pub conditions: Vec<Condition>,
    /// The results of its listeners.
    pub listeners: Vec<ListenerStatus>,
}

/// The result of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerStatus {
    /// Name of the listener.
    pub name: Box<str>,
    /// The kinds of routes that may be attached.
    pub supported_kinds: Vec<RouteGroupKind>,
    /// The number of attached routes.
    pub attached_routes: u32,
    /// The conditions of the listener.
    pub conditions: Vec<Condition>,
    /// The addresses and ports where it is served.
    pub places: Vec<ListenerId>,
}

/// The result of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// The route that the result is about.
    pub subject: Subject,
    /// The results for each reference to a parent of this controller.
    pub parents: Vec<ParentStatus>,
}

/// The result of a route at a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentStatus {
    /// The reference in the route's form.
    pub parent_ref: ParentReference,
    /// The conditions of the route at the parent.
    pub conditions: Vec<Condition>,
}

/// The result of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStatus {
    /// The policy that the result is about.
    pub subject: Subject,
    /// The results for each affected Gateway.
    pub ancestors: Vec<AncestorStatus>,
}

/// The result of a policy at a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AncestorStatus {
    /// The Gateway, with its namespace.
    pub ancestor_ref: ParentReference,
    /// The conditions of the policy at the Gateway.
    pub conditions: Vec<Condition>,
}
