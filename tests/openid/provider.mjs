// A real OpenID provider: node provider.mjs PORT REDIRECT_URL. Who logs in as X is X, in the group "ops".
import { createRequire } from "node:module";

const { Provider } = await import(createRequire(`${process.cwd()}/`).resolve("oidc-provider"));
const [port, redirect] = process.argv.slice(2);

const provider = new Provider(`http://localhost:${port}`, {
  clients: [{ client_id: "rotulus", client_secret: "the secret", redirect_uris: [redirect] }],
  pkce: { required: () => true },
  claims: { openid: ["sub", "groups"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["of a test"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: ["ops"] }) }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listens"));
