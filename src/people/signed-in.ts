/** Who a person is and what they may do, by the claims of the identity provider. Pure. */
import { hash } from "node:crypto";
import type { Config } from "../config.ts";
import type { Person, Right } from "./person.ts";

export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string };

export type Roles = Pick<Config, "OIDC_ACT" | "OIDC_APPROVE" | "OIDC_CLAIM" | "OIDC_LOOK">;

const RIGHTS: readonly (readonly [keyof Roles, readonly Right[]])[] = [
  ["OIDC_LOOK", ["look"]],
  ["OIDC_ACT", ["look", "act"]],
  ["OIDC_APPROVE", ["look", "approve"]],
];

/** Characters of one name; four names fit into a cookie. */
const MOST_CHARACTERS = 200;

const valuesOf = (list = ""): string[] =>
  list
    .split(",")
    .map((value) => value.trim())
    .filter((value) => value !== "");

/** The values of the claim that give a right. */
export const rolesIn = (roles: Roles): string[] =>
  RIGHTS.flatMap(([name]) => valuesOf(roles[name]));

/** @returns a person who may do nothing, if the claims give no right. */
export function personOf(claims: Claims, roles: Roles): Person {
  const has = new Set(claimValues(claims, roles.OIDC_CLAIM));
  const given = RIGHTS.filter(([name]) => valuesOf(roles[name]).some((value) => has.has(value)));
  const names = namesIn(claims);
  return { name: names[0], names, rights: new Set(given.flatMap(([, all]) => all)), via: "OIDC" };
}

/** How the sessions of a person, or one of them, are called when the provider ends them. */
export const sessionNames = (claims: Readonly<Record<string, unknown>>): string[] =>
  ["sub", "sid"].flatMap((name) => {
    const value = claims[name];
    return typeof value === "string"
      ? [hash("sha256", `${name} ${value}`, "base64url").slice(0, 22)]
      : [];
  });

function claimValues(claims: Claims, claim: string): unknown[] {
  // Anybody may write any address into some providers' profiles.
  if (claim === "email" && claims["email_verified"] !== true) return [];
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
  return Array.isArray(value) ? value : [value];
}

/**
 * What people recognise first. An address that is not verified is not shown, for anybody could appear as another
 * one. It still counts as a name: more names only mean that a person approves less of what they may have asked.
 */
function namesIn(claims: Claims): string[] {
  const { email, email_verified: isVerified, name, preferred_username: username, sub } = claims;
  const all = isVerified === true ? [email, username, name, sub] : [username, name, sub, email];
  const texts = all.filter((text) => typeof text === "string").map(cleaned);
  return [...new Set(texts)].filter((text) => text !== "");
}

const cleaned = (text: string): string =>
  text.normalize("NFC").replaceAll(/\p{C}/gu, "").trim().slice(0, MOST_CHARACTERS).toWellFormed();
