// Package worker does what nobody waits for: jobs on a schedule and messages
// out of the SQL outbox.
//
// # Jobs
//
// A [Job] runs every so often, or when its Next says. A [Pool] holds them and
// is one part of the process:
//
//	pool, err := worker.NewPool(worker.PoolConfig{Lease: lease, Log: log, Metrics: registry},
//		worker.Job{Name: "codes.sweep", Every: time.Hour, Singleton: true, Run: store.SweepCodes},
//		worker.Job{Name: "checkin.boards", Next: quarterHour, Singleton: true, SafeAlone: true, Run: boards.Sweep},
//	)
//	err = pool.Run(ctx)
//
// A run that fails, panics or takes too long is logged once and tried again
// after a growing wait. A singleton runs on the one node that holds its lease.
//
// # Outbox
//
// A transaction that needs work done afterwards enqueues a message in itself:
//
//	err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
//		…
//		return tx.Enqueue(ctx, sqldb.Message{Topic: "mail.send", Key: id.String(), Payload: p})
//	})
//
// An [Outbox] on every node hands it to the topic's [Handler], at least once
// and in no particular order: a handler must bear a message twice. The same
// node begins at once, another one at its next poll. A handler that
// fails gets the message again after about 1, 4, 16 and 64 seconds; the fifth
// failure makes it a dead letter, kept until [Outbox.Replay]. A node that dies
// loses its claim after OutboxConfig.Claim, and another one takes over. All of
// this is SQL; Redis is not needed.
package worker

import (
	"fmt"
	"runtime/debug"
)

// safely turns f's panic into an error that carries the stack.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}
