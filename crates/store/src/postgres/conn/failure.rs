//! The errors of connection attempts, with texts for the operator: host, reason, setting.

use crate::postgres::conn::monitor::ConnectFailure;
use crate::postgres::conn::socket::ClearTextPassword;
use crate::postgres::conn::tls::{CertificateRefused, NoAlpn};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use tokio_postgres::error::SqlState;

/// The reason why a connection to one host failed.
#[derive(Debug)]
pub(crate) struct HostFailure {
    reason: ConnectFailure,
    text: String,
    /// The SQLSTATE, if the server returned an error.
    code: Option<SqlState>,
}

impl HostFailure {
    pub(crate) fn new(reason: ConnectFailure, text: impl Into<String>) -> Self {
        Self { reason, text: text.into(), code: None }
    }

    /// Converts an error of a socket.
    pub(crate) fn io(error: &io::Error) -> Self {
        by_cause(error).unwrap_or_else(|| Self::new(ConnectFailure::Unreachable, error.to_string()))
    }

    /// Converts an error of the driver.
    pub(crate) fn driver(error: &tokio_postgres::Error) -> Self {
        if let Some(response) = error.as_db_error() {
            let code = response.code().code();
            // Invalid authorization, and a database that does not exist.
            let is_login = code.starts_with("28") || code == "3D000";
            let reason = if is_login { ConnectFailure::Authentication } else { ConnectFailure::Server };
            let is_certificate = is_login && response.message().contains("client certificate");
            let advice = if is_certificate { ": set sslcert and sslkey" } else { "" };
            let text = format!("{} (SQLSTATE {code}){advice}", response.message());
            return Self { reason, text, code: Some(response.code().clone()) };
        }
        if let Some(failure) = by_cause(error) {
            return failure;
        }
        // The driver does not expose the kind of an error, only its text.
        let (kind, cause) = (error.to_string(), StdError::source(error).map(ToString::to_string));
        let text = match cause.as_deref() {
            Some("password missing") => "the server requests a password, but none is set: add it to the URL, or set \
                                         POSTHASTE_DATABASE_PASSWORD_FILE or POSTHASTE_DATABASE_PASSWORD_COMMAND"
                .to_owned(),
            Some("server did not use channel binding") => {
                "channel_binding=require, but the server did not use channel binding: it needs TLS and the \
                 authentication method scram-sha-256"
                    .to_owned()
            }
            Some(cause) => format!("{kind}: {cause}"),
            None => kind.clone(),
        };
        let is_login = ["authentication error", "invalid configuration"].contains(&kind.as_str());
        Self::new(if is_login { ConnectFailure::Authentication } else { ConnectFailure::Unreachable }, text)
    }

    /// Returns whether no other host or address should be tried.
    pub(crate) fn is_final(&self) -> bool {
        [ConnectFailure::Authentication, ConnectFailure::Password].contains(&self.reason)
    }

    /// Returns whether `sslmode=prefer` allows another attempt without TLS: the handshake failed, or the server refused
    /// the login.
    pub(crate) fn allows_plain_text(&self) -> bool {
        self.reason == ConnectFailure::Tls || (self.is_final() && self.code.is_some())
    }

    /// Adds the failure of the attempt before.
    pub(crate) fn after(mut self, first: &Self) -> Self {
        self.text = format!("with TLS: {}; without TLS: {}", first.text, self.text);
        self
    }
}

impl fmt::Display for HostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the failure for a known error in the chain of causes, or `None` if there is none.
fn by_cause(error: &(dyn StdError + 'static)) -> Option<HostFailure> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if cause.is::<ClearTextPassword>() {
            return Some(HostFailure::new(ConnectFailure::Authentication, cause.to_string()));
        }
        if cause.is::<NoAlpn>() {
            return Some(HostFailure::new(ConnectFailure::Tls, cause.to_string()));
        }
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return Some(HostFailure::new(ConnectFailure::Tls, tls_text(tls)));
        }
        // An `io::Error` returns the source of its inner error, not the inner error itself.
        next = match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    None
}

fn tls_text(error: &rustls::Error) -> String {
    use rustls::{AlertDescription, CertificateError, Error};
    if let Error::InvalidCertificate(CertificateError::Other(other)) = error
        && other.0.is::<CertificateRefused>()
    {
        return other.0.to_string();
    }
    if let Error::AlertReceived(alert) = error {
        let is_missing = *alert == AlertDescription::CertificateRequired;
        let advice = if is_missing { ": set sslcert and sslkey" } else { "" };
        return format!("the server ended the TLS handshake with {alert:?}{advice}");
    }
    format!("the TLS handshake failed: {error}")
}

/// The reason why no host of a URL could be used.
#[derive(Debug)]
pub(crate) struct ConnectError {
    failures: Vec<(String, HostFailure)>,
}

impl ConnectError {
    /// Creates the error from the failures of the hosts that were tried, in order. There is at least one.
    pub(crate) const fn new(failures: Vec<(String, HostFailure)>) -> Self {
        Self { failures }
    }

    /// Returns whether the limit of at least one host expired.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.failures.iter().any(|(_, failure)| failure.reason == ConnectFailure::Timeout)
    }

    /// Returns the reason for metrics: that of the last host.
    pub(crate) fn reason(&self) -> ConnectFailure {
        self.failures.last().map_or(ConnectFailure::Unreachable, |(_, failure)| failure.reason)
    }

    /// Returns the SQLSTATE of the error that the last host returned.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        self.failures.last().and_then(|(_, failure)| failure.code.as_ref())
    }

    /// Returns whether no host can be used until the operator changes something.
    pub(crate) fn is_permanent(&self) -> bool {
        let needs_change = |reason| matches!(reason, ConnectFailure::Tls | ConnectFailure::Authentication);
        self.failures.iter().all(|(_, failure)| needs_change(failure.reason))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (host, failure)) in self.failures.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{host}: {failure}")?;
        }
        Ok(())
    }
}

impl StdError for ConnectError {}
