//! Metrics of the control plane: configurations, problems, Ingresses, reviews, certificates.
//!
//! Never in here: counters of workers.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::lock;
use super::super::names;
use super::super::registry::{Judged, Orphan, Registry};
use super::{Page, labels};

/// Time before its end from which a certificate ends soon.
const ENDING: Duration = Duration::from_hours(240);

impl Registry {
    pub(super) fn encode_controller(&self, page: &mut Page<'_>) {
        let build = &self.options.build;
        page.family(&names::BUILD_INFO);
        let build =
            [("build", &*build.build), ("release", &build.release), ("repository", &build.repository)];
        page.own(&names::BUILD_INFO, &build, 1);
        page.only(&names::CONFIG_HASH, self.config.hash.get());
        for (metric, cell) in [
            (&names::CONFIG_SUCCESSFUL, &self.config.successful),
            (&names::CONFIG_SUCCESSFUL_TIMESTAMP, &self.config.successful_at_seconds),
            (&names::SUCCESS, &self.config.successes),
            (&names::ERRORS, &self.config.errors),
        ] {
            page.only(metric, cell.load(Ordering::Relaxed));
        }
        page.family(&names::PROBLEMS);
        for (severity, reason, number) in &*lock(&self.problems) {
            page.own(&names::PROBLEMS, &[("severity", severity), ("reason", reason)], number);
        }
        page.only(&names::WATCHES_FAILING, self.watches_failing.load(Ordering::Relaxed));
        page.only(&names::PANICS, self.panics.load(Ordering::Relaxed));
        page.family(&names::DOCTOR_FINDING);
        for (id, level) in &*lock(&self.findings) {
            page.own(&names::DOCTOR_FINDING, &[("id", id)], level);
        }
        page.family(&names::LEADER);
        if let Some((lease, leads)) = &*lock(&self.leader) {
            page.own(&names::LEADER, &[("name", lease)], u8::from(*leads));
        }
        self.encode_orphans(page);
        self.encode_admission(page);
        self.encode_endings(page);
    }

    /// Certificates that end soon, and those that are obtained.
    pub(super) fn encode_endings(&self, page: &mut Page<'_>) {
        page.only(&names::CERTIFICATES_ENDING, self.certificates_ending());
        page.family(&names::ACME_CERTIFICATES);
        for (state, number) in &*lock(&self.acme) {
            let labels = labels(&[("state", state)]);
            page.sample(names::ACME_CERTIFICATES.name, &labels, number);
        }
    }

    /// The number of certificates that end soon, by the clock of the scrape.
    fn certificates_ending(&self) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let end = (now + ENDING).as_secs().cast_signed();
        lock(&self.certificates).iter().filter(|(_, info)| info.not_after <= end).count()
    }

    /// As in ingress-nginx, Ingresses that lack nothing are written too, with the value 0.
    fn encode_orphans(&self, page: &mut Page<'_>) {
        page.family(&names::ORPHANS);
        for Orphan { namespace, ingress, lacks_service, lacks_endpoint } in self.orphans.find() {
            for (kind, is_so) in [("no-service", lacks_service), ("no-endpoint", lacks_endpoint)] {
                let labels = [("ingress", &*ingress), ("namespace", &namespace), ("type", kind)];
                page.own(&names::ORPHANS, &labels, u8::from(is_so));
            }
        }
    }

    fn encode_admission(&self, page: &mut Page<'_>) {
        let Judged { roundtrip, judging, translation, ingresses, review_bytes } = *lock(&self.judged);
        page.only(&names::ADMISSION_CONFIG_SIZE, review_bytes);
        page.only(&names::ADMISSION_TRANSLATION, translation.as_secs_f64());
        page.only(&names::ADMISSION_TRANSLATED, ingresses);
        page.only(&names::ADMISSION_ROUNDTRIP, roundtrip.as_secs_f64());
        page.only(&names::ADMISSION_JUDGING, judging.as_secs_f64());
        page.only(&names::ADMISSION_INGRESSES, ingresses);
    }

    pub(super) fn encode_certificates(&self, page: &mut Page<'_>) {
        let class = &self.options.controller.class;
        let certificates = lock(&self.certificates).clone();
        page.family(&names::CERTIFICATE_EXPIRES);
        for (host, info) in &certificates {
            let labels = [
                ("class", class.as_str()),
                ("host", host),
                ("namespace", &info.namespace),
                ("secret_name", &info.object),
            ];
            page.own(&names::CERTIFICATE_EXPIRES, &labels, info.not_after);
        }
        page.family(&names::CERTIFICATE_INFO);
        for (host, info) in &certificates {
            let labels = [
                ("class", class.as_str()),
                ("host", host),
                // The label is "The couple issuer / serial number". The issuer's number is an attribute of
                // its name that hardly ever exists, so it stays empty.
                ("identifier", &format!("-{}", info.serial_number)),
                ("issuer_common_name", &info.issuer_common_name),
                ("issuer_organization", &info.issuer_organization),
                ("namespace", &info.namespace),
                ("public_key_algorithm", &info.public_key_algorithm),
                ("secret_name", &info.object),
                ("serial_number", &info.serial_number),
            ];
            page.own(&names::CERTIFICATE_INFO, &labels, 1);
        }
    }
}
