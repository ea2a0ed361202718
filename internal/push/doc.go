// Package push notifies users while none of their devices is online: by Web Push (RFC 8030) to subscribed browsers, and
// by a hook to a backend that sends its own pushes.
//
// # Source of truth
//
// SQL is the source of truth: push_subscriptions, one per device; push_settings; and push_chats, which stores the
// last messages with a queued and with a sent push, per member of a chat. Pushes to send are messages of the outbox.
//
// # From a message to a push
//
// A chat message costs nothing here. The follower, a job on one node, reads which conversations have changed, and which
// of their members have a subscription and no device that received the messages. It starts within a second or so after a
// change; see [worker.Job]. Members who are offline get a push. It is enqueued in the transaction that updates push_chats,
// so that a killed node loses and repeats none.
//
// The follower reads the last seconds again each time, and the last minute every 15 seconds. So it finds late commits,
// and users who seemed online because of a dead connection. It skips conversations whose members have all received the
// newest message or were notified. A check that is interrupted, for example after an outage, continues where it ended.
// The follower ignores a mark that is more than a minute ahead of its clock, because a wrong clock wrote it.
//
// Messages soon after a push wait for half a minute, and become one push with a count. Times of pushes that a correct
// clock cannot have written are ignored, too.
//
// Notices (package notices) are passed on in the transaction that writes them. A notice for a user who seems online is
// checked again after a minute, for the same reason.
//
// # Sending
//
// When a push is sent, everything is checked again: whether the device is logged in, whether the user is online, what
// is unread, and the user's settings. A push contains the text of a message only if the user wants previews. Its
// payload is encrypted for the browser (RFC 8291) and signed with the deployment's key (RFC 8292). SQL stores that key
// encrypted with the server's secret, so that SQL alone can sign nothing. The key is derived from a seed in SQL and the
// first secret of the server. It stays when the secret is rotated, because the subscriptions of browsers are bound to
// it.
//
// 404 and 410 end a subscription. After 429 and 503 nothing is sent to that host until the time it asks for; after a
// timeout, for half a minute. Other failures are retried with back-off, up to five tries. Hosts are served in parallel,
// so that a host that hangs delays others for at most five seconds, and is then paused.
//
// # Endpoints are addresses from users
//
// Endpoints use https, redirects are not followed, and no connection is made to an address that is not public. The
// address is checked when it is dialled, not when it is resolved. The setting push.private disables this for closed
// networks.
package push
