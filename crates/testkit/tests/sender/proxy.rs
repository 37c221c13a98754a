//! Tests requests through a proxy: it is asked for the checked address, names are resolved and checked before, and the
//! policy also holds for cached names and pooled connections when the addresses of this host change.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_services::egress::{AllowedPorts, EgressPolicy, OwnAddresses};
use posthaste_services::sender::{
    CachingResolver, Egress, EgressProxy, HostAddresses, KeepAlive, ReadUpTo, Resolve, Sender, Trust,
};
use posthaste_testkit::captured_log::{CapturedLog, Lines};
use posthaste_testkit::connect_proxy::{ConnectProxy, ProxyAnswer};
use posthaste_testkit::receiver::{Receiver, closed_port, read_request};
use tokio::io::AsyncWriteExt as _;
use tracing_subscriber::filter::LevelFilter;

use crate::senders::{OK, SHORT, Scripted, answering, code, deliver, proxied, send};

const CLOSING: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const URL: &str = "http://receiver.example/hook";

fn plain() -> EgressPolicy {
    EgressPolicy { allow_http: true, ..EgressPolicy::default() }
}

/// Addresses of this host that a test can change.
#[derive(Clone, Default)]
struct Changing(Arc<Mutex<OwnAddresses>>);

impl Changing {
    fn set(&self, addresses: &[&str]) {
        let parsed = addresses.iter().map(|text| text.parse().expect("an address"));
        *self.0.lock().expect("the addresses") = parsed.collect();
    }

    /// Returns a sender that reads these addresses before each check.
    fn sender(&self, resolver: impl Resolve, proxy: &ConnectProxy) -> Sender {
        let addresses = self.clone();
        let read = move || Ok(addresses.0.lock().expect("the addresses").clone());
        let egress = Egress {
            policy: plain(),
            own_addresses: HostAddresses::new(read, Duration::ZERO),
            proxy: Some(EgressProxy::parse(&proxy.url()).expect("a URL")),
        };
        let keep_alive = KeepAlive { rest_at_new_hosts: false, ..KeepAlive::default() };
        Sender::with_resolver(egress, Trust::nobody(), keep_alive, resolver).expect("a sender")
    }
}

