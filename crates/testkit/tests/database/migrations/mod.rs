//! Migrations: refused when they do not fit, one at a time whoever starts them, and finished by the
//! next start wherever the last one was broken off.

mod filled;
mod fit;
mod postgres_killed;
mod postgres_migrator;
mod postgres_together;
mod sqlite_killed;
mod sqlite_together;
