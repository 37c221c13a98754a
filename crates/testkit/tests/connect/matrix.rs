//! Compares Posthaste's connector with libpq: every `sslmode` with every kind of server certificate. Each connects with
//! TLS, connects without TLS, or is refused.

use crate::certificates::{
    Folder, Identity, authority, authority_sha384, client, expired_authority, intermediate,
    pretended_authority, self_signed, server,
};
use crate::libpq::outcomes;
use crate::server::{TlsServer, TlsSettings, USER, client_parameters, connect};
use std::collections::BTreeMap;

const MODES: [&str; 5] = ["disable", "prefer", "require", "verify-ca", "verify-full"];

fn kind_of(outcome: &str) -> &str {
    outcome.split(' ').next().unwrap_or_default()
}

/// Connects to every URL with both clients and requires the same outcome. Returns how often each outcome occurred.
async fn compare(case: &str, urls: &[String]) -> BTreeMap<String, usize> {
    let expected = outcomes(urls);
    let mut counts = BTreeMap::new();
    for (url, libpq) in urls.iter().zip(expected) {
        let ours = match connect(url).await {
            Ok(server) if server.tls.is_some() => "tls".to_owned(),
            Ok(_) => "plain".to_owned(),
            Err(error) => format!("refused {error}"),
        };
        assert_eq!(kind_of(&ours), kind_of(&libpq), "{case}, {url}\nours:  {ours}\nlibpq: {libpq}");
        *counts.entry(kind_of(&libpq).to_owned()).or_insert(0) += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_connects_or_is_refused_as_with_libpq() {
    let (trusted, other) = (authority("Trusted Authority"), authority("Other Authority"));
    let folder = Folder::new();
    let roots = folder.write("roots.crt", &trusted.pem(), 0o644);
    let client_certificate = client_parameters(&folder, &client(&trusted, USER));
    let good = server(&trusted, &["localhost"], "db", 2100);
    let cases: [(&str, Option<Identity>, bool); 11] = [
        ("no TLS", None, false),
        ("good certificate", Some(good.clone()), false),
        ("wrong authority", Some(server(&other, &["localhost"], "db", 2100)), false),
        ("wrong name", Some(server(&trusted, &["db.example"], "localhost", 2100)), false),
        ("expired", Some(server(&trusted, &["localhost"], "db", 2001)), false),
        ("client certificate required", Some(good), true),
        ("only a common name", Some(server(&trusted, &[], "localhost", 2100)), false),
        ("wrong common name", Some(server(&trusted, &[], "db.example", 2100)), false),
        ("address", Some(server(&trusted, &["127.0.0.1"], "localhost", 2100)), false),
        ("self-signed", Some(self_signed(&["localhost"], "db", 2100)), false),
        ("self-signed, expired", Some(self_signed(&["localhost"], "db", 2001)), false),
    ];
    let running = TlsServer::start("matrix").await;
    let mut total = BTreeMap::new();
    for (case, identity, needs_client) in cases {
        running.configure(&TlsSettings {
            identity: identity.as_ref(),
            clients: needs_client.then_some(&trusted),
        });
        let mut root_files = vec![String::new(), format!("&sslrootcert={}", roots.display())];
        if let Some(identity) = identity.filter(|_| case.starts_with("self-signed")) {
            let own = folder.write("own.crt", &identity.certificate, 0o644);
            root_files.push(format!("&sslrootcert={}", own.display()));
        }
        let mut urls = Vec::new();
        for mode in MODES {
            for root in &root_files {
                for client in ["".to_owned(), format!("&{client_certificate}")] {
                    for negotiation in ["postgres", "direct"] {
                        let parameters = format!("sslmode={mode}{root}{client}&sslnegotiation={negotiation}");
                        urls.push(running.url("localhost", &parameters));
                    }
                }
                urls.push(running.url("127.0.0.1", &format!("sslmode={mode}{root}")));
            }
        }
        for (outcome, count) in compare(case, &urls).await {
            *total.entry(outcome).or_insert(0) += count;
        }
    }
    println!("{total:?}");
    assert!(
        ["tls", "plain", "refused"]
            .iter()
            .all(|outcome| total.get(*outcome).is_some_and(|count| *count > 10))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn chains_are_verified_as_with_libpq() {
    let root = authority("Root");
    let (middle, expired, pretended) =
        (intermediate(&root, "Middle"), expired_authority("Expired"), pretended_authority("Pretended"));
    let below = server(&middle, &["localhost"], "db", 2100);
    let with_chain =
        Identity { certificate: below.certificate.clone() + &middle.pem(), key: below.key.clone() };
    let folder = Folder::new();
    let running = TlsServer::start("chains").await;
    let mut total = BTreeMap::new();
    for (case, identity) in [
        ("chain with an intermediate", with_chain),
        ("chain without its intermediate", below),
        ("signed by an expired authority", server(&expired, &["localhost"], "db", 2100)),
        ("signed by a certificate that is no authority", server(&pretended, &["localhost"], "db", 2100)),
    ] {
        running.configure(&TlsSettings { identity: Some(&identity), clients: None });
        let mut urls = Vec::new();
        for (name, pem) in [
            ("root", root.pem()),
            ("middle", middle.pem()),
            ("both", root.pem() + &middle.pem()),
            ("expired", expired.pem()),
            ("pretended", pretended.pem()),
            ("own", identity.certificate.clone()),
        ] {
            let file = folder.write(&format!("{name}.crt"), &pem, 0o644);
            for mode in ["require", "verify-ca", "verify-full"] {
                urls.push(
                    running.url("localhost", &format!("sslmode={mode}&sslrootcert={}", file.display())),
                );
            }
        }
        for (outcome, count) in compare(case, &urls).await {
            *total.entry(outcome).or_insert(0) += count;
        }
    }
    assert!(
        ["tls", "refused"].iter().all(|outcome| total.get(*outcome).is_some_and(|count| *count >= 9)),
        "{total:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn channel_binding_is_used_as_with_libpq() {
    let folder = Folder::new();
    let running = TlsServer::start("binding").await;
    for (case, authority) in [("SHA-256", authority("A")), ("SHA-384", authority_sha384("B"))] {
        let identity = server(&authority, &["localhost"], "db", 2100);
        running.configure(&TlsSettings { identity: Some(&identity), clients: None });
        let roots = folder.write("roots.crt", &authority.pem(), 0o644);
        let mut urls = Vec::new();
        for binding in ["disable", "prefer", "require"] {
            for mode in ["disable", "prefer", "require"] {
                urls.push(running.url("localhost", &format!("sslmode={mode}&channel_binding={binding}")));
            }
            let verified =
                format!("sslmode=verify-full&sslrootcert={}&channel_binding={binding}", roots.display());
            urls.push(running.url("localhost", &verified));
        }
        let counts = compare(case, &urls).await;
        assert_eq!(counts.get("refused"), Some(&1), "{case}: {counts:?}");
        assert_eq!(counts.get("tls"), Some(&9), "{case}: {counts:?}");
    }
    let refused =
        connect(&running.url("localhost", "sslmode=disable&channel_binding=require")).await.unwrap_err();
    assert!(refused.contains("channel_binding=require"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_host_the_issuer_and_the_setting() {
    let (trusted, other) = (authority("Trusted Authority"), authority("Other Authority"));
    let folder = Folder::new();
    let roots = folder.write("roots.crt", &trusted.pem(), 0o644);
    let full = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    let running = TlsServer::start("errors").await;
    let place = format!("localhost:{}", running.port());
    let wrong = server(&other, &["localhost"], "db", 2100);
    let misnamed = server(&trusted, &["db.example", "10.0.0.1"], "db", 2100);
    let expired = server(&trusted, &["localhost"], "db", 2001);
    let file = roots.display().to_string();
    for (identity, parts) in [
        (Some(&wrong), vec!["CN=Other Authority", "is not signed by", &file, "sslrootcert"]),
        (
            Some(&misnamed),
            vec!["CN=Trusted Authority", "db.example, 10.0.0.1", "not for localhost", "verify-full"],
        ),
        (Some(&expired), vec!["CN=Trusted Authority", "has expired"]),
        (None, vec!["does not support TLS", "sslmode=verify-full"]),
    ] {
        running.configure(&TlsSettings { identity, clients: None });
        let error = connect(&running.url("localhost", &full)).await.unwrap_err();
        assert!(parts.iter().chain([&&*place]).all(|part| error.contains(part)), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let good = server(&trusted, &["localhost"], "db", 2100);
    running.configure(&TlsSettings { identity: Some(&good), clients: Some(&trusted) });
    let error = connect(&running.url("localhost", &full)).await.unwrap_err();
    assert!(error.contains("client certificate") && error.contains("sslcert"), "{error}");
}
