//! Methods of [`Rig`] that insert test data into the pipeline and read its results.

use super::Rig;
use crate::fixtures::{actor, event, id_of, stored, subscribe_verified, subscription, updated};
use crate::harness::Harness;
use crate::receiver::{Answer, Received, Receiver};
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{
    Attempt, DeadLetter, DeadLetterFilter, DeadLetterStore as _, DeliveryFilter, Ingested, PageRequest,
    ReaderStore as _, Requeue, Rotated, SecretRotation, Stores, SubscriptionStore as _, Verification,
};
use posthaste_core::saga::{Saga, SagaStatus};
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{
    CallbackUrl, NewSubscription, SecretColumn, SecretPlace, Secrets, SubscriptionPatch,
};
use posthaste_core::{DeadLetterId, EventId, SagaId, SubscriptionId, Timestamp};
use posthaste_services::batcher::BatchHandler as _;

impl<S: Stores> Rig<S> {
    pub fn draw_secret(&mut self) -> SigningSecret {
        let mut bytes = [0; 32];
        bytes.iter_mut().for_each(|byte| *byte = u8::try_from(self.random.below(256)).expect("a byte"));
        SigningSecret::from_random(bytes)
    }

    /// Returns a new nonce of twelve bytes.
    pub fn draw_nonce(&mut self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.random.next().to_be_bytes());
        nonce
    }

    /// Creates a verified subscription with a new secret.
    pub async fn subscribe(&mut self, kind: &str, url: &str) -> SubscriptionId {
        self.subscribe_with(kind, url, None).await
    }

    pub async fn subscribe_with(&mut self, kind: &str, url: &str, limit: Option<u32>) -> SubscriptionId {
        let (secret, nonce) = (self.draw_secret(), self.draw_nonce());
        let base = subscription(kind);
        let place = SecretPlace { secret_ref: base.secret_ref, column: SecretColumn::Current };
        let new = NewSubscription {
            callback_url: CallbackUrl::parse(url, true).expect("a URL"),
            max_retry_limit: limit,
            secret: self.sealer.seal(&secret, place, nonce),
            ..base
        };
        subscribe_verified(&self.h.calm, new, self.now()).await
    }

    /// Creates a pipeline with one receiver, which is subscribed to events of type `a`.
    pub async fn subscribed(
        h: Harness<S>,
        answer: impl Fn(&Received) -> Answer + Send + Sync + 'static,
    ) -> (Self, Receiver, SubscriptionId) {
        let (mut rig, receiver) = (Self::new(h), Receiver::start(answer).await);
        let subscription = rig.subscribe("a", &receiver.url("/")).await;
        (rig, receiver, subscription)
    }

    pub async fn unsubscribe(&self, id: SubscriptionId) {
        let deleted = self.h.calm.subscriptions().delete_subscription(id, actor(), self.now()).await;
        assert!(deleted.expect("a result"));
    }

    /// Marks the subscription as verified, as if the receiver had passed the challenge.
    pub async fn verify(&self, id: SubscriptionId) {
        let subscriptions = self.h.calm.subscriptions();
        let (subscription, secrets) =
            subscriptions.load_subscription(id).await.expect("a result").expect("a subscription");
        let challenged = Verification::challenge(subscription.callback_url, secrets.current);
        assert!(subscriptions.mark_verified(id, challenged, actor(), self.now()).await.expect("a result"));
    }

    pub async fn patch(&self, id: SubscriptionId, patch: SubscriptionPatch) {
        updated(self.h.calm.subscriptions().update_subscription(id, patch, None, actor(), self.now()).await);
    }

    /// Returns the stored secrets of a subscription.
    pub async fn secrets_of(&self, id: SubscriptionId) -> Secrets {
        let loaded = self.h.calm.subscriptions().load_subscription(id).await.expect("a result");
        loaded.expect("a subscription").1
    }

    /// Returns the secret that currently signs the requests of a subscription.
    pub async fn secret_of(&self, id: SubscriptionId) -> SigningSecret {
        let secrets = self.secrets_of(id).await;
        self.sealer.open(&secrets.current, secrets.place(SecretColumn::Current)).expect("a secret")
    }

    /// Replaces the secret of a subscription. The old one remains valid until `until`.
    pub async fn rotate(&mut self, id: SubscriptionId, new: &SigningSecret, until: Timestamp) {
        let nonces = [self.draw_nonce(), self.draw_nonce()];
        let (old, secrets) = (self.secret_of(id).await, self.secrets_of(id).await);
        let (current, previous) =
            (secrets.place(SecretColumn::Current), secrets.place(SecretColumn::Previous));
        let rotation = SecretRotation {
            replaced: secrets.current,
            secret: self.sealer.seal(new, current, nonces[0]),
            previous: Some((self.sealer.seal(&old, previous, nonces[1]), until)),
            older: None,
            signing_key: None,
        };
        let rotated = self
            .h
            .calm
            .subscriptions()
            .rotate_secret(id, rotation, actor(), self.now())
            .await
            .expect("a result");
        assert!(matches!(rotated, Rotated::Rotated(_)), "{rotated:?}");
    }

    pub async fn submit(&mut self, event: NewEvent) -> Ingested {
        let outcomes = self.ingest.handle(vec![vec![event]], self.clock.now()).await;
        stored(&outcomes.expect("a result")[0])[0]
    }

    pub async fn publish(&mut self, kind: &str) -> EventId {
        id_of(self.submit(event(kind)).await)
    }

    pub async fn publish_many(&mut self, kind: &str, count: usize) -> Vec<EventId> {
        let outcomes = self.ingest.handle(vec![vec![event(kind); count]], self.clock.now()).await;
        stored(&outcomes.expect("a result")[0]).iter().copied().map(id_of).collect()
    }

    /// Returns the sagas of an event, oldest first.
    pub async fn sagas_of(&self, event: EventId) -> Vec<Saga> {
        let filter = DeliveryFilter { event_id: Some(event), ..DeliveryFilter::default() };
        let page = PageRequest::first(1_000);
        let found = self.h.calm.reader().deliveries(filter, page).await.expect("a result");
        let mut sagas: Vec<_> = found.items.into_iter().map(|delivery| delivery.saga).collect();
        sagas.sort_unstable_by_key(|saga| saga.id);
        sagas
    }

    /// Returns the only saga of an event. Panics if there is not exactly one.
    pub async fn saga_of(&self, event: EventId) -> Saga {
        let mut sagas = self.sagas_of(event).await;
        assert_eq!(sagas.len(), 1, "{sagas:?}");
        sagas.remove(0)
    }

    /// Returns the status, attempt count and last error of the only saga of an event.
    pub async fn fate_of(&self, event: EventId) -> (SagaStatus, u32, String) {
        let state = self.saga_of(event).await.state;
        let code = state.final_error_code.map_or_else(String::new, |code| code.to_string());
        (state.status, state.attempt_count, code)
    }

    pub async fn saga(&self, id: SagaId) -> Saga {
        self.h.calm.reader().delivery(id).await.expect("a result").expect("a saga").0.saga
    }

    pub async fn attempts(&self, id: SagaId) -> Vec<Attempt> {
        self.h.calm.reader().delivery(id).await.expect("a result").expect("a saga").1
    }

    /// Returns all dead letters, oldest first.
    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        let page = PageRequest::first(1_000);
        let found = self.h.calm.reader().dead_letters(DeadLetterFilter::default(), page).await;
        let mut letters = found.expect("a result").items;
        letters.sort_unstable_by_key(|letter| letter.head.id);
        letters
    }

    pub async fn requeue(&self, letter: DeadLetterId) -> Requeue {
        let answers =
            self.h.calm.dead_letters().requeue_dead_letters(vec![letter], actor(), self.now()).await;
        answers.expect("a result")[0]
    }
}
