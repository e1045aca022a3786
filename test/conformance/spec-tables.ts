/**
 * The specification's tables, typed from its text only. Tests must not import value lists or limits
 * from the product instead.
 */
const list = (text: string): string[] => text.split(",").map((value) => value.trim());

/** One row of a variant's table. A field without a rule is a free string. */
export interface Row {
  readonly field: string;
  readonly required?: true;
  readonly enum?: string[];
  readonly items?: string[];
  readonly format?: "country" | "language" | "date" | "email" | "uuid" | "uri";
  readonly maxLength?: number;
  readonly default?: string;
  readonly boolean?: true;
  /** Values come from the client's own list: one value, or an array of them. */
  readonly clientList?: "one" | "many";
}

const wealthSource =
  list(`entrepreneurial_activity, salaries_remuneration, inheritance, real_estate,
  financial_investments, donation_gifts_from_family, donation_gifts_from_others, divorce,
  loan_leverage, accumulated_profit, capital_from_shareholders, crypto_assets,
  company_sale_ma_exit, insurance_payout, pension_retirement_fund, litigation_compensation,
  lottery_gambling`);

const originOfBusinessRelation = list(`business_intermediary, spontaneous_approach,
  relation_with_existing_client, historical_client, distributor, tied_agent,
  family_relation_of_employee, family_relationship, electronic_platform, prospection, other`);

const crsStatus = list(`crs_compliant, missing_documentation, conflicting_indicia,
  cbi_rbi_scheme, non_crs`);

const relationshipStatus = list("Client, Prospect, Contact, Investment");
const relationStatus = list("active, terminated");
const amlFrequency = list("ongoing, one-time");

export const COMPANY_TYPES = list(`Association, Company, Family, Foundation, Fund, Household,
  Insurance company, Insurance contract, Joint ownership, Partnership, Trust, Pension scheme`);

export const PERSON_ROWS: readonly Row[] = [
  { field: "name" },
  { field: "firstName", required: true },
  { field: "lastName", required: true },
  { field: "maidenName" },
  { field: "nationality", format: "country", maxLength: 2 },
  { field: "fiscalCountry", format: "country", maxLength: 2 },
  { field: "address" },
  { field: "postalCode" },
  { field: "city" },
  { field: "countryOfResidence", format: "country", maxLength: 2 },
  { field: "language", format: "language", maxLength: 2 },
  { field: "birthDate", format: "date" },
  { field: "placeOfBirth" },
  { field: "phoneNumber" },
  { field: "email", format: "email" },
  { field: "relationshipStatus", enum: relationshipStatus, default: "Client" },
  { field: "relationStatus", enum: relationStatus, default: "active" },
  { field: "amlFrequency", enum: amlFrequency, default: "ongoing" },
  { field: "crmId", format: "uuid" },
  { field: "service", clientList: "many" },
  { field: "branch", clientList: "many" },
  {
    field: "maritalStatus",
    enum: list("Single, Married, Divorced, Separated, Widower, Other, Partnership"),
  },
  { field: "taxIdentificationNumber" },
  { field: "wealthSource", items: wealthSource },
  { field: "bankAccountCountry", format: "country", maxLength: 2 },
  { field: "originOfBusinessRelation", enum: originOfBusinessRelation },
  { field: "crsStatus", enum: crsStatus },
  { field: "dmsLinkUrl", format: "uri", maxLength: 500 },
];

export const COMPANY_ROWS: readonly Row[] = [
  { field: "name", required: true },
  { field: "fiscalCountry", format: "country", maxLength: 2 },
  { field: "countryOfOperation", format: "country", maxLength: 2 },
  { field: "address" },
  { field: "postalCode" },
  { field: "city" },
  { field: "countryOfResidence", format: "country", maxLength: 2 },
  { field: "language", format: "language", maxLength: 2 },
  { field: "incorporationDate", format: "date" },
  { field: "phoneNumber" },
  { field: "email", format: "email" },
  { field: "relationshipStatus", enum: relationshipStatus, default: "Client" },
  { field: "relationStatus", enum: relationStatus, default: "active" },
  { field: "amlFrequency", enum: amlFrequency, default: "ongoing" },
  { field: "crmId", format: "uuid" },
  { field: "service", clientList: "many" },
  { field: "taxIdentificationNumber" },
  { field: "vatNumber" },
  { field: "industrySector", clientList: "one" },
  { field: "complexityOfBoStructure", clientList: "one" },
  { field: "branch", clientList: "many" },
  {
    field: "legalForm",
    enum: list(`testamentary, SA, Sarl, SCA, SCS, SCSp, SCoSA, FCP, SICAV, SICAF,
      SCSp SICAV SIF, SAS, FR, FI`),
  },
  { field: "wealthSource", items: wealthSource },
  { field: "bankAccountCountry", maxLength: 2 },
  { field: "originOfBusinessRelation", enum: originOfBusinessRelation },
  { field: "crsStatus", enum: crsStatus },
  { field: "listedCompany", boolean: true },
  { field: "regulatedEntity", boolean: true },
  { field: "stateOwnedEntity", boolean: true },
  { field: "dmsLinkUrl", format: "uri", maxLength: 500 },
];

