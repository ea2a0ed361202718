package cache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stoa-dev/stoa/keyspace"
)

// An Event is a kind of change, with the key of what changes: "room deleted", of
// one room. Which caches it drops is declared once, by [Drops], and checked, by
// [Runtime.Check], against what the families say of themselves.
type Event[K comparable] struct{ name string }

// NewEvent names a kind of change, as the families' Doc.InvalidatedBy do.
func NewEvent[K comparable](name string) Event[K] { return Event[K]{name} }

// Name returns the event's name.
func (e Event[K]) Name() string { return e.name }

// Dropper is what an event of K can drop: a [Cache] or a collection with that
// key.
type Dropper[K comparable] interface {
	Target(K) Target
	Family() *keyspace.Family
}

// Drops declares what an event drops.
func Drops[K comparable](rt *Runtime, e Event[K], from ...Dropper[K]) {
	for _, d := range from {
		declare(rt, e, d.Family(), d.Target)
	}
}

// DropsBy declares that an event of K drops keys of another kind, which by
// returns.
func DropsBy[K, L comparable](rt *Runtime, e Event[K], by func(K) L, from ...Dropper[L]) {
	for _, d := range from {
		declare(rt, e, d.Family(), func(k K) Target { return d.Target(by(k)) })
	}
}

// handlers are what is declared for one event.
type handlers[K comparable] struct {
	families []*keyspace.Family
	targets  []func(K) Target
}

func (h *handlers[K]) covers() []*keyspace.Family { return h.families }

func declare[K comparable](rt *Runtime, e Event[K], f *keyspace.Family, target func(K) Target) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	h, ok := rt.events[e.name].(*handlers[K])
	if rt.events[e.name] != nil && !ok {
		panic(fmt.Sprintf("cache: the event %q has keys of two types", e.name))
	}
	if h == nil {
		h = &handlers[K]{}
		rt.events[e.name] = h
	}
	h.families, h.targets = append(h.families, f), append(h.targets, target)
}

// Of returns what the event drops when it happens to one of ks, for
// [Runtime.Change] and [Runtime.Drop].
func (e Event[K]) Of(rt *Runtime, ks ...K) []Target {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	h, ok := rt.events[e.name].(*handlers[K])
	if !ok {
		panic(fmt.Sprintf("cache: nothing is declared for the event %q", e.name))
	}
	targets := make([]Target, 0, len(ks)*len(h.targets))
	for _, k := range ks {
		for _, target := range h.targets {
			targets = append(targets, target(k))
		}
	}
	return targets
}

// Check holds the declared events against the families that are cached here: each
// event that a family's Doc.InvalidatedBy names has to drop it, and each event
// that drops a family has to be named there. It returns all faults. One test over
// a whole program is enough.
func (rt *Runtime) Check() error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var faults []error
	for _, c := range rt.caches {
		f := c.Family()
		for _, name := range f.Doc.InvalidatedBy {
			if h := rt.events[name]; h == nil || !slices.Contains(h.covers(), f) {
				faults = append(faults, fmt.Errorf("cache: %s says that %q drops it, and nothing does", f.Pattern, name))
			}
		}
	}
	for name, h := range rt.events {
		for _, f := range h.covers() {
			if !slices.Contains(f.Doc.InvalidatedBy, name) {
				faults = append(faults, fmt.Errorf("cache: %q drops %s, which does not say so", name, f.Pattern))
			}
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}
