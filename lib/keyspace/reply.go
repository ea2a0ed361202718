package keyspace

import (
	"fmt"
	"strconv"
)

// Bool returns the reply of a command that replies with 1 or 0. A nil reply is false. OK is true, for commands that
// reply with OK or nil.
func (r Reply) Bool() (bool, error) {
	if r.Kind == TextReply && r.Str == "OK" {
		return true, nil
	}
	n, err := r.Int()
	return n != 0, err
}

// Texts returns the elements of a list reply as strings; a nil reply has none. A nil element is an empty string.
func (r Reply) Texts() ([]string, error) {
	items, err := r.Items()
	if err != nil || items == nil {
		return nil, err
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], _, err = item.Text(); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// Map returns a list reply of alternating names and values; a nil reply is an empty map.
func (r Reply) Map() (map[string]string, error) {
	texts, err := r.Texts()
	if err != nil {
		return nil, err
	}
	if len(texts)%2 != 0 {
		return nil, fmt.Errorf("%w: a name without a value", ErrReply)
	}
	m := make(map[string]string, len(texts)/2)
	for i := 0; i < len(texts); i += 2 {
		m[texts[i]] = texts[i+1]
	}
	return m, nil
}

// Scored is a member of a sorted set and its score, which is exact up to 2⁵³. For members of a [Geo], Score is a
// distance in metres.
type Scored struct {
	Member string
	Score  float64
}

// Scores returns a list reply of members and scores, alternating or in pairs.
func (r Reply) Scores() ([]Scored, error) {
	items, err := r.Items()
	if err != nil {
		return nil, err
	}
	var flat []Reply
	for _, item := range items {
		if item.Kind == ListReply {
			flat = append(flat, item.List...)
		} else {
			flat = append(flat, item)
		}
	}
	if len(flat)%2 != 0 {
		return nil, fmt.Errorf("%w: a member without a score", ErrReply)
	}
	all := make([]Scored, len(flat)/2)
	for i := range all {
		score, _, err := flat[2*i+1].Float()
		if err != nil {
			return nil, err
		}
		if all[i].Member, _, err = flat[2*i].Text(); err != nil {
			return nil, err
		}
		all[i].Score = score
	}
	return all, nil
}

// StreamEntry is one entry of a [Stream].
type StreamEntry struct {
	ID     string // "1526919030474-55": Unix milliseconds and a number
	Fields map[string]string
}

// Entries returns a list reply of stream entries. It omits pending entries that were deleted from the stream.
func (r Reply) Entries() ([]StreamEntry, error) {
	items, err := r.Items()
	if err != nil {
		return nil, err
	}
	all := make([]StreamEntry, 0, len(items))
	for _, item := range items {
		pair, err := item.Items()
		if err != nil {
			return nil, err
		}
		switch {
		case len(pair) == 0:
			continue
		case len(pair) != 2:
			return nil, fmt.Errorf("%w: no entry of a stream", ErrReply)
		case pair[1].Nil():
			continue
		}
		var e StreamEntry
		if e.ID, _, err = pair[0].Text(); err != nil {
			return nil, err
		}
		if e.Fields, err = pair[1].Map(); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// optionalInt returns the number; ok is false for a nil reply.
func (r Reply) optionalInt() (n int64, ok bool, err error) {
	n, err = r.Int()
	return n, err == nil && !r.Nil(), err
}

// bools returns the elements of a list of 1 and 0.
func (r Reply) bools() ([]bool, error) {
	items, err := r.Items()
	if err != nil {
		return nil, err
	}
	all := make([]bool, len(items))
	for i, item := range items {
		if all[i], err = item.Bool(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func floatText(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) }

func intText(n int64) string { return strconv.FormatInt(n, 10) }
