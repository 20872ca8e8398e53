"""A receiver with nothing of ours: verifies with standardwebhooks, reads with cloudevents, prints a line per event."""

import json
import os
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from cloudevents.core.bindings.http import HTTPMessage, from_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            webhook.verify(body, headers)
            event = from_structured(HTTPMessage(headers, body), JSONFormat(), CloudEvent)
        except WebhookVerificationError:
            print(json.dumps("forged"), flush=True)
            return self.answer(401)
        read = {name: str(value) for name, value in event.get_attributes().items()}
        read["time"] = event.get_time().isoformat()
        read["data"] = event.get_data()
        print(json.dumps(read), flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


# Not an HTTPServer, which asks the name service for its own name; and a thread for each connection, so that an idle one
# holds up no other.
server = ThreadingTCPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
server.serve_forever()
