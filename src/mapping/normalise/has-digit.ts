/** Whether a text can be a telephone number at all; "n/a" and "-" cannot. */
export const hasDigit = (text: string): boolean => /\p{Nd}/u.test(text);
