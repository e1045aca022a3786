import { describe, expect, test } from "vitest";
import { FIELD_NAMES, traitsOf } from "../../../src/intake/mapping/fields.ts";
import { finderOf, lookUp } from "../../../src/intake/mapping/compare-texts.ts";
import { normalise, type Wanted } from "../../../src/intake/mapping/normalise/normalise.ts";

const LONE_SURROGATE = "\ud800";

const one = (raw: unknown, wanted: Wanted) => {
  const { value, warnings } = normalise(raw, wanted);
  return [value, ...warnings.map(({ reason }) => reason)];
};

describe("countries", () => {
  test.for([
    ["LU", "LU"],
    [" lu ", "LU"],
    ["CHE", "CH"],
    ["Luxembourg", "LU"],
    ["Schweiz", "CH"],
    ["états-unis", "US"],
    ["Holland", "NL"],
    ["The Netherlands", "NL"],
    ["Viet Nam", "VN"],
    ["Vietnam ", "VN"],
    ["Macedonia", "MK"],
    ["EL", "GR"],
    ["UK", "GB"],
    ["Czech Republic", "CZ"],
    ["Côte d'Ivoire", "CI"],
    ["Türkiye", "TR"],
    ["U.S.A.", "US"],
    ["Iran, Islamic Republic of", "IR"],
    ["Democratic People's Republic of Korea", "KP"],
    ["Korea, Republic of", "KR"],
    ["Congo, the Democratic Republic of the", "CD"],
    ["République démocratique du Congo", "CD"],
    ["Venezuela, Bolivarian Republic of", "VE"],
    ["Palestine, State of", "PS"],
    ["Holy See", "VA"],
    ["United Kingdom (UK)", "GB"],
    ["Germany (DE)", "DE"],
    ["Grossbritannien", "GB"],
    ["OESTERREICH", "AT"],
    ["Tuerkei", "TR"],
    ["Bundesrepublik Deutschland", "DE"],
    ["Kingdom of Belgium", "BE"],
    ["Republic of Ireland", "IE"],
    ["Bosnien", "BA"],
    ["Saint Kitts & Nevis", "KN"],
    ["St. Lucia", "LC"],
    ["BVI", "VG"],
    ["Burma", "MM"],
    ["Ceylon", "LK"],
    ["Bahamas (the)", "BS"],
    ["Bahamas, The", "BS"],
    ["The Philippines", "PH"],
    ["Fürstentum Liechtenstein", "LI"],
    ["Confédération suisse", "CH"],
    ["Grande-Bretagne", "GB"],
    ["VR China", "CN"],
    ["Republik China", "TW"],
    ["République de Corée", "KR"],
    ["CH - Schweiz", "CH"],
    ["Portugal/PT", "PT"],
    ["Schweiz / Suisse / Svizzera", "CH"],
    ["Ivory Coast (Côte d'Ivoire)", "CI"],
    ["Virgin Islands (US)", "VI"],
    ["Virgin Islands (UK)", "VG"],
    ["Virgin Islands (VG)", "VG"],
    ["Saint Martin (FR)", "MF"],
  ])("%s is %s", ([raw, code]) => {
    expect(one(raw, { form: "country" })).toEqual([code]);
  });

  test.for([
    "Atlantis",
    "ZZ",
    "XX",
    "Europe",
    "L",
    "日本国外",
    "Kongo",
    "Congo",
    "Korea",
    "Yugoslavia",
    "St. Martin",
    "Congo (the)",
    "State of Georgia",
    "Niger/Nigeria",
    "DE-BY",
    "CH/DE",
    "Germany (FR)",
    "the",
    "40",
    "999",
  ])("%s is not understood", (raw) => {
    expect(one(raw, { form: "country" })).toEqual([undefined, "not_understood"]);
  });
});

