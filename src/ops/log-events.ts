/**
 * Every event that the log may name, and what it means. The logger accepts no other name, and
 * `docs/log-events.md` is generated from this table (`node deploy/generate.ts`).
 */
export const LOG_EVENTS = {
  "daemon.started": "The process is up; `roles` says what it does, `url` where it serves HTTP.",
  "daemon.stopping": "The process was asked to end; `why` names the signal.",
  "daemon.stop_timed_out":
    "Shutdown timed out: some connections were still open. No change is lost; the next start continues.",
  "daemon.stop_step_failed": "One step of the shutdown failed; the others were carried out.",
  "daemon.defect":
    "Something unexpected was thrown: a defect of crmsync. The process ends with 70.",
  "log.level_changed": "SIGUSR2 changed the log level; `level_now` is the new one.",

  "change.settled":
    "A change has ended; `outcome` and `reason` say how, `freshness_s` how long after its event.",
  "change.requeued":
    "A change goes back to the front of its queue, because the service's reply asks for another request.",
  "change.retry_scheduled":
    "The service gave no usable reply for one change; `reason` says why, `tries` how often so far.",
  "change.forbidden":
    "The service answered 403 for one change, and not for all; `record` names it. It is tried again, then it becomes a dead letter.",
  "change.overwritten":
    "The service did not have what was proven: an older request has taken effect late. The change is sent again.",
  "change.interrupted":
    "Work on one change was cut short, mostly by a lost Redis. It is repeated once its lock has expired.",

  "event.retry_scheduled":
    "An event could not be processed for a reason that may pass; it is tried again.",
  "record.ignored":
    "At debug: the mapping leaves a record out; `why` says for which reason. Nothing is sent.",
  "record.left":
    "A record no longer fulfils its rule's `when` (`onLeave: terminate`): its relation will be terminated.",
  "dead_letter.dropped":
    "A dead letter is no longer needed; `why` says how its event, or a newer one of the record, ended.",
  "event.defect":
    "Processing an event threw an error: a defect of crmsync. The event is a dead letter.",
  "intake.unavailable":
    "Events sent over HTTP could not be stored; their senders were answered 503.",
  "intake.worker_error": "The worker that takes events from the inbox reported an error.",
  "http.defect": "An HTTP request failed inside crmsync: a defect. It was answered 500.",

  "webhook.failed":
    "A webhook request was not accepted; `webhook` names the CRM, `outcome` and `why` the reason.",
  "webhook.changes_lost":
    "A CRM reports that it lost changes: push an export of it (`crmsync push --lane bulk`).",

  "fetch.failed":
    "A CRM did not return a record; `crm` names it, `outcome` and `why` the reason. It is tried again.",
  "fetch.missing":
    "A CRM says that a record does not exist, or may not be seen. Its event ends here.",
  "fetch.worker_error": "The worker that fetches records from CRMs reported an error.",

  "service.denied":
    "The service denies access: 401 (`denied` is token) or 403 (address). All sending has stopped.",
  "service.accepted_again": "The service grants access again; sending continues.",
  "service.unavailable":
    "Five requests in a row had no usable reply. One request is tried per pause until one succeeds.",
  "verify.failed": "A proof could not be verified; it is tried again.",
  "service.recovered": "The service gives usable replies again.",
  "probe.failed": "A probe of a service that denies access could not be carried out.",

  "quota.throttled": "The service answered 429; no process sends before `until`.",
  "quota.pacing_changed": "An unexplained 429 has switched pacing to steady for `for_hours` hours.",
  "quota.bursts_proven":
    "The service accepted more than a token bucket would have: bursts are allowed.",
  "quota.spent_elsewhere":
    "Another program has spent `requests` of the same quota; the count was corrected.",
  "quota.redis_error": "The quota could not read or write its state in Redis.",

  "ledger.warm": "The service has been listed; the ledger knows `relations` relations.",
  "ledger.listing_failed": "A page of the service's list could not be read; `reason` says why.",
  "ledger.cold":
    "Listing kept failing: changes are sent without it, some at the price of a second request.",
  "ledger.warm_up_interrupted": "The warm-up of the ledger was interrupted; it continues.",

  "value_lists.unknown":
    "The tenant's value lists are not known yet; events with values for them wait in the inbox.",
  "value_lists.fetch_failed":
    "The service did not return the tenant's value lists; `reply` says why.",
  "value_lists.check_failed": "The tenant's value lists could not be checked; it is tried again.",

  "sync.loop_error": "The loop that spends permits failed once; it continues.",
  "sync.worker_error": "The worker of the sync queue reported an error.",
  "sweep.pointers_restored": "`records` records had lost their job in a crash and have one again.",
  "sweep.ledger_rows_deleted":
    '`rows` old ledger rows that only said "does not exist" were deleted.',
  "sweep.failed": "A sweep failed; the next one repeats it.",
  "sweep.worker_error": "The worker that sweeps reported an error.",

  "redis.unreachable": "Redis cannot be reached. Changes wait where they are.",
  "redis.went_backwards":
    "Redis went back to an older state: `rows` rows of the ledger are not believed any more, and it is warmed again.",
  "redis.started": "The embedded redis-server is up.",
  "redis.restarted": "The embedded redis-server is up again after it had exited.",
  "redis.exited":
    "The embedded redis-server exited unexpectedly; `reason` says how. It is started again.",
  "redis.gave_up": "The embedded redis-server keeps exiting; the daemon ends.",

  "sandbox.started": "The embedded service is up; `token_file` holds its token.",
  "sandbox.defect": "The embedded service failed on a request: a defect.",

  "tracing.unavailable": "The trace collector does not answer; spans are dropped until it does.",
  "tracing.recovered": "The trace collector answers again.",
} as const;

export type LogEvent = keyof typeof LOG_EVENTS;
