package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
)

// progress shows how far a command is: a bar on a terminal, elsewhere a line
// every ten seconds.
type progress struct {
	w       io.Writer
	what    string
	live    bool
	every   time.Duration
	began   time.Time
	shown   time.Time
	written bool
}

func (c *console) progress(what string) *progress {
	p := &progress{w: c.err, what: what, every: 10 * time.Second, began: time.Now()}
	if f, ok := c.err.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		p.live, p.every = true, 200*time.Millisecond
	} else {
		p.shown = p.began // short ones say nothing
	}
	return p
}

const barWidth = 30

// show tells that done of total is done; a total of 0 is unknown.
func (p *progress) show(done, total int64, note string) {
	if time.Since(p.shown) < p.every {
		return
	}
	p.shown, p.written = time.Now(), true
	text := p.what
	if total > 0 {
		done = min(done, total)
		full := int(barWidth * done / total)
		if p.live {
			text += " [" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
		}
		text += fmt.Sprintf(" %3d %%", 100*done/total)
	}
	text += "  " + note + "  " + time.Since(p.began).Round(time.Second).String()
	if p.live {
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
	} else {
		fmt.Fprintln(p.w, text)
	}
}

// end leaves the line to what comes.
func (p *progress) end() {
	if p.live && p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
