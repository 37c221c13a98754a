//! Logs a change made by a person. The `audit` module of each engine writes the row in the transaction of the change
//! and calls this function after the commit.

use posthaste_core::KeyId;
use posthaste_core::audit::{Actor, Change};

/// Writes one line without the values before and after: URLs and descriptions do not belong in a log.
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
