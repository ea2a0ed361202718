package keyspace

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
)

// Script is a Lua script or a function whose KEYS are the fields of a struct K, whose ARGV those
// of a struct A, and whose reply is an R. See [DefScript] and [DefFunction].
type Script[K, A, R any] struct {
	name     string
	keys     []int // fields of K
	args     []field
	families []*Family
	read     func(Reply) (R, error)
}

// DefScript binds a script to families. K is a struct with a handle, such as a [Counter],
// or a [Key] in each field: the first is KEYS[1]. A is a struct whose fields are what a
// [Record] can keep: the first is ARGV[1]; bools are "1" and "0". read makes an R of the
// reply: one of Reply's methods, such as [Reply.Int]. families has a family for each field
// of K, of which its keys must be.
//
// It panics, while the program is initialised, when these do not fit, and when the families
// do not share the form of a hash tag, since the keys of a script must lie in one slot.
// The script sees to the lives of the keys that it writes.
func DefScript[K, A, R any](src string, read func(Reply) (R, error), families ...*Family) Script[K, A, R] {
	s := Script[K, A, R]{name: ScriptName(src), families: families, read: read}
	if err := s.compile(); err != nil {
		panic("keyspace: a script " + err.Error())
	}
	return s
}

var functionName = regexp.MustCompile(`^\w+$`)

// DefFunction is [DefScript] for a function, which servers from Redis 7 on keep themselves, under a
// name of letters, digits and underscores (https://redis.io/docs/latest/develop/programmability/functions-intro/).
// Whoever deploys the program loads its library before, by redis.DB.LoadFunctions for instance; a
// server that has none of that name answers with an error.
func DefFunction[K, A, R any](name string, read func(Reply) (R, error), families ...*Family) Script[K, A, R] {
	s := Script[K, A, R]{name: FunctionMark + name, families: families, read: read}
	err := s.compile()
	if !functionName.MatchString(name) {
		err = errors.New("is called something else than a word")
	}
	if err != nil {
		panic(fmt.Sprintf("keyspace: the function %q %s", name, err))
	}
	return s
}

// keyed is a [Key] or a handle, which has one.
type keyed interface{ self() Key }

func (k Key) self() Key { return k }

func (s *Script[K, A, R]) compile() (err error) {
	k := reflect.TypeFor[K]()
	if k.Kind() != reflect.Struct || k.NumField() != len(s.families) {
		return fmt.Errorf("has %d families, and %s is no struct of as many fields", len(s.families), k)
	}
	for i := range s.families {
		f := k.Field(i)
		if !f.IsExported() || !f.Type.Implements(reflect.TypeFor[keyed]()) {
			return fmt.Errorf("has in %s the field %s, which is not exported or no key", k, f.Name)
		}
		s.keys = append(s.keys, i)
		if one, first := s.families[i], s.families[0]; i > 0 && (one.tag < 0 || first.tag < 0 || !reflect.DeepEqual(one.Args[one.tag], first.Args[first.tag])) {
			return fmt.Errorf("takes keys of %s and of %s, which share no hash tag", first.Pattern, one.Pattern)
		}
	}
	if s.args, err = fieldsOf(reflect.TypeFor[A]()); err != nil {
		return fmt.Errorf("has arguments of which %w", err)
	}
	return nil
}

// Cmd is one run of the script, for a pipeline. Its Err says which key is not of its
// family, which argument has no text, or that the keys do not share a hash tag, which is
// [ErrCrossSlot].
func (s Script[K, A, R]) Cmd(keys K, args A) Cmd {
	cmd := Cmd{Name: s.name}
	all := make([]Key, len(s.keys))
	for i, at := range s.keys {
		all[i] = reflect.ValueOf(keys).Field(at).Interface().(keyed).self()
		if all[i].fam != s.families[i] {
			cmd.Err = errors.Join(cmd.Err, fmt.Errorf("keyspace: KEYS[%d] of a script is %q, and no key of %s", i+1, all[i], s.families[i].Pattern))
		}
	}
	if cmd.Err == nil && len(all) > 0 && !SameSlot(all...) {
		cmd.Err = fmt.Errorf("%w: %v", ErrCrossSlot, all)
	}
	for i, f := range s.args {
		text, err := f.coding.write(reflect.ValueOf(args).FieldByIndex(f.index))
		if err != nil {
			cmd.Err = errors.Join(cmd.Err, fmt.Errorf("keyspace: ARGV[%d] of a script, %s, has no text: %w", i+1, f.name, err))
		}
		cmd.Args = append(cmd.Args, text)
	}
	if len(all) > 0 {
		cmd.Key, cmd.More = all[0], all[1:]
	}
	return cmd
}

// Run runs the script and returns its result.
func (s Script[K, A, R]) Run(ctx context.Context, db Executor, keys K, args A) (R, error) {
	return s.read(send(ctx, db, s.Cmd(keys, args)))
}

// RunIn is Run as a part of a batch.
func (s Script[K, A, R]) RunIn(b *Batch, keys K, args A) *Future[R] {
	return queue(b, s.Cmd(keys, args), plainly(s.read))
}
