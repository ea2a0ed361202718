package accounts

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"testing/synctest"

	"github.com/alexedwards/argon2id"

	"github.com/stoa-dev/stoa/internal/bubble"
)

// dear is what a password costs outside of tests.
var dear = *argon2

var costly = flag.Bool("costly", false, "let passwords cost in tests what they cost outside")

// TestMain makes passwords cheap: with the race detector one takes an eighth of
// a second.
func TestMain(m *testing.M) {
	flag.Parse()
	if !*costly {
		argon2.Memory, argon2.Iterations = 256, 1
	}
	os.Exit(m.Run())
}

func TestAPasswordCostsWhatOWASPAsksForWhetherThereIsOneOrNot(t *testing.T) {
	if dear.Memory < 19*1024 || dear.Iterations < 2 || dear.Parallelism != 1 {
		t.Errorf("got %+v, want 19 MB, two passes, one lane", dear)
	}
	stored, err := newHasher(1).hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	known, _, _, err := argon2id.DecodeHash(stored)
	if err != nil {
		t.Fatal(err)
	}
	unknown, _, _, err := argon2id.DecodeHash(decoy())
	if err != nil || *unknown != *known {
		t.Errorf("where there is no password the cost is %+v, %v, want %+v", unknown, err, known)
	}
}

func TestAPasswordMatchesItsOwnHashOnly(t *testing.T) {
	h := newHasher(1)
	stored, err := h.hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		password, stored string
		want             bool
	}{{"correct horse", stored, true}, {"correct hors", stored, false}, {"correct horse", "", false}, {"", "", false}} {
		if got, err := h.matches(t.Context(), tt.password, tt.stored); got != tt.want || err != nil {
			t.Errorf("matches(%q, %.12q): got %t, %v, want %t", tt.password, tt.stored, got, err, tt.want)
		}
	}
}

func TestWhoWaitsForAHasherObeysItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newHasher(1)
		if err := h.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := h.hash(ctx, "correct horse")
			done <- err
		}()
		synctest.Wait() // it waits
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		h.put()
	})
}

func TestMemoryIsGivenBackOnceAfterTheLastPassword(t *testing.T) {
	h := newHasher(2)
	released := 0
	h.release = func() { released++ }
	h.tidy()
	if released != 0 {
		t.Error("released without a password")
	}
	if err := h.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.litter.Store(true)
	h.tidy()
	if released != 0 {
		t.Error("released while somebody is hashing")
	}
	h.put()
	h.tidy()
	h.tidy()
	if released != 1 {
		t.Errorf("released %d times, want once", released)
	}
}

func BenchmarkPassword(b *testing.B) {
	cheap := *argon2
	*argon2 = dear
	defer func() { *argon2 = cheap }()
	h := newHasher(1)
	for b.Loop() {
		if _, err := h.matches(b.Context(), "correct horse", ""); err != nil {
			b.Fatal(err)
		}
	}
}
