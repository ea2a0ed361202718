package cache

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// An Event is a kind of change, with the key of the changed object: "room deleted", of one room. [Drops] declares once
// which caches it drops, and [Runtime.Check] compares that with the declarations of the families.
type Event[K comparable] struct{ name string }

// NewEvent names a kind of change, with a name from the families' Doc.InvalidatedBy.
func NewEvent[K comparable](name string) Event[K] { return Event[K]{name} }

// Name returns the event's name.
func (e Event[K]) Name() string { return e.name }

// Dropper is what an event of K can drop: a [Cache] or a collection with that key.
type Dropper[K comparable] interface {
	Target(K) Target
	Family() *keyspace.Family
}

// Drops declares what an event drops.
func Drops[K comparable](rt *Runtime, e Event[K], from ...Dropper[K]) {
	for _, d := range from {
		rt.declare(e.name, reflect.TypeFor[K](), d.Family(), func(k any) Target { return d.Target(k.(K)) })
	}
}

// DropsBy declares that an event of K drops keys of another kind, which by returns.
func DropsBy[K, L comparable](rt *Runtime, e Event[K], by func(K) L, from ...Dropper[L]) {
	for _, d := range from {
		rt.declare(e.name, reflect.TypeFor[K](), d.Family(), func(k any) Target { return d.Target(by(k.(K))) })
	}
}

// declared is what one event drops.
type declared struct {
	key      reflect.Type
	families []*keyspace.Family
	targets  []func(k any) Target
}

func (rt *Runtime) declare(event string, key reflect.Type, f *keyspace.Family, target func(k any) Target) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	d := rt.events[event]
	if d == nil {
		d = &declared{key: key}
		rt.events[event] = d
	}
	if d.key != key {
		panic(fmt.Sprintf("cache: the event %q has keys of two types", event))
	}
	d.families, d.targets = append(d.families, f), append(d.targets, target)
}

// Of returns what the event drops if it happens to each of ks, for [Runtime.Change] and [Runtime.Drop].
func (e Event[K]) Of(rt *Runtime, ks ...K) []Target {
	dropped := rt.targetsOf(e.name, reflect.TypeFor[K]())
	targets := make([]Target, 0, len(ks)*len(dropped))
	for _, k := range ks {
		for _, target := range dropped {
			targets = append(targets, target(k))
		}
	}
	return targets
}

func (rt *Runtime) targetsOf(event string, key reflect.Type) []func(k any) Target {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	d := rt.events[event]
	if d == nil || d.key != key {
		panic(fmt.Sprintf("cache: the event %q is not declared", event))
	}
	return d.targets
}

// Check compares the declared events with the families that are cached here. Each event in a family's Doc.InvalidatedBy
// has to drop the family, and each event that drops a family has to be named there. It returns all faults. One test
// over a whole program is enough.
func (rt *Runtime) Check() error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var faults []error
	for _, c := range rt.caches {
		f := c.Family()
		for _, name := range f.Doc.InvalidatedBy {
			if d := rt.events[name]; d == nil || !slices.Contains(d.families, f) {
				faults = append(faults, fmt.Errorf("cache: %s lists the event %q in InvalidatedBy, but the event does not drop it", f.Pattern, name))
			}
		}
	}
	for name, d := range rt.events {
		for _, f := range d.families {
			if !slices.Contains(f.Doc.InvalidatedBy, name) {
				faults = append(faults, fmt.Errorf("cache: the event %q drops %s, which does not list it in InvalidatedBy", name, f.Pattern))
			}
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}
