package keyspace

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// Each kind of handle has two methods for a command: AddCmd makes the command, for a pipeline or [Executor.Do], and Add
// sends it and returns the reply. Commands that write also set the family's TTL, atomically: each write renews it, or,
// if the family is declared with [UpTo], only the first write sets it, as for a window of that length. Keys that never
// expire use the plain command. Other keys use a script that runs two commands; in a batch, a server that does not have
// the script yet runs it after the other commands. For a command without a method here, callers make their own [Cmd],
// which has to set the TTL itself.

//go:embed lua/write.lua
var writeLua string

//go:embed lua/place.lua
var placeLua string

var writeName, placeName = ScriptName(writeLua), ScriptName(placeLua)

// write makes a command that writes to k and sets its TTL.
func (k Key) write(name string, args ...string) Cmd {
	life := k.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: name, Key: k, Args: args}
	}
	once := ""
	if k.fam.TTL.Variable {
		once = "1"
	}
	return Cmd{Name: writeName, Key: k, Args: append([]string{Millis(life), once, name}, args...)}
}

// multiKey makes a command with several keys, or with arguments before the keys. written is the number of the key that
// gets its TTL, counted from 1; 0 means that the command writes none. before is the number of arguments before the
// keys.
func multiKey(keys []Key, written, before int, name string, args ...string) Cmd {
	life, once := time.Duration(0), ""
	if written > 0 {
		fam := keys[written-1].fam
		if life = fam.TTL.Draw(); fam.TTL.Variable {
			once = "1"
		}
	}
	if life == 0 && before == 0 {
		return Cmd{Name: name, Key: keys[0], More: keys[1:], Args: args}
	}
	ms := ""
	if life > 0 {
		ms = Millis(life)
	}
	return Cmd{Name: placeName, Key: keys[0], More: keys[1:],
		Args: append([]string{ms, once, strconv.Itoa(max(written, 1)), strconv.Itoa(before), name}, args...)}
}

// plainCmd makes a command that reads k or removes something from it.
func (k Key) plainCmd(name string, args ...string) Cmd { return Cmd{Name: name, Key: k, Args: args} }

// ErrType reports a command that writes another Redis type than the type of the key's family.
var ErrType = errors.New("keyspace: the command writes another type of key")

// writtenType maps the name of a command to the type that it writes.
var writtenType = func() map[string]string {
	all := map[string]string{}
	for typ, names := range commands.Writes {
		for _, name := range names {
			if typ != channelType {
				all[strings.ToUpper(name)] = typ
			}
		}
	}
	for _, s := range commands.Special {
		for _, name := range s.Writes {
			all[strings.ToUpper(name)] = s.Type
		}
	}
	return all
}()

// Check returns the reason why an executor must not send the command, or nil. The reason is c.Err, or [ErrType] if the
// command writes another type than the type of its first key. Such a command would create a missing key with the wrong
// type.
func (c *Cmd) Check() error {
	if c.Err != nil || c.Key.fam == nil {
		return c.Err
	}
	if typ, known := writtenType[c.Name]; known && typ != c.Key.fam.Type {
		return fmt.Errorf("%w: %s of %s, which is a %s", ErrType, c.Name, c.Key.fam.Pattern, c.Key.fam.Type)
	}
	return nil
}
