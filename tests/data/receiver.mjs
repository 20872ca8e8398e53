// A receiver with nothing of ours: verifies with standardwebhooks, reads with cloudevents, prints a line per event.

import { createServer } from "node:http";
import { HTTP } from "cloudevents";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

const webhook = new Webhook(process.env.SECRET);

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString("utf8");
  try {
    webhook.verify(body, request.headers);
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log(JSON.stringify("forged"));
    return response.writeHead(401).end();
  }
  const event = HTTP.toEvent({ headers: request.headers, body });
  event.validate();
  console.log(JSON.stringify(event));
  response.writeHead(204).end();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
