//! The customer's own names for a subscription: its uid and its display name. They come from the API, and are stored
//! and returned unchanged.

use std::fmt;

/// The maximum length of a uid and of a name, in characters.
pub const IDENTITY_CHARS_MAX: usize = 200;

/// An error from validating a uid or a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("{field} must not be empty")]
    Empty { field: &'static str },
    #[error("{field} must be at most {IDENTITY_CHARS_MAX} characters long")]
    TooLong { field: &'static str },
    #[error("{field} must not contain control characters such as line breaks")]
    Control { field: &'static str },
}

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident = $field:literal)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: impl Into<String>) -> Result<Self, IdentityError> {
                let text = text.into();
                check($field, &text)?;
                Ok(Self(text))
            }

            /// Creates the value from stored text, without validation.
            pub fn from_store(text: String) -> Self {
                Self(text)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text! {
    /// The customer's own id of a subscription. It is unique per tenant among subscriptions that are not deleted.
    Uid = "uid"
    /// The display name of a subscription. Several subscriptions may have the same name.
    SubscriptionName = "name"
}

fn check(field: &'static str, text: &str) -> Result<(), IdentityError> {
    if text.is_empty() {
        Err(IdentityError::Empty { field })
    } else if text.chars().nth(IDENTITY_CHARS_MAX).is_some() {
        Err(IdentityError::TooLong { field })
    } else if text.chars().any(char::is_control) {
        Err(IdentityError::Control { field })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uid_and_name_are_validated() {
        let long = "ä".repeat(200);
        for good in ["a", "svix:app_1:ep_2", "Büro 7 / Übung", " ", long.as_str()] {
            assert_eq!(Uid::parse(good).map(Uid::into_string).as_deref(), Ok(good));
            assert_eq!(SubscriptionName::parse(good).map(|name| name.to_string()).as_deref(), Ok(good));
        }
        let too_long = "ä".repeat(201);
        let rows = [
            ("", "must not be empty"),
            (too_long.as_str(), "must be at most 200 characters long"),
            ("a\nb", "must not contain control characters such as line breaks"),
            ("a\0", "must not contain control characters such as line breaks"),
            ("\u{7f}", "must not contain control characters such as line breaks"),
            ("\u{85}", "must not contain control characters such as line breaks"),
        ];
        for (bad, expected) in rows {
            let uid = Uid::parse(bad).map_err(|error| error.to_string());
            assert_eq!(uid, Err(format!("uid {expected}")), "{bad:?}");
            let name = SubscriptionName::parse(bad).map_err(|error| error.to_string());
            assert_eq!(name, Err(format!("name {expected}")), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn accepted_text_is_unchanged(text in any::<String>()) {
            if let Ok(uid) = Uid::parse(text.as_str()) {
                prop_assert_eq!(uid.as_str(), text);
            }
        }
    }
}
