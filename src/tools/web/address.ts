// Which addresses `web_fetch` may use: public ones only. The input comes from the URL parser and the resolver, which
// have already turned decimal, octal, hex and short forms of IPv4 into dotted ones.
import { BlockList, isIP, isIPv4 } from "node:net";

// https://www.iana.org/assignments/iana-ipv4-special-registry, multicast, and Azure's host address, which is not in
// that list.
const CLOSED_4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10", // shared by a provider's customers
  "127.0.0.0/8",
  "168.63.129.16/32",
  "169.254.0.0/16", // also the metadata service of every cloud
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
];
// In IPv6 only 2000::/3 is public; these parts of it are not. Tunnels (Teredo, 6to4) carry any IPv4 address.
const CLOSED_6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
/** IPv4 inside IPv6: mapped addresses, and NAT64, through which a network without IPv4 reaches all of IPv4. */
const CARRIERS = ["::ffff:0:0/96", "64:ff9b::/96"];

const closed4 = listOf(CLOSED_4);
const closed6 = listOf(CLOSED_6);
const open6 = listOf(["2000::/3"]);
const carriers = listOf(CARRIERS);

export function isPublic(address: string): boolean {
  if (isIPv4(address)) return !closed4.check(address, "ipv4");
  if (isIP(address) !== 6 || address.includes("%")) return false; // an address with a zone belongs to this machine's own network
  if (carriers.check(address, "ipv6")) return !closed4.check(carried(address), "ipv4");
  return open6.check(address, "ipv6") && !closed6.check(address, "ipv6");
}

/** The IPv4 address in the last 32 bits. */
function carried(address: string): string {
  // The URL parser writes the whole address in hex; only one run of zeros may be left out.
  const groups = new URL(`http://[${address}]`).hostname.slice(1, -1).split(":").slice(-2);
  return groups
    .map((group) => Number.parseInt(group || "0", 16))
    .map((n) => `${n >> 8}.${n & 255}`)
    .join(".");
}

function listOf(subnets: string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = "", bits] = subnet.split("/");
    list.addSubnet(net, Number(bits), isIPv4(net) ? "ipv4" : "ipv6");
  }
  return list;
}

const INNER_NAMES = /(?:^|\.)(?:localhost|local|internal|intranet|lan|home\.arpa)$|^(?:metadata|instance-data)$/;
/** Refused by name, whatever they resolve to: these names are never public. */
export const isInnerName = (host: string): boolean => INNER_NAMES.test(host);

// Ports where a request would be read as another protocol: https://fetch.spec.whatwg.org/#port-blocking, from 1024 on.
const OTHER_PROTOCOLS = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);
export const isWebPort = (port: number): boolean =>
  port === 80 || port === 443 || (port >= 1024 && !OTHER_PROTOCOLS.has(port));
