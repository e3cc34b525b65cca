//! Changes of files while the control plane runs. The tests wait for events and do not sleep.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::resolve::{Answer, Resolver};
use control::{LoadError, Options, Translation, run_with};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::LocalSet;

/// Timeout of every wait, much longer than any wait takes: a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct OneAddress;

impl Resolver for OneAddress {
    async fn look_up(&self, _: String) -> Answer {
        Ok((vec!["192.0.2.7".parse().unwrap()], Duration::from_mins(1)))
    }
}

/// A running control plane, and its translations.
struct Running {
    updates: UnboundedReceiver<Arc<Translation>>,
    /// The hosts of each translation so far.
    history: Vec<Vec<String>>,
}

impl Running {
    fn start(paths: &[&Path]) -> Self {
        Self::resolving(paths, OneAddress)
    }

    fn resolving(paths: &[&Path], resolver: impl Resolver) -> Self {
        let (sender, updates) = unbounded_channel();
        let manifests = paths.iter().map(|path| path.to_path_buf()).collect();
        let options = Options { manifests, ..Options::default() };
        tokio::task::spawn_local(run_with(options, resolver, move |translation| {
            // The receiver is gone if the test has ended.
            let _ = sender.send(translation);
        }));
        Self { updates, history: Vec::new() }
    }

    async fn next(&mut self) -> Arc<Translation> {
        let update = tokio::time::timeout(PATIENCE, self.updates.recv()).await;
        let translation = update.expect("an update in time").expect("it runs");
        self.history.push(hosts(&translation));
        translation
    }

    /// Waits until exactly these hosts are served, with or without problems.
    async fn until(&mut self, expected: &[&str], broken: bool) -> Arc<Translation> {
        loop {
            let translation = self.next().await;
            if hosts(&translation) == expected && translation.problems.is_empty() != broken {
                return translation;
            }
        }
    }
}

fn hosts(translation: &Translation) -> Vec<String> {
    translation.model.hosts().map(|host| host.name.to_string()).collect()
}

fn ingress(host: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: {host}}}\n\
         spec: {{rules: [{{host: {host}}}]}}\n"
    )
}

async fn in_folder<F: Future<Output = ()>>(test: impl FnOnce(PathBuf) -> F) {
    let folder = tempfile::tempdir().unwrap();
    LocalSet::new().run_until(test(folder.path().to_owned())).await;
}

#[tokio::test]
async fn files_are_added_edited_and_removed() {
    in_folder(async |root| {
        fs::write(root.join("a.yaml"), ingress("a")).unwrap();
        let mut running = Running::start(&[&root]);
        running.until(&["a"], false).await;
        fs::write(root.join("b.yaml"), ingress("b")).unwrap();
        running.until(&["a", "b"], false).await;
        fs::write(root.join("a.yaml"), ingress("c")).unwrap();
        running.until(&["c", "b"], false).await;
        fs::remove_file(root.join("b.yaml")).unwrap();
        running.until(&["c"], false).await;
        fs::create_dir_all(root.join("deep/er")).unwrap();
        fs::write(root.join("deep/er/d.yaml"), ingress("d")).unwrap();
        running.until(&["c", "d"], false).await;
        fs::remove_dir_all(root.join("deep")).unwrap();
        running.until(&["c"], false).await;
    })
    .await;
}

#[tokio::test]
async fn a_file_is_replaced_at_once() {
    in_folder(async |root| {
        let file = root.join("a.yaml");
        fs::write(&file, ingress("a")).unwrap();
        let mut running = Running::start(&[&file]);
        running.until(&["a"], false).await;
        fs::write(root.join("new"), ingress("b")).unwrap();
        fs::rename(root.join("new"), &file).unwrap();
        running.until(&["b"], false).await;
        assert_eq!(running.history, [["a"], ["b"]]);
    })
    .await;
}

