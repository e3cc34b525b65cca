//! Kernel parameters that differ between a container's network namespace and the host's.

use crate::check::Check;
use crate::collect::files::PARAMETERS;
use crate::finding::{Outcome, Verdict};
use crate::read::kernel::{self, plain};
use crate::sample::{NamespaceOwner, Sample, Unknown};
use crate::samples::Samples;
use crate::text::{Text, say};

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "sysctl-drift",
    category: "kernel",
    what: "kernel parameters of this network namespace are not those of the host, or of the machine that the service came from: \
           a container begins with the kernel's defaults",
    how: "the parameters that the field cases name, in /proc/sys here and in the host's namespace or in a given file",
    severity: Verdict::Failure,
    remedy: "set them as on the host: in a Pod securityContext.sysctls, on a machine sysctl -w",
    case: "E",
    look: drift,
}];

const PORT_RANGE: &str = "net/ipv4/ip_local_port_range";

/// Parameters of which a larger value is better: the message says so if the value here is smaller.
const MORE_IS_BETTER: &[&str] = &[
    "net/core/netdev_max_backlog",
    "net/core/rmem_max",
    "net/core/somaxconn",
    "net/core/wmem_max",
    PORT_RANGE,
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_max_tw_buckets",
    "net/netfilter/nf_conntrack_max",
];

/// A parameter whose two values differ.
struct Difference {
    path: &'static str,
    here: String,
    host: String,
}

/// The source of the values to compare with.
enum Reference<'a> {
    /// A file that the user gave.
    File(Vec<(String, String)>),
    /// The host's network namespace, in the same sample.
    Host(&'a Sample),
}

fn drift(samples: &Samples) -> Result<Outcome, Unknown> {
    let sample = samples.last()?;
    let Some(reference) = reference(sample)? else {
        return Ok(Outcome::ok(say!("this is the host's network namespace")));
    };
    let mut compared = 0_u64;
    let mut differences = Vec::new();
    for path in PARAMETERS {
        if let (Ok(here), Some(host)) = (sample.text(&format!("proc/sys/{path}")), reference.value(path)) {
            compared += 1;
            let here = plain(here);
            if here != host {
                differences.push(Difference { path, here, host });
            }
        }
    }
    if compared == 0 {
        return Err(Unknown(say!("no kernel parameter was captured both here and of the host")));
    }
    Ok(judge(differences, compared))
}

/// The values to compare with; `None` if the examined namespace is the host's and no file was given.
fn reference(sample: &Sample) -> Result<Option<Reference<'_>>, Unknown> {
    const GIVEN: &str = "host/sysctl.conf";
    if sample.files().any(|(path, _)| path == GIVEN) {
        return Ok(Some(Reference::File(kernel::parameters(sample.text(GIVEN)?).collect())));
    }
    if sample.under("host/proc/sys/").next().is_some() {
        return Ok(Some(Reference::Host(sample)));
    }
    let mut hidden = sample.files().filter(|(path, _)| path.starts_with("host/proc/sys/"));
    if let Some((path, _)) = hidden.find(|(path, _)| !sample.lacks(path)) {
        sample.text(path).map_err(|Unknown(why)| Unknown(say!("{} (--reference FILE does without)", why)))?;
    }
    if sample.taken.namespace != NamespaceOwner::Host {
        return Err(Unknown(say!("there are no parameters of a host to compare with (--reference FILE)")));
    }
    Ok(None)
}

impl Reference<'_> {
    fn value(&self, parameter: &str) -> Option<String> {
        match self {
            Reference::File(values) => {
                let mut values = values.iter().rev();
                values.find(|(path, _)| path == parameter).map(|(_, value)| value.clone())
            }
            Reference::Host(sample) => sample.text(&format!("host/proc/sys/{parameter}")).ok().map(plain),
        }
    }
}

fn judge(mut differences: Vec<Difference>, compared: u64) -> Outcome {
    differences.sort_by_key(|difference| std::cmp::Reverse(difference.verdict()));
    let worst = differences.first().map_or(Verdict::Ok, Difference::verdict);
    let mut outcome = match &differences[..] {
        [] => Outcome::ok(say!("{} kernel parameters are the host's", compared)),
        [..] if worst == Verdict::Ok => Outcome::ok(say!(
            "{} of {} kernel parameters are larger than the host's",
            differences.len(),
            compared
        )),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => Text::none(),
                more => say!(", and {} more differ", more),
            };
            Outcome::new(worst, say!("{}{}", first.tell(), more)).remedy(remedy(&differences))
        }
    };
    for difference in &differences {
        outcome = outcome.with(difference.name(), format!("{}, host {}", difference.here, difference.host));
    }
    outcome.with("compared", compared).with("different", differences.len() as u64)
}

fn remedy(differences: &[Difference]) -> Text {
    let worse = differences.iter().filter(|difference| difference.verdict() > Verdict::Ok);
    let settings: Vec<_> =
        worse.map(|difference| format!("{}=\"{}\"", difference.name(), difference.host)).collect();
    say!("in this network namespace: sysctl -w {} (in a Pod: securityContext.sysctls)", settings.join(" "))
}

