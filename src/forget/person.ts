/** By what the traces of one person are known: crmCodes, and records of the CRM. Pure. */

/** What one trace names. */
export interface Named {
  readonly crmCode?: string | undefined;
  /** `<object>/<recordId>` */
  readonly subject?: string | undefined;
  /** Records that were merged into this one: they are named, the trace is not about them. */
  readonly merged?: readonly string[] | undefined;
}

/**
 * Only one step leads from a name to the next: to the crmCodes of a given record, and to the records
 * of these crmCodes. A record that has two crmCodes, or a crmCode that two records share, must not
 * lead to another person.
 */
export class Person {
  readonly #given: ReadonlySet<string>;
  readonly crmCodes: Set<string>;
  readonly subjects: Set<string>;

  /** @param names each a crmCode or a subject. */
  constructor(names: readonly string[]) {
    this.#given = new Set(names);
    this.crmCodes = new Set(names);
    this.subjects = new Set(names);
  }

  learnFrom(all: readonly Named[]): void {
    for (const { crmCode, subject } of all) {
      if (crmCode !== undefined && subject !== undefined && this.#given.has(subject))
        this.crmCodes.add(crmCode);
    }
    for (const { crmCode, subject } of all) {
      if (crmCode !== undefined && subject !== undefined && this.crmCodes.has(crmCode))
        this.subjects.add(subject);
    }
  }

  isIn({ crmCode, subject }: Named): boolean {
    if (crmCode !== undefined) return this.crmCodes.has(crmCode);
    return subject !== undefined && this.subjects.has(subject);
  }

  /** Whether the trace is of another crmCode, and names one of the records all the same. */
  isRelated(named: Named): boolean {
    const { subject, merged = [] } = named;
    const names = subject === undefined ? merged : [subject, ...merged];
    return !this.isIn(named) && names.some((name) => this.subjects.has(name));
  }
}
