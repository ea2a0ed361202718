package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report is the result of one run; as JSON it is one document.
type report struct {
	Machine machine   `json:"machine"`
	Setting string    `json:"setting"`
	Figures []*figure `json:"figures"`
}

// figure is one of the measurements of this program.
type figure struct {
	Number int      `json:"number"`
	Title  string   `json:"title"`
	Tables []*table `json:"tables"`
	Aims   []aim    `json:"aims"`
	Notes  []string `json:"notes,omitempty"`
}

type table struct {
	Title   string   `json:"title,omitempty"`
	Columns []column `json:"-"`
	Rows    []row    `json:"rows"`
}

type column struct {
	name     string
	decimals int
}

// row has values for some columns of its table, by name.
type row struct {
	Name   string             `json:"name"`
	Values map[string]float64 `json:"values"`
}

type aim struct {
	What   string  `json:"what"`
	Got    float64 `json:"got"`
	Want   float64 `json:"want"`
	AtMost bool    `json:"at_most"` // otherwise at least
	Unit   string  `json:"unit"`
	Met    bool    `json:"met"`
}

func (f *figure) table(title string, columns ...column) *table {
	t := &table{Title: title, Columns: columns}
	f.Tables = append(f.Tables, t)
	return t
}

func (t *table) add(name string, values map[string]float64) {
	t.Rows = append(t.Rows, row{name, values})
}

func (f *figure) atLeast(what string, got, want float64, unit string) {
	f.Aims = append(f.Aims, aim{What: what, Got: got, Want: want, Unit: unit, Met: got >= want})
}

func (f *figure) atMost(what string, got, want float64, unit string) {
	f.Aims = append(f.Aims, aim{What: what, Got: got, Want: want, AtMost: true, Unit: unit, Met: got <= want})
}

func (f *figure) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

func (r *report) printJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *report) printHead(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n", r.Machine, r.Setting)
}

func (f *figure) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%d. %s\n", f.Number, f.Title)
	for _, t := range f.Tables {
		fmt.Fprintln(w)
		if err := t.print(w); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	aims := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, a := range f.Aims {
		met, bound := "met", "at least"
		if !a.Met {
			met = "MISSED"
		}
		if a.AtMost {
			bound = "at most"
		}
		fmt.Fprintf(aims, "  %s\t%s\t%.4g %s\taim: %s %.4g\n", met, a.What, a.Got, a.Unit, bound, a.Want)
	}
	if err := aims.Flush(); err != nil {
		return err
	}
	for _, n := range f.Notes {
		fmt.Fprintf(w, "  – %s\n", n)
	}
	return nil
}

// print aligns names to the left and numbers to the right.
func (t *table) print(w io.Writer) error {
	lines := [][]string{{t.Title}}
	for _, c := range t.Columns {
		lines[0] = append(lines[0], c.name)
	}
	for _, r := range t.Rows {
		line := []string{r.Name}
		for _, c := range t.Columns {
			if v, ok := r.Values[c.name]; ok {
				line = append(line, fmt.Sprintf("%.*f", c.decimals, v))
			} else {
				line = append(line, "–")
			}
		}
		lines = append(lines, line)
	}
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, line := range lines {
		var b strings.Builder
		fmt.Fprintf(&b, "  %-*s", width[0], line[0])
		for i, cell := range line[1:] {
			fmt.Fprintf(&b, "  %*s", width[i+1], cell)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
