//! The object that declares a route, for people who ask where a route comes from.
//!
//! There may be 100,000 of them: a route of an Ingress has a pointer to it.
//!
//! Never in here: what an object declares.

use std::path::Path;
use std::sync::Arc;

use super::claim::RouteSetting;
use crate::names::ObjectRef;
use crate::objects::{Ingress, Sourced};
use crate::problem::SourceLocation;

/// The object that declares a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOrigin(Of);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// An Ingress, and the line of the value that declares the route.
    Ingress(Arc<Sourced<Ingress>>, Option<u32>),
    Other(Arc<Other>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Other {
    object: ObjectRef,
    file: Option<Arc<Path>>,
    line: Option<u32>,
    settings: Option<Arc<[RouteSetting]>>,
}

impl RouteOrigin {
    /// The origin of a route with these fields of policies and of a Gateway API rule.
    pub(super) fn with_settings(place: SourceLocation, settings: Option<Arc<[RouteSetting]>>) -> Self {
        let SourceLocation { object, file, line, .. } = place;
        Self(Of::Other(Arc::new(Other { object, file, line, settings })))
    }

    /// Kind, namespace and name of the object.
    pub fn object(&self) -> ObjectRef {
        match &self.0 {
            Of::Ingress(ingress, _) => ingress.reference(),
            Of::Other(other) => other.object.clone(),
        }
    }

    /// The file; none if the object is not from a file.
    pub fn file(&self) -> Option<&Arc<Path>> {
        match &self.0 {
            Of::Ingress(ingress, _) => ingress.origin.file.as_ref(),
            Of::Other(other) => other.file.as_ref(),
        }
    }

    /// The line of the value that declares the route, from 1.
    pub fn line(&self) -> Option<u32> {
        match &self.0 {
            Of::Ingress(_, line) => *line,
            Of::Other(other) => other.line,
        }
    }

    /// The fields of policies and of a Gateway API rule that apply to the route; none without such fields.
    pub fn settings(&self) -> Option<&Arc<[RouteSetting]>> {
        match &self.0 {
            Of::Ingress(..) => None,
            Of::Other(other) => other.settings.as_ref(),
        }
    }

    /// The place of the value that declares the route, for a problem.
    pub(super) fn place(&self) -> SourceLocation {
        let file = self.file().cloned();
        SourceLocation { object: self.object(), uid: None, file, line: self.line(), ingress: None }
    }
}

impl From<SourceLocation> for RouteOrigin {
    fn from(place: SourceLocation) -> Self {
        match place.ingress {
            Some(ingress) => Self(Of::Ingress(ingress, place.line)),
            None => Self::with_settings(place, None),
        }
    }
}
