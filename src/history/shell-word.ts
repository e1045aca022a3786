/** A name as it is typed in a shell. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-")
    ? text
    : `'${text.replaceAll("'", "'\\''")}'`;
