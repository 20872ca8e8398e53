// What an independent validator says of each of GitHub's example payloads by the schema that GitHub's webhooks have:
// a JSON list of true, false, or null where there is no schema, in the order of the examples.
const fs = require('node:fs');
const Ajv = require('ajv').default;
const formats = require('ajv-formats').default;

const [schemas, kinds] = process.argv.slice(2, 4).map((file) => JSON.parse(fs.readFileSync(file, 'utf8')));
const ajv = new Ajv({ strict: false, logger: false });
formats(ajv);
ajv.addSchema(schemas, 'webhooks');
const verdicts = kinds.flatMap(({ name, examples }) =>
  examples.map((payload) => {
    const definition = `${name}$${payload.action ?? 'event'}`;
    if (!(definition in schemas.definitions)) return null;
    return ajv.getSchema(`webhooks#/definitions/${definition}`)(payload);
  }),
);
console.log(JSON.stringify(verdicts));
