// A tenant made of the network's own TypeScript SDK. It reads what to do and where from one JSON argument and writes
// one JSON line of what it saw. Numbers are written as text.
import {
  createChainNodeSDK,
  createStargateClient,
  generateManifest,
  generateManifestVersion,
  yaml,
} from "@akashnetwork/chain-sdk";
import { readFileSync } from "node:fs";

const asked = JSON.parse(process.argv[2]);
const signer = createStargateClient({ baseUrl: asked.rpc, signerMnemonic: asked.mnemonic });
const sdk = createChainNodeSDK({ query: { baseUrl: asked.grpc }, tx: { signer } });

const plain = (key, value) => {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (value && typeof value === "object" && typeof value.low === "number") return value.toString();
  return value;
};

// Orders, as a tenant's console does.
async function deploy() {
  const { address } = await signer.getAccount();
  const made = generateManifest(yaml.template(readFileSync(asked.sdl, "utf8")));
  if (!made.ok) throw new Error(JSON.stringify(made.value));
  const hash = await generateManifestVersion(made.value.groups);
  const id = { owner: address, dseq: asked.dseq };
  let sent;
  await sdk.akash.deployment.v1beta4.createDeployment(
    {
      id,
      groups: made.value.groupSpecs,
      hash,
      deposit: { amount: { denom: "uact", amount: "5000000" }, sources: [1] },
    },
    { afterBroadcast: (tx) => (sent = tx) },
  );
  const found = await sdk.akash.deployment.v1beta4.getDeployment({ id });
  return { address, hash, sent, found };
}

// Looks at what the provider did, and takes its bid.
async function accept() {
  const { address } = await signer.getAccount();
  const { bids } = await sdk.akash.market.v1beta5.getBids({ filters: { owner: address, dseq: asked.dseq } });
  const provider = await sdk.akash.provider.v1beta4.getProvider({ owner: bids[0].bid.id.provider });
  const theirs = await sdk.cosmos.tx.v1beta1.getTx({ hash: asked.hash });
  let sent;
  await sdk.akash.market.v1beta5.createLease(
    { bidId: bids[0].bid.id },
    { afterBroadcast: (tx) => (sent = tx) },
  );
  const leases = await sdk.akash.market.v1beta5.getLeases({ filters: { owner: address, dseq: asked.dseq } });
  return { bids, provider, theirs, sent, leases };
}

const done = await { deploy, accept }[asked.act]();
console.log(JSON.stringify(done, plain));
await signer.disconnect();
