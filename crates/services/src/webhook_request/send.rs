//! Sends the requests of a subscription through the [`Sender`], with an access token or a client certificate if it has
//! one. Used for deliveries, challenges and test events.

use std::time::Duration;

use posthaste_core::Timestamp;
use tokio::time::Instant;

use super::open::OpenedAuth;
use super::{InstallationNames, OpenedRequest, WebhookMessage};
use crate::clock::Clock;
use crate::egress::Destination;
use crate::oauth2::{AccessToken, TokenCache, TokenError};
use crate::sender::{Exchange, OutgoingRequest, ReadUpTo, Sender};

/// The status of a receiver that refuses an access token.
const UNAUTHORIZED: u16 = 401;

/// The components that send a request.
#[derive(Debug, Clone, Copy)]
pub struct WebhookSender<'a> {
    pub sender: &'a Sender,
    pub tokens: &'a TokenCache,
    pub names: &'a InstallationNames,
    pub clock: &'a Clock,
}

impl WebhookSender<'_> {
    /// Sends a message once. The time limit covers the wait for an access token and the exchange. `now` is the time in
    /// the signatures, unless the message waits for a token.
    pub async fn send(
        &self,
        opened: &OpenedRequest,
        to: &Destination,
        message: &WebhookMessage<'_>,
        answer: ReadUpTo,
        deadline: Duration,
        now: Timestamp,
    ) -> Exchange {
        match &opened.auth {
            OpenedAuth::None | OpenedAuth::Header { .. } => {
                let built = opened.build(message, None, self.names, now);
                let request = OutgoingRequest::post(built.headers, built.body, answer, deadline);
                self.sender.send(to, request, now).await
            }
            OpenedAuth::Certificate(identity) => {
                let built = opened.build(message, None, self.names, now);
                let request = OutgoingRequest::post(built.headers, built.body, answer, deadline);
                self.sender.send(to, request.with_identity(identity.clone()), now).await
            }
            // Boxed because most requests need no token, but every future would have to reserve the space.
            OpenedAuth::Token(_) => {
                Box::pin(self.send_with_token(opened, to, message, answer, deadline)).await
            }
        }
    }

    async fn send_with_token(
        &self,
        opened: &OpenedRequest,
        to: &Destination,
        message: &WebhookMessage<'_>,
        answer: ReadUpTo,
        deadline: Duration,
    ) -> Exchange {
        let began = Instant::now();
        let token = match self.token(opened, began, began + deadline).await {
            Ok(token) => token,
            Err(error) => {
                let mut refused = Exchange::refused(error.failure());
                refused.duration = began.elapsed();
                return refused;
            }
        };
        let (now, left) = (self.clock.now(), deadline.saturating_sub(began.elapsed()));
        let built = opened.build(message, token.as_ref(), self.names, now);
        let request = OutgoingRequest::post(built.headers, built.body, answer, left);
        let mut exchange = self.sender.send(to, request, now).await;
        exchange.duration = began.elapsed();
        if let (Some(UNAUTHORIZED), OpenedAuth::Token(credentials), Some(token)) =
            (exchange.status(), &opened.auth, &token)
        {
            self.tokens.invalidate(&credentials.client(), token, Instant::now());
        }
        exchange
    }

    /// Returns the access token of the subscription, or `None` if it needs none.
    async fn token(
        &self,
        opened: &OpenedRequest,
        now: Instant,
        until: Instant,
    ) -> Result<Option<AccessToken>, TokenError> {
        match &opened.auth {
            OpenedAuth::Token(credentials) => {
                self.tokens.token(&credentials.client(), now, until).await.map(Some)
            }
            OpenedAuth::None | OpenedAuth::Header { .. } | OpenedAuth::Certificate(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
