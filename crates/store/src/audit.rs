//! The log line of a change that a person made. Each engine's `audit` module writes the row in the transaction of the
//! change and calls this after the commit.

use posthaste_core::KeyId;
use posthaste_core::audit::{Actor, Change};

/// Writes one line, without what was there before and after: URLs and descriptions do not belong in a log.
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
