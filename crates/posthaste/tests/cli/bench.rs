//! Tests `posthaste bench` when a signal interrupts it.

use posthaste_testkit::commands::Running;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the process exits and returns its exit status.
fn ended(running: &mut Running) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = running.child.try_wait().expect("the child") {
            return status;
        }
        assert!(Instant::now() < until, "it is still running");
        std::thread::yield_now();
    }
}

#[test]
fn interrupted_benchmark_removes_its_files() {
    for signal in ["-INT", "-TERM"] {
        let folder = crate::folder();
        let count = || std::fs::read_dir(folder.path()).expect("a folder").count();
        let mut bench = Running::start(folder.path(), &["bench", "one"], &[]);
        let until = Instant::now() + PATIENCE;
        while count() == 0 {
            assert!(Instant::now() < until, "it creates no folder");
            std::thread::yield_now();
        }
        let pid = bench.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        assert_eq!(ended(&mut bench).code(), Some(1), "{signal}");
        assert_eq!(count(), 0, "{signal}");
    }
}
