//! Code shared by engines that connect to a server: calls with retries, and faults. Each engine adds its driver and the
//! classification of driver errors.

mod call;
mod fault;

pub(crate) use call::Call;
pub(crate) use fault::{Fault, Phase};
