// Package costs counts the statements of MariaDB and the commands of Redis that an operation causes. It also has the
// users and the operations, which the benchmark bench/cost and a test of internal/wholeserver share.
package costs

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// Counts are numbers of executed statements and commands.
type Counts struct {
	Statements int // SQL statements, including BEGIN and COMMIT
	Scripts    int // scripts of Redis: EVALSHA and EVAL
	Commands   int // other commands of Redis, sent by clients or called in scripts, without INFO
	Infos      int // INFO
}

// String formats the counts as in a golden file.
func (c Counts) String() string {
	return fmt.Sprintf("%d statements, %d scripts, %d commands", c.Statements, c.Scripts, c.Commands)
}

// Within reports whether no count is larger than in most.
func (c Counts) Within(most Counts) bool {
	return c.Statements <= most.Statements && c.Scripts <= most.Scripts && c.Commands <= most.Commands
}

// Minus returns the counts since before.
func (c Counts) Minus(before Counts) Counts {
	return Counts{c.Statements - before.Statements, c.Scripts - before.Scripts, c.Commands - before.Commands, c.Infos - before.Infos}
}

// Min returns the smaller value of each count.
func (c Counts) Min(d Counts) Counts {
	return Counts{min(c.Statements, d.Statements), min(c.Scripts, d.Scripts), min(c.Commands, d.Commands), min(c.Infos, d.Infos)}
}

// Counter reads the counts of both servers from all clients. It does not count its own reads. It is for one goroutine.
type Counter struct {
	SQL interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	Stats func(ctx context.Context) (string, error) // sends INFO commandstats

	reads int
}

// Read returns the counts so far.
func (c *Counter) Read(ctx context.Context) (n Counts, err error) {
	text, err := c.Stats(ctx)
	if err != nil {
		return n, err
	}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":calls=")
		name, isCommand := strings.CutPrefix(name, "cmdstat_")
		if !ok || !isCommand {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.Atoi(digits)
		if err != nil {
			return n, fmt.Errorf("INFO commandstats: %q: %w", line, err)
		}
		switch name {
		case "info":
			n.Infos += calls
		case "evalsha", "eval":
			n.Scripts += calls
		default:
			n.Commands += calls
		}
	}
	var name string
	if err := c.SQL.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n.Statements); err != nil {
		return n, err
	}
	n.Infos -= c.reads // Redis counts an INFO after its reply
	c.reads++
	n.Statements -= c.reads // MariaDB counts a statement before its result
	return n, nil
}
