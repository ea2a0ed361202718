package password

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/alexedwards/argon2id"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// cheap is a cost for tests: a password of the real cost takes an eighth of a second with the race detector.
var cheap = argon2id.Params{Memory: 256, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

func TestMatches_CostIsEqualWithoutAPassword(t *testing.T) {
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

func TestMatches_OnlyItsOwnHash(t *testing.T) {
	h := NewHasher(1, cheap)
	stored, err := h.Hash(t.Context(), "", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		password, stored string
		want             bool
	}{{"correct horse", stored, true}, {"correct hors", stored, false}, {"correct horse", "", false}, {"", "", false}} {
		if got, err := h.Matches(tt.password, tt.stored); got != tt.want || err != nil {
			t.Errorf("Matches(%q, %.12q): got %t, %v, want %t", tt.password, tt.stored, got, err, tt.want)
		}
	}
}

func TestHasher_FloodOfOneAskerIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := NewHasher(1, cheap)
		release := h.hold(t)
		done := make(chan error, 2*waiting)
		try := func(asker string, times int) {
			for range times {
				go func() {
					done <- h.Do(t.Context(), asker, func() error { return nil })
				}()
			}
			synctest.Wait()
		}
		refused := func(n int) {
			t.Helper()
			if len(done) != n {
				t.Errorf("%d refused, want %d", len(done), n)
			}
			for len(done) > 0 {
				if err := <-done; !errors.Is(err, ErrBusy) {
					t.Errorf("got %v, want ErrBusy", err)
				}
			}
		}
		try("flood", waiting)
		refused(waiting - waitingPerAsker)
		try("ann", 1)
		refused(0)
		for i := range waiting {
			try(fmt.Sprint("many ", i), 1)
		}
		refused(waitingPerAsker + 1)
		h.done(release)
		for range waiting {
			if err := <-done; err != nil {
				t.Errorf("a waiting password: %v", err)
			}
		}
	})
}

// hold occupies a slot.
func (h *Hasher) hold(t *testing.T) (release func()) {
	t.Helper()
	release, err := h.queue.Acquire(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func TestTidy_ReleasesMemoryOnce(t *testing.T) {
	h := NewHasher(2, cheap)
	released := 0
	h.release = func() { released++ }
	h.Tidy()
	if released != 0 {
		t.Error("released without a password")
	}
	release := h.hold(t)
	h.litter.Store(true)
	h.Tidy()
	if released != 0 {
		t.Error("released while a password is being hashed")
	}
	h.done(release)
	h.Tidy()
	h.Tidy()
	if released != 1 {
		t.Errorf("released %d times, want once", released)
	}
}

func BenchmarkPassword(b *testing.B) {
	h := NewHasher(1, OWASP)
	for b.Loop() {
		if _, err := h.Matches("correct horse", ""); err != nil {
			b.Fatal(err)
		}
	}
}