/// As in ingress-nginx, an invalid change of an Ingress leaves its earlier version in force.
#[tokio::test]
async fn the_version_that_was_accepted_last_stays_in_force() {
    let limited = |host: &str, limit: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\n\
             metadata: {{name: limited, annotations: {{nginx.ingress.kubernetes.io/limit-rps: {limit:?}}}}}\n\
             spec: {{rules: [{{host: {host}}}]}}\n"
        )
    };
    in_folder(async |root| {
        let file = root.join("a.yaml");
        fs::write(&file, limited("a", "many")).unwrap();
        let mut running = Running::start(&[&file]);
        running.until(&[], true).await;
        fs::write(&file, limited("a", "10")).unwrap();
        running.until(&["a"], false).await;
        for (host, limit) in [("b", "many"), ("c", "more")] {
            fs::write(&file, limited(host, limit)).unwrap();
            let translation = running.until(&["a"], true).await;
            let problems: Vec<_> = translation.problems.iter().map(ToString::to_string).collect();
            assert!(problems.iter().any(|told| told.contains("limit-rps")), "{problems:?}");
            assert!(problems.iter().any(|told| told.contains("stays in force")), "{problems:?}");
        }
        fs::write(&file, limited("d", "10")).unwrap();
        running.until(&["d"], false).await;
        fs::write(&file, "").unwrap();
        running.until(&[], false).await;
        fs::write(&file, limited("d", "many")).unwrap();
        let translation = running.until(&[], true).await;
        assert!(translation.problems.iter().all(|told| !told.to_string().contains("stays in force")));
    })
    .await;
}