impl Difference {
    /// The name as sysctl(8) writes it.
    fn name(&self) -> String {
        self.path.replace('/', ".")
    }

    fn verdict(&self) -> Verdict {
        if !MORE_IS_BETTER.contains(&self.path) {
            return Verdict::Warning;
        }
        match (size(self.path, &self.here), size(self.path, &self.host)) {
            // A third fewer ports means a third fewer connections, which was the loss of QPS in case E.
            (Some(here), Some(host)) if self.path == PORT_RANGE && here * 3 <= host * 2 => Verdict::Failure,
            (Some(here), Some(host)) if here >= host => Verdict::Ok,
            _ => Verdict::Warning,
        }
    }

    fn tell(&self) -> Text {
        let name = self.name();
        let here = &self.here;
        let host = &self.host;
        if self.path == PORT_RANGE
            && let (Some(ports), Some(host_ports)) = (size(self.path, here), size(self.path, host))
        {
            return say!(
                "{} is {} ({} ports) and the host's is {} ({}): {} % of the ports",
                name,
                here,
                ports,
                host,
                host_ports,
                ports * 100 / host_ports.max(1)
            );
        }
        say!("{} is {} and the host's is {}", name, here, host)
    }
}

/// The value as a number that can be compared; for the port range, the number of its ports.
fn size(path: &str, value: &str) -> Option<u64> {
    if path != PORT_RANGE {
        return value.parse().ok();
    }
    let (from, to) = value.split_once(' ')?;
    Some((to.parse::<u64>().ok()? + 1).saturating_sub(from.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, scene};

    const ID: &str = "sysctl-drift";

    fn container(parameters: &[(&str, &str, &str)]) -> Scene {
        parameters.iter().fold(scene(), |scene, (path, here, host)| {
            scene
                .file(&format!("proc/sys/net/{path}"), &format!("{here}\n"))
                .file(&format!("host/proc/sys/net/{path}"), &format!("{host}\n"))
        })
    }

    #[test]
    fn half_the_ports_are_found() {
        let finding = container(&[
            ("core/somaxconn", "128", "65535"),
            ("ipv4/ip_local_port_range", "32768\t61000", "10023\t61000"),
            ("ipv4/tcp_fin_timeout", "60", "60"),
        ])
        .finding(ID);
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "net.ipv4.ip_local_port_range is 32768 61000 (28233 ports) and the host's is 10023 61000 (50978): 55 % of the \
             ports, and 1 more differ"
        );
        assert_eq!(finding.text("net.core.somaxconn"), "128, host 65535");
        assert_eq!((finding.number("compared"), finding.number("different")), (3.0, 2.0));
        assert!(
            finding.remedy.contains("net.ipv4.ip_local_port_range=\"10023 61000\""),
            "{}",
            finding.remedy
        );
    }

    #[test]
    fn what_is_less_or_other_is_a_warning_and_what_is_more_is_fine() {
        let of = |path, here, host| container(&[(path, here, host)]).finding(ID).verdict;
        assert_eq!(of("core/somaxconn", "128", "4096"), Verdict::Warning);
        assert_eq!(of("core/somaxconn", "4096", "128"), Verdict::Ok);
        assert_eq!(of("ipv4/tcp_fin_timeout", "60", "30"), Verdict::Warning);
        assert_eq!(of("ipv4/ip_local_port_range", "20000 65535", "10000 65535"), Verdict::Warning);
        assert_eq!(of("ipv4/ip_local_port_range", "1024 65535", "32768 60999"), Verdict::Ok);
        assert_eq!(of("ipv4/tcp_rmem", "4096 131072 6291456", "4096\t131072\t6291456"), Verdict::Ok);
    }

    #[test]
    fn a_given_file_goes_before_the_host() {
        let finding = container(&[("core/somaxconn", "4096", "4096")])
            .file("host/sysctl.conf", "net.core.somaxconn = 128\nnet.core.somaxconn = 655350\n")
            .finding(ID);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.message.contains("the host's is 655350"), "{}", finding.message);
    }

    #[test]
    fn the_hosts_own_namespace_is_fine_and_a_hidden_host_is_unknown() {
        let mut samples = scene().file("proc/sys/net/core/somaxconn", "4096\n").samples();
        assert!(drift(&samples).is_err_and(|why| why.to_string().contains("--reference")));
        samples.all[1].taken.namespace = NamespaceOwner::Host;
        assert_eq!(drift(&samples).map(|outcome| outcome.verdict), Ok(Verdict::Ok));
        let hidden = scene()
            .file("proc/sys/net/core/somaxconn", "4096\n")
            .forbids("host/proc/sys/net/core/netdev_max_backlog")
            .finding(ID);
        assert_eq!(hidden.verdict, Verdict::Unknown);
        assert!(hidden.message.contains("permission denied"), "{}", hidden.message);
    }
}
