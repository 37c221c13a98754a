//! Migrations: refused if they do not match, serialized between processes, and completed by the next start
//! after an interruption.

mod filled;
mod fit;
mod postgres_killed;
mod postgres_migrator;
mod postgres_together;
mod sqlite_killed;
mod sqlite_together;
