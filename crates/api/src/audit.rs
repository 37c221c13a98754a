//! The rows of the audit that sign-ins make, which change nothing else. All other rows are written by the stores, with
//! the change itself.

use crate::state::ApiState;
use posthaste_core::KeyId;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{KeyStore as _, Stores};
use std::net::IpAddr;

/// Records a sign-in. A store that cannot write keeps nobody from looking; the log has the sign-in then.
pub(crate) async fn signed_in<S: Stores>(api: &ApiState<S>, by: Actor) {
    if let Err(error) = api.keys.record_sign_in(by.clone(), api.clock.now()).await {
        let Actor { key_id, key_name, address } = by;
        let (key_id, address) = (key_id.map(KeyId::get), address.map(tracing::field::display));
        tracing::warn!(key_id, key_name, client_address = address, %error, "sign-in could not be written to the audit");
    }
}

/// Counts a sign-in that failed, and records it unless the address has a row of the last minute.
pub(crate) async fn sign_in_failed<S: Stores>(api: &ApiState<S>, address: Option<IpAddr>) {
    let now = api.clock.now();
    let Some(failed) = api.failed_sign_ins.add(address, now) else { return };
    if let Err(error) = api.keys.record_failed_sign_ins(failed, now).await {
        let address = address.map(tracing::field::display);
        tracing::warn!(client_address = address, %error, "failed sign-in could not be written to the audit yet");
        api.failed_sign_ins.put_back(failed, now);
    }
}
