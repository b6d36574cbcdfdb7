import { chatContract } from "./chat.ts";
import { slackRig } from "./chat-slack.ts";
chatContract("slack", slackRig);
