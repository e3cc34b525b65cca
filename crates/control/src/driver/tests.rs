//! Tests of the driver: the time of each new translation, and its options.

use super::*;
use crate::objects::{IngressClass, Resource as _};
use crate::source::cluster::tests::FakeCluster;

/// Classes have to exist again once the right to list them is granted.
#[tokio::test]
async fn classes_may_be_missing_for_as_long_as_they_cannot_be_listed() {
    let mut told = FakeCluster::new(Scope::Namespace("a".to_owned()), Options::default());
    told.fails(IngressClass::KIND, "ingressclasses is forbidden", true);
    let source = ClusterSource::new(FakeCluster::new(Scope::All, Options::default()).cluster, None);
    let options = Options { class_may_be_missing: false, ..Options::default() };
    let source = Source::Cluster(Box::new(source));
    let publish = |_: Arc<Translation>| ();
    let mut driver = Driver::new(options, source, Pace::CLUSTER, SystemResolver::new(), publish);
    let mut build = |told: &mut FakeCluster| {
        let Source::Cluster(source) = &mut driver.source else { unreachable!("it is a cluster's") };
        std::mem::swap(&mut source.cluster, &mut told.cluster);
        driver.build_and_publish();
        let Source::Cluster(source) = &mut driver.source else { unreachable!("it is a cluster's") };
        std::mem::swap(&mut source.cluster, &mut told.cluster);
        driver.options.class_may_be_missing
    };
    assert!(build(&mut told));
    told.list(IngressClass::KIND, &[]);
    assert!(!build(&mut told));
}

#[test]
fn no_sleep_is_too_short_or_too_long() {
    let now = UNIX_EPOCH + Duration::from_millis(100_500);
    assert_eq!(until(103, now), Duration::from_millis(2500));
    assert_eq!(until(-1, now), Duration::from_secs(1));
    assert_eq!(until(i64::MAX, now), SLEEP_MAX);
}
