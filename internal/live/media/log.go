package media

import (
	"fmt"
	"log/slog"

	"github.com/pion/logging"
)

// logs logs the library's lines at level debug, because a fault of one session matters only to its two sides.
type logs struct{ log *slog.Logger }

func (l logs) NewLogger(scope string) logging.LeveledLogger {
	return lines{l.log.With("library", "webrtc", "part", scope)}
}

type lines struct{ log *slog.Logger }

func (lines) Trace(string)                   {}
func (lines) Tracef(string, ...any)          {}
func (lines) Debug(string)                   {}
func (lines) Debugf(string, ...any)          {}
func (lines) Info(string)                    {}
func (lines) Infof(string, ...any)           {}
func (l lines) Warn(msg string)              { l.log.Debug("live: WebRTC library warning", "message", msg) }
func (l lines) Warnf(f string, args ...any)  { l.Warn(fmt.Sprintf(f, args...)) }
func (l lines) Error(msg string)             { l.Warn(msg) }
func (l lines) Errorf(f string, args ...any) { l.Warn(fmt.Sprintf(f, args...)) }