test("numbers are countries of ISO 3166 where the mapping says so", () => {
  const numeric = { form: "country", numeric: true } as const;
  expect([442, "040", "56", "LU"].map((raw) => one(raw, numeric))).toEqual([
    ["LU"],
    ["AT"],
    ["BE"],
    ["LU"],
  ]);
  expect(one(999, numeric)).toEqual([undefined, "not_understood"]);
});

test.for([
  ["Swiss", "CH"],
  ["French", "FR"],
  ["deutsch", "DE"],
  ["Luxemburgisch", "LU"],
  ["Luxembourgeois", "LU"],
  ["italiano", "IT"],
  ["Portugal", "PT"],
])("the nationality %s is %s", ([raw, code]) => {
  expect(one(raw, { form: "nationality" })).toEqual([code]);
});

test.for(["Congolese", "Dominican", "French and Swiss", "human"])(
  "the nationality %s is not understood",
  (raw) => {
    expect(one(raw, { form: "nationality" })).toEqual([undefined, "not_understood"]);
  },
);

describe("languages", () => {
  test.for([
    ["fr", "fr"],
    ["fr-lu", "fr"],
    ["de_CH", "de"],
    ["DEU", "de"],
    ["ger", "de"],
    ["iw", "he"],
    ["German", "de"],
    ["Deutsch", "de"],
    ["français", "fr"],
    ["Allemand", "de"],
    ["English (United States)", "en"],
    ["Portuguese - Brazil", "pt"],
    ["Deutsch (Schweiz)", "de"],
    ["Farsi", "fa"],
  ])("%s is %s", ([raw, code]) => {
    expect(one(raw, { form: "language" })).toEqual([code]);
  });

  test("the code of a country in which it is no language is left to the mapping", () => {
    const languages = finderOf([
      ["CH", "de"],
      ["UK", "en"],
    ]);
    for (const raw of ["UK", "CH", "LU", "SE", "BE", "SI", "EE"]) {
      const own = languages(raw);
      expect(one(raw, { form: "language" })).toEqual([undefined, "not_understood"]);
      expect(one(raw, { form: "language", languages })[0]).toBe(own);
    }
    expect(["DE", "FR", "uk", "lb"].map((raw) => one(raw, { form: "language" }))).toEqual([
      ["de"],
      ["fr"],
      ["uk"],
      ["lb"],
    ]);
  });

  test.for(["Klingon", "xx", "zz-ZZ"])("%s is not understood", (raw) => {
    expect(one(raw, { form: "language" })).toEqual([undefined, "not_understood"]);
  });
});

