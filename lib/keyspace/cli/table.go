package cli

import (
	"bytes"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// A Table aligns columns as text/tabwriter does, by the width that a terminal gives each
// character: those of Chinese, Japanese and Korean take two cells, combining ones none.
// Cells end with a tab and lines with a line break; nothing is written before Flush.
type Table struct {
	w   io.Writer
	gap int
	buf bytes.Buffer
}

// NewTable returns a table whose columns are gap cells apart.
func NewTable(w io.Writer, gap int) *Table { return &Table{w: w, gap: gap} }

// Write takes text of the table. It never fails.
func (t *Table) Write(p []byte) (int, error) { return t.buf.Write(p) }

// Flush writes the table, and begins the next one. The last cell of a line may be as long
// as it likes; a line without a tab stands by itself.
func (t *Table) Flush() error {
	var widths []int
	var lines [][]string
	for line := range strings.Lines(t.buf.String()) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, cell := range cells[:len(cells)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
		lines = append(lines, cells)
	}
	t.buf.Reset()
	var b strings.Builder
	for _, cells := range lines {
		for i, cell := range cells[:len(cells)-1] {
			b.WriteString(runewidth.FillRight(cell, widths[i]+t.gap))
		}
		b.WriteString(cells[len(cells)-1] + "\n")
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}
