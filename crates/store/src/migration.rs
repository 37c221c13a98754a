//! Which migrations a database still needs, and whether it may be touched at all. Pure; each engine
//! reads its list of applied ones, asks [`plan`], and runs the answer under a lock.

use sha2::{Digest as _, Sha256};

/// One numbered file of an engine's `migrations` folder.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub version: u32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// A line at the head of a file that cannot run inside a transaction (CREATE INDEX CONCURRENTLY). Its
/// statements, separated by lines that start with `-- step`, must each be safe to run again.
const NO_TRANSACTION: &str = "-- posthaste: no transaction";

impl Migration {
    /// SHA-256 of the file, in hex.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn in_transaction(&self) -> bool {
        !self.sql.starts_with(NO_TRANSACTION)
    }

    /// The steps of a file that runs without a transaction; a file with one has one step.
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
    /// False while a migration without a transaction has begun and not ended.
    pub finished: bool,
}

/// Why a database is not migrated, or not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    #[error(
        "the database has migration {version}, which this Posthaste does not know: it was migrated by a newer one; \
         run that one, or restore a backup from before"
    )]
    Newer { version: u32 },
    #[error(
        "migration {version} ({name}) was changed after it had been applied: the database has checksum {applied}, \
         this Posthaste has {known}; use the Posthaste that applied it, and put changes into a new migration"
    )]
    Changed { version: u32, name: &'static str, applied: String, known: String },
    #[error(
        "the database is at migration {at}, this Posthaste needs {needed}: run `posthaste migrate` first"
    )]
    Behind { at: u32, needed: u32 },
}

/// The migrations to run, in order; those that began and did not end among them.
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

/// Whether a database may be served: nothing is missing, changed or newer.
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
    fn runs_what_is_missing_or_unfinished() {
        assert_eq!(planned(&[]), Ok(vec![1, 2]));
        assert_eq!(planned(&[applied(&ONE, true)]), Ok(vec![2]));
        assert_eq!(planned(&[applied(&ONE, true), applied(&TWO, false)]), Ok(vec![2]));
        assert_eq!(planned(&[applied(&ONE, true), applied(&TWO, true)]), Ok(vec![]));
    }

    #[test]
    fn refuses_what_is_newer_or_changed() {
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
    fn steps_of_a_file_without_a_transaction() {
        assert_eq!(TWO.steps(), ["-- step: first\nSELECT 1;", "-- step: second\nSELECT 2;\n"]);
        assert_eq!(ONE.steps(), [ONE.sql]);
    }
}
