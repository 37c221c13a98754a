//! The ports that requests may be sent to. They come from the settings and are checked by the address policy.

use std::collections::BTreeSet;
use std::fmt;

/// The allowed ports. The default allows any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowedPorts {
    #[default]
    Any,
    Only(BTreeSet<u16>),
}

impl AllowedPorts {
    pub fn contains(&self, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::Only(ports) => ports.contains(&port),
        }
    }
}

/// Formats the ports as in the settings: `any`, or a list separated by commas.
impl fmt::Display for AllowedPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Only(ports) => {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                f.write_str(&ports.join(","))
            }
        }
    }
}
