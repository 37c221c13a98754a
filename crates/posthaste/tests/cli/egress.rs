//! Tests the settings for outgoing requests in a running program: every kind of request goes through the proxy, and
//! refused destinations never reach it.

use crate::{folder, is_completed};
use posthaste_testkit::commands::Dev;
use posthaste_testkit::connect_proxy::{ConnectProxy, ProxyAnswer};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_requests_go_through_the_proxy_to_checked_addresses() {
    let receiver = Receiver::start(Answer::to_challenge).await;
    let address = receiver.address();
    // The subscription that `posthaste dev` creates is on the loopback interface.
    let proxy = ConnectProxy::start(move |asked| match asked.target.parse() {
        Ok(target) if asked.target.starts_with("127.") => ProxyAnswer::TunnelTo(target),
        Ok(_) => ProxyAnswer::TunnelTo(address),
        Err(_) => ProxyAnswer::status(400),
    })
    .await;
    let url = proxy.url();
    let run = move || {
        let folder = folder();
        let settings = [
            ("POSTHASTE_EGRESS_PROXY", url.as_str()),
            ("POSTHASTE_DENY_CIDRS", "9.9.9.0/24"),
            ("POSTHASTE_ALLOW_PORTS", "80,443"),
            ("POSTHASTE_BROKER_URL", "http://8.8.4.4/orders"),
        ];
        let dev = Dev::start_with(&folder, &settings);
        for (url, reason) in [
            ("http://9.9.9.9/", "9.9.9.9 is in 9.9.9.0/24, which POSTHASTE_DENY_CIDRS refuses"),
            ("http://8.8.8.8:81/", "port 81 is refused: POSTHASTE_ALLOW_PORTS allows 80,443"),
            ("http://10.0.0.1/", "10.0.0.1 is in a private network"),
        ] {
            let refused = dev.run(&["subscription", "create", "a.b", url]).expect(1);
            assert!(refused.stderr.contains(reason), "{refused:?}");
        }
        let id = dev.json(&["subscription", "create", "a.b", "http://8.8.8.8/hook"])["id"].to_string();
        dev.run(&["subscription", "verify", &id]).expect(0);
        dev.run(&["subscription", "test", &id]).expect(0);
        dev.run(&["event", "send", "a.b", "--payload", "1"]).expect(0);
        dev.json_until(&["delivery", "list", "--event", "1"], is_completed);
        let order =
            ["order", "send", "--symbol", "A", "--intent", "BUY", "--qty", "1", "--idempotency-key", "k"];
        dev.run(&order).expect(0);
        dev.json_until(&["order", "show", "k"], |order| order["status"] == "sent");
    };
    tokio::task::spawn_blocking(run).await.expect("the commands");
    let targets: BTreeSet<String> =
        proxy.targets().into_iter().filter(|target| !target.starts_with("127.")).collect();
    assert_eq!(targets, BTreeSet::from(["8.8.4.4:80".to_owned(), "8.8.8.8:80".to_owned()]));
    let hosts: BTreeSet<String> =
        receiver.received().iter().map(|request| request.header("host").to_owned()).collect();
    assert_eq!(hosts, BTreeSet::from(["8.8.4.4".to_owned(), "8.8.8.8".to_owned()]));
}
