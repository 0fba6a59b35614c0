// The texts of scripts in the page's language. The page carries the messages as JSON, in an element with the id
// `translation`; a message that is missing there is shown in English.

const place = document.getElementById("translation");
const {language = "en", messages = {}} = place ? JSON.parse(place.textContent) : {};
const plurals = new Intl.PluralRules(language);
const numbers = new Intl.NumberFormat(language);
const shares = new Intl.NumberFormat(language, {style: "percent", maximumFractionDigits: 0});
const amounts = new Intl.NumberFormat(language, {style: "currency", currency: "USD"});

const shown = (value) => (typeof value === "number" ? numbers.format(value) : String(value));

const fill = (text, params) => text.replace(/%%|%\((\w+)\)s/g, (found, name) => (name ? shown(params[name]) : "%"));

// Returns a text in the page's language: gettext("Question %(number)s of %(all)s", {number, all}).
export const gettext = (text, params = {}) => fill(messages[text] ?? text, params);

// Returns a text with a number, `%(n)s`: ngettext("%(n)s attempt left", "%(n)s attempts left", left).
export const ngettext = (one, many, n, params = {}) => {
  const forms = messages[one] ?? {one, other: many};
  return fill(forms[plurals.select(n)] ?? forms.other, {n, ...params});
};

export const pageLanguage = language;

export const number = (value) => numbers.format(value);

// A share from 0 to 1 as a whole percentage.
export const percent = (share) => shares.format(share);

export const money = (cents) => amounts.format(cents / 100);