/// The test replaces the files as the kubelet updates a mounted `ConfigMap`.
#[tokio::test]
async fn a_mounted_configmap_is_swapped_as_a_whole() {
    in_folder(async |root| {
        let fill = |version: &str, hosts: [&str; 2]| {
            fs::create_dir(root.join(version)).unwrap();
            fs::write(root.join(version).join("a.yaml"), ingress(hosts[0])).unwrap();
            fs::write(root.join(version).join("b.yaml"), ingress(hosts[1])).unwrap();
        };
        fill("..1", ["a1", "b1"]);
        symlink("..1", root.join("..data")).unwrap();
        symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
        symlink("..data/b.yaml", root.join("b.yaml")).unwrap();
        let mut running = Running::start(&[&root]);
        running.until(&["a1", "b1"], false).await;

        fill("..2", ["a2", "b2"]);
        symlink("..2", root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        running.until(&["a2", "b2"], false).await;
        fs::remove_dir_all(root.join("..1")).unwrap();

        fill("..3", ["a3", "b3"]);
        symlink("..3", root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        running.until(&["a3", "b3"], false).await;
        assert_eq!(running.history, [["a1", "b1"], ["a2", "b2"], ["a3", "b3"]]);
    })
    .await;
}

#[tokio::test]
async fn a_broken_file_is_reported_once_and_changes_nothing() {
    in_folder(async |root| {
        let file = root.join("a.yaml");
        fs::write(&file, ingress("a")).unwrap();
        let mut running = Running::start(&[&root]);
        running.until(&["a"], false).await;
        fs::write(&file, ingress("b") + "---\nkind: [\n").unwrap();
        let broken = running.until(&["a"], true).await;
        let problem = &broken.problems[0];
        assert_eq!((problem.file.as_deref(), problem.line), (Some(file.as_path()), Some(6)));
        // A change of another file, while the first one stays broken.
        fs::write(root.join("z.yaml"), ingress("z")).unwrap();
        assert_eq!(running.until(&["a", "z"], true).await.problems, broken.problems);
        fs::write(&file, ingress("c")).unwrap();
        running.until(&["c", "z"], false).await;
        assert!(running.history.iter().flatten().all(|host| host != "b"));
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_broken_at_the_start_contributes_nothing() {
    in_folder(async |root| {
        fs::write(root.join("a.yaml"), ingress("a") + "---\n]\n").unwrap();
        fs::write(root.join("b.yaml"), ingress("b")).unwrap();
        let mut running = Running::start(&[&root]);
        running.until(&["b"], true).await;
        fs::write(root.join("a.yaml"), ingress("a")).unwrap();
        running.until(&["a", "b"], false).await;
    })
    .await;
}

/// Each half is a valid manifest: only the open file reveals that more will be written.
#[tokio::test]
async fn a_file_is_not_read_while_it_is_written() {
    in_folder(async |root| {
        fs::write(root.join("a.yaml"), ingress("a")).unwrap();
        let mut running = Running::start(&[&root]);
        running.until(&["a"], false).await;
        let mut file = fs::File::create(root.join("b.yaml")).unwrap();
        file.write_all((ingress("b1") + "---\n").as_bytes()).unwrap();
        // Another change is served meanwhile, which also shows that the first half has been noticed.
        fs::write(root.join("c.yaml"), ingress("c")).unwrap();
        running.until(&["a", "c"], false).await;
        file.write_all(ingress("b2").as_bytes()).unwrap();
        drop(file);
        running.until(&["a", "b1", "b2", "c"], false).await;
        assert_eq!(running.history.len(), 3, "{:?}", running.history);
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_is_replaced_is_followed() {
    in_folder(async |root| {
        let (folder, other) = (root.join("live"), root.join("other"));
        for (folder, host) in [(&folder, "a"), (&other, "b")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("x.yaml"), ingress(host)).unwrap();
        }
        let mut running = Running::start(&[&folder]);
        running.until(&["a"], false).await;
        fs::rename(&folder, root.join("old")).unwrap();
        fs::rename(&other, &folder).unwrap();
        running.until(&["b"], false).await;
        fs::write(folder.join("x.yaml"), ingress("c")).unwrap();
        running.until(&["c"], false).await;
    })
    .await;
}

/// A default backend outside of the cluster.
const OUTSIDE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: out}\n\
                       spec: {type: ExternalName, externalName: out.example.com}\n---\n\
                       apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\n\
                       spec: {defaultBackend: {service: {name: out, port: {number: 80}}}}\n";

#[tokio::test]
async fn the_first_configuration_has_the_addresses_of_outside_names() {
    in_folder(async |root| {
        fs::write(root.join("a.yaml"), OUTSIDE).unwrap();
        let mut running = Running::start(&[&root]);
        let first = running.next().await;
        let endpoints = &first.model.cluster(model::ClusterId(0)).endpoints;
        assert_eq!(endpoints[0].address, "192.0.2.7:80".parse().unwrap());
    })
    .await;
}

/// A name server that never answers delays the first configuration, and does not prevent it.
#[tokio::test]
async fn a_silent_name_server_is_not_waited_for_without_end() {
    #[derive(Clone)]
    struct Silent;

    impl Resolver for Silent {
        async fn look_up(&self, _: String) -> Answer {
            std::future::pending().await
        }
    }
    in_folder(async |root| {
        fs::write(root.join("a.yaml"), OUTSIDE).unwrap();
        let mut running = Running::resolving(&[&root], Silent);
        let first = running.next().await;
        assert!(first.model.cluster(model::ClusterId(0)).endpoints.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_path_that_is_missing_is_told_in_one_line() {
    let options = Options { manifests: vec!["/nowhere/at/all".into()], ..Options::default() };
    let Err(error) = run_with(options, OneAddress, |_| ()).await;
    assert!(matches!(error, LoadError::Path { .. }));
    assert_eq!(error.to_string(), "cannot read /nowhere/at/all: No such file or directory (os error 2)");
}

/// A Secret with a certificate for a host, which becomes valid after some time and is valid for a year.
fn secret(host: &str, begins_in: Duration) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
    let begin = std::time::SystemTime::now() + begins_in;
    (params.not_before, params.not_after) = (begin.into(), (begin + A_YEAR).into());
    let certificate = params.self_signed(&key).unwrap().pem();
    let block = |pem: String| pem.lines().fold(String::new(), |text, line| text + "    " + line + "\n");
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {host}}}\ntype: kubernetes.io/tls\nstringData:\n  tls.crt: |\n{}  \
         tls.key: |\n{}",
        block(certificate),
        block(key.serialize_pem())
    )
}

fn ingress_with_tls(host: &str) -> String {
    ingress(host).replace("spec: {", &format!("spec: {{tls: [{{secretName: {host}}}], "))
}

const A_YEAR: Duration = Duration::from_hours(24 * 365);

fn certificate(translation: &Arc<Translation>) -> Option<Arc<model::Certificate>> {
    translation.model.hosts().next().unwrap().tls.certificate.clone()
}

#[tokio::test]
async fn a_certificate_is_rotated_and_one_that_did_not_change_stays() {
    in_folder(async |root| {
        fs::write(root.join("ingress.yaml"), ingress_with_tls("a")).unwrap();
        fs::write(root.join("secret.yaml"), secret("a", Duration::ZERO)).unwrap();
        let mut running = Running::start(&[&root]);
        let first = certificate(&running.next().await).unwrap();
        fs::write(root.join("other.yaml"), ingress("b")).unwrap();
        let same = certificate(&running.until(&["a", "b"], false).await).unwrap();
        assert!(Arc::ptr_eq(&first, &same), "it is parsed once");
        fs::write(root.join("secret.yaml"), secret("a", Duration::ZERO)).unwrap();
        let rotated = certificate(&running.next().await).unwrap();
        assert_ne!(first.chain, rotated.chain);
        fs::remove_file(root.join("secret.yaml")).unwrap();
        let none = running.until(&["a", "b"], true).await;
        assert_eq!(certificate(&none), None);
    })
    .await;
}

#[tokio::test]
async fn a_certificate_that_begins_is_noticed_without_a_change() {
    in_folder(async |root| {
        fs::write(root.join("a.yaml"), ingress_with_tls("a") + &secret("a", Duration::from_secs(2))).unwrap();
        let mut running = Running::start(&[&root]);
        let mut translation = running.next().await;
        while certificate(&translation).is_none() {
            assert!(translation.problems[0].message.contains("is not valid before"));
            translation = running.next().await;
        }
        assert_eq!(translation.problems, []);
    })
    .await;
}

/// A name whose address changes with each look-up, with a TTL of zero.
#[derive(Clone, Default)]
struct Rebinding(Arc<std::sync::atomic::AtomicUsize>);

impl Resolver for Rebinding {
    async fn look_up(&self, _: String) -> Answer {
        let looked_up = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let addresses = if looked_up == 0 { ["192.0.2.7", "192.0.2.8"] } else { ["192.0.2.7", "127.0.0.1"] };
        Ok((addresses.map(|address| address.parse().unwrap()).to_vec(), Duration::ZERO))
    }
}

/// DNS rebinding: addresses are checked whenever they become known, not only once.
#[tokio::test]
async fn an_outside_name_that_turns_inwards_is_refused() {
    in_folder(async |root| {
        fs::write(root.join("a.yaml"), OUTSIDE).unwrap();
        let mut running = Running::resolving(&[&root], Rebinding::default());
        let addresses = |translation: &Arc<Translation>| -> Vec<String> {
            let cluster = translation.model.cluster(model::ClusterId(0));
            cluster.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect()
        };
        while addresses(&running.next().await) != ["192.0.2.7:80", "192.0.2.8:80"] {}
        let turned = running.until(&["_"], true).await;
        assert_eq!(addresses(&turned), ["192.0.2.7:80"]);
        assert_eq!(turned.problems[0].reason, control::Reason::Forbidden);
        assert!(turned.problems[0].message.contains("127.0.0.1:80 is refused"), "{:?}", turned.problems);
    })
    .await;
}
