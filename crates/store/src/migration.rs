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
            9 "0009_" "secret_ref",
            10 "0010_" "matching",
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

/// Start of the line in the head of a migration that names the oldest schema version whose programs work with the
/// schema during and after the migration. From version 9 on, every migration has this line or [`NOT_COMPATIBLE`].
const COMPATIBLE_WITH: &str = "-- posthaste: compatible with ";
/// Line in the head of a migration after which older programs do not work.
const NOT_COMPATIBLE: &str = "-- posthaste: not compatible";
/// First version whose migration must say which programs work with it. Programs before it do not read the line.
pub const FIRST_MARKED_VERSION: u32 = 9;

impl Migration {
    /// Returns the SHA-256 of the file, in hexadecimal.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the oldest schema version whose programs work with the schema during and after this migration, or `None`
    /// if only programs that know the migration do.
    pub fn compatible_with(&self) -> Option<u32> {
        self.head().find_map(|line| line.strip_prefix(COMPATIBLE_WITH)?.parse().ok())
    }

    /// Returns whether the file says which programs work with it.
    pub fn is_marked(&self) -> bool {
        self.compatible_with().is_some_and(|oldest| oldest < self.version)
            || self.head().any(|line| line == NOT_COMPATIBLE)
    }

    /// Returns the comment lines at the beginning of the file.
    fn head(&self) -> impl Iterator<Item = &'static str> {
        self.sql.lines().take_while(|line| line.starts_with("--")).map(str::trim_end)
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
    /// The oldest schema version whose programs work with the migration. `None` if only programs that know it do.
    pub compatible_with: Option<u32>,
}

/// The schema of a database that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// The version of the database.
    pub version: u32,
    /// The newest version that this program knows.
    pub known: u32,
}

impl Schema {
    /// Logs that the schema is newer than this program, if it is.
    pub(crate) fn log(self) {
        let Self { version, known } = self;
        if version > known {
            tracing::info!(
                schema_version = version,
                known_version = known,
                "the schema is newer than this version and compatible with it"
            );
        }
    }
}

/// The reason why a database cannot be migrated or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    #[error(
        "the database has migration {version}, which this version of Posthaste does not know: it was migrated by a \
         newer version, so run `posthaste migrate` of that version"
    )]
    Newer { version: u32 },
    #[error(
        "the database has migration {version}, which is newer than this version of Posthaste (schema {known}) and not \
         marked as compatible with it: run the newer version, or restore a backup from before the migration"
    )]
    Incompatible { version: u32, known: u32 },
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