describe("dates", () => {
  test.for([
    ["1966-12-30T23:00:00.000Z", "1966-12-31"],
    ["1966-12-31T00:00:00+01:00", "1966-12-31"],
    [-94_870_800_000, "1966-12-30"],
    ["/Date(-94870800000)/", "1966-12-30"],
    ["/Date(-94870800000+0100)/", "1966-12-30"],
    ["1990-07-14T22:00:00Z", "1990-07-15"],
    ["1990-07-14T12:00:00Z", "1990-07-14"],
    ["1990-07-14", "1990-07-14"],
    ["19900714", "1990-07-14"],
  ])("%s is %s in Luxembourg", ([raw, date]) => {
    expect(one(raw, { form: "date", zone: "Europe/Luxembourg" })).toEqual([date]);
  });

  test.for([
    "1966-12-30T23:00:00.000Z",
    "1990-07-14T22:00:00+00:00",
    -94_870_800_000,
    "/Date(-94870800000)/",
    "/Date(-94870800000+0000)/",
  ])("the day of %s depends on a zone", (raw) => {
    expect(one(raw, { form: "date" })).toEqual([undefined, "time_of_day"]);
  });

  test.for(["1990-07-14T12:00:00Z", "1990-07-14T00:00:00Z", "1990-07-14T00:00:00+02:00"])(
    "%s is that day without a zone",
    (raw) => {
      expect(one(raw, { form: "date" })).toEqual(["1990-07-14"]);
    },
  );

  test.for(["0000-00-00", "0000-00-00 00:00:00", "00.00.0000", "00000000", "0001-01-01T00:00:00Z"])(
    "%s is no date",
    (raw) => {
      expect(one(raw, { form: "date" })).toEqual([undefined]);
    },
  );

  test("a birth before 1900 or in the future is none, an old company may be", () => {
    const future = new Date(Date.now() + 3 * 86_400_000).toISOString().slice(0, 10);
    // The second is what SQL Server writes for none.
    for (const raw of ["1899-12-31", "1900-01-01", future]) {
      const birth = { form: "date", firstYear: 1900 } as const;
      expect(one(raw, birth)).toEqual([undefined, "implausible"]);
    }
    expect(one("1856-07-05", { form: "date" })).toEqual(["1856-07-05"]);
    expect(one("1753-01-01", { form: "date" })).toEqual([undefined, "implausible"]);
    expect(one(future, { form: "date" })).toEqual([undefined, "implausible"]);
  });

  test("a year of two digits is the latest of which the day is not in the future", () => {
    const [year = "", month = "", day = ""] = new Date(Date.now() + 3 * 86_400_000)
      .toISOString()
      .slice(0, 10)
      .split("-");
    const raw = `${day}.${month}.${year.slice(2)}`;
    expect(one(raw, { form: "date" })).toEqual([`${Number(year) - 100}-${month}-${day}`]);
  });

  test.for([
    ["1979-03-04", "1979-03-04"],
    ["1979-03-04T23:30:00-05:00", "1979-03-04"],
    ["1979-03-04 00:00:00", "1979-03-04"],
    ["1979-03-04 12:30 AM", "1979-03-04"],
    ["19790304", "1979-03-04"],
    ["31.12.1966", "1966-12-31"],
    ["31.12.66", "1966-12-31"],
    ["1.2.05", "2005-02-01"],
    ["1706745600000", "2024-02-01"],
    [573_091_200_000, "1988-02-29"],
    [172_800_000, "1970-01-03"],
    ["31.12.1966 00:00:00", "1966-12-31"],
    [-86_400_000, "1969-12-31"],
    ["/Date(573091200000)/", "1988-02-29"],
    ["/Date(573087600000+0100)/", "1988-02-29"],
  ])("%s is %s", ([raw, date]) => {
    expect(one(raw, { form: "date" })).toEqual([date]);
  });

  test.for([
    "1980-02-31",
    "31/12/1966",
    "12-31-1966",
    "1966",
    0,
    "0",
    1_706_745_600,
    "soon",
    "1985-05-15 / 1987-01-02",
    "1985-05-15T12:00 or so",
    "15.05.1985 12:00 / 12:30",
    "/Date(x)/",
    Number.NaN,
    true,
  ])("%s is not understood", (raw) => {
    expect(one(raw, { form: "date" })).toEqual([undefined, "not_understood"]);
  });

  test("another format can be given", () => {
    expect(one("3/4/1979", { form: "date", format: "DD/MM/YYYY" })).toEqual(["1979-04-03"]);
    expect(one("1979-04-03", { form: "date", format: "DD/MM/YYYY" })).toEqual([
      undefined,
      "not_understood",
    ]);
  });
});

describe("telephone numbers", () => {
  test("become E.164 if they are valid, with the record's country if they have no prefix", () => {
    expect(one("044 555 01 33", { form: "phone", country: "CH" })).toEqual(["+41445550133"]);
    expect(one("0041 44 555 01 33", { form: "phone" })).toEqual(["+41445550133"]);
    expect(one("+46 70 555 01 33", { form: "phone", country: "CH" })).toEqual(["+46705550133"]);
  });

  test("are kept unchanged, with a warning, if they are not valid", () => {
    expect(one("555 0133", { form: "phone" })).toEqual(["555 0133", "kept_as_is"]);
    expect(one("9".repeat(5_000_000), { form: "phone", country: "LU" })[1]).toBe("kept_as_is");
    expect(one("٠٤٤ ext. 12", { form: "phone" })[1]).toBe("kept_as_is");
  });

  test.for(["4930123456.0", "4.93E+11", '="0445550133"', "044 call Ada 12 times"])(
    "%s is not understood",
    (raw) => {
      expect(one(raw, { form: "phone", country: "DE" })).toEqual([undefined, "not_understood"]);
    },
  );

  test.for(["ask Ada", "+", "…", "0", "000"])("%s has no digit and is left out", (raw) => {
    expect(one(raw, { form: "phone", country: "LU" })).toEqual([undefined, "no_digits"]);
  });
});

