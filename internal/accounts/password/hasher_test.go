package password

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/alexedwards/argon2id"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// cheap is a cost for tests: with the race detector a password of the real one takes an
// eighth of a second.
var cheap = argon2id.Params{Memory: 256, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

func TestAPasswordCostsWhatOWASPAsksForWhetherThereIsOneOrNot(t *testing.T) {
	if OWASP.Memory < 19*1024 || OWASP.Iterations < 2 || OWASP.Parallelism != 1 {
		t.Errorf("got %+v, want 19 MB, two passes, one lane", OWASP)
	}
	h := NewHasher(1, OWASP)
	stored, err := h.Hash(t.Context(), "", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	known, _, _, err := argon2id.DecodeHash(stored)
	if err != nil {
		t.Fatal(err)
	}
	unknown, _, _, err := argon2id.DecodeHash(h.decoy)
	if err != nil || *unknown != *known {
		t.Errorf("where there is no password the cost is %+v, %v, want %+v", unknown, err, known)
	}
}

func TestAPasswordMatchesItsOwnHashOnly(t *testing.T) {
	h := NewHasher(1, cheap)
	stored, err := h.Hash(t.Context(), "", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		password, stored string
		want             bool
	}{{"correct horse", stored, true}, {"correct hors", stored, false}, {"correct horse", "", false}, {"", "", false}} {
		if got, err := h.Matches(t.Context(), "", tt.password, tt.stored); got != tt.want || err != nil {
			t.Errorf("Matches(%q, %.12q): got %t, %v, want %t", tt.password, tt.stored, got, err, tt.want)
		}
	}
}

func TestWhoWaitsForAHasherObeysItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := NewHasher(1, cheap)
		if err := h.take(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := h.Hash(ctx, "ann", "correct horse")
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

func TestAFloodOfLogInsKeepsNeitherOthersOutNorMemory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := NewHasher(1, cheap)
		if err := h.take(t.Context(), "flood"); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1000)
		try := func(asker string) {
			go func() {
				_, err := h.Matches(t.Context(), asker, "correct horse", "")
				done <- err
			}()
		}
		refused := func(n int) {
			t.Helper()
			synctest.Wait()
			if len(done) != n {
				t.Errorf("%d refused, want %d", len(done), n)
			}
			for len(done) > 0 {
				if err := <-done; !errors.Is(err, ErrBusy) {
					t.Errorf("got %v, want ErrBusy", err)
				}
			}
		}
		for range 100 {
			try("flood")
		}
		refused(100 - waitingOfOne)
		try("ann")
		refused(0)
		for i := range 100 {
			try(fmt.Sprint("many ", i))
		}
		refused(100 - (waitingFor - waitingOfOne - 1))
		h.put()
		for range waitingFor {
			if err := <-done; err != nil {
				t.Errorf("one that waited: %v", err)
			}
		}
		if h.waiting != 0 || len(h.of) != 0 {
			t.Errorf("%d wait after the last, %v", h.waiting, h.of)
		}
	})
}

func TestMemoryIsGivenBackOnceAfterTheLastPassword(t *testing.T) {
	h := NewHasher(2, cheap)
	released := 0
	h.release = func() { released++ }
	h.Tidy()
	if released != 0 {
		t.Error("released without a password")
	}
	if err := h.take(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	h.litter.Store(true)
	h.Tidy()
	if released != 0 {
		t.Error("released while somebody is hashing")
	}
	h.put()
	h.Tidy()
	h.Tidy()
	if released != 1 {
		t.Errorf("released %d times, want once", released)
	}
}

func BenchmarkPassword(b *testing.B) {
	h := NewHasher(1, OWASP)
	for b.Loop() {
		if _, err := h.Matches(b.Context(), "", "correct horse", ""); err != nil {
			b.Fatal(err)
		}
	}
}
