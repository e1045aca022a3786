/** Countries of the invented clients, with cities and names. No person in it is real. */
export type Country = (typeof COUNTRIES)[number];

const words = (list: string): string[] => list.split(", ");

/** Code, language, dialling code, cities with their postal codes, streets, first names, last names. */
const TABLE = `
CH | de | +41 44 | Zürich=8001, Genève=1204, Lugano=6900, Chur=7000 | Bahnhofstrasse, Rämistrasse, Rue du Rhône, Via Nassa | Zoë, Jürg, Ursina, Reto, Chloé, Flurin | Müller, Brönnimann, Caduff, Ångström, de Weck, Schläpfer
LU | fr | +352 26 | Luxembourg=L-1118, Esch-sur-Alzette=L-4010, Mersch=L-7525 | Rue Aldringen, Boulevard Royal, Côte d’Eich | Anaïs, Loïc, Josée, Théo | Wagner-Schmit, Thill, D’Huart, Kieffer
PL | pl | +48 22 | Łódź=90-001, Kraków=31-042, Gdańsk=80-831 | ulica Świętojańska, Piotrkowska, Długa | Łukasz, Małgorzata, Żaneta, Grażyna | Wójcik, Śliwiński, Zając, Dąbrowska
GR | el | +30 210 | Αθήνα=105 57, Θεσσαλονίκη=546 24 | Οδός Ερμού, Λεωφόρος Συγγρού | Ελένη, Γιώργος, Δήμητρα | Παπαδοπούλου, Οικονόμου, Βασιλείου
JP | ja | +81 3 | 東京都千代田区=100-0001, 京都市=600-8216 | 丸の内, 銀座, 烏丸通 | さくら, 健太, 陽子 | 佐藤, 髙橋, 渡邉
GB | en | +44 20 | London=EC2V 7HN, Edinburgh=EH2 4DF, St Helier=JE2 3QA | King’s Road, St John’s Lane, Threadneedle Street | Siobhán, Oluwaseun, Nia, Callum | O’Brien, Ní Dhomhnaill, Featherstonehaugh, Okonkwo
TR | tr | +90 212 | İstanbul=34421, İzmir=35210 | İstiklâl Caddesi, Bağdat Caddesi | Işıl, Çağrı, Ömer | Ağaoğlu, Yılmaz, Öztürk
BR | pt | +55 11 | São Paulo=01310-100, Florianópolis=88010-400 | Avenida Paulista, Rua São João | João, Conceição, Íris | Gonçalves, Araújo, Magalhães Assunção
`;

export const COUNTRIES = TABLE.trim()
  .split("\n")
  .map((row) => {
    const [code, language, diallingCode, cities, streets, firstNames, lastNames] = row.split(
      " | ",
    ) as [string, string, string, string, string, string, string];
    return {
      code,
      language,
      diallingCode,
      cities: words(cities).map((city) => city.split("=") as [name: string, postalCode: string]),
      streets: words(streets),
      firstNames: words(firstNames),
      lastNames: words(lastNames),
    };
  });

export const COMPANY_NAMES = words(
  "Edelweiß, Polaris, Blue Lagoon, Sécurité Générale, Kōyō, Północ, Άλφα, Três Rios",
);
