//! Creates warnings about settings that are valid but insecure.

use super::Settings;
use super::source::Values;
use super::table as t;
use ipnet::IpNet;
use posthaste_store::secret_file::mode_if_exposed;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Networks that are not public. Their hosts often trust their neighbors, which makes them targets of server-side
/// request forgery through a callback URL.
const PRIVATE: [&str; 10] = [
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
    /// Returns the warnings that `serve` logs at startup.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let policy = &self.egress.policy;
        if policy.allow_http {
            warnings.push(
                "POSTHASTE_ALLOW_HTTP: requests may be sent without TLS; \
                 anyone on the network path can read and change them"
                    .to_owned(),
            );
        }
        warnings.extend(network_warnings(&policy.allow_cidrs));
        warnings.extend(denied_warnings(&policy.allow_cidrs, &policy.deny_cidrs));
        if self.sealer.key_id().is_none() {
            warnings.push(
                "POSTHASTE_SECRET_KEY is not set: signing secrets are stored in plain text; \
                 create a key with: openssl rand -hex 32"
                    .to_owned(),
            );
        }
        warnings.extend(self.exposed_files.iter().cloned());
        warnings
    }
}

/// Returns a warning for each file with a secret that every user of the machine can read. Secrets of containers and
/// services are in memory, where other users do not see them.
pub(super) fn exposed_files(values: &Values) -> Vec<String> {
    let password = values.get(&t::DATABASE_PASSWORD_FILE);
    let password = password.map(|path| (path, values.spelled(&t::DATABASE_PASSWORD_FILE)));
    let files = values.secret_files().map(|(path, spelled)| (path.to_owned(), spelled.to_owned()));
    let exposed = |(path, spelled): (PathBuf, String)| {
        let mode = mode_if_exposed(&path)?;
        Some(format!(
            "{spelled}: every user of this machine can read the file (mode {mode:04o}); run: chmod o-r {path:?}"
        ))
    };
    files.chain(password).filter_map(exposed).collect()
}

/// Returns the warnings about allowed networks, at most one for each distinct network.
fn network_warnings(networks: &[IpNet]) -> impl Iterator<Item = String> {
    let networks: BTreeSet<IpNet> = networks.iter().copied().collect();
    networks.into_iter().filter_map(network_warning)
}

/// Returns a warning for each allowed network that a denied one contains.
fn denied_warnings(allowed: &[IpNet], denied: &[IpNet]) -> Vec<String> {
    let warning = |network: &IpNet| {
        let by = denied.iter().find(|net| net.contains(network))?;
        Some(format!(
            "POSTHASTE_ALLOW_CIDRS: {network} has no effect, because POSTHASTE_DENY_CIDRS refuses {by}"
        ))
    };
    allowed.iter().filter_map(warning).collect()
}

/// Returns a warning if the network matches every address or overlaps a private network.
fn network_warning(network: IpNet) -> Option<String> {
    if network.prefix_len() == 0 {
        return Some(format!(
            "POSTHASTE_ALLOW_CIDRS: {network} matches every address; callbacks can reach any host"
        ));
    }
    let private = PRIVATE.iter().filter_map(|text| text.parse::<IpNet>().ok());
    let overlap = private.into_iter().find(|net| net.contains(&network) || network.contains(net))?;
    if overlap == network {
        return Some(format!(
            "POSTHASTE_ALLOW_CIDRS: callbacks can reach hosts in {network}, which is not public"
        ));
    }
    Some(format!(
        "POSTHASTE_ALLOW_CIDRS: {network} overlaps {overlap}, which is not public; callbacks can reach its hosts"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_has_one_warning() {
        let loopback = "127.0.0.0/8".parse().expect("a network");
        let warnings: Vec<_> = network_warnings(&[loopback, loopback]).collect();
        assert!(matches!(&warnings[..], [one] if one.matches("127.0.0.0/8").count() == 1), "{warnings:?}");
    }

    #[test]
    fn an_allowed_network_that_is_denied_has_a_warning() {
        let nets = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().expect("a network")).collect()
        };
        let check = |allowed: &[&str], denied: &[&str]| denied_warnings(&nets(allowed), &nets(denied));
        let warnings = check(&["10.1.0.0/16", "10.0.0.0/7", "fd00::/8"], &["10.0.0.0/8"]);
        assert!(matches!(&warnings[..], [one] if one.contains("10.1.0.0/16 has no effect")), "{warnings:?}");
        assert!(check(&["10.0.0.0/8"], &["10.1.0.0/16"]).is_empty());
    }

    #[test]
    fn only_networks_that_are_not_public_have_a_warning() {
        for (network, expected) in [
            ("127.0.0.1/32", Some("127.0.0.0/8")),
            ("8.0.0.0/5", Some("10.0.0.0/8")),
            ("fd12::/16", Some("fc00::/7")),
            ("::/0", Some("every address")),
            ("0.0.0.0/0", Some("every address")),
            ("203.0.113.0/24", None),
            ("2001:db8::/32", None),
        ] {
            let warning = network.parse().ok().and_then(network_warning);
            assert_eq!(warning.is_some(), expected.is_some(), "{network}");
            assert!(warning.is_none_or(|text| expected.is_some_and(|part| text.contains(part))), "{network}");
        }
    }
}
