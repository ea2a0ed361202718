package cache

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

// Tag is something that values of several keys belong to. Each value remembers
// the tag's version from before it was loaded; a drop of the tag changes that,
// however many values there are. Versions are random, so that one that was lost
// with Redis never comes again.
type Tag struct{ name string }

// TagOf returns the tag of a thing, "room" and its id for instance.
func TagOf(kind, id string) Tag { return Tag{kind + ":" + id} }

func (t Tag) key() keyspace.Key { return tagKey.At(keyspace.Text{S: t.name}).Key }

// tagTable are the versions that this process knows.
type tagTable struct{ known *otter.Cache[Tag, tagVersion] }

type tagVersion struct {
	version uint64
	mark    mark
	until   bus.Moment
}

const (
	tagsKnown = 10_000
	// tagKnown is for how long a version is believed without asking. Versions
	// expire in Redis, and who still believed in an old one would not get on
	// with those who know the new one.
	tagKnown = 10 * time.Second
)

func newTagTable() tagTable {
	return tagTable{otter.Must(&otter.Options[Tag, tagVersion]{MaximumSize: tagsKnown})}
}

const isTag = 'T'

// resolveTags finds out the versions of the reads' tags, in one round trip at
// most. It fails also while a tag is being changed: no value of it may be stored
// or used then.
func resolveTags[K comparable, V any](rt *Runtime, reads ...*reading[K, V]) error {
	if len(reads) == 0 || reads[0].c.source.Tags == nil {
		return nil
	}
	var cmds []keyspace.Cmd
	var replied []func(text string) bool
	for _, r := range reads {
		if r.tags != nil {
			continue
		}
		tags := r.c.source.Tags(r.k)
		r.tags, r.under = make([]mark, len(tags)), make([]uint64, len(tags))
		for i, t := range tags {
			if known, ok := rt.tags.known.GetIfPresent(t); ok && !known.mark.moved() && bus.Now() < known.until {
				r.tags[i], r.under[i] = known.mark, known.version
				continue
			}
			key := tagKey.At(keyspace.Text{S: t.name})
			m := rt.watch(key.String())
			set := key.SetCmd(string(isTag)+token(), tagKey.TTL.Draw())
			set.Args = append(set.Args, "NX")
			cmds = append(cmds, set, keyspace.Cmd{Name: "GET", Key: key.Key})
			replied = append(replied, func(text string) bool {
				if len(text) != 1+tokenLen || text[0] != isTag {
					return false
				}
				r.tags[i], r.under[i] = m, binary.BigEndian.Uint64([]byte(text[1:]))
				rt.tags.known.Set(t, tagVersion{r.under[i], m, bus.Now() + bus.Moment(tagKnown)})
				return true
			})
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	replies := rt.do(cmds...)
	for i, got := range replied {
		text, _, err := replies[2*i+1].Text()
		if err != nil {
			return err
		}
		if !got(text) {
			return errTagFenced
		}
	}
	return nil
}

var errTagFenced = errors.New("cache: a tag is being changed")
