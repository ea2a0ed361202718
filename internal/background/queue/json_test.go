package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stoa-dev/stoa/internal/background/queue"
)

func TestJSON_InvalidPayloadIsADeadLetter(t *testing.T) {
	type fact struct{ N int }
	failed := errors.New("failed")
	var got []fact
	handle := queue.JSON(func(_ context.Context, f fact, d queue.Delivery) error {
		if got = append(got, f); d.ID != "1" {
			t.Errorf("delivery %+v", d)
		}
		return failed
	})
	for _, payload := range []string{"", "{", `{"N": "one"}`} {
		if err := handle(t.Context(), queue.Delivery{ID: "1", Payload: []byte(payload)}); !errors.Is(err, queue.ErrGiveUp) || len(got) > 0 {
			t.Errorf("payload %q: error %v, handled %v; want ErrGiveUp and nothing", payload, err, got)
		}
	}
	err := handle(t.Context(), queue.Delivery{ID: "1", Payload: []byte(`{"N": 2}`)})
	if !errors.Is(err, failed) || errors.Is(err, queue.ErrGiveUp) || len(got) != 1 || got[0].N != 2 {
		t.Errorf("a sound payload: error %v, handled %v", err, got)
	}
}
