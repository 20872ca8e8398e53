// Takes deliveries as JSON on standard input, one list of cases; prints each answer with the calls that it led to.
// The generated module, compiled, is the first argument.
import { pathToFileURL } from "node:url";

const { PINS, Rejected, receive } = await import(pathToFileURL(process.argv[2]).href);
const input = [];
for await (const chunk of process.stdin) input.push(chunk);
const { secrets, cases } = JSON.parse(Buffer.concat(input).toString());

const answers = [];
for (const { headers, body, maxBytes, binaryMode, behave } of cases) {
  const calls = [];
  const method = (type, major) => `${type.replaceAll(".", "_")}_v${major}`;
  const handler = Object.fromEntries(
    [...PINS].map(([type, major]) => [
      method(type, major),
      async (event) => {
        calls.push({ method: method(type, major), event });
        if (behave === "reject") throw new Rejected("not for us");
        if (behave === "throw") throw new Error("away");
      },
    ]),
  );
  const options = { secrets, ...(maxBytes && { maxBytes }), ...(binaryMode && { binaryMode }) };
  let answer;
  try {
    answer = await receive(handler, new Map(Object.entries(headers)), Uint8Array.from(body), options);
  } catch (error) {
    answer = { status: 500, reason: error.message };
  }
  answers.push({ ...answer, calls });
}
console.log(JSON.stringify(answers));
