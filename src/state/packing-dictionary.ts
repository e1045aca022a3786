/**
 * What the texts of `packing.ts` have in common: field names and usual values, in the order in which an
 * event and its payload have them; what is most common comes last. Each kilobyte costs 8 µs a change.
 */
const FIRST = [
  `"entrepreneurial_activity","electronic_platform","historical_client","crs_compliant","Married","Single",`,
  `"Foundation","Household","Insurance contract","Fund","Trust","SCSp","Sarl","SA","GmbH","Ltd",`,
  `{"type":"Company","name":"","countryOfOperation":"","incorporationDate":"20","vatNumber":"`,
  `","industrySector":"","complexityOfBoStructure":"","legalForm":"","listedCompany":false`,
  `,"regulatedEntity":true,"stateOwnedEntity":false,"address":"","postalCode":"`,
  `","maidenName":"","placeOfBirth":"","maritalStatus":"","language":"fr","crmId":"","service":["`,
  `"],"branch":["","taxIdentificationNumber":"","bankAccountCountry":"LU","originOfBusinessRelation":"`,
  `","crsStatus":"","dmsLinkUrl":"https://","relationshipStatus":"Prospect","relationStatus":"terminated`,
  `","merged":["","fetch":"","sequence":"00000000","datacontenttype":"application/json","dataschema":"`,
  `{"type":"Person","firstName":"","lastName":"","nationality":"LU","birthDate":"19","address":"`,
  `","postalCode":"L-","city":"Luxembourg","countryOfResidence":"LU","language":"","phoneNumber":"+352`,
  `","email":"@example.com","relationshipStatus":"Client","relationStatus":"active","amlFrequency":"ongoing`,
  `","crmCode":"","wealthSource":["salaries_remuneration","inheritance"]}\0`,
  `{"specversion":"1.0","id":"","source":"/crm/salesforce/crm/hubspot","type":"crm.record.deleted`,
  `","type":"crm.record.created","subject":"company/account/person/contact/`,
  `","time":"2026-11-20T10:00:00.000Z","lane":"bulk","data":{"record":{"crmCode":"","firstName":"`,
  `","lastName":"","birthDate":"19","countryOfResidence":"LU","nationality":"LU","address":"`,
  `","postalCode":"L-","city":"","email":"","phoneNumber":"+352","wealthSource":["inheritance"]}}}`,
  `\0{"specversion":"1.0","id":"","source":"/crm/","type":"crm.record.updated","subject":"contact/`,
  `","time":"2026-11-2T0:00.000Z","lane":"live","data":{"record":{"type":"Person","crmCode":"`,
].join("");

/** By the number that a packed value names; 0 means that it is not compressed. Add some, change none. */
export const DICTIONARIES: ReadonlyMap<number, Buffer> = new Map([[1, Buffer.from(FIRST)]]);

/** The dictionary of new values. */
export const NEWEST_DICTIONARY = 1;
