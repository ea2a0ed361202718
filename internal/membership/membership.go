package membership

import (
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
)

// Line returns a name or another text of a field, trimmed. It returns invalid unless s is one line of minLen to maxLen
// printable characters.
func Line(invalid *errs.Error, field, s string, minLen, maxLen int) (string, error) {
	s, ok := words.Line(s, maxLen)
	if !ok || len(s) < minLen {
		return "", invalid.On(field, fmt.Sprintf("must have %d to %d printable characters", minLen, maxLen))
	}
	return s, nil
}

// MuteEnd returns the end of a mute in Unix ms, or 0 if it has passed. It returns tooLong for more than ten years.
func MuteEnd(t, now time.Time, tooLong error) (int64, error) {
	if !t.After(now) {
		return 0, nil
	}
	if t.After(now.AddDate(10, 0, 0)) {
		return 0, tooLong
	}
	return t.UnixMilli(), nil
}
