package keyspace

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
)

// Script is a Lua script or a function. The fields of the struct K are its KEYS, the fields of the struct A are its
// ARGV, and R is the type of its result. See [DefScript] and [DefFunction].
type Script[K, A, R any] struct {
	name     string
	keys     []int // fields of K
	args     []field
	families []*Family
	read     func(Reply) (R, error)
}

// DefScript binds a script to families. Each field of the struct K is a handle, such as a [Counter], or a [Key]; the
// first field is KEYS[1]. The fields of the struct A have the types that a [Record] supports; the first field is
// ARGV[1], and bools are "1" and "0". read converts the reply to an R; it is often a method of Reply, such as
// [Reply.Int]. families has one family for each field of K, in the same order.
//
// DefScript panics during the initialisation of the program if these do not match. It also panics if the families do
// not share the form of a hash tag, because the keys of a script must be in one slot. The script itself has to set the
// TTL of the keys that it writes.
func DefScript[K, A, R any](src string, read func(Reply) (R, error), families ...*Family) Script[K, A, R] {
	s := Script[K, A, R]{name: ScriptName(src), families: families, read: read}
	if err := s.compile(); err != nil {
		panic("keyspace: a script " + err.Error())
	}
	return s
}

var functionName = regexp.MustCompile(`^\w+$`)

// DefFunction is [DefScript] for a function that is stored in the server, from Redis 7 on
// (https://redis.io/docs/latest/develop/programmability/functions-intro/). Its name has letters, digits and
// underscores. Load the library of the function before the program runs, for example with redis.DB.LoadFunctions. A
// server without the function replies with an error.
func DefFunction[K, A, R any](name string, read func(Reply) (R, error), families ...*Family) Script[K, A, R] {
	s := Script[K, A, R]{name: FunctionMark + name, families: families, read: read}
	err := s.compile()
	if !functionName.MatchString(name) {
		err = errors.New("has a name that is not a word")
	}
	if err != nil {
		panic(fmt.Sprintf("keyspace: the function %q %s", name, err))
	}
	return s
}

// keyed is a [Key], or a handle that contains one.
type keyed interface{ self() Key }

func (k Key) self() Key { return k }

func (s *Script[K, A, R]) compile() (err error) {
	k := reflect.TypeFor[K]()
	if k.Kind() != reflect.Struct || k.NumField() != len(s.families) {
		return fmt.Errorf("has %d families, but %s is not a struct with as many fields", len(s.families), k)
	}
	for i := range s.families {
		f := k.Field(i)
		if !f.IsExported() || !f.Type.Implements(reflect.TypeFor[keyed]()) {
			return fmt.Errorf("has in %s the field %s, which is not an exported key", k, f.Name)
		}
		s.keys = append(s.keys, i)
		if one, first := s.families[i], s.families[0]; i > 0 &&
			(one.tag < 0 || first.tag < 0 || !reflect.DeepEqual(one.Args[one.tag], first.Args[first.tag])) {
			return fmt.Errorf("takes keys of %s and of %s, which share no hash tag", first.Pattern, one.Pattern)
		}
	}
	if s.args, err = fieldsOf(reflect.TypeFor[A]()); err != nil {
		return fmt.Errorf("has invalid arguments: %w", err)
	}
	return nil
}

// Cmd returns the command that runs the script, for a pipeline. Its Err names each key that does not belong to its
// family and each argument that cannot be encoded as text. It is [ErrCrossSlot] if the keys do not share a hash tag.
func (s Script[K, A, R]) Cmd(keys K, args A) Cmd {
	cmd := Cmd{Name: s.name}
	all := make([]Key, len(s.keys))
	for i, at := range s.keys {
		all[i] = reflect.ValueOf(keys).Field(at).Interface().(keyed).self()
		if all[i].fam != s.families[i] {
			cmd.Err = errors.Join(cmd.Err, fmt.Errorf("keyspace: KEYS[%d] of a script is %q, not a key of %s", i+1, all[i], s.families[i].Pattern))
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

// RunIn adds Run to a batch.
func (s Script[K, A, R]) RunIn(b *Batch, keys K, args A) *Future[R] {
	return queue(b, s.Cmd(keys, args), withOK(s.read))
}
