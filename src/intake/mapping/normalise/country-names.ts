/**
 * Names of countries that the lists lack (country.ts): official ones as ISO 3166 and picklists write them, short
 * and former ones. Reviewed by hand; a name that could be two countries stands in AMBIGUOUS.
 * A semicolon stands between names: many have a comma.
 */

/** Codes, and names of each; EL and UK are codes of the EU. */
export const MORE_NAMES: Readonly<Record<string, string>> = {
  AE: "UAE; Emirates; VAE",
  BA: "Bosnia; Bosnien; Bosnie; Bosnien u. Herzegowina",
  BF: "Upper Volta; Obervolta",
  BJ: "Dahomey",
  BN: "Brunei Darussalam",
  BO: "Bolivia, Plurinational State of",
  BQ: "Bonaire, Sint Eustatius and Saba; Caribbean Netherlands",
  BY: "Belorussia; Weissrussland",
  CC: "Cocos (Keeling) Islands",
  CD: `Congo, the Democratic Republic of the; Congo, Democratic Republic of the;
    Congo (Democratic Republic); Congo (Kinshasa); Congo Kinshasa; Demokratische Republik Kongo;
    République démocratique du Congo; DR Kongo; DR Congo; DRC; Zaire; Congo, Dem. Rep.;
    Kongo, Dem. Rep.; RDC`,
  CG: `Congo, Republic of the; Congo (Brazzaville); Congo Brazzaville; Republik Kongo; Congo, Rep.;
    Kongo, Rep.`,
  CH: `Swiss Confederation; Schweizerische Eidgenossenschaft; Helvetia; Confoederatio Helvetica;
    Confédération suisse; Confederazione svizzera; Svizra`,
  CI: "Ivory Coast",
  CN: "PRC; VR China; Volksrepublik China; Mainland China",
  CV: "Cape Verde; Cabo Verde",
  CZ: "Czech Republic; Czechia; Tschechei",
  DE: `Bundesrepublik Deutschland; Federal Republic of Germany; BRD; DDR; West Germany;
    Deutsche Demokratische Republik; German Democratic Republic; Westdeutschland; Ostdeutschland;
    East Germany; République fédérale d'Allemagne; RFA`,
  FK: "Falkland Islands (Malvinas); Falkland Islands (Islas Malvinas)",
  FM: "Micronesia, Federated States of",
  GB: `UK; U.K.; Britain; Great Britain; England; Scotland; Wales; Northern Ireland;
    United Kingdom of Great Britain and Northern Ireland; Great Britain and Northern Ireland;
    Grossbritannien und Nordirland; Grande-Bretagne; Gran Bretagna; Gran Bretaña; Grã-Bretanha;
    Schottland; Nordirland; Angleterre; Écosse; Pays de Galles; Irlande du Nord; Irlanda del Nord;
    Irlanda do Norte; Inghilterra; Inglaterra; Engeland`,
  GM: "Gambia, The",
  GR: "EL; Hellas",
  HK: "Hong Kong SAR; Hong Kong SAR China; Hong Kong (China)",
  IE: "Eire",
  IR: "Iran, Islamic Republic of; Persia",
  KG: "Kyrgyz Republic",
  KH: "Kampuchea",
  KN: "St. Kitts and Nevis",
  KP: `Korea, Democratic People's Republic of; Democratic People's Republic of Korea; North Korea;
    DPRK; Korea, Dem. Rep.; Demokratische Volksrepublik Korea`,
  KR: `Korea, Republic of; Republic of Korea; Republik Korea; South Korea; République de Corée;
    Repubblica di Corea; República da Coreia`,
  LA: "Lao People's Democratic Republic; Lao PDR",
  LI: `Fürstentum Liechtenstein; Principality of Liechtenstein; Principauté de Liechtenstein;
    Principato del Liechtenstein`,
  LK: "Ceylon",
  LU: `Grand Duchy of Luxembourg; Grossherzogtum Luxemburg; Grand-Duché de Luxembourg; Lëtzebuerg;
    Groussherzogtum Lëtzebuerg`,
  LY: "Libyan Arab Jamahiriya",
  MC: "Fürstentum Monaco; Principauté de Monaco",
  MD: "Moldova, Republic of; Moldau",
  MF: "Saint Martin (French part); Saint Martin (FR); St. Martin (FR)",
  MK: "Macedonia; Macedonia, the former Yugoslav Republic of; FYROM; Mazedonien; Macedonia (FYROM)",
  MM: "Burma",
  MO: "Macau; Macao SAR",
  NL: "Holland; The Netherlands; Netherlands, Kingdom of the; Hollande; Olanda; Holanda",
  PS: "Palestine, State of; Palestinian Territory, Occupied; Palästina; Palestinian Territory",
  RU: "Russia; Russian Federation",
  SH: "Saint Helena, Ascension and Tristan da Cunha",
  SK: "Slovak Republic; Slowakische Republik; République slovaque",
  SX: "Sint Maarten (Dutch part); Saint Martin (NL); St. Martin (NL)",
  SY: "Syrian Arab Republic",
  SZ: "Swaziland",
  TH: "Siam",
  TL: "East Timor",
  TR: "Turkey",
  TW: `Taiwan, Province of China; Republic of China; Chinese Taipei; Republik China;
    République de Chine; República de China; República da China`,
  TZ: "Tanzania, United Republic of; Tanzania, United Rep.",
  US: "U.S.; U.S.A.; America; United States of America; EUA; EE.UU.",
  VA: `Vatican City; Holy See; Holy See (Vatican City State); Vatikan; Vatican; Heiliger Stuhl;
    Saint-Siège`,
  VE: "Venezuela, Bolivarian Republic of",
  VG: "Virgin Islands, British; Virgin Islands (UK); Virgin Islands (GB); BVI",
  VI: "Virgin Islands, U.S.; USVI",
  VN: "Viet Nam",
  XK: "Kosovo",
  ZW: "Rhodesia",
};

/** Names that people give to two countries, or to one that is several today. */
export const AMBIGUOUS = `
  Congo; Kongo; Korea; Corée; Corea; Coreia; Virgin Islands; Saint Martin; St. Martin; San Martín;
  Guiana; Yugoslavia; Jugoslawien; Czechoslovakia; Tschechoslowakei; Soviet Union; Sowjetunion;
  USSR; UdSSR`;
