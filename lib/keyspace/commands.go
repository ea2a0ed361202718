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

// Each kind has the commands that it is used with twice: AddCmd makes a command, for a
// pipeline or [Executor.Do], and Add sends it and returns what it answers. Those that write give the
// key its family's life in the same step: anew with each write or, where the family is
// declared with [UpTo], once, as a window of that length. Keys that live for ever cost the
// plain command, others a script of two: in a batch for a server that does not know it yet
// the script is carried out after the other commands. Whatever has no method here is a
// [Cmd] of one's own, which has to see to the life itself.

//go:embed lua/write.lua
var writeLua string

//go:embed lua/place.lua
var placeLua string

var writeName, placeName = ScriptName(writeLua), ScriptName(placeLua)

// write is a command that writes to k.
func (k Key) write(name string, args ...string) Cmd {
	life := k.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: name, Key: k, Args: args}
	}
	once := ""
	if k.fam.TTL.Variable {
		once = "1"
	}
	return Cmd{Name: writeName, Key: k, Args: append([]string{millis(life), once, name}, args...)}
}

// placed is a command with several keys, or with arguments before them. The key of that
// number gets its life; 0 writes none.
func placed(keys []Key, written, before int, name string, args ...string) Cmd {
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
		ms = millis(life)
	}
	return Cmd{Name: placeName, Key: keys[0], More: keys[1:],
		Args: append([]string{ms, once, strconv.Itoa(max(written, 1)), strconv.Itoa(before), name}, args...)}
}

// ask is a command that reads k, or takes something away.
func (k Key) ask(name string, args ...string) Cmd { return Cmd{Name: name, Key: k, Args: args} }

// ErrType reports a command that writes another type of key than the family's.
var ErrType = errors.New("keyspace: the command writes another type of key")

// written are the types that commands write.
var written = func() map[string]string {
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

// Check returns why an executor must not send the command: its Err, or [ErrType] where it
// writes another type than its first key's, since a key that is not there yet would become
// one of that type.
func (c *Cmd) Check() error {
	if c.Err != nil || c.Key.fam == nil {
		return c.Err
	}
	if typ, known := written[c.Name]; known && typ != c.Key.fam.Type {
		return fmt.Errorf("%w: %s of %s, which is a %s", ErrType, c.Name, c.Key.fam.Pattern, c.Key.fam.Type)
	}
	return nil
}
