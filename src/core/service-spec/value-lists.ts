/**
 * The closed lists of values of the service's specification, in its order.
 * Source: spec, "Resources and their fields" and "Shared enumerations".
 */

export const PERSON_TYPE = "Person";

export const COMPANY_TYPES = [
  "Association",
  "Company",
  "Family",
  "Foundation",
  "Fund",
  "Household",
  "Insurance company",
  "Insurance contract",
  "Joint ownership",
  "Partnership",
  "Trust",
  "Pension scheme",
] as const;

export const RELATIONSHIP_STATUSES = ["Client", "Prospect", "Contact", "Investment"] as const;
export const RELATION_STATUSES = ["active", "terminated"] as const;
export const AML_FREQUENCIES = ["ongoing", "one-time"] as const;

export const MARITAL_STATUSES = [
  "Single",
  "Married",
  "Divorced",
  "Separated",
  "Widower",
  "Other",
  "Partnership",
] as const;

export const LEGAL_FORMS = [
  "testamentary",
  "SA",
  "Sarl",
  "SCA",
  "SCS",
  "SCSp",
  "SCoSA",
  "FCP",
  "SICAV",
  "SICAF",
  "SCSp SICAV SIF",
  "SAS",
  "FR",
  "FI",
] as const;

export const WEALTH_SOURCES = [
  "entrepreneurial_activity",
  "salaries_remuneration",
  "inheritance",
  "real_estate",
  "financial_investments",
  "donation_gifts_from_family",
  "donation_gifts_from_others",
  "divorce",
  "loan_leverage",
  "accumulated_profit",
  "capital_from_shareholders",
  "crypto_assets",
  "company_sale_ma_exit",
  "insurance_payout",
  "pension_retirement_fund",
  "litigation_compensation",
  "lottery_gambling",
] as const;

export const ORIGINS_OF_BUSINESS_RELATION = [
  "business_intermediary",
  "spontaneous_approach",
  "relation_with_existing_client",
  "historical_client",
  "distributor",
  "tied_agent",
  "family_relation_of_employee",
  "family_relationship",
  "electronic_platform",
  "prospection",
  "other",
] as const;

export const CRS_STATUSES = [
  "crs_compliant",
  "missing_documentation",
  "conflicting_indicia",
  "cbi_rbi_scheme",
  "non_crs",
] as const;

/**
 * Default values of the four fields that a tenant may configure.
 * `branch` has no defaults: its values are specific to each organisation.
 * Source: spec, "Per-client value lists".
 */
export const DEFAULT_TENANT_VALUES = {
  service: [
    "portfolio_management_discretionary",
    "portfolio_management_advisory",
    "portfolio_management_rto",
    "portfolio_management_non_discretionary_advisory",
    "fund_setup_and_administration",
    "family_office",
    "tax_planning_and_optimization",
    "wealth_structuring",
    "philanthropy_advisory",
    "estate_planning",
  ],
  branch: [],
  industrySector: [
    "a_agriculture_forestry_and_fishing",
    "b_mining_and_quarrying",
    "c_manufacturing",
    "d_electricity_gas_steam_and_air_conditioning_supply",
    "e_water_supply_sewerage_waste_management_and_remediation",
    "f_construction",
    "g_wholesale_and_retail_trade_motor_vehicles",
    "h_transporting_and_storage",
    "i_accommodation_and_food_service_activities",
    "j_information_and_communication",
    "k_financial_and_insurance_activities",
    "l_real_estate_activities",
    "m_professional_scientific_and_technical_activities",
    "n_administrative_and_support_service_activities",
    "o_public_administration_and_defence",
    "p_education",
    "q_human_health_and_social_work_activities",
    "r_arts_entertainment_and_recreation",
    "s_other_services_activities",
    "t_households_as_employers_and_own_use_activities",
    "u_extraterritorial_organisations_and_bodies",
  ],
  complexityOfBoStructure: [
    "a_less_than_3_structure_level_in_eu_countries",
    "b_less_than_3_structure_level_in_any_country",
    "c_3_to_6_structure_level_in_eu_countries",
    "d_3_to_6_structure_level_in_any_countries",
    "e_more_than_6_structure_level",
  ],
} as const satisfies Record<string, readonly string[]>;

export type TenantField = keyof typeof DEFAULT_TENANT_VALUES;
