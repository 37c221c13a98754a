//! The process role api: the batchers for new events and orders, the services behind the operational pages, and the
//! HTTP server.

use super::{Process, machine_now};
use crate::{postgres_login, random};
use anyhow::Context as _;
use posthaste_api::server::Server;
use posthaste_api::{ApiState, Limits, Operations, Outgoing, VerificationOptions, key_hash, router};
use posthaste_core::job::RequestTimeouts;
use posthaste_core::ports::Stores;
use posthaste_services::failed_sign_ins::{self, FailedSignInWriter};
use posthaste_services::ingest::{self, Ingest};
use posthaste_services::outbox::intake::{self, Intake};
use posthaste_services::outbox::{LANE_EVERY, LaneWatch};
use posthaste_services::runner::{DrainPhase, Service};
use posthaste_services::survey::{self, SurveyOptions, Surveyor};
use posthaste_services::wake::WakeUp;
use posthaste_store::sqlite::MIGRATIONS;
use std::net::SocketAddr;
use tokio::sync::oneshot;

impl<S: Stores> Process<'_, S> {
    /// Starts the services of the role api. [`start_api`](Self::start_api) starts the HTTP server later.
    pub(super) fn start_api_role(&mut self) {
        let (store, wake_ups, metrics) = (self.store.clone(), self.wake_ups.clone(), self.metrics.clone());
        let ingest = Ingest::new(store.ingest(), wake_ups.clone(), metrics.clone());
        self.ingest =
            Some(self.start_batcher(ingest::SERVICE, ingest, ingest::WAITING_MAX, ingest::BATCH_MAX));
        if self.settings.broker.url.is_some() {
            let ttl = self.settings.outbox.ledger_ttl;
            let intake = Intake::new(store.outbox_intake(), ttl, wake_ups, metrics.clone());
            self.intake =
                Some(self.start_batcher(intake::SERVICE, intake, intake::WAITING_MAX, intake::BATCH_MAX));
        }
        let surveyor = Surveyor::new(store.insight(), self.survey_options(), self.clock.clone(), metrics);
        self.last_survey = surveyor.last();
        self.start_polling("surveyor", surveyor, survey::EVERY);
        self.start_polling("lane", LaneWatch::new(store.reader(), self.lane.clone()), LANE_EVERY);
        let writer = FailedSignInWriter::new(store.keys(), self.failed_sign_ins.clone());
        let service = Service::new("failed_sign_ins", writer, WakeUp::default(), failed_sign_ins::EVERY);
        self.runner.start(Service { phase: DrainPhase::Telemetry, ..service });
    }

    fn survey_options(&self) -> SurveyOptions {
        SurveyOptions {
            lease: self.settings.lease.length,
            cleaner_interval: self.settings.lease.cleaner_interval,
            order_stuck_after: self.settings.outbox.stuck_threshold,
        }
    }

    fn operations(&self) -> Operations {
        let mut warnings = self.settings.warnings();
        if self.settings.root_key.is_some() {
            warnings.push(
                "POSTHASTE_ROOT_KEY is set: create keys with `posthaste key create`, then unset it"
                    .to_owned(),
            );
        }
        Operations {
            build: self.build_info(),
            schema_needed: MIGRATIONS.last().map_or(0, |migration| migration.version),
            warnings,
            survey: self.survey_options(),
            last_survey: self.last_survey.clone(),
            connections: postgres_login::connection_demand(self.settings),
            machine_now,
        }
    }

    /// Starts the HTTP server. Must be called after all services have been started, because readiness covers only the
    /// services that exist by then.
    pub(super) fn start_api(
        &mut self,
        listening: oneshot::Sender<SocketAddr>,
    ) -> anyhow::Result<Option<Server>> {
        let (Some(listener), Some(ingest)) = (self.listener.take(), self.ingest.clone()) else {
            return Ok(None);
        };
        let settings = self.settings;
        let outgoing = Outgoing {
            sender: self.sender.clone().context("the role api has no sender")?,
            sealer: settings.sealer.clone(),
            tokens: self.tokens.clone().context("the role api has no token cache")?,
            names: settings.names.clone(),
            timeouts: RequestTimeouts { default: settings.request_timeout, lease: settings.lease.length },
        };
        let limits = Limits {
            payload_bytes_max: settings.limits.payload_bytes_max,
            batch_events_max: settings.limits.batch_events_max as usize,
        };
        let (late_after, operations) = (self.late_after(), self.operations());
        let (clock, metrics, wake_ups) = (self.clock.clone(), self.metrics.clone(), self.wake_ups.clone());
        let store = &self.store;
        let state = ApiState::new(
            store,
            ingest,
            clock,
            metrics,
            wake_ups,
            outgoing,
            limits,
            operations,
            random::fill,
        )
        .with_attribute_rules(settings.attribute_rules.clone())
        .with_verification(VerificationOptions {
            methods: settings.verification_methods.clone(),
            origin: settings.names.webhook_origin.clone(),
        })
        .with_orders(self.intake.clone())
        .with_failed_sign_ins(self.failed_sign_ins.clone())
        .with_root_key(settings.root_key.as_ref().map(|key| key_hash(key.expose())))
        .with_pulses(self.heartbeats(), late_after, self.lane.clone())
        .with_metrics_elsewhere(settings.metrics_listen.is_some());
        let address = listener.local_addr().context("reading the local address")?;
        tracing::info!(url = format!("http://{address}"), "API listening");
        let server = Server::start_with(listener, router(state), self.server_options());
        // Only `posthaste dev` waits for the address.
        let _ = listening.send(address);
        Ok(Some(server))
    }
}
