package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
	"github.com/stoa-dev/stoa/lib/keyspace/lock"
)

// List lists the families.
type List struct {
	Owner string `placeholder:"NAME" help:"Only families of this owner."`
	Type  string `placeholder:"TYPE" help:"Only families of this type: string, hash, set, zset, list, stream or channel."`
}

// Run lists the selected families.
func (cmd *List) Run(c *Console) error {
	cat := catalogue.New(c.Schemas...)
	cat.Families = slices.DeleteFunc(cat.Families, func(e catalogue.Entry) bool {
		return cmd.Owner != "" && e.Owner != cmd.Owner || cmd.Type != "" && e.Type != cmd.Type
	})
	if len(cat.Families) == 0 {
		return fmt.Errorf("%w: no family matches", ErrNothing)
	}
	return c.Result(cat, func(w io.Writer) error {
		tab := NewTable(w, 3)
		fmt.Fprintln(tab, "OWNER\tPATTERN\tTYPE\tLIFE\tPURPOSE")
		for _, e := range cat.Families {
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", e.Owner, e.Pattern, e.Type, e.Lives(), e.Purpose)
		}
		return tab.Flush()
	})
}

// Lint checks the declarations.
type Lint struct{}

// Run prints every fault. It returns ErrFaults if there is one.
func (Lint) Run(c *Console) error {
	schemas := c.Schemas
	faults := []string{}
	if err := keyspace.Lint(schemas...); err != nil {
		faults = strings.Split(err.Error(), "\n")
	}
	n := len(catalogue.New(schemas...).Families)
	err := c.Result(map[string]any{"families": n, "faults": faults}, func(w io.Writer) error {
		for _, f := range faults {
			fmt.Fprintln(w, f)
		}
		_, err := fmt.Fprintf(w, "%d families, %d faults.\n", n, len(faults))
		return err
	})
	if err == nil && len(faults) > 0 {
		err = ErrFaults
	}
	return err
}

// Doc writes the catalogue.
type Doc struct {
	HTML bool `name:"html" help:"Write one self-contained HTML page instead of Markdown."`
}

// Run writes the catalogue.
func (cmd *Doc) Run(c *Console) error {
	cat := catalogue.New(c.Schemas...)
	return c.Result(cat, func(w io.Writer) error {
		text := cat.Markdown()
		if cmd.HTML {
			text = cat.HTML(c.title())
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// Diff compares the declarations with a lock file.
type Diff struct {
	File  string `arg:"" optional:"" default:"keyspace.lock" help:"The lock file; keyspace.lock in this folder by default."`
	Write bool   `help:"Write the current declarations to the file, unless there are faults."`
}

// errLock reports changes that are not allowed, so that the lock file is not written.
var errLock = errors.New("the lock file was not written: it has changes that are not allowed")

// Run prints every change. It returns [ErrFaults] if one of them is not allowed or the file is truncated. New families,
// and families that may be removed, are no faults.
func (cmd *Diff) Run(c *Console) error {
	now := lock.New(c.Schemas...)
	text, err := os.ReadFile(cmd.File)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && cmd.Write:
		text = []byte(lock.File{}.String())
	case missing:
		return usageError{fmt.Errorf("%w; create it with --write", err)}
	case err != nil:
		return err
	}
	was, err := lock.Parse(string(text))
	if errors.Is(err, lock.ErrTruncated) {
		fault := lock.Change{Kind: "file", Pattern: cmd.File, Fault: err.Error()}
		return errors.Join(c.diff([]lock.Change{fault}, false), ErrFaults)
	} else if err != nil {
		return usageError{fmt.Errorf("%s: %w", cmd.File, err)}
	}
	changes := append([]lock.Change{}, was.Diff(now)...)
	sound := len(lock.Faults(changes)) == 0
	write := cmd.Write && sound
	if write {
		if err := os.WriteFile(cmd.File, []byte(now.String()), 0o644); err != nil {
			return err
		}
	}
	err = c.diff(changes, write)
	switch {
	case err != nil:
		return err
	case cmd.Write && !sound:
		return errLock
	case !sound:
		return ErrFaults
	}
	return nil
}

// diff prints changes and the number of faults among them.
func (c *Console) diff(changes []lock.Change, written bool) error {
	faults := len(lock.Faults(changes))
	return c.Result(map[string]any{"changes": changes, "faults": faults, "written": written}, func(w io.Writer) error {
		for _, change := range changes {
			fmt.Fprintln(w, change)
		}
		if len(changes) == 0 {
			fmt.Fprintln(w, "Nothing changed.")
		} else if faults > 0 {
			fmt.Fprintf(w, "%s not allowed.\n", Count(int64(faults), "change"))
		}
		return nil
	})
}

// ACL writes lines of Redis' ACL file.
type ACL struct {
	Role string `placeholder:"USER" default:"all" help:"Only the line of this user."`
	Wide bool   `help:"Allow everything under the prefix instead of each declared family: it is faster, and a new version of the program needs a new file only for new commands."`
	Into string `placeholder:"FILE" help:"Replace the lines of these users in this ACL file; their passwords are kept."`
}

// Write writes the line of each user that Role selects. The password of a new user is a placeholder.
func (cmd *ACL) Write(c *Console, prefix string, users ...acl.User) error {
	users = slices.DeleteFunc(users, func(a acl.User) bool { return cmd.Role != "all" && cmd.Role != a.Name })
	if len(users) == 0 {
		return usageError{fmt.Errorf("--role: there is no user %q", cmd.Role)}
	}
	var file []string
	if cmd.Into != "" {
		text, err := os.ReadFile(cmd.Into)
		if err != nil {
			return usageError{err}
		}
		file = strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	}
	lines := map[string]string{}
	for _, a := range users {
		a.Prefix, a.Wide = prefix, cmd.Wide
		at := slices.IndexFunc(file, func(line string) bool { return strings.HasPrefix(line, "user "+a.Name+" ") })
		if at < 0 {
			at, file = len(file), append(file, "")
		}
		a.Secret = secretOf(file[at])
		lines[a.Name] = a.Line(c.Schemas...)
		file[at] = lines[a.Name]
	}
	if cmd.Into != "" {
		if err := replaceFile(cmd.Into, strings.Join(file, "\n")+"\n"); err != nil {
			return err
		}
	}
	return c.Result(lines, func(w io.Writer) error {
		if cmd.Into != "" {
			return nil
		}
		_, err := fmt.Fprintln(w, strings.Join(file, "\n"))
		return err
	})
}

// replaceFile replaces the content of a file atomically. It preserves owner, group and mode.
func replaceFile(name, text string) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	was, err := os.Stat(name)
	if err != nil {
		return err
	}
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, copyOwner(f, was), f.Chmod(was.Mode().Perm()), f.Sync(), f.Close()); err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// secretOf returns the passwords in a user's line, unchanged.
func secretOf(line string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(line), func(rule string) bool {
		return rule != "nopass" && !strings.HasPrefix(rule, "#") && !strings.HasPrefix(rule, ">")
	}), " ")
}