describe("postal codes and numbers of authorities", () => {
  test.for([
    "10115",
    "E1 6AN",
    "CHE-123.456.789",
    "0400.123.000",
    "12/345/67890",
    "1234 EB",
    "12E4",
  ])("%s stays as it is", (raw) => {
    expect(one(raw, { form: "code" })).toEqual([raw]);
  });

  test.for(["10115.0", "10115,0", "1.00E+10", "1e+21", '="0012"', "#REF!", "unknown"])(
    "%s is not understood",
    (raw) => {
      expect(one(raw, { form: "code" })).toEqual([undefined, "not_understood"]);
    },
  );
});

describe("e-mail addresses", () => {
  test.for(["a+b@x.com", "siobhan.o'reilly@castletown.example", "ü@x.com", "a@b", "no address"])(
    "%s is left out, because the service rejects it",
    (raw) => {
      expect(one(raw, { form: "email" })).toEqual([undefined, "not_accepted"]);
    },
  );

  // With backtracking this would exceed the time limit of the test.
  test("a long text that is almost an address takes no time", () => {
    expect(one(`a@${"a.".repeat(500_000)}!`, { form: "email" })[1]).toBe("not_accepted");
  });
});

describe("booleans, numbers, texts", () => {
  test.for([
    [true, true],
    ["true", true],
    ["Ja", true],
    [1, true],
    ["no", false],
    ["0", false],
    ["Nein", false],
    ["WAAR", true],
    ["ONWAAR", false],
  ])("%s is %s", ([raw, value]) => {
    expect(one(raw, { form: "boolean" })).toEqual([value]);
  });

  test.for(["perhaps", "-1", "yes?"])("%s is neither yes nor no, and left out", (raw) => {
    expect(one(raw, { form: "boolean" })).toEqual([undefined, "not_understood"]);
  });

  test("numbers lose their thousands separators", () => {
    expect(one("1'234.50", { form: "number" })).toEqual(["1234.5"]);
    expect(one("12 apples", { form: "number" })).toEqual([undefined, "not_understood"]);
  });

  test("texts lose invisible characters and become NFC", () => {
    const hidden = `\u202e\u200b Zoe\u0308\u0000 \ufeff${LONE_SURROGATE}`;
    expect(one(hidden, { form: "text" })[0]).toBe("Zoë \ufffd");
    expect(one(" \u200b\u0000 ", { form: "text" })).toEqual([undefined]);
    expect(one("12, rue X\r\n\tBât.\u2028B\n", { form: "text" })).toEqual(["12, rue X Bât. B"]);
    expect(one(8001, { form: "text" })).toEqual(["8001"]);
    expect(one({ a: 1 }, { form: "text" })).toEqual([undefined, "not_understood"]);
    expect(one(["a", "b"], { form: "text" })).toEqual([undefined, "not_understood"]);
    expect(one(["a"], { form: "text" })).toEqual(["a"]);
    expect(one(null, { form: "text" })).toEqual([undefined]);
  });
});

