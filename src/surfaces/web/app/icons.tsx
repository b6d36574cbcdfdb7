// The signs of the console: lines of one width, in the colour of their text.
import type { ComponentProps } from "preact";

const PATHS = {
  now: "M4 12h3l3 7 4-14 3 7h3",
  conversations: "M4 5h16v11H9l-5 4z",
  schedules: "M12 7v5l3 2M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z",
  memory: "M6 4h12v16l-6-4-6 4z",
  skills: "M4 6c3-1 6-1 8 1 2-2 5-2 8-1v12c-3-1-6-1-8 1-2-2-5-2-8-1zM12 7v12",
  people:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM3 20c0-4 3-6 6-6s6 2 6 6M16 4.5a3.5 3.5 0 0 1 0 6.500M18 14.500c2 .8 3 2.500 3 5.500",
  usage: "M5 20V11M12 20V4M19 20v-6",
  health: "M12 20s-8-5-8-11a4.500 4.500 0 0 1 8-2.500A4.500 4.500 0 0 1 20 9c0 6-8 11-8 11z",
  turn: "M4 6h9M8 12h9M12 18h8",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM16 16l4 4",
  send: "M12 20V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  up: "M12 19V6M7 11l5-5 5 5",
  down: "M12 5v13M7 13l5 5 5-5",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  close: "M6 6l12 12M18 6L6 18",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  back: "M15 5l-7 7 7 7",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.500 9h.01",
  check: "M5 13l4 4L19 7",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);

type IconButtonProps = ComponentProps<"button"> & { icon: IconName; label: string };

export const IconButton = ({ icon, label, ...rest }: IconButtonProps) => (
  <button type="button" class="quiet soft" aria-label={label} {...rest}>
    <Icon name={icon} />
  </button>
);
