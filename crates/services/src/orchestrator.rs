//! Moves sagas: [`Admission`] creates the jobs of due sagas (created by the router and by requeues),
//! [`Results`] applies what workers reported. The transitions are decided in `core::saga`; this module only
//! chooses which subscription is served next.

mod admission;
mod due;
mod in_flight;
mod results;

pub use admission::Admission;
pub use in_flight::InFlight;
pub use results::Results;
