//! Resolves host names for the sender. [`crate::egress`] checks the addresses before any connection is
//! opened. Tests use scripted resolvers.

mod cache;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;

pub use cache::CachingResolver;

/// The future returned by [`Resolve::resolve`]. Boxed so that the sender needs no type parameter for the
/// resolver.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

pub trait Resolve: Send + Sync + 'static {
    /// Returns all addresses of a host name, in the order in which they should be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// The resolver of the operating system. Each lookup occupies a thread of the runtime until the system
/// returns, even if its caller no longer waits: use it through a [`CachingResolver`].
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            // The function requires a port, which is not used.
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_resolved() {
        let found = SystemResolver.resolve("localhost").await.expect("an answer");
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    #[tokio::test]
    async fn invalid_name_is_an_error() {
        // The name is too long for any resolver, so no query is sent.
        assert!(SystemResolver.resolve(&"a".repeat(300)).await.is_err());
    }
}
