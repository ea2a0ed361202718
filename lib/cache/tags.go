package cache

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Tag groups values of several keys. Each value is stored with the tag's version from before its load; dropping the tag
// changes the version, whatever the number of values. Versions are random, so that a version that was lost with Redis
// never returns.
type Tag struct{ name string }

// TagOf returns the tag of an object, such as "room" and its id.
func TagOf(kind, id string) Tag { return Tag{kind + ":" + id} }

func (t Tag) key() keyspace.Key { return tagKey.At(keyspace.Text{S: t.name}).Key }

// tagVersion is a version that this process has cached.
type tagVersion struct {
	tag        Tag
	version    uint64
	generation generation
	until      bus.Moment
}

const (
	maxTagVersions = 10_000
	// tagVersionTTL is how long a version is used before Redis is asked again. Versions expire in Redis, and nodes that
	// use different versions of one tag would reject each other's values.
	tagVersionTTL = 10 * time.Second
)

// resolveTags gets the versions of the reads' tags, in at most one round trip. It also fails while a tag is fenced, or
// while Redis has not confirmed its drop and may have its old version: no value with that tag may be stored or used
// then.
func resolveTags(rt *Runtime, reads ...*reading) error {
	if len(reads) == 0 || reads[0].c.types.tags == nil {
		return nil
	}
	var cmds []keyspace.Cmd
	var replied []func(text string) bool
	for _, r := range reads {
		if r.tagGenerations != nil {
			continue
		}
		tags := r.c.types.tags(r.k)
		r.tagGenerations, r.tagVersions = make([]generation, len(tags)), make([]uint64, len(tags))
		for i, t := range tags {
			if rt.undropped.n.Load() != 0 && rt.undropped.has(t.key()) { // has needs the key, which is only made if any drop is pending
				return errTagUndropped
			}
			hash := maphash.String(rt.seed, t.name)
			if known, ok := rt.tags.GetIfPresent(hash); ok && known.tag == t && !rt.changed(known.generation) && bus.Now() < known.until {
				r.tagGenerations[i], r.tagVersions[i] = known.generation, known.version
				continue
			}
			key := tagKey.At(keyspace.Text{S: t.name})
			g := rt.generationOf(key.String())
			set := key.SetCmd(string(slots.IsTag)+token(), tagKey.TTL.Draw())
			set.Args = append(set.Args, "NX")
			cmds = append(cmds, set, keyspace.Cmd{Name: "GET", Key: key.Key})
			replied = append(replied, func(text string) bool {
				if len(text) != 1+slots.TokenLen || text[0] != slots.IsTag {
					return false
				}
				r.tagGenerations[i], r.tagVersions[i] = g, binary.BigEndian.Uint64([]byte(text[1:]))
				rt.tags.Set(hash, &tagVersion{t, r.tagVersions[i], g, bus.Now() + bus.Moment(tagVersionTTL)})
				return true
			})
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	replies := rt.reads.do(cmds...)
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

var (
	errTagFenced    = errors.New("cache: a tag is being changed")
	errTagUndropped = errors.New("cache: the drop of a tag is pending")
)