#[tokio::test]
async fn the_proxy_is_asked_for_the_checked_address() {
    let receiver = Receiver::start(|_| posthaste_testkit::receiver::Answer::Status(200)).await;
    let proxy = ConnectProxy::to(receiver.address()).await;
    let with_login = proxy.url().replace("http://", "http://user:s%20cret@");
    let resolver = Scripted::new(&[&["8.8.8.8"]]);
    for (proxy_url, login) in
        [(proxy.url(), ""), (with_login, "Proxy-Authorization: Basic dXNlcjpzIGNyZXQ=\r\n")]
    {
        let sender = proxied(plain(), OwnAddresses::default(), resolver.clone(), &proxy_url);
        for url in [URL, "http://receiver.example:8080/hook", "http://[2606:4700:4700::1111]:81/"] {
            assert_eq!(code(&deliver(&sender, url).await), "200", "{url}");
        }
        let expected = ["8.8.8.8:80", "8.8.8.8:8080", "[2606:4700:4700::1111]:81"]
            .map(|target| format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n"));
        let heads: Vec<String> = proxy.asked().into_iter().map(|asked| asked.head).collect();
        assert_eq!(heads[heads.len() - 3..], expected);
    }
    let hosts: Vec<String> =
        receiver.received().iter().take(3).map(|request| request.header("host").to_owned()).collect();
    assert_eq!(hosts, ["receiver.example", "receiver.example:8080", "[2606:4700:4700::1111]:81"]);
    let paths: Vec<String> = receiver.received().into_iter().map(|request| request.path).collect();
    assert_eq!(paths[..3], ["/hook", "/hook", "/"], "requests have the origin form");
    assert!(receiver.received().iter().all(|request| request.header("proxy-authorization").is_empty()));
}

#[tokio::test]
async fn a_refused_address_never_reaches_the_proxy() {
    let proxy = ConnectProxy::to(answering(OK).await.address()).await;
    let policy = EgressPolicy {
        deny_cidrs: vec!["9.9.9.0/24".parse().expect("a network")],
        allow_ports: AllowedPorts::Only([80].into()),
        ..plain()
    };
    let own: OwnAddresses = ["6.6.6.6".parse().expect("an address")].into_iter().collect();
    let rows: &[(&str, &[&str])] = &[
        (URL, &["10.0.0.1"]),
        (URL, &["8.8.8.8", "127.0.0.1"]),
        (URL, &["9.9.9.9"]),
        (URL, &["6.6.6.6"]),
        ("http://receiver.example:81/", &["8.8.8.8"]),
        ("http://10.0.0.1/", &[]),
        ("http://9.9.9.9/", &[]),
        ("http://8.8.8.8:81/", &[]),
        // The proxy is exempt from the policy, but its own address is still refused as a destination.
        ("http://127.0.0.1/", &[]),
    ];
    for (url, addresses) in rows {
        let sender = proxied(policy.clone(), own.clone(), Scripted::new(&[addresses]), &proxy.url());
        let exchange = deliver(&sender, url).await;
        let found = (code(&exchange), exchange.bytes_written);
        assert_eq!(found, ("BLOCKED_ADDRESS".to_owned(), false), "{url} {addresses:?}");
    }
    assert_eq!(proxy.targets(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_is_rebound_is_refused() {
    let receiver = answering(CLOSING).await;
    let proxy = ConnectProxy::to(receiver.address()).await;
    let resolver = Scripted::new(&[&["8.8.8.8"], &["10.0.0.1"], &["8.8.4.4"]]);
    let sender = proxied(plain(), OwnAddresses::default(), resolver, &proxy.url());
    for expected in ["200", "BLOCKED_ADDRESS", "200"] {
        assert_eq!(code(&deliver(&sender, URL).await), expected);
    }
    assert_eq!(proxy.targets(), ["8.8.8.8:80", "8.8.4.4:80"]);
}

#[tokio::test]
async fn a_cached_address_is_checked_at_each_use() {
    let receiver = answering(CLOSING).await;
    let proxy = ConnectProxy::to(receiver.address()).await;
    let resolver = Scripted::new(&[&["8.8.8.8"], &["10.0.0.1"]]);
    let own = Changing::default();
    let sender = own.sender(CachingResolver::new(resolver.clone()), &proxy);
    for (own_addresses, expected) in
        [(&[][..], "200"), (&[], "200"), (&["8.8.8.8"], "BLOCKED_ADDRESS"), (&["8.8.4.4"], "200")]
    {
        own.set(own_addresses);
        assert_eq!(code(&deliver(&sender, URL).await), expected, "{own_addresses:?}");
    }
    assert_eq!(*resolver.asked.lock().expect("the list"), ["receiver.example"], "the result is cached");
    assert_eq!(proxy.targets(), ["8.8.8.8:80"; 3], "the cached address, not the new one");
}

#[tokio::test]
async fn a_pooled_connection_is_closed_if_its_address_is_refused_now() {
    let (ended, mut has_ended) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |mut stream| {
        let ended = ended.clone();
        async move {
            while read_request(&mut stream).await?.is_some() {
                stream.write_all(OK).await?;
            }
            let _ = ended.send(());
            Ok(())
        }
    })
    .await;
    let proxy = ConnectProxy::to(receiver.address()).await;
    let resolver = Scripted::new(&[&["8.8.8.8"], &["8.8.8.8"], &["8.8.4.4"]]);
    let own = Changing::default();
    let sender = own.sender(resolver.clone(), &proxy);
    for _ in 0..3 {
        assert_eq!(code(&deliver(&sender, URL).await), "200");
    }
    assert_eq!(proxy.targets(), ["8.8.8.8:80"], "the connection is reused");
    own.set(&["8.8.8.8"]);
    assert_eq!(code(&deliver(&sender, URL).await), "BLOCKED_ADDRESS");
    has_ended.recv().await.expect("the connection is closed");
    assert_eq!(receiver.accepted(), 1, "and not used");
    // The name now has another address, which is allowed.
    for _ in 0..2 {
        assert_eq!(code(&deliver(&sender, URL).await), "200");
    }
    assert_eq!(proxy.targets(), ["8.8.8.8:80", "8.8.4.4:80"]);
    assert_eq!(resolver.asked.lock().expect("the list").len(), 3);
}

#[tokio::test]
async fn redirects_are_not_followed_through_the_proxy() {
    for location in ["http://169.254.169.254/", "http://8.8.4.4/", "/elsewhere"] {
        let answer = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let answer: &'static str = answer.leak();
        let receiver = answering(answer.as_bytes()).await;
        let proxy = ConnectProxy::to(receiver.address()).await;
        let sender = proxied(plain(), OwnAddresses::default(), Scripted::new(&[&["8.8.8.8"]]), &proxy.url());
        assert_eq!(code(&deliver(&sender, URL).await), "HTTP_302", "{location}");
        assert_eq!(proxy.targets(), ["8.8.8.8:80"], "{location}");
    }
}

#[tokio::test]
async fn without_a_tunnel_the_connection_fails() {
    let status_line = |text: &str| ProxyAnswer::Say(text.as_bytes().to_vec());
    let rows: Vec<(ProxyAnswer, &str)> = vec![
        (
            ProxyAnswer::status(403),
            "refused the tunnel, request failed proxy=ADDRESS target=8.8.8.8:80 status=403",
        ),
        (
            ProxyAnswer::status(407),
            "refused the tunnel, request failed proxy=ADDRESS target=8.8.8.8:80 status=407",
        ),
        (ProxyAnswer::status(302), "status=302"),
        (status_line("HTTP/1.0 503 Service Unavailable\r\n\r\n"), "status=503"),
        (status_line("SSH-2.0-OpenSSH_9.9\r\n\r\n"), "sent an invalid response"),
        (status_line("HTTP/1.1 200 OK\r\n"), "sent an invalid response"),
        (status_line(""), "sent an invalid response"),
        (status_line("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), "sent an invalid response"),
        (
            ProxyAnswer::Say([b"HTTP/1.1 200 OK\r\nx: ", &[b'x'; 9_000][..]].concat()),
            "sent an invalid response",
        ),
    ];
    for (answer, logged) in rows {
        let (log, _capturing) = CapturedLog::of_this_thread(Lines::Text, LevelFilter::INFO);
        let said = answer.clone();
        let proxy = ConnectProxy::start(move |_| said.clone()).await;
        let url = proxy.url().replace("http://", "http://user:hush@");
        let sender = proxied(plain(), OwnAddresses::default(), Scripted::new(&[&["8.8.8.8"]]), &url);
        for _ in 0..3 {
            let exchange = deliver(&sender, URL).await;
            let found = (code(&exchange), exchange.bytes_written);
            assert_eq!(found, ("CONNECT_FAILED".to_owned(), false), "{answer:?}");
        }
        let text = log.text();
        let logged = logged.replace("ADDRESS", &proxy.address().to_string());
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(&logged) && text.contains("egress proxy") && !text.contains("hush"), "{text}");
    }
}

#[tokio::test]
async fn an_unreachable_proxy_is_named_in_the_log() {
    let (log, _capturing) = CapturedLog::of_this_thread(Lines::Text, LevelFilter::INFO);
    let url = closed_port("").await;
    let sender = proxied(plain(), OwnAddresses::default(), Scripted::new(&[&["8.8.8.8"]]), &url);
    assert_eq!(code(&deliver(&sender, URL).await), "CONNECT_FAILED");
    let (text, address) = (log.text(), url.trim_start_matches("http://"));
    assert!(text.contains("egress proxy cannot be reached") && text.contains(address), "{text}");
}

#[tokio::test]
async fn a_proxy_that_does_not_respond_ends_at_the_deadline() {
    let proxy = ConnectProxy::start(|_| ProxyAnswer::Hang).await;
    let sender = proxied(plain(), OwnAddresses::default(), Scripted::new(&[&["8.8.8.8"]]), &proxy.url());
    let exchange = send(&sender, URL, ReadUpTo::Status, SHORT).await;
    assert!(["TIMEOUT", "CONNECT_FAILED"].contains(&code(&exchange).as_str()) && !exchange.bytes_written);
}

#[tokio::test]
async fn the_next_address_is_tried_if_the_proxy_cannot_reach_one() {
    let receiver = answering(OK).await;
    let address: SocketAddr = receiver.address();
    let proxy = ConnectProxy::start(move |asked| match asked.target.as_str() {
        "8.8.8.8:80" => ProxyAnswer::status(503),
        _ => ProxyAnswer::TunnelTo(address),
    })
    .await;
    let resolver = Scripted::new(&[&["8.8.8.8", "8.8.4.4"]]);
    let sender = proxied(plain(), OwnAddresses::default(), resolver, &proxy.url());
    assert_eq!(code(&deliver(&sender, URL).await), "200");
    assert_eq!(proxy.targets(), ["8.8.8.8:80", "8.8.4.4:80"]);
}

#[tokio::test]
async fn the_name_of_the_proxy_is_resolved_and_exempt_from_the_policy() {
    let receiver = answering(OK).await;
    let proxy = ConnectProxy::to(receiver.address()).await;
    // The first lookup is that of the receiver, the second that of the proxy.
    let resolver = Scripted::new(&[&["8.8.8.8"], &["127.0.0.1"]]);
    let url = format!("http://proxy.internal:{}", proxy.address().port());
    let sender = proxied(plain(), OwnAddresses::default(), resolver.clone(), &url);
    assert_eq!(code(&deliver(&sender, URL).await), "200");
    assert_eq!(*resolver.asked.lock().expect("the list"), ["receiver.example", "proxy.internal"]);
    assert_eq!(proxy.targets(), ["8.8.8.8:80"]);
}
