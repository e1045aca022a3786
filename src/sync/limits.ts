/**
 * The most characters that one field may have. Our own limit: the spec sets none for most texts,
 * but every server limits bodies, and a body that is too large would fail on each try.
 */
export const FIELD_MAX_LENGTH = 64 * 1024;
