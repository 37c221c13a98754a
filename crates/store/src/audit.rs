//! Logs changes made by people. The `audit` module of each engine writes the audit row in the transaction of the
//! change, and calls [`log()`] after the commit.

use posthaste_core::KeyId;
use posthaste_core::audit::{Actor, Change};

/// Logs a change without the values before and after it, because URLs and descriptions do not belong in a log.
pub(crate) fn log(by: &Actor, change: &Change) {
    tracing::info!(
        action = change.action.as_str(),
        object = change.object,
        key_id = by.key_id.map(KeyId::get),
        key_name = by.key_name,
        client_address = by.address.map(tracing::field::display),
        "operator action"
    );
}
