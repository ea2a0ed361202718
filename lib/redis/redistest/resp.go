package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do sends one command directly to this server, without a client, over a connection of its own. Lists are flattened;
// nil is an empty string.
func (i *Instance) Do(args ...string) ([]string, error) {
	c, err := net.DialTimeout("tcp", i.Addr, startTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(startTimeout))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(c), nil)
}

func readReply(r *bufio.Reader, into []string) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return append(into, rest), nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil:
		return nil, err
	case kind == '$' && n < 0:
		return append(into, ""), nil
	case kind == '$':
		text := make([]byte, n+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		return append(into, string(text[:n])), nil
	case kind == '*':
		for range n {
			if into, err = readReply(r, into); err != nil {
				return nil, err
			}
		}
		return into, nil
	}
	return nil, fmt.Errorf("unknown reply %q", line)
}
