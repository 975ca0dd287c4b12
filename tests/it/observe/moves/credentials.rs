//! Files that change under a running process, and what the kernel shows of it.

use std::fs;

use idempotency_ledger::identity::NewToken;
use rcgen::date_time_ymd;
use tonic::transport::Channel;

use super::{Event, NOT_OURS, Scene, Series, all_happen, events};
use crate::identity::People;
use crate::identity::reload::Mounted;
use crate::identity::tls::way;
use crate::identity::web_tokens::now;
use crate::observe::series;

pub(super) struct Process {
    mounted: Mounted,
    held: Vec<Channel>,
}

impl Scene for Process {
    async fn series(&self) -> Series {
        series(&self.mounted.observed).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_move_with_the_files_of_credentials() {
    let mounted = Mounted::start(&People::new(&[("one", &[("c", "claim")])])).await;
    let mut scene = Process { mounted, held: Vec::new() };
    all_happen(&mut scene, EVENTS).await;
    shown_as_the_kernel_has_it(&scene).await;
}

pub(super) const EVENTS: &[Event<Process>] = &[
    Event {
        what: "a certificate that ends sooner",
        happens: has_a_short_certificate,
        rises: &[r#"credential_files_reloads_total{setting="listen_tls_cert"}"#],
        falls: &["tls_certificate_expiry_timestamp_seconds"],
    },
    Event {
        what: "a certificate that ends later",
        happens: has_a_long_certificate,
        rises: &["tls_certificate_expiry_timestamp_seconds"],
        falls: &[],
    },
    Event {
        what: "a revocation list whose next one is due sooner",
        happens: has_a_short_list,
        rises: &[r#"credential_files_reloads_total{setting="listen_tls_client_crl"}"#],
        falls: &["tls_revocation_list_expiry_timestamp_seconds"],
    },
    Event {
        what: "a revocation list whose next one is due later",
        happens: has_a_long_list,
        rises: &["tls_revocation_list_expiry_timestamp_seconds"],
        falls: &[],
    },
    Event {
        what: "a token that ends",
        happens: has_a_token_that_ends,
        rises: &[
            "token_expiry_timestamp_seconds",
            r#"credential_files_reloads_total{setting="tokens_file"}"#,
        ],
        falls: &[],
    },
    Event {
        what: "a token that ends sooner",
        happens: has_a_token_that_ends_sooner,
        rises: &[],
        falls: &["token_expiry_timestamp_seconds"],
    },
    Event {
        what: "a file that is not valid",
        happens: has_a_wrong_file,
        rises: &[r#"credential_files_failing{setting="tokens_file"}"#],
        falls: &[],
    },
    Event {
        what: "a file that is valid again",
        happens: has_a_token_that_ends,
        rises: &["token_expiry_timestamp_seconds"],
        falls: &[r#"credential_files_failing{setting="tokens_file"}"#],
    },
    Event {
        what: "clients connect",
        happens: has_connections,
        rises: &["process_open_fds", "process_cpu_seconds_total"],
        falls: &[],
    },
    Event { what: "they go away", happens: has_none, rises: &[], falls: &["process_open_fds"] },
];

/// A certificate that ends with a year.
fn certificate(scene: &mut Process, year: i32) {
    let end = |params: &mut rcgen::CertificateParams| params.not_after = date_time_ymd(year, 1, 1);
    let (certificate, key) = scene.mounted.pki.issued(&["localhost"], 1, end);
    scene.mounted.swap(&[("cert.pem", &certificate), ("key.pem", &key)]);
}

fn list(scene: &mut Process, year: i32) {
    let list = scene.mounted.pki.revoked_until(&[99], year);
    scene.mounted.swap(&[("crl.pem", &list)]);
}

/// A token that ends at this second since 1970.
fn token(scene: &mut Process, end: u64) {
    let line = NewToken::until("one", Some(end)).unwrap().line;
    scene.mounted.swap(&[("tokens.toml", &format!("[tokens]\n{line}\n"))]);
}

events! {
    has_a_short_certificate(scene: Process) {
        certificate(scene, 2031);
    }

    has_a_long_certificate(scene: Process) {
        certificate(scene, 2033);
    }

    has_a_short_list(scene: Process) {
        list(scene, 2032);
    }

    has_a_long_list(scene: Process) {
        list(scene, 2034);
    }

    has_a_token_that_ends(scene: Process) {
        token(scene, 4_000_000_000);
    }

    has_a_token_that_ends_sooner(scene: Process) {
        token(scene, 3_900_000_000);
    }

    has_a_wrong_file(scene: Process) {
        scene.mounted.swap(&[("tokens.toml", "[tokens")]);
    }

    has_connections(scene: Process) {
        for _ in 0..20 {
            scene.held.push(way(&scene.mounted.pki, scene.mounted.port, None).connect().await.unwrap());
        }
    }

    has_none(scene: Process) {
        scene.held.clear();
    }
}

/// The gauges that a library reads for each scrape, next to what the kernel says.
async fn shown_as_the_kernel_has_it(scene: &Process) {
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", scene.mounted.child.id())).unwrap();
    let series = scene.series().await;
    let pages: Vec<f64> = of("statm").split(' ').take(2).map(|pages| pages.parse::<f64>().unwrap()).collect();
    let limits = of("limits");
    let open_files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let threads = fs::read_dir(format!("/proc/{}/task", scene.mounted.child.id())).unwrap().count();
    let now = now() as f64;
    let version = format!("idempotency_ledger_build_info{{version={:?}}}", env!("CARGO_PKG_VERSION"));
    for name in NOT_OURS {
        let (shown, about, within) = match name {
            "idempotency_ledger_build_info" => (&*version, 1.0, 0.0),
            "process_max_fds" => (name, open_files.split_whitespace().next().unwrap().parse().unwrap(), 0.0),
            // A server grows and shrinks between the two looks.
            "process_virtual_memory_bytes" => (name, pages[0] * 4_096.0, pages[0] * 1_024.0),
            "process_resident_memory_bytes" => (name, pages[1] * 4_096.0, pages[1] * 1_024.0),
            "process_threads" => (name, threads as f64, 4.0),
            "process_start_time_seconds" => (name, now - 150.0, 150.0),
            _ => panic!("{name} is not compared"),
        };
        let value = series.get(shown).copied().unwrap_or(-1.0);
        assert!((value - about).abs() <= within, "{name} is {value}, and the kernel says about {about}");
    }
}
