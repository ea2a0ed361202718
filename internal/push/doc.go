// Package push tells users what they should see while no device of theirs is on line: by Web Push (RFC 8030) to
// browsers that have subscribed, and by a hook to whoever sends pushes of their own.
//
// # Truth
//
// SQL: push_subscriptions, of a user's devices, one each; push_settings; and push_chats, up to where a member of a chat
// was told of messages, and up to where a push was sent. What is to be sent is a message of the outbox.
//
// # From a message to a push
//
// A message of a chat costs nothing here: the follower, a job on one node, reads every second which conversations have
// changed, and which of their members have a subscription and no device that has got the messages. Those of them who are
// not on line get a push: it goes into the outbox in the transaction that notes in push_chats up to where they were
// told. So a node that is killed loses none and doubles none. The follower reads again the last seconds, and every quarter of a
// minute the last minute: it finds what was committed late, and those who looked on line because a connection had died unnoticed. It leaves out
// conversations of whose newest message it has seen that all members have got it, or are told. A look
// that is cut off, as one may be after an outage, is gone on with where it ended. A mark of the follower that is more than a minute
// ahead of the clock is that of a clock that was wrong, and counts for nothing.
// Messages that come soon after a push wait for half a minute, and are one push with a count. When a chat was told last, and when a push
// is due, counts for nothing, too, if a clock that was right cannot have written it.
//
// Notices (package notices) are handed over in the transaction that writes them. A notice that comes while its user looks on line
// is looked at again after a minute, for the same reason.
//
// # Sending
//
// When a push is sent, everything is looked at again: whether the device is still logged in, whether somebody is on
// line, what is unread, and what the user's settings say. A push has no text of a message unless the user wants previews.
// Its payload is encrypted for the browser (RFC 8291), and signed with the deployment's key (RFC 8292), which SQL has encrypted under the
// server's secret: SQL alone signs nothing. It is made of a seed in SQL and the secret that the server had first, and stays when the secret
// is rotated, since the browsers' subscriptions are for this key.
//
// 404 and 410 end a subscription. After 429 and 503 nothing goes to that host until the time it asks for; after a time-out, for
// half a minute. Other failures are tried again with back-off, and given up after the fifth. Hosts are served side by side, so that one that hangs holds up
// others for no longer than the five seconds after which it rests.
//
// # Endpoints are addresses that users give
//
// Only https, no redirects, and no connection to an address that is not public: the address is looked at when
// it is dialled, not when it is resolved. The setting push.private lifts that for closed networks.
package push
