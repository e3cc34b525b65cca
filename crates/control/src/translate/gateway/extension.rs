//! Filters of type `ExtensionRef`: each names a `ForebayPolicy` of the route's namespace, whose fields apply
//! to the rule, or whose answer replaces one of several backends.
//!
//! Never in here: the precedence of fields, which is `forebay_policies`'.

use model::DirectResponse;

use super::backends::BackendFinder;
use super::conditions::Fault;
use crate::names::NsName;
use crate::objects::gateway_api::{Filter, FilterType};
use crate::objects::{At, ForebayPolicy, Resource, forebay_policy};

/// The names of the policies in a rule's filters, as far as they can be read.
pub(super) fn names(filters: &[At<Filter>]) -> impl Iterator<Item = &str> {
    let references = filters.iter().filter(|filter| filter.value.kind == FilterType::ExtensionRef);
    let references = references.filter_map(|filter| filter.value.extension_ref.as_deref());
    let ours = references
        .filter(|one| one.group() == forebay_policy::GROUP && one.kind_or("") == ForebayPolicy::KIND);
    ours.map(|one| &*one.name)
}

/// The policy that a filter names; none for a filter without a reference.
pub(super) fn policy(filter: &Filter, finder: &BackendFinder<'_, '_, '_>) -> Option<Result<NsName, Fault>> {
    let reference = filter.extension_ref.as_deref()?;
    let (group, kind) = (reference.group(), reference.kind_or(""));
    if group != forebay_policy::GROUP || kind != ForebayPolicy::KIND {
        let message = format!(
            "filter ExtensionRef to {kind} of group {group:?} is not supported; {} of {} is",
            ForebayPolicy::KIND,
            forebay_policy::GROUP
        );
        return Some(Err(Fault::new("UnsupportedValue", message)));
    }
    let key = NsName::new(finder.namespace, &*reference.name);
    let is_there = finder.inputs.gateway().forebay_policies.get(&key).is_some();
    let missing = || Fault::new("UnsupportedValue", format!("ForebayPolicy {key} is missing"));
    Some(if is_there { Ok(key.clone()) } else { Err(missing()) })
}

/// The answer that a policy has for one backend alone, for which it may have nothing else.
pub(super) fn response(name: &NsName, finder: &BackendFinder<'_, '_, '_>) -> Result<DirectResponse, Fault> {
    let found = finder.answers.iter().find(|(policy, _)| policy == name);
    found.and_then(|(_, answer)| answer.clone()).ok_or_else(|| {
        Fault::new(
            "UnsupportedValue",
            format!("for a backend alone, ForebayPolicy {name} has to have the section directResponse and no other"),
        )
    })
}
