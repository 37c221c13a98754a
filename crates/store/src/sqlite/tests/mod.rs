//! Promises that only this engine makes.
