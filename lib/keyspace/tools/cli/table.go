package cli

import (
	"bytes"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// A Table aligns columns like text/tabwriter, but by the width of characters on a terminal: Chinese, Japanese and
// Korean characters take two cells, combining characters none. A tab ends a cell, and a line break ends a line. Flush
// writes the table.
type Table struct {
	w   io.Writer
	gap int
	buf bytes.Buffer
}

// NewTable returns a table with gap cells between its columns.
func NewTable(w io.Writer, gap int) *Table { return &Table{w: w, gap: gap} }

// Write appends text to the table. It never fails.
func (t *Table) Write(p []byte) (int, error) { return t.buf.Write(p) }

// Flush writes the table and starts the next one. The last cell of a line does not affect the column widths, and
// neither does a line without a tab.
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