/** Default values of the lists that a client may configure; `branch` has none. */
export const DEFAULT_CLIENT_LISTS: Readonly<Record<string, string[]>> = {
  service: list(`portfolio_management_discretionary, portfolio_management_advisory,
    portfolio_management_rto, portfolio_management_non_discretionary_advisory,
    fund_setup_and_administration, family_office, tax_planning_and_optimization,
    wealth_structuring, philanthropy_advisory, estate_planning`),
  industrySector: list(`a_agriculture_forestry_and_fishing, b_mining_and_quarrying,
    c_manufacturing, d_electricity_gas_steam_and_air_conditioning_supply,
    e_water_supply_sewerage_waste_management_and_remediation, f_construction,
    g_wholesale_and_retail_trade_motor_vehicles, h_transporting_and_storage,
    i_accommodation_and_food_service_activities, j_information_and_communication,
    k_financial_and_insurance_activities, l_real_estate_activities,
    m_professional_scientific_and_technical_activities,
    n_administrative_and_support_service_activities, o_public_administration_and_defence,
    p_education, q_human_health_and_social_work_activities, r_arts_entertainment_and_recreation,
    s_other_services_activities, t_households_as_employers_and_own_use_activities,
    u_extraterritorial_organisations_and_bodies`),
  complexityOfBoStructure: list(`a_less_than_3_structure_level_in_eu_countries,
    b_less_than_3_structure_level_in_any_country, c_3_to_6_structure_level_in_eu_countries,
    d_3_to_6_structure_level_in_any_countries, e_more_than_6_structure_level`),
};

/** Examples of each format: valid and invalid. */
export const FORMAT_EXAMPLES: Readonly<
  Record<NonNullable<Row["format"]>, { good: string[]; bad: string[] }>
> = {
  country: { good: ["CH", "LU"], bad: ["CHE", "ch", "ZZ", "UK", ""] },
  language: { good: ["en", "de"], bad: ["eng", "zz", ""] },
  date: {
    good: ["1980-02-29", "2024-12-31"],
    bad: ["2024-02-30", "2023-02-29", "31.12.2024", "2024-1-1", "2024-12-31T00:00:00Z", ""],
  },
  email: {
    good: ["ada@example.com", "ada.l-v_e@mail.example.co"],
    bad: ["ada", "ada@example", "ada@example.c", "a+b@example.com", "ada @example.com", ""],
  },
  uuid: {
    good: ["0190c3a4-7f2e-7b5c-9d1e-3f4a5b6c7d8e", "6F9619FF-8B86-4011-B42D-00CF4FC964FF"],
    bad: ["6f9619ff8b864011b42d00cf4fc964ff", "6f9619ff-8b86-4011-b42d-00cf4fc964fg", "4711", ""],
  },
  uri: {
    good: ["https://dms.example.com/clients/4711?tab=a#top", "urn:isbn:0451450523"],
    bad: [
      "dms.example.com/4711",
      "/clients/4711",
      "https://",
      "https://dms.example.com/a b",
      "https://dms.example.com/?id[]=1",
      "",
    ],
  },
};

/** Method and path of every endpoint that the specification only lists by name or announces. */
export const NAMED_ENDPOINTS: readonly string[] = [
  "GET /business-relations/x/links",
  "POST /business-relations/x/links",
  "DELETE /business-relations/x/links",
  "POST /business-relations/x/documents",
  "GET /business-relations/x/documents",
  "GET /business-relations/x/documents/metadata-only",
  "DELETE /business-relations/x/documents",
  "POST /business-relations/x/documents/metadata-only",
  "GET /business-relations/x/aml-kyc",
  "POST /cash-transactions",
  "GET /cash-transactions/x/aml-result",
  "GET /cash-transactions/aml-results",
  "POST /business-relations/x/investor-commitments",
  "GET /data/availability",
  "GET /data/positions",
  "POST /auth/token",
  "GET /data/transactions",
];