/// Checks that a database can be used: no migration is missing or changed, and newer ones are marked as compatible with
/// this version. This includes a newer migration that has not finished: its steps are compatible as well, because
/// programs of this version run next to it.
pub fn check(known: &[Migration], applied: &[Applied]) -> Result<Schema, MigrationError> {
    let newest = known.last().map_or(0, |migration| migration.version);
    let is_known = |row: &&Applied| known.iter().any(|migration| migration.version == row.version);
    let (ours, newer): (Vec<&Applied>, Vec<&Applied>) = applied.iter().partition(is_known);
    let ours: Vec<Applied> = ours.into_iter().cloned().collect();
    if let Some(missing) = plan(known, &ours)?.first() {
        return Err(MigrationError::Behind { at: missing.version.saturating_sub(1), needed: newest });
    }
    let works =
        |row: &Applied| row.version > newest && row.compatible_with.is_some_and(|oldest| oldest <= newest);
    if let Some(row) = newer.iter().find(|row| !works(row)) {
        return Err(MigrationError::Incompatible { version: row.version, known: newest });
    }
    let finished = newer.iter().filter(|row| row.finished).map(|row| row.version);
    Ok(Schema { version: finished.max().unwrap_or(newest), known: newest })
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
        let compatible_with = migration.compatible_with();
        Applied { version: migration.version, checksum: migration.checksum(), finished, compatible_with }
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
        let newer = newer(3, true, None);
        assert_eq!(planned(&[newer]), Err(MigrationError::Newer { version: 3 }));
        let changed = Applied { checksum: "x".to_owned(), ..applied(&ONE, true) };
        assert!(matches!(planned(&[changed]), Err(MigrationError::Changed { version: 1, .. })));
        assert_eq!(
            check(&[ONE, TWO], &[applied(&ONE, true)]),
            Err(MigrationError::Behind { at: 1, needed: 2 })
        );
    }

    fn newer(version: u32, finished: bool, compatible_with: Option<u32>) -> Applied {
        Applied { version, checksum: "x".to_owned(), finished, compatible_with }
    }

    #[test]
    fn newer_migrations_are_accepted_if_all_are_marked_as_compatible() {
        let ours = [applied(&ONE, true), applied(&TWO, true)];
        let incompatible = |version| Err(MigrationError::Incompatible { version, known: 2 });
        let schema = |version| Ok(Schema { version, known: 2 });
        for (rows, expected) in [
            (vec![], schema(2)),
            (vec![newer(3, true, Some(2))], schema(3)),
            (vec![newer(3, true, Some(1))], schema(3)),
            (vec![newer(3, true, Some(3))], incompatible(3)),
            (vec![newer(3, true, None)], incompatible(3)),
            (vec![newer(3, true, Some(2)), newer(4, true, Some(2))], schema(4)),
            (vec![newer(3, true, Some(2)), newer(4, true, Some(3))], incompatible(4)),
            (vec![newer(3, true, None), newer(4, true, Some(1))], incompatible(3)),
            // A migration that has not finished.
            (vec![newer(3, false, Some(2))], schema(2)),
            (vec![newer(3, false, None)], incompatible(3)),
            // An unknown version that is not newer.
            (vec![newer(0, true, Some(0))], incompatible(0)),
        ] {
            let rows = [&ours[..], &rows].concat();
            assert_eq!(check(&[ONE, TWO], &rows), expected, "{rows:?}");
            let is_newer = matches!(planned(&rows), Err(MigrationError::Newer { .. }));
            assert_eq!(is_newer, rows.len() > 2, "the migrator refuses every newer schema");
        }
        let behind = [applied(&ONE, true), newer(3, true, Some(1))];
        assert_eq!(check(&[ONE, TWO], &behind), Err(MigrationError::Behind { at: 1, needed: 2 }));
    }

    #[test]
    fn head_of_a_migration_says_which_programs_work_with_it() {
        for (sql, compatible_with, marked) in [
            ("CREATE TABLE a (b int);", None, false),
            ("-- posthaste: compatible with 8\nSELECT 1;", Some(8), true),
            ("-- A table.\n-- posthaste: compatible with 8\nSELECT 1;", Some(8), true),
            (
                "-- posthaste: no transaction\n-- posthaste: compatible with 8\n-- step\nSELECT 1;",
                Some(8),
                true,
            ),
            ("-- posthaste: not compatible\nSELECT 1;", None, true),
            ("-- posthaste: compatible with 9\nSELECT 1;", Some(9), false),
            ("-- posthaste: compatible with all\nSELECT 1;", None, false),
            ("SELECT 1;\n-- posthaste: compatible with 8\n", None, false),
        ] {
            let migration = Migration { version: 9, name: "nine", sql };
            assert_eq!(
                (migration.compatible_with(), migration.is_marked()),
                (compatible_with, marked),
                "{sql}"
            );
        }
    }

    #[test]
    fn every_new_migration_says_which_programs_work_with_it() {
        let engines = [("postgres", crate::postgres::MIGRATIONS), ("sqlite", crate::sqlite::MIGRATIONS)];
        for (engine, migrations) in engines {
            for migration in migrations.iter().filter(|migration| migration.version >= FIRST_MARKED_VERSION) {
                let Migration { version, name, .. } = migration;
                assert!(
                    migration.is_marked(),
                    "{engine}/migrations/{version:04}_{name}.sql does not say which programs work with it. Add one of \
                     these lines to the comment at its beginning:\n\
                     {COMPATIBLE_WITH}{previous}   if programs of schema {previous} work during and after it\n\
                     {NOT_COMPATIBLE}   if they do not; a rolling upgrade is then impossible",
                    previous = version - 1
                );
            }
        }
    }

    #[test]
    fn file_without_transaction_is_split_into_steps() {
        assert_eq!(TWO.steps(), ["-- step: first\nSELECT 1;", "-- step: second\nSELECT 2;\n"]);
        assert_eq!(ONE.steps(), [ONE.sql]);
    }
}
