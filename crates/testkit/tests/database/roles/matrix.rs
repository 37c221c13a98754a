//! Parses `expected.txt`, the manually maintained matrix of rights.

use std::collections::BTreeMap;

const EXPECTED: &str = include_str!("expected.txt");

/// The short and full names of the roles, in the order of the columns in the file.
pub(crate) const ROLES: [(&str, &str); 12] = [
    ("ing", "event_ingest_writer"),
    ("sub", "subscription_admin"),
    ("rou", "router_worker"),
    ("orc", "saga_orchestrator"),
    ("wrk", "job_worker"),
    ("cln", "lease_cleaner"),
    ("dlo", "dead_letter_operator"),
    ("obi", "outbox_writer"),
    ("obw", "outbox_worker"),
    ("key", "key_keeper"),
    ("vie", "viewer"),
    ("pub", "event_publisher"),
];

/// The tables that exist only on PostgreSQL.
pub(crate) const POSTGRES_ONLY: [&str; 1] = ["clock_guard"];

/// The rights of each role on one object, as letters.
type Rights = [&'static str; ROLES.len()];

#[derive(Debug, Default)]
pub(crate) struct Matrix {
    /// The tables with their columns, in the order of the file.
    pub(crate) tables: Vec<Table>,
    pub(crate) functions: BTreeMap<&'static str, Rights>,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<(&'static str, Rights)>,
    pub(crate) rows: Rights,
}

impl Table {
    /// Returns whether the role with this index has a right on a column.
    pub(crate) fn may(&self, role: usize, right: char, column: &str) -> bool {
        let found = self.columns.iter().find(|(name, _)| *name == column);
        found.expect("a column of the table").1[role].contains(right)
    }

    pub(crate) fn may_any(&self, role: usize, right: char) -> bool {
        self.columns.iter().any(|(_, rights)| rights[role].contains(right))
    }

    pub(crate) fn may_every(&self, role: usize, right: char) -> bool {
        self.columns.iter().all(|(_, rights)| rights[role].contains(right))
    }

    pub(crate) fn may_delete(&self, role: usize) -> bool {
        self.rows[role].contains('D')
    }

    pub(crate) fn column_names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|(name, _)| *name).collect()
    }
}

pub(crate) fn expected() -> Matrix {
    let mut matrix = Matrix::default();
    let mut in_functions = false;
    for line in EXPECTED.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let first = words.next().expect("a word");
        if !line.starts_with(' ') {
            in_functions = first == "functions";
            if !in_functions {
                assert_eq!(first, "table", "{line}");
                let name = words.next().expect("a table");
                matrix.tables.push(Table { name, columns: Vec::new(), rows: ["-"; ROLES.len()] });
            }
            let heads: Vec<_> = words.collect();
            assert_eq!(heads, ROLES.map(|(short, _)| short), "{line}");
            continue;
        }
        let rights: Vec<_> = words.collect();
        let rights: Rights =
            rights.try_into().unwrap_or_else(|_| panic!("expected one cell for each role: {line}"));
        let known = if in_functions {
            "X-"
        } else if first == "rows" {
            "D-"
        } else {
            "SIU-"
        };
        assert!(rights.iter().all(|cell| cell.chars().all(|right| known.contains(right))), "{line}");
        match (in_functions, first, matrix.tables.last_mut()) {
            (true, function, _) => drop(matrix.functions.insert(function, rights)),
            (false, "rows", Some(table)) => table.rows = rights,
            (false, column, Some(table)) => table.columns.push((column, rights)),
            (false, _, None) => panic!("a column before the first table: {line}"),
        }
    }
    matrix
}
