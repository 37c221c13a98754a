//! Creates commands for the external programs that `scripts/with-tools` provides, and paths of files in the repository.

use std::path::Path;
use std::process::Command;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run the tests with `make test`, \
             or with scripts/with-tools scripts/with-postgres cargo test"
        )
    })
}

/// Returns a command for Python with the packages in `scripts/with-tools.txt`.
pub(crate) fn python() -> Command {
    Command::new(variable("POSTHASTE_TEST_PYTHON"))
}

/// Returns the path of a file in the folder of these tests.
pub(crate) fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside").join(name)
}

/// Returns the path of a file in the repository.
pub(crate) fn repository(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

pub(crate) fn promtool() -> Command {
    Command::new(variable("POSTHASTE_TEST_PROMTOOL"))
}

pub(crate) fn chromedriver() -> Command {
    Command::new(variable("POSTHASTE_TEST_CHROMEDRIVER"))
}

/// Returns the source of axe-core, the script that checks the accessibility of a page.
pub(crate) fn axe() -> String {
    let print = "import axe_core_python, pathlib; \
                 print((pathlib.Path(axe_core_python.__file__).parent / 'axe.min.js').read_text())";
    let output = python().args(["-c", print]).output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns a command for the Go tool, without network access. Its build cache is in the target folder.
pub(crate) fn go() -> Command {
    let mut command = Command::new(variable("POSTHASTE_TEST_GO"));
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache");
    command.env("GOCACHE", cache).env("GOPROXY", "off").env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    command
}

pub(crate) fn ruby() -> Command {
    Command::new(variable("POSTHASTE_TEST_RUBY"))
}

pub(crate) fn php() -> Command {
    Command::new(variable("POSTHASTE_TEST_PHP"))
}

pub(crate) fn javac() -> Command {
    Command::new(variable("POSTHASTE_TEST_JAVAC"))
}

/// Returns a command for `java` from the same JDK as [`javac`].
pub(crate) fn java() -> Command {
    Command::new(Path::new(&variable("POSTHASTE_TEST_JAVAC")).with_file_name("java"))
}

pub(crate) fn node() -> Command {
    Command::new(variable("POSTHASTE_TEST_NODE"))
}

/// Returns the folder with the packages from `scripts/with-tools-node`.
pub(crate) fn node_modules() -> std::path::PathBuf {
    variable("POSTHASTE_TEST_NODE_MODULES").into()
}
