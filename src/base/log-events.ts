/**
 * Every event that the log may name, with the sentence that its lines carry as `msg`; what only the
 * reference says is in its second line. The logger accepts no other name, and `docs/log-events.md` is
 * generated from this table (`node deploy/generate.ts`).
 */
export const LOG_EVENTS = {
  "daemon.starting": "The process starts.",
  "daemon.started": "The process is up.",
  "config.variable_unread":
    "A variable is set that crmsync does not read; its name is like that of one that is not set.\n`variable` names it, `meant` the other one.",
  "daemon.stopping":
    "The process was asked to end.\n`why` names the signal. The port is closed after `delay_ms`.",
  "daemon.stop_timed_out":
    "Shutdown timed out: some connections were still open. No change is lost; the next start continues.",
  "daemon.stop_step_failed": "One step of the shutdown failed; the others were carried out.",
  "daemon.defect":
    "Something unexpected was thrown: a defect of crmsync. The process ends with 70.",
  "systemd.not_told":
    "Systemd could not be told that the daemon is ready, alive or ending.\n`reason` says why. After WatchdogSec systemd would restart the daemon.",
  "node.warned": "Node or a library has written a warning.\n`reason` is its first line.",
  "log.level_changed": "SIGUSR2 changed the log level.",

  "change.settled": "A change has ended.",
  "change.requeued":
    "A record is due again at once, because the service's reply asks for another request.",
  "change.retry_scheduled":
    "The service gave no usable reply for one change; it is tried again.\n`reason` says why, `tries` how often before. At info one line a minute for each reason, at debug all.",
  "change.forbidden":
    "The service answered 403 for one change, and not for all. It is tried again, then it becomes a dead letter.",
  "change.overwritten":
    "The service did not have what was proven: an older request has taken effect late. The change is sent again.",
  "change.not_stored":
    "The service confirmed a change, and did not have it minutes later. It is sent again.",
  "termination.held":
    "More relations than TERMINATE_LIMIT would be terminated within 24 hours: this one is held until a person decides.",
  "update.held":
    "More relations than EMPTY_LIMIT would lose a field within an hour: this update is held until a person decides.",
  "change.not_opened":
    "A staged state cannot be opened with STATE_KEY. It stays in Redis and is tried again.",
  "change.lost":
    "A change that waited is gone from Redis: its key was deleted or evicted. Send the record again.\nIf there are many, reconcile an export of the CRM.",
  "change.interrupted":
    "Work on one change was cut short, mostly by a lost Redis. It is repeated once its lock has expired.",

  "event.retry_scheduled":
    "An event could not be processed for a reason that may pass; it is tried again.",
  "record.ignored": "The mapping leaves a record out; nothing is sent.",
  "record.value_left_out":
    "The mapping did not carry over a value of a record as it was; the rest of the record continues.",
  "record.left":
    "A record no longer fulfils its rule's condition: its relation will be terminated.\nThe mapping says so by `onLeave: terminate`.",
  "dead_letter.dropped": "A dead letter is no longer needed.",
  "dead_letter.redriven":
    "Dead letters were redriven, because they may pass now.\n`records` counts them; `why`: other value lists, or `false rejections` of the service.",
  "dead_letter.expired":
    "Dead letters were deleted: they had not been redriven, corrected or dropped within DEAD_LETTER_DAYS.\n`records` counts them.",
  "event.defect":
    "Processing an event threw an error: a defect of crmsync. The event is a dead letter.",
  "intake.unavailable":
    "Events sent over HTTP could not be stored; their senders were answered 503.",
  "intake.worker_error": "The worker that takes events from the inbox reported an error.",
  "http.refused":
    "Requests were refused or connections cut, because they would have harmed the other senders.\n`reason` names the limit (docs/http.md).",
  "http.open_to_all":
    "Other machines can read /status and /metrics without a token: set VIEWER_TOKEN.",
  "http.defect": "An HTTP request failed inside crmsync: a defect. It was answered 500.",

  "console.login":
    "Somebody has logged in to the console.\n`kind` is OPERATOR_TOKEN, VIEWER_TOKEN or OIDC, `from` the address.",
  "console.logout": "Somebody has logged out of the console.",
  "console.refused":
    "A login to the console was refused; no session was opened or ended.\n`why` says why, `kind` is token, OIDC or logout token, `from` the address.",
  "console.ended_by_provider": "The identity provider has ended sessions of a person.",
  "console.provider_unusable":
    "The identity provider cannot be used: nobody can sign in there; tokens work, and it is tried again.\n`why` is also in `crmsync status`.",
  "console.provider_usable_again": "People can sign in at the identity provider again.",

  "webhook.failed": "A webhook request was not accepted.",
  "webhook.undated":
    "A webhook dates changes before 2000, as programs write no time: they count as of their arrival.\nCorrect its `time` in the mapping.",
  "webhook.changes_lost":
    "A CRM reports that it lost changes: reconcile an export of it (crmsync reconcile).",

  "fetch.failed": "A CRM did not return a record; it is tried again.",
  "pull.not_answered":
    "A CRM was asked for its changes and did not answer as it should; it is asked again.",
  "pull.cursor_lost":
    "A CRM has lost the place of the last pull: all its records are listed in the lane bulk.",
  "pull.undated":
    "Records came without a usable time of their last change: they count as of the moment when they were read.",
  "pull.failed": "A pull of a CRM ended with an error that is not the CRM's; it is tried again.",
  "crm.not_checked":
    "Whether the CRMs are as the mapping needs them could not be checked; that is tried again.",
  "fetch.missing":
    "A CRM says that a record does not exist, or may not be seen. Its event ends here.",
  "fetch.foreign_job":
    "Somebody has added a job to the queue fetch that names no record. It was removed; events belong in the queue crm-events.",
  "fetch.worker_error": "The worker that fetches records from CRMs reported an error.",

  "redis.file_rewritten":
    "The embedded Redis rewrites its append-only file: values that were sent disappear from it.",
  "redis.rewrite_failed":
    "The embedded Redis could not begin to rewrite its append-only file; it is tried again.",
  "state.sealed_again":
    "Values in Redis were not sealed with the first key of STATE_KEY; those that could be opened are now.\n`missing` counts the others by the key that they need.",
  "state.sealing_failed":
    "Values in Redis could not be sealed with the first key of STATE_KEY; it is tried again.",
  "state.not_sealed":
    "Redis is not on this machine, and STATE_KEY is not set: waiting personal data lies there as plain text.",
  "state.key_new":
    "STATE_KEY is set for the first time; the ledger is listed again, because its fingerprints had no key.",
  "ledger.other_service":
    "This process sends to another service than the one before; it is listed again, and gets what still waits.\nRecords that still wait go to the new one.",
  "service.waits":
    "Another process sends to another service; this one waits until it has ended.\n`host` names that process. One ledger cannot be about two services.",
  "service.tenant_unknown":
    "SERVICE_TOKEN may be another tenant's: nothing is sent with it.\n`why` is foreign (the service has none of the relations that the ledger knows), or how the check failed.",
  "service.tenant_known": "SERVICE_TOKEN is of the ledger's tenant.",
  "service.tenant_unchecked":
    "Whether SERVICE_TOKEN is of the ledger's tenant could not be checked; it is tried again.",
  "mapping.waits": "Another person must approve the mapping (APPROVALS=mapping): events wait.",
  "mapping.kept_fields_changed":
    "The mapping leaves other fields to others than before; the ledger is listed again.\nIts fingerprints leave these fields out: those with `owned: false` or `fill: empty`.",

  "audit.failed": "The audit trail cannot be written: this process sends nothing until it can.",
  "audit.recovered": "The audit trail can be written again; sending continues.",
  "audit.head":
    "The newest line of the audit trail.\n`head` is for `crmsync audit verify --head`. Each hour, and at the end.",

  "secret.unusable":
    "The file of a secret has changed and cannot be used; the last value that could stays in force.",

  "service.denied":
    "The service denies access. All sending has stopped.\n`denied` is token (401) or address (403).",
  "service.accepted_again": "The service grants access again; sending continues.",
  "service.unavailable":
    "Five records in a row failed or were rejected. One request is tried per pause until one succeeds.",
  "service.rejects_all":
    "The service rejects everything, and this is believed now: the changes become dead letters.",
  "service.recovered": "The service gives usable replies again.",
  "probe.failed": "A probe of a service that denies access could not be carried out.",

  "quota.throttled": "The service answered 429; no process sends for a while.",
  "quota.pacing_changed": "An unexplained 429 has switched pacing to steady.",
  "quota.spent_elsewhere":
    "Another program has spent requests of the same quota; the count was corrected.",
  "quota.redis_error": "The quota could not read or write its state in Redis.",

  "ledger.warm": "The service has been listed, and the ledger is warm.",
  "ledger.listing_failed": "A page of the service's list could not be read; it is tried again.",
  "ledger.listing_token_changed":
    "The token has changed while the service was listed: the listing begins again with the new one.",
  "ledger.list_endless":
    "The service's list goes on without an end: its pages bring nothing new. Changes are sent without a warm ledger.\nIt has shown `relations` relations. Report it to the service's support.",
  "ledger.lost":
    "Rows of the ledger are gone, although crmsync has not deleted them: the service is listed again.\nReconcile an export of the CRM.",
  "ledger.cold":
    "Listing kept failing: changes are sent without it, some at the price of a second request.",
  "ledger.warm_up_interrupted": "The warm-up of the ledger was interrupted; it continues.",

  "reconcile.began": "A reconciliation begins: of a file in RECONCILE_DIR, or scheduled.",
  "reconcile.ended":
    "A reconciliation that this daemon began has ended.\n`outcome` is success, stopped (a guard asks for a person) or failed; `.result.json` beside its file says more. `requests` is what its plan needs.",
  "reconcile.later":
    "A reconciliation failed for a reason that may pass; it is tried again with growing pauses.",
  "reconcile.folder_unusable":
    "RECONCILE_DIR cannot be read or written: nothing in it is compared.",
  "reconcile.look_failed": "RECONCILE_DIR could not be looked at.",

  "value_lists.unknown":
    "The tenant's value lists are not known yet; events with values for them wait in the inbox.",
  "value_lists.fetch_failed": "The service did not return the tenant's value lists.",
  "value_lists.field_unusable":
    "Fields of the service's value lists are not as it promises: their last known lists stay, or they are ignored.",
  "value_lists.fetched_again":
    "A value list has more values: the records that were sent without one are fetched from their CRM again.\n`records` says how many.",
  "value_lists.values_left_out":
    "Records were sent without a value that a list allows by now, and are not fetched: reconcile an export of the CRM.",
  "value_lists.changed": "The service's value list of a field has changed.",
  "value_lists.check_failed": "The tenant's value lists could not be checked; it is tried again.",

  "sync.loop_error": "The loop that spends permits failed once; it continues.",
  "bulk.cancelled":
    "An operator has dropped changes that waited in the lane bulk (crmsync bulk cancel).",
  "sweep.ledger_rows_deleted": 'Old ledger rows that only said "does not exist" were deleted.',
  "chore.failed":
    "A chore of this process failed; its next pass comes at its usual time.\n`chore` names it (docs/architecture.md).",
  "sweep.failed": "A sweep failed; the next one repeats it.",
  "reconcile.list_kept":
    "Old files of reconcile could not be removed; it is tried again.\nRecords that a CRM has listed, plans, and what a crash has left, in DATA_DIR/reconcile.",

  "redis.unreachable": "Redis cannot be reached. Changes wait where they are.",
  "status.unreadable":
    "Redis answers, but its state cannot be read: status and the gauges of shared state are missing.",
  "process.frozen":
    "This process did not run although it should have: it was stopped, or its machine had no time for it.\n`for_ms` says how long. Nothing is lost.",
  "redis.replica_late":
    "No replica of Redis has confirmed an event in time; it was accepted all the same.",
  "redis.clock_stepped":
    "Redis' clock was set. Pauses may end earlier or later, and a 429 may come; no change is lost.",
  "redis.went_backwards":
    "Redis went back to an older state, or was emptied: the ledger is not believed any more, and is warmed again.\n`rows` counts its rows, `removed` older states that waited.",
  "state.other_version":
    "The state in Redis has another version than this program, or none; the process ends with 78.",

  "redis.started": "The embedded redis-server is up.",
  "redis.restarted": "The embedded redis-server is up again after it had exited.",
  "redis.exited": "The embedded redis-server exited unexpectedly. It is started again.",
  "redis.gave_up": "The embedded redis-server keeps exiting; the daemon ends.",

  "approvals.rule_not_kept":
    "Which acts need a second person could not be written to Redis; it is tried again.\nCommands go on with what was written last.",

  "notify.failed":
    "A notification could not be delivered; it is tried again.\n`why` says what came back, `tries` how often before.",
  "notify.given_up": "A notification could not be delivered for six hours, and was given up.",
  "notify.left_out": "Notifications were left out, because too many wait already.",
  "notify.error":
    "Looking for what must be notified failed; it is tried again.\nMostly because Redis is away or rejects writes.",

  "quality.sent":
    "What owners must correct in the CRM was sent (QUALITY_CRON).\n`messages` counts them.",
  "quality.not_sent":
    "What owners must correct in the CRM was not sent, or not all of it; it is tried again.\n`why` says what the last try has told, `tries` how often before.",

  "outcomes.failed":
    "Outcomes could not be told to OUTCOME_WEBHOOK; they are sent again.\n`why` says what came back, `tries` how often before.",
  "outcomes.left_out":
    "OUTCOME_WEBHOOK has refused outcomes for an hour: they were left out.\n`records` says of how many records.",
  "outcomes.switched_off":
    "OUTCOME_WEBHOOK has taken nothing for a day: what waited was dropped. It is tried once an hour.\n`records` says of how many records.",
  "outcomes.error": "Looking for outcomes to tell failed; it is tried again.",

  "sandbox.started": "The embedded service is up.",
  "sandbox.defect": "The embedded service failed on a request: a defect.",

  "tracing.unavailable": "The trace collector does not answer; spans are dropped until it does.",
  "tracing.recovered": "The trace collector answers again.",
  "tracing.warning":
    "OpenTelemetry warns about what it sends, or about a variable.\n`why` is its text. At most one line of a kind in ten minutes.",
} as const;

export type LogEvent = keyof typeof LOG_EVENTS;

/** What a line says to a person. */
export const sentenceOf = (event: LogEvent): string => LOG_EVENTS[event].split("\n", 1).join();