describe("lists and tables", () => {
  const values = ["inheritance", "real_estate", "company_sale_ma_exit"];
  const table = finderOf<string | null>([
    ["Company sale", "company_sale_ma_exit"],
    ["not known", null],
  ]);

  test("a list comes from a list, one text, or one value", () => {
    expect(one("Inheritance; Real estate;;", { form: "list", values })).toEqual([
      ["inheritance", "real_estate"],
    ]);
    expect(one(["inheritance", ["Real-Estate"]], { form: "list", values })[0]).toHaveLength(2);
    expect(one("a|b|a", { form: "list", separator: "|" })).toEqual([["a", "b"]]);
  });

  test("each item that is not allowed has a warning, and the rest is kept", () => {
    expect(one("Inheritance;Gold;Lottery", { form: "list", values })).toEqual([
      ["inheritance"],
      "not_in_list",
      "not_in_list",
    ]);
    expect(one("Gold", { form: "list", values })).toEqual([undefined, "not_in_list"]);
  });

  test("a table translates any spelling; null leaves the value out without a warning", () => {
    expect(one("COMPANY SALE;Not known;Gold", { form: "list", values, table })).toEqual([
      ["company_sale_ma_exit"],
      "not_in_table",
    ]);
    expect(one("real estate", { form: "text", values, table })).toEqual(["real_estate"]);
    expect(one("x", { form: "text", table })).toEqual([undefined, "not_in_table"]);
  });

  test("where values differ in signs alone, signs matter, and nothing is guessed", () => {
    const levels = new Set(["≤ 3 levels", "> 3 levels", "+", "Gold"]);
    for (const [text, value] of [
      ["> 3 levels", "> 3 levels"],
      [">3 LEVELS", "> 3 levels"],
      ["3 levels", undefined],
      ["about 3 levels", undefined],
      ["+", "+"],
      ["-", undefined],
      ["góld", "Gold"],
      ["Gold?", undefined],
    ] as const) {
      expect(lookUp(text, levels), text).toBe(value);
    }
    const changes = finderOf(
      Object.entries({ "1": "won", "-1": "lost", "(new)": "won", New: "won" }),
    );
    expect(["1", "-1", "+1", "new", "NEW!"].map(changes)).toEqual([
      "won",
      "lost",
      undefined,
      "won",
      undefined,
    ]);
    expect(
      ["-1", "1-2"].map(
        finderOf([
          ["1", "won"],
          ["12", "won"],
        ]),
      ),
    ).toEqual([undefined, undefined]);
  });

  test("no two values of a list in the specification differ in signs alone", () => {
    for (const values of FIELD_NAMES.flatMap((name) => [traitsOf(name).values ?? []])) {
      for (const value of values) {
        const letters = value.replaceAll(/[^A-Za-z0-9]/g, "");
        expect(lookUp(letters.toUpperCase(), values), value).toBe(value);
      }
    }
  });
});

describe("texts", () => {
  test.for(["NULL", "null", "N/A", "n/a", "-", "--", "NaN", "k.A.", "(blank)", "(vuoto)", "<NA>"])(
    "%s means nothing",
    (raw) => {
      expect(one(raw, { form: "text" })).toEqual([undefined]);
      expect(one(raw, { form: "phone" })).toEqual([undefined]);
    },
  );

  test.for([
    "#REF!",
    "[object Object]",
    "undefined",
    "None",
    "Array",
    '="0012"',
    "1.00E+10",
    "{{contact.firstname}}",
    "{!Contact.Name}",
    "*|FNAME|*",
    "M&uuml;ller",
    "MÃ¼ller",
    "[]",
    "?",
  ])("%s is sent, and named as suspicious", (raw) => {
    expect(one(raw, { form: "text" })).toEqual([raw, "suspicious"]);
  });

  test("people and streets keep their names, and a mapping has words of its own", () => {
    for (const raw of ["Null", "Na", "#12", "E10", "12E4", "O'", "Müller & Söhne"]) {
      expect(one(raw, { form: "text" })).toEqual([raw]);
    }
    const nothing = new Set(["keine angabe"]);
    expect(one("Keine Angabe", { form: "text", nothing })).toEqual([undefined]);
  });
});
