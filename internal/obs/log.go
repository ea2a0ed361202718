package obs

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// Log configures the log. In a setting, its text is level and format in any order: "debug", "json", "warn,json". The
// zero Log is level info in the format that suits the output.
type Log struct {
	// Level is the lowest level that is logged: debug, info, warn or error.
	Level slog.Level

	// Format is "pretty" (coloured, for people), "text" (key=value) or "json". Empty means pretty on a terminal and
	// text elsewhere.
	Format string
}

// UnmarshalText parses "level", "format" or both, separated by a comma.
func (l *Log) UnmarshalText(text []byte) error {
	var parsed Log
	for word := range strings.SplitSeq(strings.ToLower(string(text)), ",") {
		switch word = strings.TrimSpace(word); word {
		case "pretty", "text", "json":
			parsed.Format = word
		case "debug", "info", "warn", "error":
			if err := parsed.Level.UnmarshalText([]byte(word)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q is neither a level (debug, info, warn, error) nor a format (pretty, text, json)", word)
		}
	}
	*l = parsed
	return nil
}

// NewLogger returns a logger that writes to w, one line for each record. It redacts attributes that look like
// secrets; see [Redact].
func NewLogger(w io.Writer, l Log) *slog.Logger {
	opts := &slog.HandlerOptions{Level: l.Level, ReplaceAttr: Redact}
	format := l.Format
	if format == "" {
		format = "text"
		if Terminal(w) {
			format = "pretty"
		}
	}
	switch format {
	case "pretty":
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level: l.Level, ReplaceAttr: Redact, TimeFormat: time.TimeOnly,
			NoColor: !Terminal(w) || os.Getenv("NO_COLOR") != "", // no-color.org
		}))
	case "json":
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr { return inMilliseconds(Redact(groups, a)) }
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// inMilliseconds changes a duration to a number whose name has the unit: took_ms. JSON has no durations, and slog
// would write nanoseconds.
func inMilliseconds(a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_ms", float64(a.Value.Duration().Microseconds())/1000)
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// Redacted replaces secrets in the log.
const Redacted = "[redacted]"

// secrets are the last words of the names of attributes that are never logged.
var secrets = []string{"token", "password", "secret", "authorization", "cookie", "code"}

// Redact is a slog.HandlerOptions.ReplaceAttr that redacts secrets. It redacts the values of attributes named token,
// code, password, secret, authorization or cookie. The same holds for names that end in one of these as a separate
// word (refresh_token, userPassword), and for all attributes of a group with such a name. Log harmless codes under
// another name, such as "problem" or "status".
func Redact(groups []string, a slog.Attr) slog.Attr {
	if secret(a.Key) || slices.ContainsFunc(groups, secret) {
		return slog.String(a.Key, Redacted)
	}
	return a
}

func secret(name string) bool {
	for _, word := range secrets {
		at := len(name) - len(word)
		if at < 0 || !strings.EqualFold(name[at:], word) {
			continue
		}
		// "token", "access_token" and "accessToken", but not "barcode".
		if at == 0 || !unicode.IsLetter(rune(name[at-1])) || unicode.IsUpper(rune(name[at])) {
			return true
		}
	}
	return false
}
