//! Sends signals to processes and reads their state from `/proc`.

use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// The unit of the CPU times in `/proc/<pid>/stat`.
const TICK: Duration = Duration::from_millis(10);
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Sends a signal to a process. Has no effect if the process has ended.
pub fn send(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the running child processes of `parent`.
pub fn children(parent: u32) -> Vec<u32> {
    let folders = std::fs::read_dir("/proc").expect("/proc");
    let processes = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|process| Stat::of(*process).is_some_and(|stat| stat.parent == parent)).collect()
}

/// Waits until a killed process has ended. A zombie counts as ended.
pub fn wait_until_gone(process: u32) {
    let until = Instant::now() + GONE_WITHIN;
    while Stat::of(process).is_some_and(|stat| stat.state != 'Z') {
        assert!(Instant::now() < until, "process {process} does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills a process and its children with SIGKILL and waits until they have ended.
pub fn kill_with_children(parent: u32) {
    // Stop the parent first, so that it starts no more children.
    send(parent, Signal::STOP);
    let mut processes = children(parent);
    processes.push(parent);
    processes.iter().for_each(|process| send(*process, Signal::KILL));
    processes.iter().for_each(|process| wait_until_gone(*process));
}

/// Returns the CPU time used by a process so far, or zero if the process has ended.
pub fn cpu_time(process: u32) -> Duration {
    Stat::of(process).map_or(Duration::ZERO, |stat| stat.cpu)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    cpu: Duration,
}

impl Stat {
    fn of(process: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// Parses a line of `/proc/<pid>/stat`. The process name may contain any character; it ends at the last
    /// parenthesis.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u32>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            cpu: TICK * (ticks(11)? + ticks(12)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_parsed_whatever_the_process_name() {
        let line = "42 (a) b (c) S 7 1 1 0 -1 4194304 1 0 0 0 250 50 0 0 20 0 1 0 9 1 1";
        let stat = Stat { state: 'S', parent: 7, cpu: Duration::from_secs(3) };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse("no line"), None);
        assert!(Stat::of(std::process::id()).is_some_and(|stat| stat.state == 'R' || stat.state == 'S'));
    }
}
