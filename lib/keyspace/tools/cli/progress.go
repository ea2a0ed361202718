package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
)

// A Progress shows the progress of a command: a bar on a terminal, otherwise a line every ten seconds.
type Progress struct {
	w       io.Writer
	what    string
	live    bool
	every   time.Duration
	began   time.Time
	shown   time.Time
	written bool
}

// Progress starts to show the progress of what.
func (c *Console) Progress(what string) *Progress {
	p := &Progress{w: c.Err, what: what, every: 10 * time.Second, began: time.Now()}
	if f, ok := c.Err.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		p.live, p.every = true, 200*time.Millisecond
	} else {
		p.shown = p.began // commands under ten seconds show nothing
	}
	return p
}

const barWidth = 30

// Show sets the progress to done of total; a total of 0 means unknown.
func (p *Progress) Show(done, total int64, note string) {
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

// End clears the line for the next output.
func (p *Progress) End() {
	if p.live && p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
