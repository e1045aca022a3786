/** Countries of the invented clients, with cities and names. No person in it is real. */
export interface Country {
  readonly code: string;
  readonly language: string;
  readonly diallingCode: string;
  readonly cities: readonly (readonly [city: string, postalCode: string])[];
  readonly streets: readonly string[];
  readonly firstNames: readonly string[];
  readonly lastNames: readonly string[];
}

export const COUNTRIES: readonly Country[] = [
  {
    code: "CH",
    language: "de",
    diallingCode: "+41 44",
    cities: [
      ["Zürich", "8001"],
      ["Genève", "1204"],
      ["Lugano", "6900"],
      ["Chur", "7000"],
    ],
    streets: ["Bahnhofstrasse", "Rämistrasse", "Rue du Rhône", "Via Nassa"],
    firstNames: ["Zoë", "Jürg", "Ursina", "Reto", "Chloé", "Flurin"],
    lastNames: ["Müller", "Brönnimann", "Caduff", "Ångström", "de Weck", "Schläpfer"],
  },
  {
    code: "LU",
    language: "fr",
    diallingCode: "+352 26",
    cities: [
      ["Luxembourg", "L-1118"],
      ["Esch-sur-Alzette", "L-4010"],
      ["Mersch", "L-7525"],
    ],
    streets: ["Rue Aldringen", "Boulevard Royal", "Côte d’Eich"],
    firstNames: ["Anaïs", "Loïc", "Josée", "Théo"],
    lastNames: ["Wagner-Schmit", "Thill", "D’Huart", "Kieffer"],
  },
  {
    code: "PL",
    language: "pl",
    diallingCode: "+48 22",
    cities: [
      ["Łódź", "90-001"],
      ["Kraków", "31-042"],
      ["Gdańsk", "80-831"],
    ],
    streets: ["ulica Świętojańska", "Piotrkowska", "Długa"],
    firstNames: ["Łukasz", "Małgorzata", "Żaneta", "Grażyna"],
    lastNames: ["Wójcik", "Śliwiński", "Zając", "Dąbrowska"],
  },
  {
    code: "GR",
    language: "el",
    diallingCode: "+30 210",
    cities: [
      ["Αθήνα", "105 57"],
      ["Θεσσαλονίκη", "546 24"],
    ],
    streets: ["Οδός Ερμού", "Λεωφόρος Συγγρού"],
    firstNames: ["Ελένη", "Γιώργος", "Δήμητρα"],
    lastNames: ["Παπαδοπούλου", "Οικονόμου", "Βασιλείου"],
  },
  {
    code: "JP",
    language: "ja",
    diallingCode: "+81 3",
    cities: [
      ["東京都千代田区", "100-0001"],
      ["京都市", "600-8216"],
    ],
    streets: ["丸の内", "銀座", "烏丸通"],
    firstNames: ["さくら", "健太", "陽子"],
    lastNames: ["佐藤", "髙橋", "渡邉"],
  },
  {
    code: "GB",
    language: "en",
    diallingCode: "+44 20",
    cities: [
      ["London", "EC2V 7HN"],
      ["Edinburgh", "EH2 4DF"],
      ["St Helier", "JE2 3QA"],
    ],
    streets: ["King’s Road", "St John’s Lane", "Threadneedle Street"],
    firstNames: ["Siobhán", "Oluwaseun", "Nia", "Callum"],
    lastNames: ["O’Brien", "Ní Dhomhnaill", "Featherstonehaugh", "Okonkwo"],
  },
  {
    code: "TR",
    language: "tr",
    diallingCode: "+90 212",
    cities: [
      ["İstanbul", "34421"],
      ["İzmir", "35210"],
    ],
    streets: ["İstiklâl Caddesi", "Bağdat Caddesi"],
    firstNames: ["Işıl", "Çağrı", "Ömer"],
    lastNames: ["Ağaoğlu", "Yılmaz", "Öztürk"],
  },
  {
    code: "BR",
    language: "pt",
    diallingCode: "+55 11",
    cities: [
      ["São Paulo", "01310-100"],
      ["Florianópolis", "88010-400"],
    ],
    streets: ["Avenida Paulista", "Rua São João"],
    firstNames: ["João", "Conceição", "Íris"],
    lastNames: ["Gonçalves", "Araújo", "Magalhães Assunção"],
  },
];

export const COMPANY_NAMES = [
  "Edelweiß",
  "Polaris",
  "Blue Lagoon",
  "Sécurité Générale",
  "Kōyō",
  "Północ",
  "Άλφα",
  "Três Rios",
] as const;
