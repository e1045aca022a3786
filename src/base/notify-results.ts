/** How a notification may end; the labels of `crmsync_notifications_total`. */
export const SEND_RESULTS = [
  "sent",
  "client_error",
  "server_error",
  "redirect",
  "timeout",
  "tls",
  "network",
] as const;
export type SendResult = (typeof SEND_RESULTS)[number];

/** `given_up`: not delivered in time. `left_out`: too many waited already. */
export const NOTIFY_RESULTS = [...SEND_RESULTS, "given_up", "left_out"] as const;
