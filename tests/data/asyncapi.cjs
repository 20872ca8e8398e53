// Reads an AsyncAPI document with the official parser: prints what it finds wrong, exits 1 if there is anything.
const fs = require('node:fs');
const { Parser } = require('@asyncapi/parser');

(async () => {
  const { document, diagnostics } = await new Parser().parse(fs.readFileSync(process.argv[2], 'utf8'));
  // Severity 0 is an error, 1 a warning; above come hints about style.
  const wrong = diagnostics.filter((found) => found.severity <= 1);
  for (const { code, path, message } of wrong) console.log(`${code} at /${path.join('/')}: ${message}`);
  if (document) console.log(`${document.channels().length} channels, ${document.messages().length} messages`);
  process.exit(document && wrong.length === 0 ? 0 : 1);
})();
