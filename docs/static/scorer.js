// Order of search results: pages that answer questions first, then tutorials and guides, then the reference.
var Scorer = {
  score: (result) => {
    const [docname, title, anchor, description, score] = result;
    if (docname.startsWith("howto/")) return score + 12;
    if (docname.startsWith("gallery/") || docname.startsWith("tutorials/")) return score + 3;
    if (docname.startsWith("api/")) return score - 8;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 5, 1: 3, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
