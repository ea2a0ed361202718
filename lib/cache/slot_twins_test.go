package cache

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
)

// lapsed reports whether a slot's lease has expired.
func lapsed(slot string, now int64) bool {
	until, _ := strconv.ParseInt(slot[1+slots.TokenLen:slots.KeptAt], 10, 64)
	return until <= now
}

// The functions below are the scripts of slots, in Go.

func acquireSlot(slot, token string, now, until int64, unwanted string) (next string, taken bool) {
	kept := ""
	switch {
	case slot == "":
	case slot[0] == slots.IsValue && unwanted != "" && slot[slots.IDAt:slots.IDAt+8] == unwanted:
		kept = slot
	case slot[0] == slots.IsLease && lapsed(slot, now):
		kept = slot[slots.KeptAt:]
	default:
		return slot, false
	}
	return string(slots.IsLease) + token + fmt.Sprintf("%013d", until) + kept, true
}

func fillSlot(slot, token, value string, life int64) (next string, ok bool) {
	if !strings.HasPrefix(slot, string(slots.IsLease)+token) {
		return slot, false
	}
	if value != "" || life < 0 {
		return value, true
	}
	return slot[slots.KeptAt:], true
}

func renewSlot(slot, id, value string) (next string, ok bool) {
	if slots.Kind(slot) != slots.IsValue || slot[slots.IDAt:slots.IDAt+8] != id {
		return slot, false
	}
	return value, true
}

// fenceSlot also reports whether other changes are under way. The slot must then not get a shorter life.
func fenceSlot(slot, token string, now, until int64) (next string, shared bool) {
	open, others := "F0", ""
	if slots.Kind(slot) == slots.IsFence {
		open = "Fs"
		for entry := range fences(slot) {
			if ends, _ := strconv.ParseInt(entry[slots.TokenLen:], 10, 64); ends > now {
				others += entry
			}
		}
	}
	return open + others + token + fmt.Sprintf("%013d", until), others != ""
}

func finishSlot(slot, token, value string) (next string, result int) {
	if slots.Kind(slot) != slots.IsFence {
		return "", 0
	}
	others := ""
	for entry := range fences(slot) {
		if entry[:slots.TokenLen] == token {
			result = 1
		} else {
			others += entry
		}
	}
	switch {
	case others != "":
		return "Fs" + others, result
	case value != "" && slot[1] == '0':
		return value, 2
	}
	return "", result
}

// fences returns the token and the end of each change under way in a fence.
func fences(slot string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := 2; at < len(slot) && yield(slot[at:at+slots.FenceLen]); at += slots.FenceLen {
		}
	}
}

func putSlot(slot, value string, late bool) (next string, ok bool) {
	switch {
	case slots.Kind(slot) == slots.IsFence:
		return string(slots.IsFence) + "s" + slot[2:], false
	case late:
		return "", true
	}
	return value, true
}
