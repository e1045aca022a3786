/** Limits that the service's specification sets. Source: spec, "Limits" and "List". */

export const REQUESTS_PER_HOUR = 1000;
export const HOUR_MS = 3_600_000;

/** Requests that may start within one burst window. */
export const BURST_REQUESTS = 20;
export const BURST_WINDOW_MS = 5000;

export const PAGE_SIZE_MIN = 1;
export const PAGE_SIZE_MAX = 5000;
export const PAGE_SIZE_DEFAULT = 1000;

export const CRM_CODE_MAX_LENGTH = 100;
export const DMS_LINK_URL_MAX_LENGTH = 500;

/** Length of ISO 3166-1 alpha-2 country codes and of ISO 639-1 language codes. */
export const ISO_CODE_LENGTH = 2;

/** Path prefix of every endpoint. Source: spec, "Versioning". */
export const API_PREFIX = "/v1.1";
