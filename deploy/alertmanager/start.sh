#!/bin/sh
# Starts Alertmanager with a configuration made from two variables, because it reads none itself.
# ALERT_TO, where alerts go; empty: nowhere.
#   https://…          a webhook
#   slack:https://…    an incoming webhook of Slack, or of what understands the same
#   mailto:A,B         mail, which needs ALERT_SMTP
# ALERT_SMTP, the mail server: smtps://[USER:PASSWORD@]HOST[:PORT], or smtp:// for one without TLS.
# All arguments are Alertmanager's own.
set -eu
to=${ALERT_TO:-}
smtp=${ALERT_SMTP:-}
config=${TMPDIR:-/tmp}/alertmanager.yml

fail() {
  echo "$1" >&2
  exit 78
}

# A scalar of YAML.
quote() {
  printf "'%s'" "$(printf %s "$1" | sed "s/'/''/g")"
}

webhook() {
  cat <<EOF
    webhook_configs:
      - url: $(quote "$to")
        send_resolved: true
EOF
}

slack() {
  cat <<EOF
    slack_configs:
      - api_url: $(quote "${to#slack:}")
        send_resolved: true
        title: '{{ if eq .Status "resolved" }}Over: {{ end }}{{ .CommonLabels.alertname }} {{ .CommonLabels.job }}'
        text: '{{ range .Alerts }}{{ .Annotations.summary }}. {{ .Annotations.description }} <{{ .Annotations.runbook_url }}|Runbook>{{ "\n" }}{{ end }}'
EOF
}

mail() {
  case $smtp in
    smtps://*) tls=true port=587 ;;
    smtp://*) tls=false port=25 ;;
    *) fail "ALERT_TO=mailto:… needs ALERT_SMTP=smtps://USER:PASSWORD@HOST:PORT, or smtp:// for a server without TLS." ;;
  esac
  server=${smtp#*://}
  host=${server##*@}
  case $host in *:*) ;; *) host=$host:$port ;; esac
  user= password=
  case $server in *@*) user=${server%@*} password=${user#*:} user=${user%%:*} ;; esac
  receivers=${to#mailto:}
  # Every server accepts one of these two as the sender.
  case $user in *@*) from=$user ;; *) from=${receivers%%,*} ;; esac
  cat <<EOF
    email_configs:
      - to: $(quote "$receivers")
        from: $(quote "$from")
        smarthost: $(quote "$host")
        auth_username: $(quote "$user")
        auth_password: $(quote "$password")
        require_tls: $tls
        send_resolved: true
EOF
}

case $to$smtp in *'
'*) fail "ALERT_TO and ALERT_SMTP must be one line each." ;; esac
case $to in
  "") receiver='' ;;
  http://?* | https://?*) receiver=$(webhook) ;;
  slack:http://?* | slack:https://?*) receiver=$(slack) ;;
  mailto:?*@?*) receiver=$(mail) ;;
  *) fail "ALERT_TO must begin with https://, slack:https:// or mailto: and name where alerts go." ;;
esac

umask 077
cat > "$config" <<EOF
route:
  receiver: crmsync
  group_by: [job, alertname]
  group_wait: 5s
  group_interval: 5m
  repeat_interval: 4h
# The more urgent of two alerts about the same thing is enough.
inhibit_rules:
  - source_matchers: [alertname = CrmsyncFreshnessFastBurn]
    target_matchers: [alertname = CrmsyncFreshnessSlowBurn]
    equal: [job]
  - source_matchers: [alertname = CrmsyncTokenOverdue]
    target_matchers: [alertname = CrmsyncTokenOld]
    equal: [job]
receivers:
  - name: crmsync
$receiver
EOF
[ -n "$to" ] || echo "ALERT_TO is not set: alerts are shown, but sent to nobody." >&2
exec alertmanager --config.file="$config" "$@"
