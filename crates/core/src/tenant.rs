//! The tenant of an event or a subscription: the customer to whom it belongs. Callers send it, the stores keep it,
//! and [`route`](crate::route) compares it: an event matches only subscriptions of the same tenant.

use std::fmt;

/// The maximum length of a tenant, in characters.
pub const TENANT_CHARS_MAX: usize = 200;

/// An error from validating a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    #[error("tenant must have at least 1 character; omit it for objects without a tenant")]
    Empty,
    #[error("tenant must have at most {TENANT_CHARS_MAX} characters, got {chars}")]
    TooLong { chars: usize },
    #[error("tenant must not contain control characters, got U+{:04X}", u32::from(*.0))]
    Control(char),
}

/// The name of a tenant. Names are compared byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(String);

impl Tenant {
    pub fn parse(text: impl Into<String>) -> Result<Self, TenantError> {
        let text = text.into();
        if text.is_empty() {
            return Err(TenantError::Empty);
        }
        let chars = text.chars().count();
        if chars > TENANT_CHARS_MAX {
            return Err(TenantError::TooLong { chars });
        }
        match text.chars().find(|c| c.is_control()) {
            Some(control) => Err(TenantError::Control(control)),
            None => Ok(Self(text)),
        }
    }

    /// Creates a tenant from stored text, without validation.
    pub const fn from_store(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_is_validated() {
        let (longest, too_long) = ("ü".repeat(200), "ü".repeat(201));
        let rows: &[(&str, Option<TenantError>)] = &[
            ("acme", None),
            ("a", None),
            (" Acme GmbH & Co. ", None),
            ("客户/42", None),
            (&longest, None),
            ("", Some(TenantError::Empty)),
            (&too_long, Some(TenantError::TooLong { chars: 201 })),
            ("a\0", Some(TenantError::Control('\0'))),
            ("a\nb", Some(TenantError::Control('\n'))),
            ("\u{7f}", Some(TenantError::Control('\u{7f}'))),
            ("a\u{85}", Some(TenantError::Control('\u{85}'))),
        ];
        for (text, expected) in rows {
            let parsed = Tenant::parse(*text);
            assert_eq!(parsed.as_ref().err(), expected.as_ref(), "{text:?}");
            if let Ok(tenant) = parsed {
                assert_eq!((tenant.as_str(), tenant.to_string().as_str()), (*text, *text));
            }
        }
        assert_eq!(
            TenantError::Control('\n').to_string(),
            "tenant must not contain control characters, got U+000A"
        );
    }
}
