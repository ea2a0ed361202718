package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/groupcommit"
)

// A row that the database refuses fails alone, and Observe gets each batch.
func ExampleOptions() {
	errRefused := errors.New("refused")
	insert := func(_ context.Context, names []string) ([]string, error) {
		for _, name := range names {
			if name == "" {
				return nil, errRefused // a database refuses the whole statement
			}
		}
		return names, nil
	}
	requests := 0
	c := groupcommit.New(insert, groupcommit.Options[string, string]{
		Split: func(err error) bool { return errors.Is(err, errRefused) },
		After: func(_ context.Context, _ []string, rows []string) { // updates a cache before the callers wake
			for i := range rows {
				rows[i] = strings.ToUpper(rows[i])
			}
		},
		Observe: func(b groupcommit.Batch) {
			if b.Err == nil && b.Commit < time.Minute {
				requests += b.Size
			}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for _, name := range []string{"ada", "", "bob"} {
		row, err := c.Do(ctx, name)
		fmt.Printf("%q %v\n", row, err)
	}

	stop()
	<-done
	_, err := c.Do(context.Background(), "eve")
	fmt.Println(requests, errors.Is(err, groupcommit.ErrClosed))
	_, err = c.Do(ctx, "eve") // its caller no longer waits
	fmt.Println(errors.Is(err, groupcommit.ErrNotTaken) || errors.Is(err, groupcommit.ErrClosed))
	// Output:
	// "ADA" <nil>
	// "" refused
	// "BOB" <nil>
	// 2 true
	// true
}
