// Package queue delivers messages to handlers at least once, on any node, even if the node that published them is gone.
//
// # Publishing
//
// A transaction enqueues a message for work that follows its commit. The message is committed or rolled back with the
// rest of the transaction:
//
//	err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
//		…
//		return tx.Enqueue(ctx, sqldb.Message{Topic: "mail.send", Key: id.String(), Payload: p})
//	})
//
// A message outside a transaction goes directly into a [Store]:
//
//	err := store.Publish(ctx, queue.Message{Topic: "mail.send", Payload: p})
//
// # Consuming
//
// A [Consumer] passes messages to the handlers of their topics:
//
//	c, err := queue.NewConsumer(store, map[string]queue.Handler{"mail.send": send}, nil, queue.Config{Log: log})
//	err = c.Run(ctx)
//
// A [Batch] handles several messages at once and returns an error for each, so that a hundred messages cost one commit.
//
// # Guarantees
//
// Each message is handled at least once, so a handler must tolerate duplicates. There is no order, not even between
// messages with the same key, because retries and several nodes reorder them. If order matters, put a version or a time
// into the payload and let the handler keep the newer one.
//
// If a handler fails or panics, the message is retried after about 1, 4, 16 and 64 seconds. After the fifth failure it
// becomes a dead letter until Replay or Drop. [ErrGiveUp] makes it a dead letter at once. Tries do not count while the
// database, or another dependency of the handler, is unavailable: see [ErrNotNow]. A node that dies loses its claims
// after Config.Claim, and another node takes over its messages.
//
// # Stores
//
// [SQL] loses no committed message. [Redis] takes load off the database, and is as durable as that Redis: see
// docs/queue.md. [Relay] moves messages that transactions enqueued in SQL to Redis. A new store implements [Store] in
// this package and joins the conformance suite.
package queue
