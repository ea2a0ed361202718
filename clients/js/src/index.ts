export { Chats, type ChatsEvents, type ChatsOptions, type ChatState, type Said } from "./chats.js";
export {
  SESSION_ENDED,
  StoaClient,
  type Answer,
  type ClientEvents,
  type Input,
  type State,
  type StoaEvent,
  type StoaOptions,
} from "./client.js";
export { Ended, isTemporary, Refused, Unreachable } from "./errors.js";
export { fetchFile, fileLink, sendFile, uploadFile, type FileOptions, type SendFileOptions } from "./files.js";
export { newestOf, type OwnGroup } from "./groups.js";
export type { Outgoing } from "./outbox.js";
export { PlaybackSync, type Correction, type Register } from "./playback.js";
export { IndexedStorage, MemoryStorage, openStorage, WebStorage, type Storage } from "./storage.js";
export { Presences } from "./presences.js";
export { refreshing, type KeptTokens, type RefreshOptions, type TokenSource } from "./tokens.js";
export type * from "./wire.js";
