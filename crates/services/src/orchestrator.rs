//! Advances sagas. [`Admission`] creates jobs for due sagas (created by the router and by requeues);
//! [`Results`] applies the outcomes that workers reported. `core::saga` decides the transitions; this module
//! only chooses the subscription to serve next.

mod admission;
mod due;
mod in_flight;
mod results;

pub use admission::Admission;
pub use in_flight::InFlight;
pub use results::Results;
