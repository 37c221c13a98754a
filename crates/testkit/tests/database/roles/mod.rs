//! The walls between the roles: everything `expected.txt` allows passes, everything else is refused, by
//! really trying it. PostgreSQL with a login for each role, SQLite as each role on the writer.

mod catalog;
mod document;
mod matrix;
mod own_logins;
mod postgres;
mod postgres_tries;
mod sqlite;
mod times;
