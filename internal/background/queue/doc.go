// Package queue gets facts acted upon: at least once, on some node, also when
// the one that published them is gone.
//
// # Publishing
//
// A transaction that needs work done afterwards enqueues a message in itself;
// it is there if and only if the rest is:
//
//	err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
//		…
//		return tx.Enqueue(ctx, sqldb.Message{Topic: "mail.send", Key: id.String(), Payload: p})
//	})
//
// A message that belongs to no transaction goes straight into a [Store]:
//
//	err := store.Publish(ctx, queue.Message{Topic: "mail.send", Payload: p})
//
// # Consuming
//
// A [Consumer] on some nodes hands messages to their topics' handlers:
//
//	c, err := queue.NewConsumer(store, map[string]queue.Handler{"mail.send": send}, nil, queue.Config{Log: log})
//	err = c.Run(ctx)
//
// A [Batch] handles several at once and answers for each, so that a hundred
// facts cost one commit.
//
// # What is promised
//
// Every message is handled at least once, so a handler must bear one twice. No
// order is promised, neither of all messages nor of those with one key: retries
// and several nodes overtake. What needs an order carries it in the payload, a
// version or a time, and the handler lets the newer one win.
//
// A handler that fails or panics gets the message again after about 1, 4, 16 and
// 64 seconds; the fifth failure makes it a dead letter, kept until Replay or
// Drop. [ErrGiveUp] makes it one at once. While the database, or what else the
// handler needs, is away, tries do not count: see [ErrNotNow]. A node that dies
// loses its claims after Config.Claim, and another one takes over.
//
// # Stores
//
// [SQL] is the truth itself: what was committed is not lost. [Redis] takes load
// off the database and is as durable as that Redis: see docs/queue.md. [Relay]
// carries what transactions enqueue from SQL to it. A further store implements
// [Store] in this package and joins the conformance suite.
package queue
