//! Determines which migrations a database needs, and whether it can be used. Performs no I/O: each engine reads the
//! applied migrations, calls [`plan`] and runs the returned migrations under a lock.

use sha2::{Digest as _, Sha256};

/// A numbered file in the `migrations` folder of an engine.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub version: u32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// Defines the migrations of an engine, in order, from the files in its `migrations` folder. Both engines have the same
/// versions and names.
macro_rules! migrations {
    () => {
        $crate::migration::migrations! {
            1 "0001_" "foundation",
            2 "0002_" "insight",
            3 "0003_" "subscription_health",
            4 "0004_" "suspect",
            5 "0005_" "rights",
            6 "0006_" "operator_audit",
            7 "0007_" "sessions",
            8 "0008_" "subscription_timeout",
        }
    };
    ($($version:literal $number:literal $name:literal,)*) => {
        &[$($crate::migration::Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("migrations/", $number, $name, ".sql")),
        }),*]
    };
}
pub(crate) use migrations;

/// First line of a migration that cannot run in a transaction, for example because it uses CREATE INDEX CONCURRENTLY.
/// Its statements are separated by lines that start with `-- step`, and each must be idempotent.
const NO_TRANSACTION: &str = "-- posthaste: no transaction";

impl Migration {
    /// Returns the SHA-256 of the file, in hexadecimal.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn in_transaction(&self) -> bool {
        !self.sql.starts_with(NO_TRANSACTION)
    }

    /// Returns the steps of the migration. A migration that runs in a transaction has one step.
    pub fn steps(&self) -> Vec<&'static str> {
        if self.in_transaction() {
            return vec![self.sql];
        }
        let mut steps = Vec::new();
        let mut start = 0;
        for (at, _) in self.sql.match_indices("\n-- step") {
            steps.push(&self.sql[start..at]);
            start = at + 1;
        }
        steps.push(&self.sql[start..]);
        steps.retain(|step| {
            step.lines().any(|line| !line.trim_start().starts_with("--") && !line.trim().is_empty())
        });
        steps
    }
}

/// A row of `schema_migrations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub version: u32,
    pub checksum: String,
    /// Whether the migration has finished. `false` if a migration without a transaction was interrupted.
    pub finished: bool,
}

/// The reason why a database cannot be migrated or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    #[error(
        "the database has migration {version}, which this version of Posthaste does not know: it was migrated by a \
         newer version; run that version, or restore a backup from before the migration"
    )]
    Newer { version: u32 },
    #[error(
        "migration {version} ({name}) was changed after it had been applied: the database has checksum {applied}, \
         this version of Posthaste has {known}; use the version that applied it, and put changes into a new migration"
    )]
    Changed { version: u32, name: &'static str, applied: String, known: String },
    #[error(
        "the database is at migration {at}, this version of Posthaste needs {needed}: run `posthaste migrate` first"
    )]
    Behind { at: u32, needed: u32 },
}

/// Returns the migrations to run, in order, including those that were started but not finished.
pub fn plan<'a>(known: &'a [Migration], applied: &[Applied]) -> Result<Vec<&'a Migration>, MigrationError> {
    for row in applied {
        let Some(migration) = known.iter().find(|migration| migration.version == row.version) else {
            return Err(MigrationError::Newer { version: row.version });
        };
        if migration.checksum() != row.checksum {
            return Err(MigrationError::Changed {
                version: row.version,
                name: migration.name,
                applied: row.checksum.clone(),
                known: migration.checksum(),
            });
        }
    }
    let done = |version| applied.iter().any(|row| row.version == version && row.finished);
    Ok(known.iter().filter(|migration| !done(migration.version)).collect())
}

/// Checks that a database can be used: no migration is missing, changed or newer.
pub fn check(known: &[Migration], applied: &[Applied]) -> Result<(), MigrationError> {
    match plan(known, applied)?.first() {
        None => Ok(()),
        Some(missing) => Err(MigrationError::Behind {
            at: missing.version.saturating_sub(1),
            needed: known.last().map_or(0, |migration| migration.version),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Migration = Migration { version: 1, name: "one", sql: "CREATE TABLE a (b int);" };
    const TWO: Migration = Migration {
        version: 2,
        name: "two",
        sql: "-- posthaste: no transaction\n-- step: first\nSELECT 1;\n-- step: second\nSELECT 2;\n",
    };

    fn applied(migration: &Migration, finished: bool) -> Applied {
        Applied { version: migration.version, checksum: migration.checksum(), finished }
    }

    fn planned(rows: &[Applied]) -> Result<Vec<u32>, MigrationError> {
        plan(&[ONE, TWO], rows).map(|list| list.iter().map(|migration| migration.version).collect())
    }

    #[test]
    fn missing_and_unfinished_migrations_are_planned() {
        assert_eq!(planned(&[]), Ok(vec![1, 2]));
        assert_eq!(planned(&[applied(&ONE, true)]), Ok(vec![2]));
        assert_eq!(planned(&[applied(&ONE, true), applied(&TWO, false)]), Ok(vec![2]));
        assert_eq!(planned(&[applied(&ONE, true), applied(&TWO, true)]), Ok(vec![]));
    }

    #[test]
    fn newer_and_changed_migrations_are_refused() {
        let newer = Applied { version: 3, checksum: "x".to_owned(), finished: true };
        assert_eq!(planned(&[newer]), Err(MigrationError::Newer { version: 3 }));
        let changed = Applied { checksum: "x".to_owned(), ..applied(&ONE, true) };
        assert!(matches!(planned(&[changed]), Err(MigrationError::Changed { version: 1, .. })));
        assert_eq!(
            check(&[ONE, TWO], &[applied(&ONE, true)]),
            Err(MigrationError::Behind { at: 1, needed: 2 })
        );
    }

    #[test]
    fn file_without_transaction_is_split_into_steps() {
        assert_eq!(TWO.steps(), ["-- step: first\nSELECT 1;", "-- step: second\nSELECT 2;\n"]);
        assert_eq!(ONE.steps(), [ONE.sql]);
    }
}
