// A tenant of a provider's gateway, made of the network's own TypeScript SDK and of the websocket client `ws`. It reads
// what to do and where from one JSON argument and writes one JSON line of what it saw.
import { JwtTokenManager, certificateManager, createProviderSDK } from "@akashnetwork/chain-sdk";
import { Secp256k1HdWallet } from "@cosmjs/amino";
import https from "node:https";
import WebSocket from "ws";

const asked = JSON.parse(process.argv[2]);

const plain = (key, value) => {
  if (typeof value === "bigint") return value.toString();
  if (value && typeof value === "object" && typeof value.low === "number") return value.toString();
  return value;
};

// A token and a certificate, made as a console makes them.
async function credentials() {
  const wallet = await Secp256k1HdWallet.fromMnemonic(asked.mnemonic, { prefix: "akash" });
  const [{ address }] = await wallet.getAccounts();
  const now = Math.floor(Date.now() / 1000);
  const tokens = new JwtTokenManager(wallet);
  const claims = { iss: address, iat: now, nbf: now, exp: now + 600, version: "v1" };
  const full = await tokens.generateToken({ ...claims, leases: { access: "full" } });
  const logs = await tokens.generateToken({ ...claims, leases: { access: "scoped", scope: ["logs"] } });
  return { address, full, logs, certificate: await certificateManager.generatePEM(address) };
}

// The status over gRPC: once, and as it changes.
async function status() {
  const authentication = asked.cert ? { type: "mtls", cert: asked.cert, key: asked.key } : undefined;
  const sdk = createProviderSDK({ baseUrl: asked.grpc, authentication });
  const once = await sdk.akash.provider.v1.getStatus();
  for await (const first of await sdk.akash.provider.v1.streamStatus()) return { once, first };
}

const options = () => ({
  rejectUnauthorized: false,
  minVersion: "TLSv1.3",
  cert: asked.cert,
  key: asked.key,
  headers: asked.token ? { Authorization: `Bearer ${asked.token}` } : {},
});

// One request.
function get() {
  return new Promise((resolve, reject) => {
    const request = https.get(asked.url, options(), (response) => {
      let body = "";
      response.on("data", (piece) => (body += piece));
      response.on("end", () => resolve({ status: response.statusCode, body }));
    });
    request.on("error", reject);
  });
}

// Everything that comes on a websocket until it ends; `asked.send` is sent first, as binary frames in base64.
function listen() {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(asked.url, options());
    const frames = [];
    socket.on("open", () => (asked.send ?? []).forEach((frame) => socket.send(Buffer.from(frame, "base64"))));
    socket.on("message", (data) => frames.push(typeof data === "string" ? data : Buffer.from(data).toString("base64")));
    socket.on("unexpected-response", (_, response) => resolve({ refused: response.statusCode }));
    socket.on("close", (code, reason) => resolve({ frames, code, reason: reason.toString() }));
    socket.on("error", reject);
  });
}

const done = await { credentials, status, get, listen }[asked.act]();
process.stdout.write(JSON.stringify(done, plain) + "\n", () => process.exit(0));
