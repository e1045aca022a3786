/** Whether a text can be a telephone number at all; "n/a", "-" and "0" cannot. */
export const hasDigit = (text: string): boolean => /(?!0)\p{Nd}/u.test(text);
