//! Settings that are legal and that nobody should have by accident.

use super::Settings;
use ipnet::IpNet;
use std::collections::BTreeSet;

/// Networks whose hosts trust whoever is near: an address in them is what a forged callback aims at.
const NEAR: [&str; 10] = [
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
    "fd00:ec2::254/128",
];

impl Settings {
    /// What `serve` says loudly when it starts.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let policy = &self.egress.policy;
        if policy.allow_http {
            warnings.push(
                "POSTHASTE_ALLOW_HTTP: requests may go out without TLS; whoever is on the way can read and change them"
                    .to_owned(),
            );
        }
        warnings.extend(about_networks(&policy.allow_cidrs));
        if self.secret_key.is_none() {
            warnings.push(
                "POSTHASTE_SECRET_KEY is not set: signing secrets lie in the database as plain text; \
                 make a key with: openssl rand -hex 32"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Each network once, however often it was named.
fn about_networks(networks: &[IpNet]) -> impl Iterator<Item = String> {
    let networks: BTreeSet<IpNet> = networks.iter().copied().collect();
    networks.into_iter().filter_map(about_network)
}

fn about_network(network: IpNet) -> Option<String> {
    if network.prefix_len() == 0 {
        return Some(format!(
            "POSTHASTE_ALLOW_CIDRS: {network} is every address; callbacks can reach anything"
        ));
    }
    let near = NEAR.iter().filter_map(|text| text.parse::<IpNet>().ok());
    let met = near.into_iter().find(|near| near.contains(&network) || network.contains(near))?;
    if met == network {
        return Some(format!(
            "POSTHASTE_ALLOW_CIDRS: {network} lets callbacks reach hosts there, which is not the Internet"
        ));
    }
    Some(format!(
        "POSTHASTE_ALLOW_CIDRS: {network} lets callbacks reach hosts in {met}, which is not the Internet"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_told_of_once() {
        let loopback = "127.0.0.0/8".parse().expect("a network");
        let told: Vec<_> = about_networks(&[loopback, loopback]).collect();
        assert!(matches!(&told[..], [one] if one.matches("127.0.0.0/8").count() == 1), "{told:?}");
    }

    #[test]
    fn networks() {
        for (network, expected) in [
            ("127.0.0.1/32", Some("127.0.0.0/8")),
            ("8.0.0.0/5", Some("10.0.0.0/8")),
            ("fd12::/16", Some("fc00::/7")),
            ("::/0", Some("every address")),
            ("0.0.0.0/0", Some("every address")),
            ("203.0.113.0/24", None),
            ("2001:db8::/32", None),
        ] {
            let told = network.parse().ok().and_then(about_network);
            assert_eq!(told.is_some(), expected.is_some(), "{network}");
            assert!(told.is_none_or(|told| expected.is_some_and(|part| told.contains(part))), "{network}");
        }
    }
}
